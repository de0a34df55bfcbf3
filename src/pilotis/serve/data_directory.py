"""The data directory, and the lock that restricts it to one server or command at a time.

The lock is flock(2) on a file, so the kernel releases it however its holder ends. The file identifies the holder.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from pilotis.serve.errors import CommandError

LOCK_FILE = "pilotis.lock"
ADDRESS_FILE = "pilotis.address"
"""Names the URL of the server that runs on the directory, for commands that print links."""
MODE = 0o700
_COMMAND_LIMIT = 60.0
_POLL = 0.02

Role = Literal["serve", "command"]


class InUseError(CommandError):
    """A server, the process `pid`, uses the directory."""

    def __init__(self, directory: Path, pid: int) -> None:
        super().__init__(
            f"Pilotis is already serving from {directory}, as process {pid}; "
            "stop that one, or choose another directory with --data-dir."
        )
        self.pid = pid


class _Holder(NamedTuple):
    pid: int
    role: str


def make(directory: Path) -> None:
    """Create the directory with mode 0700 if it does not exist; raises `CommandError`."""
    try:
        directory.mkdir(mode=MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"The data directory {directory} cannot be made: {error.strerror}.") from error


@contextmanager
def locked(directory: Path, role: Role, check: Callable[[], None] = lambda: None) -> Generator[int]:
    """Hold the lock and yield its file descriptor, which a forked process should close.

    Waits up to a minute for another command to end; `check` is called meanwhile and may raise. Raises `InUseError` when
    a server holds it, `CommandError` otherwise.
    """
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CommandError(f"The data directory {directory} cannot be used: {error.strerror}.") from error
    try:
        _acquire(descriptor, directory, check)
        _write(descriptor, f"{os.getpid()} {role}\n")
        yield descriptor
        _write(descriptor, "")
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, directory: Path, check: Callable[[], None]) -> None:
    deadline = time.monotonic() + _COMMAND_LIMIT
    while not _try_lock(descriptor):
        holder = _holder(descriptor)
        if holder.role == "serve":
            raise InUseError(directory, holder.pid)
        if time.monotonic() > deadline:
            raise CommandError(f"Another command, process {holder.pid}, has been using {directory} for a minute.")
        check()
        time.sleep(_POLL)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> _Holder:
    pid, _, role = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip().partition(" ")
    return _Holder(int(pid) if pid.isdecimal() else 0, role)


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


@contextmanager
def announced(directory: Path, url: str) -> Generator[None]:
    """Let commands find the URL of the server that this process is, while the block runs."""
    file, pid = directory / ADDRESS_FILE, os.getpid()
    with suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as open_file:
            open_file.write(f"{pid} {url}")
    try:
        yield
    finally:
        # Not by a process that was forked meanwhile.
        if os.getpid() == pid:
            with suppress(OSError):
                file.unlink()


def running_url(directory: Path) -> str | None:
    """Return the URL of the server that runs on the directory; None if none does."""
    try:
        pid, _, url = (directory / ADDRESS_FILE).read_text("utf-8").partition(" ")
        # One that was killed has left its file behind.
        os.kill(int(pid), 0)
    except PermissionError:
        return url
    except (OSError, ValueError, OverflowError):
        return None
    return url
