"""Runs the programs of PostgreSQL that carry a database from an old cluster to a new one."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from pilotis.db.embedded.account import Account, reachable, spawn
from pilotis.db.embedded.binaries import Binaries
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DATABASE, SUPERUSER, DatabaseAddress

_SAID_LINES = 6
_FAULT = re.compile(r"error|fatal|failure|Command was", re.IGNORECASE)


def run_pg_upgrade(
    old: tuple[Path, Binaries], new: tuple[Path, Binaries], account: Account | None, arguments: Sequence[str], log: Path
) -> None:
    """Run `pg_upgrade` of the new programs on two clusters, each with its programs; both servers are stopped.

    What it and its servers said is in `log`. Raises `EmbeddedPostgresError` with the last of it if it fails.
    """
    with (
        _place(account) as place,
        reachable(old[0], account) as (old_path, old_descriptors),
        reachable(new[0], account) as (new_path, new_descriptors),
    ):
        command = [str(new[1].directory / "pg_upgrade"), *arguments, "--username", SUPERUSER, "--no-sync"]
        command += ["--old-bindir", str(old[1].directory), "--new-bindir", str(new[1].directory)]
        command += ["--old-datadir", str(old_path), "--new-datadir", str(new_path), "--socketdir", place]
        process = spawn(
            command,
            account=account,
            data=None,
            parent_death_signal=signal.SIGKILL,
            pass_fds=(*old_descriptors, *new_descriptors),
            directory=place,
        )
        try:
            said = process.communicate()[0].decode(errors="replace")
        finally:
            process.kill()
            process.wait()
    parts = sorted((new[0] / "pg_upgrade_output.d").rglob("*.log"))
    said += "\n".join(part.read_text(errors="replace") for part in parts)
    _write(log, said)
    if process.returncode:
        raise EmbeddedPostgresError(f"pg_upgrade failed; {log} has all of it: {_faults(said)}")


def copy_database(old: tuple[DatabaseAddress, Path], new: tuple[DatabaseAddress, Path], log: Path) -> None:
    """Send the roles and the database of a running old server to a new one, each given with its programs.

    The old programs write the archive: those of the new version may write what the new server does not know.
    """
    with log.open("wb") as said:
        log.chmod(0o600)
        # What is there already, such as our own role, is an error of a line, which psql passes over.
        roles = _reading(old, "pg_dumpall", ["--roles-only"], said)
        _pass_on(roles, _writing(new, "psql", ["--no-psqlrc", "--quiet", "--dbname", DATABASE], roles, said), log)
        archive = _reading(old, "pg_dump", ["--format=custom", "--compress=0", DATABASE], said)
        restoring = ["--exit-on-error", "--single-transaction", "--dbname", DATABASE]
        _pass_on(archive, _writing(new, "pg_restore", restoring, archive, said), log)


def _reading(
    server: tuple[DatabaseAddress, Path], program: str, arguments: Sequence[str], said: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return _start(server, program, arguments, subprocess.DEVNULL, subprocess.PIPE, said)


def _writing(
    server: tuple[DatabaseAddress, Path],
    program: str,
    arguments: Sequence[str],
    source: "subprocess.Popen[bytes]",
    said: IO[bytes],
) -> "subprocess.Popen[bytes]":
    assert source.stdout is not None
    with source.stdout:  # only the reader keeps it, so that the writer of a pipe notices its end
        return _start(server, program, arguments, source.stdout, said, said)


def _start(
    server: tuple[DatabaseAddress, Path],
    program: str,
    arguments: Sequence[str],
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    said: IO[bytes],
) -> "subprocess.Popen[bytes]":
    address, directory = server
    path = directory / program
    if not os.access(path, os.X_OK):
        raise EmbeddedPostgresError(f"{path} is missing; install PostgreSQL's client programs of that version.")
    where = ["--host", address.host, "--port", str(address.port), "--username", address.user, "--no-password"]
    return spawn(
        [str(path), *where, *arguments],
        account=None,
        data=None,
        parent_death_signal=signal.SIGKILL,
        stdin=stdin,
        stdout=stdout,
        stderr=said,
    )


def _pass_on(source: "subprocess.Popen[bytes]", target: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until both have ended, and raise if one has failed."""
    with ExitStack() as ending:
        for process in (source, target):
            ending.callback(process.wait)
            ending.callback(process.kill)
        target.wait()
        source.wait()
    if source.returncode or target.returncode:
        said = log.read_text(errors="replace")
        raise EmbeddedPostgresError(f"The database could not be copied; {log} has all of it: {_faults(said)}")


@contextmanager
def _place(account: Account | None) -> Iterator[str]:
    """Yield a directory for sockets, whose path is short, and for what pg_upgrade writes where it works."""
    with tempfile.TemporaryDirectory(prefix="pilotis-", dir="/tmp") as place:  # TMPDIR may be too long
        if account:
            os.chown(place, account.uid, account.gid)
        yield place


def _write(log: Path, said: str) -> None:
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(said)


def _faults(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if _FAULT.search(line)]
    return " | ".join(lines[-_SAID_LINES:]) or "it said nothing."
