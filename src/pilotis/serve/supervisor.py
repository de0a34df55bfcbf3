"""Several workers on one listening socket, each a fork of this process, which itself answers no requests.

Workers and supervisor end together: a worker gets a signal when its supervisor has ended, and the supervisor
restarts a worker that ends unexpectedly.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable

from pilotis.db.embedded.account import tie_to_parent
from pilotis.serve.stopping import SIGNALS, Stopped, StopRequest

_SIGNALS = {*SIGNALS, signal.SIGCHLD}
_HANGUP = {signal.SIGHUP}
_POLL = 0.02
_CRASH_PAUSE = 1.0


class Supervisor:
    """Keeps `count` processes running `work`, each with a slot number.

    Processes that have not ended `stop_seconds` after they were asked to stop are killed. With `passes_on_hangup` they
    all get a SIGHUP that the supervisor gets.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[int], None],
        stop: StopRequest,
        stop_seconds: float,
        *,
        passes_on_hangup: bool = False,
    ) -> None:
        self._count = count
        self._work = work
        self._stop_request = stop
        self._stop_seconds = stop_seconds
        self._signals = _SIGNALS | _HANGUP if passes_on_hangup else _SIGNALS
        self._started: dict[int, tuple[int, float]] = {}

    def run(self) -> None:
        """Supervise until SIGINT or SIGTERM, which stay blocked afterwards."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self._stop_request.check()
        try:
            for slot in range(self._count):
                self._start(slot)
            while (number := signal.sigwait(self._signals)) not in SIGNALS:
                if number == signal.SIGHUP:
                    self._signal(signal.SIGHUP)
                else:
                    self._replace_ended()
        finally:
            self._stop()

    def _start(self, slot: int) -> None:
        tie = tie_to_parent(signal.SIGTERM)
        pid = os.fork()
        if pid == 0:
            self._become_worker(tie, slot)
        self._started[pid] = slot, time.monotonic()

    def _become_worker(self, tie: Callable[[], None], slot: int) -> None:
        """Work and exit; never returns, so that no code of the supervisor runs twice."""
        status = 1
        try:
            tie()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
            self._work(slot)
            status = 0
        except Stopped:
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _replace_ended(self) -> None:
        for pid in self._ended():
            # A worker that cannot start must not use up the machine's processor time.
            slot, started = self._started.pop(pid)
            if time.monotonic() - started < _CRASH_PAUSE:
                time.sleep(_CRASH_PAUSE)
            self._start(slot)

    def _ended(self) -> list[int]:
        return [pid for pid in self._started if os.waitpid(pid, os.WNOHANG)[0]]

    def _stop(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_seconds
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
