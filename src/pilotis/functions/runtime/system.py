"""What sandboxes and builds need of the operating system: folders, files in memory, priorities, real users."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDERS = "pilotis-function-"
_SET_REAL = {"x86_64": (117, 119), "aarch64": (147, 149)}
"""The numbers of setresuid(2) and setresgid(2)."""


def new_folder(user: int) -> str:
    """Return a new folder that a sandbox can read and the server alone can write; it is named after this process."""
    # Without links on the way: Deno's permissions are for the path where they lead.
    folder = os.path.realpath(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
    if os.geteuid() == 0:
        os.chown(folder, 0, user)
    Path(folder).chmod(0o750)
    return folder


def remove_left_folders() -> None:
    """Remove the folders of sandboxes whose server has ended without removing them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        number = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if number.isdigit() and not _exists(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def write_all(folder: str, files: Mapping[str, bytes]) -> None:
    """Write files; raises `FileExistsError` where the file system takes two names for the same."""
    for name, data in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)


def memory_file(data: bytes) -> int:
    """Return a descriptor of a file in memory, at its beginning."""
    if sys.platform == "linux":
        file = os.memfd_create("seccomp")
    else:
        file, name = tempfile.mkstemp()
        Path(name).unlink()
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def counts_by_namespace() -> bool:
    """Whether the kernel counts processes by user and user namespace (since Linux 5.14), not by user alone."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (5, 14)


def innermost(pid: int) -> int:
    """Return the innermost process that bwrap started: the one without children."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


def status(pid: int, name: str) -> int | None:
    """Return a line of `/proc/<pid>/status`, in KiB."""
    # Each call reads it: bytes without a buffer are found in a third of the time of lines of text.
    with contextlib.suppress(OSError, ValueError, IndexError), Path(f"/proc/{pid}/status").open("rb", 0) as file:
        return int(file.read().partition(f"\n{name}:".encode())[2].split(None, 1)[0])
    return None


@contextlib.contextmanager
def as_real_user(user: int | None) -> Iterator[None]:
    """Give this thread, and no other, the real user and group of a process whose limits it changes (prlimit(2)).

    A root without CAP_SYS_RESOURCE, as in a container, may not change them otherwise. The effective user stays root.
    The functions of the C library would change all threads, so these are the system calls.
    """
    if user is None:
        yield
        return
    set_user, set_group = _SET_REAL[platform.machine()]
    call, same = ctypes.CDLL(None).syscall, -1
    try:
        if call(set_group, user, same, same) or call(set_user, user, same, same):
            raise OSError(f"The real user cannot become {user}.")
        yield
    finally:
        if call(set_user, 0, same, same) or call(set_group, 0, same, same):
            raise SystemExit("The real user cannot become root again.")
