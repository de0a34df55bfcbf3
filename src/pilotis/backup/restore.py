"""Restoring a server into an empty directory, to a moment, from what the store has. The source is never touched.

Everything is fetched first, into a directory that a marker names as unfinished: a run that was killed is begun again
by the same command. Then PostgreSQL replays its log to the moment. A restored server is quiet: it answers requests,
but nothing that it would do on its own leaves it until `pilotis backup accept`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import signal
import tarfile
import threading
import time
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection, DiskFullError
from msgspec.structs import asdict

from pilotis.archive.request_store import fail_completed
from pilotis.backup import catalogue, copying, files, gaps, streams, wal
from pilotis.backup.catalogue import Backup, Known
from pilotis.backup.errors import BackupError, BackupRefusedError, DamagedError
from pilotis.backup.files import MissingFile
from pilotis.backup.gaps import Gap
from pilotis.backup.place import Place, connected
from pilotis.blobs.local import LocalStore
from pilotis.db.embedded import EmbeddedPostgres, EmbeddedPostgresError, find_binaries
from pilotis.db.embedded.account import spawn
from pilotis.db.embedded.beside import running
from pilotis.db.embedded.binaries import usable_binaries
from pilotis.db.embedded.lockfile import await_release
from pilotis.db.migrations import all_migrations
from pilotis.kit.clock import optional_rfc3339, parse_rfc3339
from pilotis.kit.crypto import fingerprint
from pilotis.kit.disk import size_of, sync_filesystem
from pilotis.kit.errors import StorageFullError
from pilotis.kit.priority import give_way
from pilotis.kit.scratch import remove_remains
from pilotis.security.sessions.store import end_all
from pilotis.serve.quiet import QUIET_FILE

MARKER = "restore.unfinished"
_WAL_FOLDER = "pgsql_tmp.wal_restore"
_PARTS = "restore.parts"
_SHOWN = 20
_LINKS_SINCE = 18
_ARCHIVE_GONE = "The server was restored from a backup, and backups have no archives of apps. Make another one."
_END_SECONDS, _POLL_SECONDS = 10.0, 0.05
_READY_SECONDS = 24 * 3600.0
_COPIED_BYTES = 1 << 20
_NO_SPACE = os.strerror(errno.ENOSPC)
# A write that got only part of its room is told without an error number.
_SHORT_WRITE = re.compile(r"wrote (only )?\d+ of \d+")
# For PostgreSQL a command that fails means that the log ends, unless its status is above 125: then recovery fails.
_FETCH = f'test ! -e "{_WAL_FOLDER}/%f" && exit 1; cp "{_WAL_FOLDER}/%f" "%p" || exit 200'
_TOO_EARLY = re.compile(r"requested recovery stop point is before consistent|recovery ended before configured")


class Wanted(NamedTuple):
    """To where, to which moment (RFC 3339, None for the last one), from which backup; the master key to put there.

    With `app_id` only the files of this app are fetched. `priority` is the nice value of PostgreSQL.
    """

    directory: Path
    at: str | None = None
    backup_id: str | None = None
    master_key: bytes | None = None
    keep_sessions: bool = False
    app_id: UUID | None = None
    priority: int = 0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored: from which backup, to which last commit, with how many rows and files.

    `missing` are the `missing_files` by their paths, the first thousand of them; `missing_keys` are those of all.
    `gap` is a sentence about the gap of the log up to which it was restored, although later moments were wanted.
    """

    backup_id: str
    directory: str
    last_commit: str | None
    apps: int
    rows: int
    files: int
    missing_files: int
    missing: list[MissingFile]
    missing_keys: list[str]
    gap: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return it for JSON."""
        fields = asdict(self)
        del fields["missing_keys"]
        return {**fields, "missing": [asdict(one) for one in self.missing]}

    def sentences(self) -> list[str]:
        """Return what is missing, for people."""
        if not self.missing_files:
            return [self.gap] if self.gap else []
        found = [f"  {one.path} of the app {one.app_id}" for one in self.missing[:_SHOWN]]
        more = self.missing_files - len(found)
        head = f"{self.missing_files} files that the rows name are not in the store:"
        return [
            *([self.gap] if self.gap else []),
            head,
            *found,
            *([f"  and {more} more; --json names them"] if more else []),
        ]


async def require_room(place: Place, known: Known, *, with_files: bool) -> None:
    """Raise `BackupError` unless the server's disk has room for a restore beside it, which would else stop its writes.

    What killed ones have left is deleted first. How large the database and the files are now says how large the
    restored ones will be.
    """
    await asyncio.to_thread(remove_remains, place.data_dir)
    cluster = await asyncio.to_thread(size_of, place.cluster)
    links = known.backup.kind == "full" or known.backup.postgres >= _LINKS_SINCE
    needed = (cluster if links else 2 * cluster) + place.settings.write_reserve_bytes
    if with_files:
        needed += await files.stored_bytes(place.store)
    free = shutil.disk_usage(place.data_dir).free
    if needed > free:
        raise BackupError(
            f"A restore beside the server needs {needed >> 20} MiB on the disk of {place.data_dir}, and {free >> 20}"
            " MiB are free. Make room, or restore on another machine with `pilotis backup restore --to`."
        )


async def restore(place: Place, wanted: Wanted) -> Restored:
    """Restore a server; raises `BackupError`, `BackupRefusedError`, `DamagedError`."""
    known = await place.catalogue.all()
    backup = await _chosen(place, known, wanted)
    await asyncio.to_thread(_require_ours, place, backup)
    if wanted.master_key is not None and backup.master_key and fingerprint(wanted.master_key) != backup.master_key:
        raise BackupRefusedError("This is not the master key of the backup. Give the one that the server had then.")
    with _written_to(wanted.directory):
        return await _restore(place, wanted, known, backup)


async def _restore(place: Place, wanted: Wanted, known: list[Known], backup: Backup) -> Restored:
    directory = wanted.directory
    await asyncio.to_thread(_begin, directory)
    cluster = await _fetch_database(place, catalogue.chain(known, backup), directory)
    (cluster / _WAL_FOLDER).mkdir(mode=0o700)
    gap = gaps.after(await gaps.all_gaps(place.store, place.key), backup)
    before = gap.first if gap else None
    last = await wal.restore_to(cluster / _WAL_FOLDER, place.store, place.key, backup.start_wal, before)
    if last is None or last < backup.end_wal.lower():
        raise DamagedError(f"The write-ahead log in the store ends before {backup.end_wal}, which the backup needs.")
    (cluster / "recovery.signal").touch(mode=0o600)
    if wanted.master_key is not None:
        key_file = directory / "master.key"
        key_file.touch(mode=0o600)
        key_file.write_text(wanted.master_key.hex() + "\n", "ascii")
    restored = await _recover(place, wanted, backup, cluster, gap)
    if gap is not None and wanted.at is None:
        restored = msgspec.structs.replace(restored, gap=str(gap))
    (directory / QUIET_FILE).touch(mode=0o600)
    await asyncio.to_thread(sync_filesystem, directory)
    (directory / MARKER).unlink()
    return restored


@contextmanager
def _written_to(directory: Path) -> Generator[None]:
    """Turn what a full disk, and any other failure to write a directory, raises into a `BackupError`."""
    try:
        yield
    except BackupError:
        raise
    except OSError as error:
        raise BackupError(_unwritable(directory, error.strerror or str(error))) from error
    except (StorageFullError, DiskFullError) as error:
        raise BackupError(_unwritable(directory, _NO_SPACE)) from error


def _unwritable(directory: Path, reason: str) -> str:
    advice = " Make room on its disk and run the same command again: it clears what this one has left."
    return f"{directory} cannot be written: {reason.rstrip('.')}.{advice if reason == _NO_SPACE else ''}"


async def _chosen(place: Place, known: list[Known], wanted: Wanted) -> Backup:
    """Return the backup from which to restore: for a moment, the last one that ended before it."""
    if wanted.at is None or wanted.backup_id is not None:
        return (await place.catalogue.find(wanted.backup_id)).backup
    moment = parse_rfc3339(wanted.at)
    backups = [one.backup for one in known]
    before = [one for one in backups if moment and (ended := parse_rfc3339(one.ended_at)) and ended <= moment]
    if not before:
        first = f"The first one ended at {backups[0].ended_at}." if known else "The store has none."
        raise BackupError(f"There is no backup from before {wanted.at}. {first}")
    return before[-1]


def _require_ours(place: Place, backup: Backup) -> None:
    """Raise `BackupRefusedError` for a backup that these programs cannot start."""
    if backup.needs > all_migrations()[-1].number:
        raise BackupRefusedError(
            f"Pilotis {backup.version} made this backup, a newer version than this one. Restore it with that version."
        )
    binaries = Path(place.settings.postgres_binaries) if place.settings.postgres_binaries else None
    major = usable_binaries(find_binaries(binaries), None).major
    if backup.postgres != major:
        raise BackupRefusedError(
            f"The backup is of PostgreSQL {backup.postgres}, and the programs found are PostgreSQL {major}. Name"
            f" those of {backup.postgres} by postgres_binaries."
        )


def _begin(directory: Path) -> None:
    """Create the directory, or clear what a killed restore has left in it.

    A directory with anything else is refused.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / MARKER).exists():
        _clear(directory)
    elif any(directory.iterdir()):
        raise BackupRefusedError(f"{directory} is not empty. A restore writes into a new directory only.")
    (directory / MARKER).touch(mode=0o600)


def _clear(directory: Path) -> None:
    """Delete everything but the marker, once the programs of a killed run have ended, as they do by themselves."""
    deadline = time.monotonic() + _END_SECONDS
    await_release(directory / "postgres")
    while True:
        try:
            for path in directory.iterdir():
                if path.name != MARKER:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or time.monotonic() > deadline:
                raise BackupError(f"{error.filename} cannot be deleted: {error.strerror}.") from error
            time.sleep(_POLL_SECONDS)
        else:
            return


async def _fetch_database(place: Place, chain: list[Known], directory: Path) -> Path:
    """Fetch a base backup, with what changed since, and return the cluster of it.

    Incremental ones need the room of all of them besides that of the cluster, for a while.
    """
    cluster = directory / "postgres"
    if len(chain) == 1:
        await _unpack(place, chain[0].backup, cluster)
        return cluster
    folders = [directory / _PARTS / f"{number:02}" for number in range(len(chain))]
    for folder, one in zip(folders, chain, strict=True):
        await _unpack(place, one.backup, folder)
    command = [str(copying.program(place, "pg_combinebackup")), "--no-sync", f"--output={cluster.absolute()}"]
    if chain[-1].backup.postgres >= _LINKS_SINCE:
        command.append("--link")
    command += [str(folder.absolute()) for folder in folders]
    # It ends with this process: nothing writes into the directory when the command runs again.
    process = spawn(command, account=None, data=None, parent_death_signal=signal.SIGKILL)
    give_way(process.pid, copying.NICE)
    try:
        said = (await asyncio.to_thread(process.communicate))[0].decode(errors="replace").strip()
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise combining_failed(said, cluster)
    await asyncio.to_thread(shutil.rmtree, directory / _PARTS)
    return cluster


def combining_failed(said: str, cluster: Path) -> Exception:
    """Return the error for what `pg_combinebackup` said when it failed: a full disk, or backups that do not fit."""
    if _NO_SPACE in said or _SHORT_WRITE.search(said):
        return OSError(errno.ENOSPC, _NO_SPACE, str(cluster))
    # What failed comes before what it then tidies up.
    lines = said.splitlines() or [""]
    reason = next((line for line in lines if "error:" in line), lines[-1])
    return DamagedError(f"The backups in the store do not fit together: {reason}")


async def _unpack(place: Place, backup: Backup, target: Path) -> None:
    """Unpack a base backup while it is fetched."""
    await asyncio.to_thread(target.mkdir, mode=0o700, parents=True)
    folder = f"{catalogue.FOLDER}/{backup.backup_id}/base"
    async with aclosing(copying.unzipped(streams.read(place.store, place.key.of(folder), folder))) as chunks:
        unpacking = Unpacking(target)
        try:
            async for chunk in chunks:
                await asyncio.to_thread(unpacking.feed, chunk)
        except BaseException:
            # Cut off here, the tar says nothing about what the store has.
            await asyncio.to_thread(unpacking.give_up)
            raise
        await asyncio.to_thread(unpacking.end)


class Unpacking:
    """Unpacks a tar in a thread, which reads what is fed through a pipe."""

    def __init__(self, directory: Path) -> None:
        reading, writing = os.pipe()
        self._directory = directory
        self._reading: IO[bytes] = os.fdopen(reading, "rb")
        self._writing: IO[bytes] = os.fdopen(writing, "wb", buffering=0)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def feed(self, data: bytes) -> None:
        """Unpack more; raises what unpacking raised."""
        try:
            self._writing.write(data)
        except BrokenPipeError:
            self._thread.join()
            self._require_success()

    def end(self) -> None:
        """Wait until everything is unpacked; raises OSError, and `DamagedError` for what is no whole tar."""
        self.give_up()
        self._require_success()

    def give_up(self) -> None:
        """Wait until what was fed is unpacked."""
        self._writing.close()
        self._thread.join()

    def _require_success(self) -> None:
        if isinstance(self._error, OSError):
            raise self._error
        if self._error is not None:
            raise DamagedError(f"The base backup in the store is damaged: {self._error}.") from self._error

    def _run(self) -> None:
        try:
            with self._reading, tarfile.open(fileobj=self._reading, mode="r|") as tar:
                for entry in tar:
                    self._unpack(tar, entry)
        except BaseException as error:
            self._error = error

    def _unpack(self, tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        """Write one entry; raises `TarError` for what a base backup does not have.

        The store is read with our key alone, and still nothing may lead out of the directory. `tarfile` itself can see
        to that since Python 3.11.4.
        """
        path = PurePosixPath(entry.name)
        if path.is_absolute() or ".." in path.parts or not (entry.isdir() or entry.isfile()):
            raise tarfile.TarError(f"{entry.name} is no file below its directory")
        place = self._directory / path
        if entry.isdir():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        content = tar.extractfile(entry)
        assert content is not None
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with content, os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(content, file, _COPIED_BYTES)


async def _recover(place: Place, wanted: Wanted, backup: Backup, cluster: Path, gap: Gap | None) -> Restored:
    postgres = EmbeddedPostgres(
        cluster,
        binaries=Path(place.settings.postgres_binaries) if place.settings.postgres_binaries else None,
        settings=_recovery(wanted),
        ready_seconds=_READY_SECONDS,
    )
    try:
        async with running(postgres, priority=wanted.priority) as address:
            connection = await connected(address._asdict())
            try:
                restored = await _complete(place, wanted, backup, connection)
            finally:
                await connection.close()
    except EmbeddedPostgresError as error:
        if _TOO_EARLY.search(str(error)):
            reason = f" {gap}" if gap else ""
            raise BackupError(
                f"The log in the store does not reach {wanted.at}: without --at the last moment is restored.{reason}"
            ) from error
        if _NO_SPACE in str(error):
            raise OSError(errno.ENOSPC, _NO_SPACE, str(cluster)) from error
        raise BackupError(f"PostgreSQL could not replay its log: {error}") from error
    await asyncio.to_thread(shutil.rmtree, cluster / _WAL_FOLDER, ignore_errors=True)
    return restored


def _recovery(wanted: Wanted) -> dict[str, str]:
    settings = {
        "archive_mode": "off",
        "restore_command": _FETCH,
        "recovery_target_timeline": "latest",
        "recovery_target_action": "promote",
        "hot_standby": "off",
    }
    if wanted.at is not None:
        moment = parse_rfc3339(wanted.at)
        assert moment is not None
        # PostgreSQL does not know abbreviations of time zones yet, when it reads this.
        settings["recovery_target_time"] = moment.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return settings


async def _complete(place: Place, wanted: Wanted, backup: Backup, connection: Connection) -> Restored:
    # Asked before anything is written: then it is that of the log.
    last_commit = await connection.fetchval("select pg_last_xact_replay_timestamp()")
    if not wanted.keep_sessions:
        await end_all(connection)
    await fail_completed(connection, _ARCHIVE_GONE)
    blobs = LocalStore(wanted.directory / "blobs")
    try:
        found = await files.restore(connection, blobs, place.store, place.key, wanted.app_id)
    finally:
        await blobs.close()
    apps, rows = await counts(connection)
    return Restored(
        backup_id=backup.backup_id,
        directory=str(wanted.directory),
        last_commit=optional_rfc3339(last_commit),
        apps=apps,
        rows=rows,
        files=found.named - len(found.missing),
        missing_files=len(found.missing),
        missing=found.missing_files,
        missing_keys=found.missing,
    )


async def stored_fingerprint(connection: Connection) -> str | None:
    """Return the fingerprint of the master key with which a server works; None if it was never set up."""
    found: str | None = await connection.fetchval(
        "select value ->> 'fingerprint' from pilotis.installation where key = 'master_key'"
    )
    return found


async def counts(connection: Connection) -> tuple[int, int]:
    """Return the number of apps, and of their rows as they were counted when they were written."""
    apps = await connection.fetch("select app_id from pilotis.apps where deleted_at is null order by app_id")
    rows = 0
    for (app_id,) in apps:
        rows += await connection.fetchval(f"select coalesce(sum(rows), 0)::bigint from app_{app_id.hex}.__row_counts")
    return len(apps), rows
