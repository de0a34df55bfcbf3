"""Work that gives way to requests where processors are few.

Linux may schedule sessions as groups, in which a priority counts only against the other threads of the same session
(sched(7), "The autogroup feature"). PostgreSQL gives each of its processes a session of its own, and so does whoever
starts a program that shall not receive the terminal's Ctrl-C: for them the session needs the priority too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_LOOK_SECONDS = 0.25
_IDLE_PROCESSORS = 0.5
_SHORTEST, _LONGEST = 0.25, 9.0
"""Pauses for each second of work."""


def give_way(pid: int, nice: int) -> bool:
    """Set the priority of all threads of another process, and of its session unless that is ours.

    `nice` is from 0 to 19. Returns whether that is all that can be done: without privileges a server may set those of
    ten sessions a second. What is not allowed at all is left as it is.
    """
    # A process may have threads from before its first one had its priority. Those it makes later inherit it.
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
        else:
            os.setpriority(os.PRIO_PROCESS, pid, nice)
    with contextlib.suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            try:
                _set_session(pid, nice)
            except BlockingIOError:
                return False
    return True


def family_gives_way(pid: int, nice: int, done: set[int]) -> None:
    """Do what `give_way` does for a process and its children but those `done`, to which it adds them.

    Where Linux does not tell the children, for the process alone.
    """
    family = [pid]
    with contextlib.suppress(OSError):
        family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    done.update(one for one in family if one not in done and give_way(one, nice))


def thread_gives_way(nice: int) -> None:
    """Set the priority of this thread and of the processes that it starts, where threads have one of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def process_gives_way(nice: int) -> None:
    """Set the priority of this process, before it has other threads, and of its session if that is its own.

    A session that something else began, as a shell did, keeps its priority: it has other processes.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            _set_session(os.getpid(), nice)


def _set_session(pid: int, nice: int) -> None:
    # The file is there only where the kernel groups by sessions.
    if sys.platform == "linux":
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


class SpareTime:
    """Says how long work pauses after each of its pieces, so that others find a processor that is free.

    A low priority alone does not do that: who becomes ready waits until a time slice ends, up to 4 ms, and a request
    wakes several processes in turn. While less than half a processor is idle pauses become longer, until the work has
    a tenth of a processor, and otherwise shorter. Where the system does not tell how idle it is, there are none.
    """

    def __init__(self, idle_seconds: Callable[[], float | None] | None = None) -> None:
        self._idle_seconds = idle_seconds or _idle_seconds
        self._looked_at = time.monotonic()
        self._idle = self._idle_seconds()
        self._pauses = 0.0

    def pause_after(self, worked: float) -> float:
        """Return how many seconds to pause after a piece of work that took so many seconds."""
        now = time.monotonic()
        if (passed := now - self._looked_at) >= _LOOK_SECONDS:
            before, self._idle, self._looked_at = self._idle, self._idle_seconds(), now
            if before is not None and self._idle is not None:
                self._adapt((self._idle - before) / passed)
        return worked * self._pauses

    def _adapt(self, idle_processors: float) -> None:
        if idle_processors < _IDLE_PROCESSORS:
            self._pauses = min(_LONGEST, max(_SHORTEST, 2 * self._pauses))
        else:
            self._pauses = self._pauses * 0.8 if self._pauses > _SHORTEST else 0.0


def _idle_seconds() -> float | None:
    """Return how long all processors together have been idle, from the line `cpu` of `/proc/stat` (proc(5))."""
    try:
        with Path("/proc/stat").open("rb", 0) as file:
            _, _user, _nice, _system, idle, waiting, *_ = file.read(256).split(None, 6)
    except (OSError, ValueError):
        return None
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")
