"""Proving backups: reading one to its end (`verify`), and restoring one to see that it starts (`rehearse`)."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

import msgspec

from pilotis.backup import catalogue, files, restore, streams, wal
from pilotis.backup.catalogue import Backup, Known, Proof
from pilotis.backup.errors import DamagedError
from pilotis.backup.place import Place
from pilotis.kit.clock import now, rfc3339

_SAMPLE = 100
"""Every so-many-th blob is read to its end."""


async def verify(place: Place, known: Known) -> Proof:
    """Read a backup with its log and a sample of its files, record the result, and return it."""
    try:
        await _read_all(place, known.backup)
        proof = msgspec.structs.replace(known.proof, verified_at=rfc3339(now()), error=None)
    except DamagedError as error:
        proof = msgspec.structs.replace(known.proof, error=str(error))
    await place.catalogue.set_proof(known.backup.backup_id, proof)
    return proof


async def _read_all(place: Place, backup: Backup) -> None:
    folder = f"{catalogue.FOLDER}/{backup.backup_id}"
    base = f"{folder}/base"
    async with aclosing(restore.unzipped(streams.read(place.store, place.key.of(base), base))) as chunks:
        async for _ in chunks:
            pass
    await wal.require_whole(place.store, place.key, backup.start_wal, backup.end_wal)
    _, missing = await files.check(place.store, place.key, f"{folder}/files", _SAMPLE)
    if missing:
        raise DamagedError(f"{len(missing)} files of the backup are missing in the store.")


async def rehearse(place: Place, known: Known) -> Proof:
    """Restore a backup into a folder of the data directory, start it, record what it has, and remove it again."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=place.data_dir))
    try:
        restored = await restore.restore(place, restore.Wanted(folder, backup_id=known.backup.backup_id))
        if restored.missing_files > known.backup.missing_files:
            raise DamagedError(f"{restored.missing_files} files that the rows name are missing in the store.")
        at, seconds = rfc3339(now()), round(time.monotonic() - began, 1)
        proof = Proof(verified_at=at, rehearsed_at=at, seconds=seconds, rows=restored.rows)
    except DamagedError as error:
        proof = msgspec.structs.replace(known.proof, error=str(error))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    await place.catalogue.set_proof(known.backup.backup_id, proof)
    if proof.error is None:
        catalogue.note_proof(place.data_dir)
    return proof


def remove_remains(data_dir: Path) -> None:
    """Delete what killed rehearsals have left."""
    for folder in data_dir.glob("rehearsal-*"):
        shutil.rmtree(folder, ignore_errors=True)
