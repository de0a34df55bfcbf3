"""A TCP server inside of a test that leaves no connection open."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

_TURNS = 5
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def accepting(serve: Serve, host: str = "127.0.0.1", port: int = 0, **options: Any) -> AsyncIterator[int]:
    """Serve each connection by a coroutine; yields the port. At the end all that are left are cancelled and closed.

    `asyncio.start_server` alone leaves those open whose coroutine has not begun, or waits for its client. They were
    found later, by the collector, and failed whichever test ran then.
    """
    left: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        left[task] = writer
        task.add_done_callback(left.pop)

    server = await asyncio.start_server(accept, host, port, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        # What was accepted becomes a connection in the next turns, which a closed server refuses, and leaves open.
        for one in server.sockets:
            asyncio.get_running_loop().remove_reader(one.fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        server.close()
        unfinished = dict(left)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for writer in unfinished.values():
            writer.transport.abort()
        # The transports close their sockets in the next turn.
        await asyncio.sleep(0)
