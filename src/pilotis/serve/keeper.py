"""Restarts the embedded PostgreSQL when it ends unexpectedly: killed, out of memory, or out of disk space."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import structlog

from pilotis.db.embedded import EmbeddedPostgres, EmbeddedPostgresError
from pilotis.serve.stopping import SIGNALS

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_STEADY_SECONDS = 60.0
_log = structlog.get_logger("pilotis.database")


class _Stopping(Exception):  # noqa: N818 - it is no error
    """The server is stopping while PostgreSQL is being restarted."""


@contextmanager
def kept_running(postgres: EmbeddedPostgres) -> Generator[None]:
    """Keep a started PostgreSQL running during the block, and stop it afterwards.

    The delay before a restart is one second at first and doubles up to a minute, until PostgreSQL has run for a minute.
    """
    keeper = _Keeper(postgres)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


class _Keeper:
    """Waits in its own thread, which lives as long as PostgreSQL: PostgreSQL dies with the thread that started it."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-keeper", daemon=True)

    def start(self) -> None:
        """Start waiting for PostgreSQL to end."""
        self._thread.start()

    def stop(self) -> None:
        """Stop PostgreSQL and stop waiting."""
        self._stopping.set()
        with self._changing:
            self._postgres.stop()
        self._thread.join()

    def _run(self) -> None:
        # Signals are for the main thread, which may be waiting for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGCHLD})
        pause = _FIRST_PAUSE
        started = time.monotonic()
        while not self._stopping.is_set():
            how = self._postgres.wait()
            if time.monotonic() - started >= _STEADY_SECONDS:
                pause = _FIRST_PAUSE
            if self._stopping.is_set():
                return
            _log.error("PostgreSQL ended unexpectedly", how=how, log=str(self._postgres.log), pause_seconds=pause)
            while not self._stopping.wait(pause) and not self._restart():
                pause = min(2 * pause, _LONGEST_PAUSE)
            started = time.monotonic()
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _restart(self) -> bool:
        with self._changing:
            try:
                self._check()
                self._postgres.restart(self._check)
            except _Stopping:
                return False
            except EmbeddedPostgresError as error:
                _log.error("PostgreSQL cannot be restarted", reason=str(error))
                return False
        _log.info("PostgreSQL is running again")
        return True

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopping
