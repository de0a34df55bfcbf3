"""The whole of `pilotis serve`, in order."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see `_read_modules`
import importlib
import os
import resource
import signal
import socket
import threading
from contextlib import suppress

from pilotis.serve import database
from pilotis.serve.database import DatabaseSource
from pilotis.serve.errors import CommandError
from pilotis.serve.stopping import SIGNALS, Stopped, StopRequest
from pilotis.settings import Settings


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, and stop PostgreSQL too; raises what keeps it from serving."""
    stop = StopRequest()
    stop.install()
    _allow_many_connections()
    reading = threading.Thread(target=_read_modules, daemon=True)
    reading.start()
    try:
        with database.for_server(settings, stop.check) as source:
            reading.join()
            stop.check()
            _serve(settings, source, stop)
    except Stopped:
        pass
    finally:
        # The interpreter's end would give a handler's signal its deadly meaning back, and blocking it in this thread
        # would leave it to another that has not quite ended.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        reading.join()


def _allow_many_connections() -> None:
    """Raise the soft limit on open files to the hard one: it is 1024 on most systems, for the sake of select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS takes less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _read_modules() -> None:
    """Import what serving needs, while the main thread waits for PostgreSQL.

    PostgreSQL is forked meanwhile. A module that registers a pair of handlers around forks must not be imported
    between the two: concurrent.futures and logging do, so they are imported before.
    """
    importlib.import_module("pilotis.serve.worker")
    importlib.import_module("pilotis.serve.welcome")


def _serve(settings: Settings, source: DatabaseSource, stop: StopRequest) -> None:
    import asyncio

    from pilotis.serve import installation, metrics, welcome, worker
    from pilotis.serve.supervisor import Supervisor

    with _listen(settings.host, settings.port) as listening, metrics.exposure(settings, listening) as exposed:
        listening_url = _url(listening)
        base_url = settings.base_url or _local_url(listening)
        prepared = asyncio.run(stop.before(installation.prepare(settings, source.connect_arguments)))
        stop.check()
        print(welcome.text(prepared, base_url, listening_url), flush=True)  # noqa: T201 - what the command is to print
        if settings.workers == 1:
            worker.run(settings, source, stop, listening, base_url, exposed)
            return

        def work() -> None:
            if source.lock is not None:
                os.close(source.lock)
            worker.run(settings, DatabaseSource(source.connect_arguments), stop, listening, base_url, exposed)

        Supervisor(settings.workers, work, stop, source.failure).run()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CommandError(f"Cannot listen on {host} port {port}: {reason}; --port takes another.") from error


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if listening.family == socket.AF_INET6 else f"http://{host}:{port}"


def _local_url(listening: socket.socket) -> str:
    """Return an address that works on this machine: nobody can be asked to call "every interface"."""
    return _url(listening).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
