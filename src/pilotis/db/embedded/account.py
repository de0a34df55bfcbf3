"""The user as which the server runs, and how its processes are started."""

import ctypes
import errno
import os
import pwd
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from pilotis.db.embedded.errors import EmbeddedPostgresError

PREFERRED_USERS = ("pilotis", "postgres", "nobody")
_PR_SET_PDEATHSIG = 1
_MAX_DATA_BYTES = 1 << 30  # of a process, without shared memory; several times what a page of 64 MB takes
# The name is compared because the number may belong to another process by then.
_STOP_AT_END = """read -r _; case "$(ps -o comm= -p "$1")" in *postgres*) kill -INT "$1";; esac"""


class Account(NamedTuple):
    """An unprivileged user; `name` is its name in the passwd database."""

    uid: int
    gid: int
    name: str


def server_account(directory: Path) -> Account | None:
    """Return the user to switch to for the cluster in `directory`; None to stay the current user.

    PostgreSQL does not run as root. A cluster that belongs to an ordinary user keeps that user, so that adding a user
    `pilotis` later changes nothing; a new cluster gets the first user of `PREFERRED_USERS` that exists.
    """
    if os.geteuid() != 0:
        return None
    if directory.exists() and (owner := _account(directory.stat().st_uid)):
        return owner
    for name in PREFERRED_USERS:
        if account := _account(name):
            return account
    raise EmbeddedPostgresError(
        "PostgreSQL does not run as root, and the passwd database names none of the users "
        f"{', '.join(PREFERRED_USERS)} to run it as; add one, start Pilotis as an ordinary user, "
        "or set PILOTIS_DATABASE_URL to a server of your own."
    )


def _account(key: int | str) -> Account | None:
    try:
        entry = pwd.getpwnam(key) if isinstance(key, str) else pwd.getpwuid(key)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name) if entry.pw_uid else None


def require_passwd_entry() -> None:
    """Raise unless the current user is in the passwd database, without which initdb does not work."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise EmbeddedPostgresError(
            f"The user id {os.geteuid()} has no entry in the passwd database, which PostgreSQL needs "
            "to create its data directory; add one to /etc/passwd, start Pilotis as another user, "
            "or set PILOTIS_DATABASE_URL to a server of your own."
        ) from None


def spawn(
    arguments: Sequence[str],
    *,
    account: Account | None,
    data: Path | None,
    parent_death_signal: signal.Signals,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.STDOUT,
    pass_fds: Sequence[int] = (),
    directory: str = "/",
) -> "subprocess.Popen[bytes]":
    """Start a program of PostgreSQL as `account` on the cluster in `data`; by default its stderr goes to its stdout.

    It gets its own session, so that a terminal's Ctrl-C does not reach it. On Linux the kernel sends it
    `parent_death_signal` when the calling thread ends, so call this from a thread that lives as long as Pilotis;
    elsewhere see `stop_at_end`. The environment is minimal: neither PG* variables nor the secrets of Pilotis are
    passed on. `pass_fds` are further descriptors that it inherits, and `directory` is where it works.

    Raises PermissionError with EACCES if the program may not be executed, EmbeddedPostgresError if the user cannot be
    switched, and OSError otherwise.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    with reachable(data, account) as (path, descriptors):
        try:
            return subprocess.Popen(  # noqa: S603
                arguments,
                cwd=directory,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                start_new_session=True,
                pass_fds=(*descriptors, *pass_fds),
                env=environment | ({"PGDATA": path} if path else {}),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                preexec_fn=_prepared(parent_death_signal),
            )
        except OSError as error:
            if account and error.errno in (errno.EPERM, errno.EINVAL):
                raise EmbeddedPostgresError(
                    f"Pilotis runs as root but may not change to the user {account.name} ({error.strerror}), "
                    "and PostgreSQL does not run as root; "
                    "start Pilotis as an ordinary user or allow it to change users."
                ) from error
            raise


def _prepared(parent_death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return what the child runs after the fork; None on systems that enforce no limit of memory and send no signal."""
    if sys.platform == "linux":
        tie = tie_to_parent(parent_death_signal)

        def prepare() -> None:
            _bound_memory()
            tie()

        return prepare
    else:  # noqa: RET505 - mypy finds a last line unreachable on Linux
        return None


def _bound_memory() -> None:
    """Bound the memory of each backend process, so that a greedy statement fails instead of exhausting the machine."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MAX_DATA_BYTES if hard == resource.RLIM_INFINITY else min(_MAX_DATA_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@contextmanager
def reachable(data: Path | None, account: Account | None) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """Yield a path by which the server can reach its cluster, and the descriptors that it must inherit.

    Another user may not be allowed to traverse the directories above the cluster. A link in `/proc/self/fd` leads there
    without traversing them, for the server and for every process it starts.
    """
    if sys.platform == "linux" and data is not None and account is not None:
        descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield f"/proc/self/fd/{descriptor}", (descriptor,)
        finally:
            os.close(descriptor)
    else:
        yield str(data) if data else None, ()


def tie_to_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """Return a function for a child to run after the fork, so that it gets `death_signal` when we end.

    On Linux the kernel sends it; elsewhere a thread of the child does, once the pipe that only we hold is closed. Call
    this before the fork. A change of user would undo it, so the child must run it after one.
    """
    parent = os.getpid()
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl

        def tie() -> None:
            prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(1)
    else:
        ours, theirs = _lifeline(parent)

        def tie() -> None:
            os.close(ours)
            threading.Thread(target=_signal_at_end, args=(theirs, death_signal), daemon=True).start()

    return tie


def stop_at_end(pid: int) -> "subprocess.Popen[bytes] | None":
    """Return a process that stops the server `pid` when this process has ended; None on Linux, whose kernel does so.

    Kill it when the server has ended.
    """
    if sys.platform == "linux":
        return None
    else:  # noqa: RET505 - mypy finds what follows unreachable on Linux
        return subprocess.Popen(  # noqa: S603
            ("/bin/sh", "-c", _STOP_AT_END, "sh", str(pid)),
            stdin=_lifeline(os.getpid())[1],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@cache
def _lifeline(_pid: int) -> tuple[int, int]:
    """Return the ends of a pipe of the process with this id: its own, which it never uses, and the one to wait at."""
    theirs, ours = os.pipe()
    return ours, theirs


def _signal_at_end(lifeline: int, number: signal.Signals) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), number)
