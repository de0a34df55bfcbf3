"""Waiting for what comes about by itself, in another process or in the background."""

import asyncio
import inspect
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120
"""Seconds that anything may take on the slowest and busiest machine. Nothing that works comes near it."""


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what the condition returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)
    return found


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what the condition, which may be asynchronous, returns once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether the process is there; one that only waits to be collected by its parent is not."""
    return _status(pid)[:1] not in ([], ["Z"])


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are its own still."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return sorted(number for number in numbers if _status(number)[1:2] == [str(pid)])


def _status(pid: int) -> list[str]:
    """State, parent and so on from `/proc/<pid>/stat` (proc(5)); nothing if there is no such process."""
    try:
        # The name before them, in parentheses, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of loopback that is given to nobody who asks for any: only who names it can listen there."""
    with socket.socket() as holder:
        # Bound without listening it is in nobody's way who sets this too, as servers do (socket(7)).
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
