"""Starts and stops the embedded PostgreSQL."""

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from pilotis.db.embedded.account import Account, server_account, spawn, stop_at_end
from pilotis.db.embedded.binaries import Binaries, find_binaries, usable_binaries
from pilotis.db.embedded.cluster import (
    WAL_SPOOL,
    check_cluster,
    create_cluster,
    make_folder,
    take_ownership,
    write_settings,
)
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DatabaseAddress, address_of, await_release, read_postmaster

_PORT = 5432
_ARCHIVING = {
    "archive_mode": "on",
    "archive_library": "basic_archive",
    "basic_archive.archive_directory": WAL_SPOOL,
    # A minute without a full segment ends one, so that the disk takes no more than that with it.
    "archive_timeout": "60",
    # Triggers then queue each new blob for the backup store.
    "pilotis.copies_files": "on",
}
_SUMMARIES = {"summarize_wal": "on"}  # which blocks changed, for incremental backups
_SUMMARIES_SINCE = 17
_READY_LIMIT = 60.0
_READY_POLL = 0.002
_QUIT_LIMIT = 10.0
_LOG_LIMIT = 10 << 20
_TAIL_LINES = 10
_SOCKET_PATH_LIMIT = 103  # sun_path has 108 bytes on Linux and 104 on macOS, including the final zero


class EmbeddedPostgres:
    """A PostgreSQL server that runs as a child process on the cluster in `directory`.

    Start it from the main thread: the server is shut down when the thread that started it ends. The caller ensures that
    no second Pilotis uses the directory. The server's log is `<directory>.log`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
        archives: bool = False,
        ready_seconds: float = _READY_LIMIT,
    ) -> None:
        """Store the arguments, without side effects.

        `binaries` is the directory of PostgreSQL's programs, None to search for it. `settings` are server options that
        take precedence over every file. With `archives` the server archives its log to the folder `WAL_SPOOL`.
        `ready_seconds` bounds the start, in which the server may have to replay its log.
        """
        self._archives = archives
        self._ready_seconds = ready_seconds
        self.directory = directory.absolute()
        self.log = self.directory.with_name(self.directory.name + ".log")
        self._binaries = binaries
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._follower: subprocess.Popen[bytes] | None = None
        self._socket_directory: Path | None = None

    @property
    def process(self) -> "subprocess.Popen[bytes] | None":
        """The server's process; None before start and after stop."""
        return self._process

    @property
    def pid(self) -> int | None:
        """The server's process id; None before start and after stop."""
        return self._process.pid if self._process else None

    def start(self, check: Callable[[], None] = lambda: None) -> DatabaseAddress:
        """Start the server, creating its cluster if there is none, and return once it accepts connections.

        Waits at most 60 s for crash recovery; during this time it calls `check`, which may raise to abort. Raises
        EmbeddedPostgresError.
        """
        if self._process is not None:
            raise EmbeddedPostgresError(f"The PostgreSQL on {self.directory} is already started.")
        try:
            return self._start(check)
        except OSError as error:
            raise EmbeddedPostgresError(f"The PostgreSQL on {self.directory} cannot be started: {error}.") from error

    def restart(self, check: Callable[[], None] = lambda: None) -> DatabaseAddress:
        """Start the server again after it ended unexpectedly; see `start`. Its address stays the same."""
        self._process = None
        self._end_follower()
        return self.start(check)

    def wait(self) -> str:
        """Wait until the started server ends, and return how, such as `signal 9`."""
        if self._process is None:
            return "not started"
        status = self._process.wait()
        return f"signal {-status}" if status < 0 else f"exit status {status}"

    def _start(self, check: Callable[[], None]) -> DatabaseAddress:
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        account = server_account(self.directory)
        binaries = usable_binaries(find_binaries(self._binaries), account)
        if check_cluster(self.directory, binaries.major):
            await_release(self.directory)
        else:
            create_cluster(self.directory, binaries.directory, binaries.major, account)
        if account:
            take_ownership(self.directory, account)
        write_settings(self.directory, binaries.major, account)
        if self._archives:
            make_folder(self.directory, WAL_SPOOL, account)
        return self._launch(binaries, account, check)

    def _launch(self, binaries: Binaries, account: Account | None, check: Callable[[], None]) -> DatabaseAddress:
        self._socket_directory = self._short_socket_directory(account)
        options = {
            **(_ARCHIVING if self._archives else {}),
            **(_SUMMARIES if self._archives and binaries.major >= _SUMMARIES_SINCE else {}),
            **self._settings,
            "port": str(_PORT),
            # Relative to the cluster, because the server's user may not be allowed to traverse the directories above
            # it.
            "unix_socket_directories": str(self._socket_directory or "."),
            "unix_socket_permissions": "0700",
        }
        arguments = [str(binaries.directory / "postgres")]
        arguments += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        try:
            with self._open_log() as log:
                written = log.tell()
                self._process = spawn(
                    arguments,
                    account=account,
                    data=self.directory,
                    parent_death_signal=signal.SIGINT,
                    stdout=log,
                )
            self._follower = stop_at_end(self._process.pid)
            return self._await_ready(self._process, written, check)
        except BaseException:
            self.stop()
            raise

    def _await_ready(
        self, process: "subprocess.Popen[bytes]", log_start: int, check: Callable[[], None]
    ) -> DatabaseAddress:
        deadline = time.monotonic() + self._ready_seconds
        while process.poll() is None and time.monotonic() < deadline:
            postmaster = read_postmaster(self.directory)
            if postmaster and postmaster.pid == process.pid and postmaster.ready:
                return address_of(self.directory, postmaster)
            check()
            time.sleep(_READY_POLL)
        failure = "did not accept connections in time" if process.returncode is None else "ended while starting"
        raise EmbeddedPostgresError(
            f"PostgreSQL on {self.directory} {failure}; its log {self.log} says: {self._log_tail(log_start)}"
        )

    def stop(self, timeout: float = 30) -> None:
        """Shut the server down, closing open connections; after `timeout` seconds kill it.

        Returns when the process has ended. Does nothing if there is none.
        """
        process, self._process = self._process, None
        if process is not None:
            for step, limit in (
                (signal.SIGINT, timeout),
                (signal.SIGQUIT, _QUIT_LIMIT),
                (signal.SIGKILL, None),
            ):
                process.send_signal(step)
                try:
                    process.wait(limit)
                    break
                except subprocess.TimeoutExpired:
                    continue
        self._end_follower()
        if self._socket_directory is not None:
            _remove_empty(self._socket_directory)
            self._socket_directory = None

    def _end_follower(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.kill()
            follower.wait()

    def _short_socket_directory(self, account: Account | None) -> Path | None:
        """Return a directory below /tmp for the socket if the cluster's path is too long; else None.

        Its name depends only on the cluster, so a killed Pilotis leaves at most one, which is used again.
        """
        if len(os.fsencode(self.directory / f".s.PGSQL.{_PORT}.lock")) <= _SOCKET_PATH_LIMIT:
            return None
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        path = Path("/tmp") / f"pilotis-{digest}"  # noqa: S108 - TMPDIR may be too long as well
        path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid not in (os.geteuid(), account.uid if account else os.geteuid()):
                raise EmbeddedPostgresError(f"{path} belongs to another user; remove it, or shorten {self.directory}.")
            os.fchmod(descriptor, 0o700)
            if account:
                os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)
        return path

    def _open_log(self) -> BinaryIO:
        """Open the log for appending; a log beyond the size limit is renamed to `<log>.1` first."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_name(self.log.name + ".1"))
        return os.fdopen(os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab")

    def _log_tail(self, start: int) -> str:
        with self.log.open("rb") as file:
            file.seek(start)
            lines = file.read(1 << 20).decode(errors="replace").splitlines()
        return " | ".join(lines[-_TAIL_LINES:]) or "nothing"


def _remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:  # It contains files of another program.
        return
