"""Several workers on one listening socket, each a fork of this process, which answers nothing itself.

Workers and supervisor end together: the kernel tells a worker when its supervisor is gone, and the supervisor starts a
worker anew that ends by itself.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable

from pilotis.db.embedded.account import tie_to_parent
from pilotis.serve.errors import CommandError
from pilotis.serve.stopping import SIGNALS, Stopped, StopRequest

_SIGNALS = {*SIGNALS, signal.SIGCHLD}
_STOP_SECONDS = 15.0
_POLL = 0.02
_CRASH_PAUSE = 1.0


class Supervisor:
    """Keeps `count` processes running `work`; `failure` tells why all should end, or None."""

    def __init__(
        self, count: int, work: Callable[[], None], stop: StopRequest, failure: Callable[[], str | None]
    ) -> None:
        self._count = count
        self._work = work
        self._stop_request = stop
        self._failure = failure
        self._started: dict[int, float] = {}

    def run(self) -> None:
        """Supervise until SIGINT or SIGTERM, which stay blocked then; raises `CommandError` with the failure."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._stop_request.check()
        try:
            while len(self._started) < self._count:
                self._start()
            while not (failure := self._failure()) and signal.sigwait(_SIGNALS) not in SIGNALS:
                self._replace_ended()
        finally:
            self._stop()
        if failure:
            raise CommandError(failure)

    def _start(self) -> None:
        tie = tie_to_parent(signal.SIGTERM)
        pid = os.fork()
        if pid == 0:
            self._become_worker(tie)
        self._started[pid] = time.monotonic()

    def _become_worker(self, tie: Callable[[], None] | None) -> None:
        """Work and exit; never returns, so that nothing of the supervisor's runs twice."""
        status = 1
        try:
            if tie:
                tie()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work()
            status = 0
        except Stopped:
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _replace_ended(self) -> None:
        for pid in self._ended():
            # One that cannot start must not take the whole machine's time.
            if time.monotonic() - self._started.pop(pid) < _CRASH_PAUSE:
                time.sleep(_CRASH_PAUSE)
            self._start()

    def _ended(self) -> list[int]:
        return [pid for pid in self._started if os.waitpid(pid, os.WNOHANG)[0]]

    def _stop(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._started and time.monotonic() < deadline:
            for pid in self._ended():
                del self._started[pid]
            time.sleep(_POLL)
        self._signal(signal.SIGKILL)
        for pid in self._started:
            os.waitpid(pid, 0)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._started:
            os.kill(pid, number)
