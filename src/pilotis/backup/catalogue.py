"""What backups there are: `backups/<id>/backup.json` in the store, each with a MAC and the one before it.

The store alone says what can be restored, since the server may be what was lost. It may also lie: an old listing hides
the newest backup. So the server that made the backups notes the newest one in `backups.json` in its data directory, and
whoever reads the catalogue there is told when the store has less than was written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from pilotis.backup import notes, streams
from pilotis.backup.encryption import BackupKey
from pilotis.backup.errors import BackupError, BackupRefusedError, DamagedError
from pilotis.blobs.protocol import BlobStore

FOLDER = "backups"
NOTE = "backups.json"
PROOF_NOTE = "rehearsed"
FORMAT = 2
"""The format of entries; 1 had full backups only."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup. `start_wal` and `end_wal` are the first and last segments of the log that it needs.

    `schema` is the number of its newest migration, `needs` that of the newest which a program must know to work on it.
    An incremental one has what changed since `based_on`, without which it is worth nothing; a full one has no such.

    `bytes` are those in the store, `files` the number of blobs that the database named, of which `missing_files` were
    deleted before they could be copied. `master_key` is the fingerprint of the master key.
    """

    format: int
    backup_id: str
    number: int
    previous: str | None
    based_on: str | None = None
    started_at: str
    ended_at: str
    system_id: str
    postgres: int
    version: str
    schema: int
    needs: int = 0
    master_key: str
    start_wal: str
    end_wal: str
    bytes: int
    files: int
    missing_files: int

    @property
    def kind(self) -> str:
        """One of `full`, `incremental`."""
        return "incremental" if self.based_on else "full"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a backup since: when it was read to its end, when restored, how long that took, what failed."""

    verified_at: str | None = None
    rehearsed_at: str | None = None
    seconds: float | None = None
    rows: int | None = None
    error: str | None = None

    @property
    def state(self) -> str:
        """One of `damaged`, `rehearsed`, `verified`, `unproven`."""
        if self.error is not None:
            return "damaged"
        return "rehearsed" if self.rehearsed_at else "verified" if self.verified_at else "unproven"


class Known(NamedTuple):
    """A backup, and what is known of it."""

    backup: Backup
    proof: Proof


class _Version(msgspec.Struct):
    format: int
    version: str


class _Entry(msgspec.Struct):
    entry: msgspec.Raw
    mac: str


class _Note(msgspec.Struct):
    backup_id: str
    number: int


class Catalogue:
    """Reads and writes the entries of a store."""

    def __init__(self, store: BlobStore, key: BackupKey) -> None:
        self._store = store
        self._key = key

    async def all(self) -> list[Known]:
        """Return the complete backups, oldest first.

        Raises `DamagedError` for an entry that was changed, and `BackupRefusedError` for one of a newer version.
        """
        found = []
        for backup_id in await self._ids():
            if await self._store.stat(f"{FOLDER}/{backup_id}/backup.json") is not None:
                backup = _decoded(await self._read(backup_id, "backup"))
                if backup.backup_id != backup_id:
                    raise DamagedError(f"The entry of backup {backup_id} is that of another.")
                found.append(Known(backup, await self.proof(backup_id)))
        return sorted(found, key=lambda known: known.backup.number)

    async def find(self, backup_id: str | None) -> Known:
        """Return a backup, by default the newest; raises `BackupError` if there is none."""
        known = await self.all()
        if backup_id is not None:
            known = [one for one in known if one.backup.backup_id == backup_id]
        if not known:
            what = f"no backup {backup_id}" if backup_id else "no backup"
            raise BackupError(f"The store has {what}. `pilotis backup list` lists those that there are.")
        return known[-1]

    async def add(self, backup: Backup) -> None:
        """Write the entry of a backup, which is one from then on."""
        await self._write(backup.backup_id, "backup", msgspec.json.encode(backup))

    async def proof(self, backup_id: str) -> Proof:
        """Return what is known of a backup."""
        if await self._store.stat(f"{FOLDER}/{backup_id}/proof.json") is None:
            return Proof()
        return msgspec.json.decode(await self._read(backup_id, "proof"), type=Proof)

    async def set_proof(self, backup_id: str, proof: Proof) -> None:
        """Record what is known of a backup."""
        await self._write(backup_id, "proof", msgspec.json.encode(proof))

    async def remove(self, backup_id: str) -> None:
        """Delete a backup: its entry first, so that half of one is never taken for a whole."""
        await self._store.delete([f"{FOLDER}/{backup_id}/backup.json"])
        await streams.remove(self._store, f"{FOLDER}/{backup_id}")

    async def remove_remains(self) -> list[str]:
        """Delete what killed commands have left, and return the ids; nobody else may be writing a backup."""
        remains = [one for one in await self._ids() if await self._store.stat(f"{FOLDER}/{one}/backup.json") is None]
        for backup_id in remains:
            await streams.remove(self._store, f"{FOLDER}/{backup_id}")
        return remains

    async def _ids(self) -> list[str]:
        found: dict[str, None] = {}
        async for info in self._store.list(FOLDER):
            found[info.key.split("/")[1]] = None
        return list(found)

    async def _read(self, backup_id: str, name: str) -> bytes:
        key = f"{FOLDER}/{backup_id}/{name}.json"
        try:
            found = msgspec.json.decode(await streams.get(self._store, key), type=_Entry)
        except msgspec.MsgspecError:
            raise DamagedError(f"{key} in the backup store is damaged.") from None
        entry = bytes(found.entry)
        if not self._key.is_signed(f"{backup_id}/{name}\n".encode() + entry, found.mac):
            raise DamagedError(f"{key} in the backup store was changed, or was written with another backup key.")
        return entry

    async def _write(self, backup_id: str, name: str, entry: bytes) -> None:
        mac = self._key.sign(f"{backup_id}/{name}\n".encode() + entry)
        data = msgspec.json.encode(_Entry(msgspec.Raw(entry), mac))
        await streams.put(self._store, f"{FOLDER}/{backup_id}/{name}.json", data)


def _decoded(entry: bytes) -> Backup:
    written = msgspec.json.decode(entry, type=_Version)
    if written.format > FORMAT:
        raise BackupRefusedError(f"Pilotis {written.version} wrote the backups in the store. Use that version.")
    return msgspec.json.decode(entry, type=Backup)


def chain(known: Sequence[Known], backup: Backup) -> list[Known]:
    """Return the backups that make up one: the full one, and what changed since, in this order.

    Raises `DamagedError` if one of them is missing.
    """
    by_id = {one.backup.backup_id: one for one in known}
    found = [by_id[backup.backup_id]]
    while (wanted := found[-1].backup.based_on) is not None:
        one = by_id.get(wanted)
        if one is None or one.backup.number >= found[-1].backup.number:
            raise DamagedError(f"Backup {wanted}, on which {backup.backup_id} is based, is missing in the store.")
        found.append(one)
    return found[::-1]


def incomplete(known: Sequence[Known]) -> dict[str, str]:
    """Return for each backup that cannot be restored, since one that it is based on is gone, a sentence about that."""
    found = {}
    for one in known:
        try:
            chain(known, one.backup)
        except DamagedError as error:
            found[one.backup.backup_id] = f"Backup {one.backup.backup_id} cannot be restored. {error}"
    return found


def note(data_dir: Path, backup: Backup) -> None:
    """Record in the data directory which backup is the newest."""
    notes.write(data_dir / NOTE, _Note(backup.backup_id, backup.number))
    if not (data_dir / PROOF_NOTE).exists():
        # Nothing was ever restored: that counts from the first backup on.
        note_proof(data_dir)


def note_proof(data_dir: Path) -> None:
    """Record in the data directory that a backup was restored just now."""
    (data_dir / PROOF_NOTE).touch(mode=0o600)


def hidden(data_dir: Path, known: list[Known]) -> str | None:
    """Return a sentence if the store has less than this server has written to it."""
    written = notes.read(data_dir / NOTE, _Note)
    if written is None or any(one.backup.backup_id == written.backup_id for one in known):
        return None
    return f"The store has less than was written: backup {written.backup_id}, the newest of this server, is not there."


def age(data_dir: Path) -> float | None:
    """Return for how many seconds this server has noted no newer backup; None if it never made one."""
    return _age(data_dir / NOTE)


def unproven(data_dir: Path) -> float | None:
    """Return for how many seconds no backup was restored to try it; None if this server never made one."""
    return _age(data_dir / PROOF_NOTE)


def _age(path: Path) -> float | None:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return None
