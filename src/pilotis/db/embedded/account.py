"""The user the server runs as, and how its processes are started."""

import ctypes
import errno
import os
import pwd
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from pilotis.db.embedded.errors import EmbeddedPostgresError

PREFERRED_USERS = ("pilotis", "postgres", "nobody")
_PR_SET_PDEATHSIG = 1
_MOST_DATA_BYTES = 1 << 30  # of a process, shared memory not counted; what a page of 64 MB takes, several times


class Account(NamedTuple):
    """An unprivileged user; `name` is what the passwd database calls it."""

    uid: int
    gid: int
    name: str


def server_account(directory: Path) -> Account | None:
    """Return the user to become for the cluster in `directory`; None to stay who we are.

    PostgreSQL refuses to run as root. A cluster that already belongs to an ordinary user keeps that user, so
    that adding a user `pilotis` later does not change hands; a new one goes to the first of `PREFERRED_USERS`
    there is.
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
    """Raise unless our own user is in the passwd database, without which initdb refuses to work."""
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
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> "subprocess.Popen[bytes]":
    """Start a program of PostgreSQL as `account` on the cluster in `data`; its stderr goes to its stdout.

    A session of its own keeps a terminal's Ctrl-C away. On Linux the kernel sends it `parent_death_signal`
    when the thread that called this ends, so call it from one that lives as long as Pilotis. The environment
    is bare: neither PG* variables nor Pilotis' own secrets reach it.

    Raises PermissionError with EACCES when the program may not be run, EmbeddedPostgresError when the user
    cannot be changed to, OSError for the rest.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    with _reachable(data, account) as (path, descriptors):
        try:
            return subprocess.Popen(  # noqa: S603
                arguments,
                cwd="/",
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                start_new_session=True,
                pass_fds=descriptors,
                env=environment | ({"PGDATA": path} if path else {}),
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                preexec_fn=_all(_bound_memory, tie_to_parent(parent_death_signal)),
            )
        except OSError as error:
            if account and error.errno in (errno.EPERM, errno.EINVAL):
                raise EmbeddedPostgresError(
                    f"Pilotis runs as root but may not change to the user {account.name} ({error.strerror}), "
                    "and PostgreSQL does not run as root; "
                    "start Pilotis as an ordinary user or allow it to change users."
                ) from error
            raise


def _bound_memory() -> None:
    """Let a statement that would fill the machine's memory fail by itself: each backend is a process of its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MOST_DATA_BYTES if hard == resource.RLIM_INFINITY else min(_MOST_DATA_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _all(*steps: Callable[[], None] | None) -> Callable[[], None]:
    """Return what runs the steps that there are, one after the other."""

    def run() -> None:
        for step in steps:
            if step is not None:
                step()

    return run


@contextmanager
def _reachable(data: Path | None, account: Account | None) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """Yield the path by which the server knows its cluster, and the descriptors it has to inherit.

    Another user may not be able to pass the directories above the cluster. A link in `/proc/self/fd` leads
    there without passing them, for the server and for every process it starts.
    """
    if data is None or account is None or sys.platform != "linux":
        yield str(data) if data else None, ()
        return
    descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)


def tie_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return what a child runs once it is forked, so that the kernel sends it `death_signal` when we end.

    None where the kernel cannot. Call it before the fork. A change of user would undo it, so run it after one.
    """
    if sys.platform != "linux":
        return None
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return tie
