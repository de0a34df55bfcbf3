"""Making a backup: a base backup of PostgreSQL as a stream, the log that it needs, and the files of the moment."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from asyncpg import Connection

from pilotis import __version__
from pilotis.backup import catalogue, copying, files, gaps, streams, wal
from pilotis.backup.catalogue import FORMAT, Backup, Known
from pilotis.backup.copying import NotIncrementalError
from pilotis.backup.errors import BackupError, BackupRefusedError
from pilotis.backup.place import Place, connected
from pilotis.backup.restore import stored_fingerprint
from pilotis.db.migrations import all_migrations
from pilotis.floor import open_blobs
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.ids import uuid7

MAX_INCREMENTAL = 14
"""How many backups are based on a full one at most: each is fetched for a restore, and each may be damaged."""
_LOCK = 0x4241434B  # "BACK"
_ARCHIVE_SECONDS = 120.0
_SUMMARIES_SINCE = 17


class Made(NamedTuple):
    """A backup that was made, and why it is a full one although an incremental one was wanted."""

    backup: Backup
    why_full: str | None


async def create(place: Place, connect_arguments: dict[str, Any], *, full: bool = False) -> Made:
    """Make a backup next to a running server; raises `BackupError`, `BackupRefusedError`.

    Unless it is to be `full`, it has what changed since the newest one, if PostgreSQL knows that. What a killed run has
    left in the store is deleted first.
    """
    connection = await connected(connect_arguments)
    try:
        # A session's lock: it is released however this process ends.
        if not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK):
            raise BackupRefusedError("Another backup of this server is being made. Wait until it is done.")
        if await connection.fetchval("show archive_mode") != "on":
            raise BackupRefusedError(
                "PostgreSQL does not archive its log: the server was started without the backup store. Start it again."
            )
        return await _create(place, connection, connect_arguments, full=full)
    finally:
        await connection.close()


async def _create(place: Place, connection: Connection, connect_arguments: dict[str, Any], *, full: bool) -> Made:
    entries = place.catalogue
    await entries.remove_remains()
    known = await entries.all()
    system_id = await connection.fetchval("select system_identifier::text from pg_control_system()")
    if known and known[-1].backup.system_id != system_id:
        raise BackupRefusedError("The store has the backups of another server. Give each server its own store.")
    major = connection.get_server_version().major
    why_full = None if full else why_not_incremental(known, major)
    based_on = known[-1].backup if not full and why_full is None else None
    backup_id, started_at = str(uuid7()), rfc3339(now())
    folder = f"{catalogue.FOLDER}/{backup_id}"
    # The checkpoint from which PostgreSQL recovers is after this, and the end of the backup is before the switch.
    start_wal = await connection.fetchval("select pg_walfile_name(pg_current_wal_flush_lsn())")
    try:
        before = f"{catalogue.FOLDER}/{based_on.backup_id}" if based_on else None
        written = await copying.copy(place, connect_arguments, folder, before)
    except NotIncrementalError as error:
        why_full, based_on = str(error), None
        await streams.remove(place.store, folder)
        written = await copying.copy(place, connect_arguments, folder, None)
    # Where a segment ends, versions of PostgreSQL differ about which one that is: a byte before they do not.
    end_wal = await connection.fetchval("select pg_walfile_name(pg_switch_wal() - 1)")
    copied = await _copy_files(place, connection, f"{folder}/files")
    await _await_log(place, end_wal)
    backup = Backup(
        format=FORMAT,
        backup_id=backup_id,
        number=known[-1].backup.number + 1 if known else 1,
        previous=known[-1].backup.backup_id if known else None,
        based_on=based_on.backup_id if based_on else None,
        started_at=started_at,
        ended_at=rfc3339(now()),
        system_id=system_id,
        postgres=major,
        version=__version__,
        schema=await connection.fetchval("select max(number) from pilotis.migrations"),
        needs=max(one.needs for one in all_migrations()),
        master_key=await stored_fingerprint(connection) or "",
        start_wal=start_wal,
        end_wal=end_wal,
        bytes=written,
        files=copied.named,
        missing_files=copied.missing,
    )
    await gaps.require_none(place, backup)
    await entries.add(backup)
    catalogue.note(place.data_dir, backup)
    gaps.bridge(place.data_dir, backup)
    return Made(backup, why_full)


def why_not_incremental(known: list[Known], major: int) -> str | None:
    """Return why the next backup must be a full one, whatever PostgreSQL knows; None if it need not be."""
    if not known:
        return "It is the first one."
    if major < _SUMMARIES_SINCE:
        return f"PostgreSQL {major} makes full ones only."
    newest = known[-1].backup
    if newest.postgres != major:
        return f"The one before is of PostgreSQL {newest.postgres}."
    try:
        chain = catalogue.chain(known, newest)
    except BackupError as error:
        return str(error)
    if len(chain) > MAX_INCREMENTAL:
        return f"{MAX_INCREMENTAL} are based on the last full one."
    damaged = [one.backup.backup_id for one in chain if one.proof.error]
    return f"Backup {damaged[0]} is damaged." if damaged else None


async def _copy_files(place: Place, connection: Connection, folder: str) -> files.Copied:
    blobs = open_blobs(place.settings)
    try:
        return await files.copy(connection, blobs, place.store, place.key, folder)
    finally:
        await blobs.close()


async def _await_log(place: Place, end_wal: str) -> None:
    """Ship the log until the store has a segment; a server beside may ship it instead."""
    deadline = asyncio.get_running_loop().time() + _ARCHIVE_SECONDS
    while await place.store.stat(f"{wal.FOLDER}/{end_wal.lower()}") is None:
        with wal.shipping(place.cluster) as is_held:
            if is_held:
                await gaps.ship(place)
        if asyncio.get_running_loop().time() > deadline:
            raise BackupError(f"PostgreSQL has not archived {end_wal} within two minutes; see postgres.log.")
        await asyncio.sleep(0.1)
