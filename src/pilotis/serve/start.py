"""The sequence of `pilotis serve`."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see `_read_modules`
import importlib
import os
import resource
import shlex
import signal
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from pilotis.serve import data_directory, database
from pilotis.serve.database import DatabaseSource
from pilotis.serve.errors import CommandError
from pilotis.serve.stopping import SIGNALS, Stopped, StopRequest
from pilotis.settings import Settings

# How much longer than its own deadlines a process may take to stop.
_KILL_SECONDS = 5.0
# Numbers of open files to try where the hard limit is not accepted.
_OPEN_FILES = (65536, 10240)

_ADVICE = "See Functions in containers in docs/operating.md."


def run(settings: Settings, *, snapshot: bool = True) -> None:
    """Serve until SIGINT or SIGTERM, then stop PostgreSQL too; raises what prevents serving.

    With `snapshot` an embedded database is copied before it is migrated.
    """
    stop = StopRequest()
    stop.install()
    _allow_many_connections()
    reading = threading.Thread(target=_read_modules, daemon=True)
    reading.start()
    try:
        with database.for_server(settings, stop.check) as source:
            reading.join()
            stop.check()
            _serve(settings, source, stop, snapshot=snapshot)
    except Stopped:
        pass
    finally:
        # When the interpreter ends it restores the default action of signals, which would kill the process. Blocking
        # them in this thread alone would leave them to a thread that has not quite ended.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        reading.join()


def _allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard limit: most systems set it to 1024, for the sake of select(2).

    macOS sets it to 256, and accepts less than the hard limit that it reports: in doubt OPEN_MAX.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, *(bound for bound in _OPEN_FILES if bound > soft)):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def _read_modules() -> None:
    """Import what serving needs while the main thread waits for PostgreSQL.

    PostgreSQL is forked meanwhile. A module that registers a pair of fork handlers must not be imported between the two
    calls: concurrent.futures and logging do so, so they are imported earlier.
    """
    importlib.import_module("pilotis.serve.worker")
    importlib.import_module("pilotis.serve.welcome")


def _serve(settings: Settings, source: DatabaseSource, stop: StopRequest, *, snapshot: bool) -> None:
    import asyncio

    from pilotis import __version__
    from pilotis.http import logs
    from pilotis.jobs.node import identity
    from pilotis.kit.ids import uuid7
    from pilotis.serve import installation, metrics, welcome, worker
    from pilotis.serve.supervisor import Supervisor

    # Before anything is printed: PostgreSQL's keeper, in a thread of its own, may have something to log at any time.
    logs.configure(settings.log_format, settings.log_level)
    with (
        ExitStack() as serving,
        _listen(settings.host, settings.port) as listening,
        metrics.exposure(settings) as exposed,
    ):
        listening_url = _url(listening)
        base_url = settings.base_url or _local_url(listening)
        preparing = installation.prepare(settings, source.connect_arguments, snapshot=snapshot)
        prepared = asyncio.run(stop.before(preparing))
        stop.check()
        metrics_url = exposed.url if exposed else None
        text = welcome.text(
            prepared, base_url, listening_url, metrics_url, _place(settings), isolation=_isolation(settings)
        )
        serving.enter_context(data_directory.announced(Path(settings.data_dir), base_url))
        print(text, flush=True)  # noqa: T201 - what the command is to print
        if settings.workers == 1:
            member = identity(__version__)
            worker.run(settings, source, stop, listening, base_url, exposed, member)
            return
        server_id = uuid7()

        def work(slot: int) -> None:
            if source.lock is not None:
                os.close(source.lock)
            own = DatabaseSource(source.connect_arguments)
            member = identity(__version__, server_id=server_id, slot=slot)
            worker.run(settings, own, stop, listening, base_url, exposed, member)

        stop_seconds = settings.stop_seconds + _KILL_SECONDS
        Supervisor(settings.workers, work, stop, stop_seconds).run()


def _isolation(settings: Settings) -> str:
    """Return a sentence if functions cannot be fully isolated, and what to do; an empty text if they can.

    bubblewrap is tried with a program that does nothing; whether a sandbox holds is tried when one is needed. Nothing
    is said of what the operator chose by name, nor of systems without bubblewrap.
    """
    from pilotis.functions.runtime.policy import forbidden_namespaces, tools

    if settings.functions_isolation not in {"auto", "bwrap"} or os.uname().sysname != "Linux":
        return ""
    if tools().bwrap is None:
        return (
            "Functions are not fully isolated: bubblewrap is missing. Install it, on Debian by apt install bubblewrap."
        )
    problem = forbidden_namespaces()
    if problem is None:
        return ""
    return f"Functions are not fully isolated: this system forbids bubblewrap its namespaces ({problem}). {_ADVICE}"


def _place(settings: Settings) -> str:
    """Return the flag with which a command finds the data directory; empty if it needs none.

    The database URL is not shown: it may contain a password, and this text may end up in a log.
    """
    if settings.database_url or settings.data_dir == Settings().data_dir:
        return ""
    return f" --data-dir {shlex.quote(settings.data_dir)}"


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
    """Return an address that works on this machine: clients cannot connect to a wildcard address."""
    return _url(listening).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
