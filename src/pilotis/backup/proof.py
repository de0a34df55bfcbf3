"""Proving backups: reading one to its end (`verify`), and restoring one to see that it starts (`rehearse`)."""

from __future__ import annotations

import time
from contextlib import aclosing

import msgspec

from pilotis.backup import catalogue, copying, files, gaps, restore, streams, wal
from pilotis.backup.catalogue import Backup, Known, Proof
from pilotis.backup.errors import DamagedError
from pilotis.backup.place import Place
from pilotis.kit.clock import now, rfc3339
from pilotis.kit.scratch import scratch

_SAMPLE = 100
"""Every so-many-th blob is read to its end."""


async def verify(place: Place, known: Known) -> Proof:
    """Read a backup with those it is based on, its log and a sample of its files, record the result, and return it."""
    try:
        await _read_all(place, known.backup)
        proof = msgspec.structs.replace(known.proof, verified_at=rfc3339(now()), error=None)
    except DamagedError as error:
        proof = msgspec.structs.replace(known.proof, error=str(error))
    await place.catalogue.set_proof(known.backup.backup_id, proof)
    return proof


async def _read_all(place: Place, backup: Backup) -> None:
    for one in catalogue.chain(await place.catalogue.all(), backup):
        base = f"{catalogue.FOLDER}/{one.backup.backup_id}/base"
        async with aclosing(copying.unzipped(streams.read(place.store, place.key.of(base), base))) as chunks:
            async for _ in chunks:
                pass
    gap = gaps.after(await gaps.all_gaps(place.store, place.key), backup)
    before = gap.first if gap else None
    await wal.require_whole(place.store, place.key, backup.start_wal, backup.end_wal, before)
    _, missing = await files.check(place.store, place.key, _list_of(backup), _SAMPLE)
    if missing:
        raise DamagedError(f"{len(missing)} files of the backup are missing in the store.")


def _list_of(backup: Backup) -> str:
    return f"{catalogue.FOLDER}/{backup.backup_id}/files"


async def rehearse(place: Place, known: Known) -> Proof:
    """Restore a backup into a folder of the data directory, start it, record what it has, and remove it again.

    Raises `BackupError` where that says nothing about the backup, such as for a full disk.
    """
    await restore.require_room(place, known, with_files=True)
    began = time.monotonic()
    try:
        async with scratch(place.data_dir) as folder:
            restored = await restore.restore(
                place,
                restore.Wanted(folder / "restored", backup_id=known.backup.backup_id, priority=copying.NICE),
            )
        # A file that was made since the backup may still be on its way to the store.
        if lost := await files.lost(place.store, place.key, _list_of(known.backup), restored.missing_keys):
            raise DamagedError(f"{lost} files that the rows name are missing in the store.")
        at, seconds = rfc3339(now()), round(time.monotonic() - began, 1)
        proof = Proof(verified_at=at, rehearsed_at=at, seconds=seconds, rows=restored.rows)
    except DamagedError as error:
        proof = msgspec.structs.replace(known.proof, error=str(error))
    await place.catalogue.set_proof(known.backup.backup_id, proof)
    if proof.error is None:
        catalogue.note_proof(place.data_dir)
    return proof
