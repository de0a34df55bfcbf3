"""Making a backup: a base backup of PostgreSQL as a stream, the log that it needs, and the files of the moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

from asyncpg import Connection

from pilotis import __version__
from pilotis.backup import catalogue, files, streams, wal
from pilotis.backup.catalogue import FORMAT, Backup
from pilotis.backup.errors import BackupError, BackupRefusedError
from pilotis.backup.place import Place, connected
from pilotis.db.embedded import find_binaries
from pilotis.floor import open_blobs
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.ids import uuid7

_LOCK = 0x4241434B  # "BACK"
_READ_BYTES = 1 << 20
_NICE = 10
_ARCHIVE_SECONDS = 120.0


async def create(place: Place, connect_arguments: dict[str, Any]) -> Backup:
    """Make a full backup next to a running server; raises `BackupError`, `BackupRefusedError`.

    What a killed run has left in the store is deleted first.
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
        return await _create(place, connection, connect_arguments)
    finally:
        await connection.close()


async def _create(place: Place, connection: Connection, connect_arguments: dict[str, Any]) -> Backup:
    entries = place.catalogue
    await entries.remove_remains()
    known = await entries.all()
    system_id = await connection.fetchval("select system_identifier::text from pg_control_system()")
    if known and known[-1].backup.system_id != system_id:
        raise BackupRefusedError("The store has the backups of another server. Give each server its own store.")
    backup_id, started_at = str(uuid7()), rfc3339(now())
    folder = f"{catalogue.FOLDER}/{backup_id}"
    # The checkpoint from which PostgreSQL recovers is after this, and the end of the backup is before the switch.
    start_wal = await connection.fetchval("select pg_walfile_name(pg_current_wal_flush_lsn())")
    written = await _copy_database(place, connect_arguments, f"{folder}/base")
    # Where a segment ends, versions of PostgreSQL differ about which one that is: a byte before they do not.
    end_wal = await connection.fetchval("select pg_walfile_name(pg_switch_wal() - 1)")
    copied = await _copy_files(place, connection, f"{folder}/files")
    await _await_log(place, end_wal)
    backup = Backup(
        format=FORMAT,
        backup_id=backup_id,
        number=known[-1].backup.number + 1 if known else 1,
        previous=known[-1].backup.backup_id if known else None,
        started_at=started_at,
        ended_at=rfc3339(now()),
        system_id=system_id,
        postgres=connection.get_server_version().major,
        version=__version__,
        schema=await connection.fetchval("select max(number) from pilotis.migrations"),
        master_key=await connection.fetchval(
            "select coalesce(max(value ->> 'fingerprint'), '') from pilotis.installation where key = 'master_key'"
        ),
        start_wal=start_wal,
        end_wal=end_wal,
        bytes=written,
        files=copied.named,
        missing_files=copied.missing,
    )
    await entries.add(backup)
    catalogue.note(place.data_dir, backup)
    return backup


async def _copy_database(place: Place, address: dict[str, Any], folder: str) -> int:
    """Store a base backup, and return its bytes in the store."""
    binaries = Path(place.settings.postgres_binaries) if place.settings.postgres_binaries else None
    program = find_binaries(binaries) / "pg_basebackup"
    if not program.exists():
        raise BackupRefusedError(f"{program} is missing; install PostgreSQL's client programs.")
    command = [str(program), "--format=tar", "--pgdata=-", "--wal-method=none"]
    command += ["--checkpoint=fast", "--no-password", "--label=pilotis"]
    command += ["-h", str(address["host"]), "-p", str(address["port"]), "-U", str(address["user"])]
    if rate := place.settings.backup.bytes_per_second:
        command.append(f"--max-rate={max(32, rate // 1024)}")
    # Requests come first where processors are few.
    if nice := shutil.which("nice"):
        command = [nice, "-n", str(_NICE), *command]
    with ThreadPoolExecutor(1, "backup", _yield_to_requests) as thread, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it only starts it
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env={"LC_ALL": "C"},
            start_new_session=True,
        )
        try:
            async with aclosing(_zipped(process, thread)) as chunks:
                return await streams.write(place.store, place.key.of(folder), folder, chunks)
        except _FailedError:
            said.seek(0)
            reason = _last_error(said.read().decode(errors="replace"))
            raise BackupError(f"PostgreSQL could not be copied: {reason}") from None
        finally:
            # A thread that still reads meets the end of the pipe.
            process.kill()
            process.wait()


class _FailedError(Exception):
    """The program that copies has failed."""


async def _zipped(process: subprocess.Popen[bytes], thread: ThreadPoolExecutor) -> AsyncGenerator[bytes]:
    """Yield what the process writes, compressed as gzip; raises `_FailedError` unless it ends well.

    A thread reads and compresses: the event loop would be woken for each 64 KiB of the pipe.
    """
    assert process.stdout is not None
    output, gzip = process.stdout, zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def next_chunk() -> bytes:
        found: list[bytes] = []
        size = 0
        while size < streams.PART_BYTES:
            data = output.read(_READ_BYTES)
            if not data:
                process.wait()
                return b"".join([*found, gzip.flush()])
            found.append(gzip.compress(data))
            size += len(found[-1])
        return b"".join(found)

    with output:
        while process.returncode is None:
            chunk = await asyncio.wrap_future(thread.submit(next_chunk))
            if process.returncode:
                # Without its last part nobody takes the stream for a whole one.
                raise _FailedError
            yield chunk


def _yield_to_requests() -> None:
    """Let this thread wait where processors are few; only Linux gives each thread a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


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
                await wal.ship(place.cluster, place.store, place.key)
        if asyncio.get_running_loop().time() > deadline:
            raise BackupError(f"PostgreSQL has not archived {end_wal} within two minutes; see postgres.log.")
        await asyncio.sleep(0.1)


def _last_error(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if "error" in line.lower()]
    return (lines or said.strip().splitlines() or ["it said nothing"])[-1]
