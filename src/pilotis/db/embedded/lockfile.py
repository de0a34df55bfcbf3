"""`postmaster.pid`, in which a running PostgreSQL records its process and where it listens."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pilotis.db.embedded.errors import EmbeddedPostgresError

SUPERUSER = "pilotis"
DATABASE = "pilotis"

_ORPHAN_GRACE = 5.0
_SHUTDOWN_LIMIT = 60.0
_POLL = 0.01


class DatabaseAddress(NamedTuple):
    """Where to connect: `host` is the absolute directory of the unix socket."""

    host: str
    port: int
    user: str
    database: str


class Postmaster(NamedTuple):
    """The contents of `postmaster.pid`; fields that a starting server has not written yet are empty."""

    pid: int
    port: int
    socket_directory: str
    status: str

    @property
    def ready(self) -> bool:
        """Whether the server accepts connections."""
        return self.status == "ready"


def read_postmaster(directory: Path) -> Postmaster | None:
    """Return the contents of the cluster's lock file, which may be stale; None if there is none.

    The lines are: pid, data directory, start time, port, socket directory, listen address, shared memory, status.
    """
    try:
        lines = (directory / "postmaster.pid").read_text(errors="replace").splitlines()
        lines += [""] * (8 - len(lines))
        return Postmaster(abs(int(lines[0])), int(lines[3]), lines[4].strip(), lines[7].strip())
    except (OSError, ValueError):
        return None


def running_address(directory: Path) -> DatabaseAddress | None:
    """Return where the server of the cluster in `directory` listens; None if none is running.

    For commands that run next to a server, by its user or by root. A server is running if its socket accepts a
    connection, which neither a stale file nor a reused process id can fake.
    """
    postmaster = read_postmaster(directory)
    if postmaster is None or not _listens(directory, postmaster):
        return None
    return address_of(directory, postmaster)


def address_of(directory: Path, postmaster: Postmaster) -> DatabaseAddress:
    """Return the address in a lock file; a relative socket directory is relative to the cluster."""
    host = directory.absolute() / postmaster.socket_directory
    return DatabaseAddress(str(host), postmaster.port, SUPERUSER, DATABASE)


def await_release(directory: Path) -> None:
    """Wait until no server runs in `directory`, and delete the lock file of a dead one.

    A server whose parent was killed shuts itself down, so this waits for it. Any other is an error.

    The stale file must be deleted: its process id may be in use again (in a container it often is, even by our own new
    server), and PostgreSQL would mistake it for a running server. PostgreSQL itself still refuses to start while a
    process is attached to the shared memory of this cluster.
    """
    begun = time.monotonic()
    while (postmaster := read_postmaster(directory)) and _is_alive(directory, postmaster):
        waited = time.monotonic() - begun
        if waited > (_SHUTDOWN_LIMIT if postmaster.status == "stopping" else _ORPHAN_GRACE):
            raise EmbeddedPostgresError(
                f"Another PostgreSQL, process {postmaster.pid}, is running on {directory}; "
                f"stop it (kill -INT {postmaster.pid}) or choose another data directory."
            )
        time.sleep(_POLL)
    for leftover in ("postmaster.pid", *(path.name for path in directory.glob(".s.PGSQL.*"))):
        (directory / leftover).unlink(missing_ok=True)


def end_leftover(directory: Path, *, wanted: bool) -> None:
    """End the server in `directory`, which a killed command has left, and wait for that.

    If its data are `wanted` it writes them, else it ends at once.
    """
    postmaster = read_postmaster(directory)
    if postmaster is None or not _is_postgres(postmaster.pid) or not _works_in(directory, postmaster.pid):
        return
    with suppress(ProcessLookupError):
        os.kill(postmaster.pid, signal.SIGINT if wanted else signal.SIGQUIT)
    deadline = time.monotonic() + _SHUTDOWN_LIMIT
    while _is_postgres(postmaster.pid) and _works_in(directory, postmaster.pid):
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(f"PostgreSQL, process {postmaster.pid}, does not leave {directory}.")
        time.sleep(_POLL)


def _is_alive(directory: Path, postmaster: Postmaster) -> bool:
    if not _is_postgres(postmaster.pid):
        return False
    # Between creating the lock file and opening its socket, for a few milliseconds, a server is alive and does not
    # listen. Nor does it between closing its socket and removing the lock file, its last step, in which it would remove
    # that of its successor.
    return not postmaster.socket_directory or _listens(directory, postmaster) or _works_in(directory, postmaster.pid)


def _is_postgres(pid: int) -> bool:
    """Return whether the process exists and, as far as that can be known, is a PostgreSQL."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if sys.platform == "linux":
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return True
    else:
        name = Path(_printed("ps", "-o", "comm=", "-p", str(pid))).name
        if not name:
            return True
    return name in ("postgres", "postmaster")


def _works_in(directory: Path, pid: int) -> bool:
    """Return whether the cluster is the working directory of the process, as for its server; False if unknown."""
    if sys.platform == "linux":
        working = f"/proc/{pid}/cwd"
    else:
        # A line for the process, one for the kind of file, one with its name.
        working = _printed("lsof", "-a", "-p", str(pid), "-d", "cwd", "-Fn").rpartition("\nn")[2]
    try:
        return Path(working).samefile(directory)
    except OSError:
        return False


def _printed(*command: str) -> str:
    """Return what a command of the system prints; an empty text if it fails or does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _listens(directory: Path, postmaster: Postmaster) -> bool:
    """Return whether the server's socket accepts a connection; the kernel answers even if the server is busy."""
    if not postmaster.socket_directory:
        return False
    path = Path(address_of(directory, postmaster).host) / f".s.PGSQL.{postmaster.port}"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(path))
        except BlockingIOError:  # its queue is full
            return True
        except OSError:
            return False
        return True
