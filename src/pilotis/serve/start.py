"""The sequence of `pilotis serve`."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see `_read_modules`
import gc
import importlib
import importlib.util
import os
import resource
import shlex
import signal
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from pilotis.serve import data_directory, database
from pilotis.serve.database import DatabaseSource
from pilotis.serve.errors import CommandError
from pilotis.serve.listening import Listening
from pilotis.serve.stopping import SIGNALS, Stopped, StopRequest
from pilotis.settings import Settings, https_url

# How much longer than its own deadlines a process may take to stop.
_KILL_SECONDS = 5.0
# For `gc.set_threshold`: more objects than the modules make, which leave hardly any garbage. To look for it would take
# a tenth of the start, and memory that workers share.
_COLLECT_AFTER = 250_000
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
    gc.set_threshold(_COLLECT_AFTER)
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
    from pilotis.serve import installation, listening, metrics, welcome, worker
    from pilotis.serve.supervisor import Supervisor

    # Before anything is printed: PostgreSQL's keeper, in a thread of its own, may have something to log at any time.
    logs.configure(settings.log_format, settings.log_level)
    _check_https(settings)
    _check_tracing(settings)
    if settings.https_certificate is not None:
        # Until a process reads the files again at this signal, it must not end by it.
        signal.signal(signal.SIGHUP, _no_op)
    with (
        ExitStack() as serving,
        listening.listening(settings) as sockets,
        metrics.exposure(settings) as exposed,
    ):
        base_url = settings.base_url or (
            _https_url(settings, sockets) if settings.uses_https else _local_url(sockets.url)
        )
        preparing = installation.prepare(settings, source.connect_arguments, snapshot=snapshot)
        prepared = asyncio.run(stop.before(preparing))
        stop.check()
        metrics_url = exposed.url if exposed else None
        text = welcome.text(
            prepared, base_url, sockets.url, metrics_url, _place(settings), isolation=_isolation(settings)
        )
        serving.enter_context(data_directory.announced(Path(settings.data_dir), base_url))
        print(text, flush=True)  # noqa: T201 - what the command is to print
        if settings.workers == 1:
            member = identity(__version__)
            worker.run(settings, source, stop, sockets, base_url, exposed, member)
            return
        server_id = uuid7()

        def work(slot: int) -> None:
            if source.lock is not None:
                os.close(source.lock)
            own = DatabaseSource(source.connect_arguments)
            member = identity(__version__, server_id=server_id, slot=slot)
            worker.run(settings, own, stop, sockets, base_url, exposed, member)

        stop_seconds = settings.stop_seconds + _KILL_SECONDS
        Supervisor(
            settings.workers, work, stop, stop_seconds, passes_on_hangup=settings.https_certificate is not None
        ).run()


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


def _no_op(*_: object) -> None:
    """Handle a signal by doing nothing."""


def _local_url(url: str) -> str:
    """Return an address that works on this machine: clients cannot connect to a wildcard address."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _https_url(settings: Settings, listening: Listening) -> str:
    """Return the URL of the first name, where HTTPS is on without a `base_url`: on a port that the system chose."""
    return https_url(settings.https_names[0], listening.main[0].getsockname()[1])


def _check_tracing(settings: Settings) -> None:
    """Raise `CommandError` if traces are wanted, and what exports them is missing."""
    if settings.otel_endpoint is not None and importlib.util.find_spec("opentelemetry") is None:
        raise CommandError("Traces need further packages: pip install 'pilotis[otel]'.")


def _check_https(settings: Settings) -> None:
    """Raise `CommandError` if there can be no certificates, before a process tries to serve."""
    if settings.https_certificate is not None:
        from pilotis.certificates.contexts import CertificateError
        from pilotis.certificates.own_files import OwnFiles

        try:
            OwnFiles(Path(settings.https_certificate), Path(settings.https_key or settings.https_certificate))
        except CertificateError as error:
            raise CommandError(str(error)) from None
    if settings.https_names and importlib.util.find_spec("acme") is None:
        raise CommandError("Certificates by ACME need a further package: pip install 'pilotis[https]'.")
