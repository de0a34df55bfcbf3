"""Rotates the master key while nodes run, in steps that survive a crash between any two of them.

1. The old key is copied to the second file, a new one replaces it in the first, and nodes are notified to read both.
   Settings in place of files do the same by a rolling restart.
2. The database takes the fingerprint of the new key, so that nobody wraps anything under the old one any more.
3. Every app's data key is wrapped under the new key, and every secret of the server is re-encrypted, row by row.
4. Later the previous key is forgotten: what it signed is refused from then on.

Running the command again continues with the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from asyncpg import Connection

from pilotis.db.topics import Topic, publish
from pilotis.kit import json
from pilotis.kit.crypto import MasterKeys, fingerprint
from pilotis.security import master_key
from pilotis.security.encryption.server_secrets import renew
from pilotis.security.encryption.service import rewrap
from pilotis.security.encryption.types import EncryptedColumn
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_LOCK = 0x524F5441  # "ROTA"


class Renewed(NamedTuple):
    """What was re-encrypted under the new master key: data keys of apps, and secrets of the server."""

    rewrapped: int
    reencrypted: int


class Rotated(NamedTuple):
    """What a rotation has done, and whether it continued an earlier one."""

    resumed: bool
    renewed: Renewed


async def rotate(connection: Connection, settings: Settings, encrypted: Sequence[EncryptedColumn]) -> Rotated:
    """Replace the master key, or finish doing so; raises `CommandError`.

    `encrypted` are the columns with secrets of the server.
    """
    await _lock(connection)
    keys = await _keys_of(connection, settings)
    unfinished = keys.previous is not None and await _stored(connection) != fingerprint(keys.current)
    pending = keys.previous is not None and await _is_pending(connection)
    if settings.master_key is None and not unfinished and not pending:
        keys = _new_file(settings, keys)
    elif keys.previous is None:
        raise CommandError(
            "The master key is a setting: put the new key into PILOTIS_MASTER_KEY and the old one into "
            "PILOTIS_PREVIOUS_MASTER_KEY, here and on every node, and run this again."
        )
    await publish(connection, Topic.MASTER_KEY, "rotated")
    return Rotated(unfinished or pending, await _take_into_use(connection, keys, encrypted))


async def forget_previous(connection: Connection, settings: Settings, encrypted: Sequence[EncryptedColumn]) -> Renewed:
    """Forget the previous master key and return what was still encrypted under it.

    Nodes that read it from a file drop it at once. Raises `CommandError`.
    """
    await _lock(connection)
    keys = await _keys_of(connection, settings)
    if keys.previous is not None and await _stored(connection) == fingerprint(keys.previous):
        raise CommandError("The rotation is incomplete; `pilotis key rotate-master` continues it.")
    done = await _take_into_use(connection, keys, encrypted)
    if settings.master_key is None:
        master_key.forget_previous_file(settings)
    await publish(connection, Topic.MASTER_KEY, "forgotten")
    return done


def _new_file(settings: Settings, keys: MasterKeys) -> MasterKeys:
    if settings.previous_master_key is not None:
        raise CommandError("Unset PILOTIS_PREVIOUS_MASTER_KEY: the master key is a file here, and so is the previous.")
    if keys.previous is not None:
        raise CommandError(
            "The previous master key is still kept, and what it signed would be refused at once; "
            "`pilotis key rotate-master --forget-previous` ends it first."
        )
    return master_key.replace_file(settings, keys)


async def _lock(connection: Connection) -> None:
    # A session lock, so that it is released with the connection.
    if not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK):
        raise CommandError("The master key is being rotated by another command.")


async def _keys_of(connection: Connection, settings: Settings) -> MasterKeys:
    keys = master_key.existing_keys(settings)
    if keys is None:
        raise CommandError(f"There is no master key in {master_key.place(settings)}; run this where the server runs.")
    stored = await _stored(connection)
    if stored not in [fingerprint(key) for key in keys.accepted]:
        raise CommandError(f"The master key in {master_key.place(settings)} is not the one of this database.")
    return keys


async def _stored(connection: Connection) -> str | None:
    stored: str | None = await connection.fetchval(
        "select value ->> 'fingerprint' from pilotis.installation where key = 'master_key'"
    )
    return stored


async def _is_pending(connection: Connection) -> bool:
    pending: bool = await connection.fetchval(
        "select value ? 'rewrapping' from pilotis.installation where key = 'master_key'"
    )
    return pending


async def _take_into_use(connection: Connection, keys: MasterKeys, encrypted: Sequence[EncryptedColumn]) -> Renewed:
    await _store(connection, {"fingerprint": fingerprint(keys.current), "rewrapping": True})
    wrapped = await rewrap(connection, keys)
    columns = [(column, await renew(connection, keys, column)) for column in encrypted]
    if wrapped.unreadable:
        raise CommandError(
            f"The data keys of {len(wrapped.unreadable)} apps open under no master key here, "
            f"that of {wrapped.unreadable[0]} for one; the previous master key must be kept."
        )
    for column, done in columns:
        if done.unreadable:
            raise CommandError(
                f"{len(done.unreadable)} secrets in pilotis.{column.table} open under no master key here, "
                f"{done.unreadable[0]} for one; the previous master key must be kept."
            )
    await _store(connection, {"fingerprint": fingerprint(keys.current)})
    return Renewed(wrapped.rewrapped, sum(done.renewed for _, done in columns))


async def _store(connection: Connection, value: dict[str, object]) -> None:
    await connection.execute(
        "update pilotis.installation set value = $1, updated_at = now() where key = 'master_key'",
        json.encode(value).decode(),
    )
