"""A PostgreSQL for the time of a block, beside an event loop that goes on."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager

from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DatabaseAddress
from pilotis.db.embedded.server import EmbeddedPostgres
from pilotis.kit.priority import family_gives_way, thread_gives_way
from pilotis.kit.threads import finished


@asynccontextmanager
async def running(postgres: EmbeddedPostgres, *, priority: int = 0) -> AsyncGenerator[DatabaseAddress]:
    """Run a PostgreSQL during the block, and yield its address; raises `EmbeddedPostgresError`.

    A thread starts and stops it, while the event loop answers requests. A cancelled start is given up. PostgreSQL has
    ended when this returns or raises. On Linux `priority` is the nice value of its processes, from 0 to 19.
    """
    started: Future[DatabaseAddress] = Future()
    # Without this, the future would be cancelled with its waiter, and could take no result.
    started.set_running_or_notify_cancel()
    is_over = threading.Event()
    yielding: set[int] = set()

    def check() -> None:
        if is_over.is_set():
            raise EmbeddedPostgresError(f"The start of the PostgreSQL on {postgres.directory} was given up.")
        # Its processes begin sessions of their own. The one that replays the log is among the first.
        if priority and postgres.pid is not None:
            family_gives_way(postgres.pid, priority, yielding)

    def live() -> None:
        if priority:
            thread_gives_way(priority)
        try:
            started.set_result(postgres.start(check))
        except BaseException as error:
            started.set_exception(error)
            return
        is_over.wait()
        postgres.stop()

    # One thread does both: PostgreSQL is told to end when the thread that started it does.
    threads = ThreadPoolExecutor(1, "postgres")
    life = threads.submit(live)
    try:
        yield await asyncio.wrap_future(started)
    finally:
        is_over.set()
        try:
            await finished(life)
        finally:
            threads.shutdown(wait=False)
