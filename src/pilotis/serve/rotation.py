"""Rotating the master key beside running nodes, in steps of which each may be the last before a crash.

1. The old key is copied to the second file, a new one replaces it in the first, and nodes are told to read both.
   Settings in place of files do the same by a rolling restart.
2. The database takes the fingerprint of the new key, so that nobody wraps anything under the old one any more.
3. Every app's data key is wrapped under the new key, row by row.
4. Later the previous key is forgotten: what it signed is refused from then on.

Running it again goes on at the step that is missing.
"""

from __future__ import annotations

from typing import NamedTuple

from asyncpg import Connection

from pilotis import master_key
from pilotis.db.notifications import notify
from pilotis.encryption.service import Rewrapping, rewrap
from pilotis.kit import json
from pilotis.kit.crypto import MasterKeys, fingerprint
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_LOCK = 0x524F5441  # "ROTA"


class Rotated(NamedTuple):
    """What a rotation has done: whether it goes on with an earlier one, and the data keys wrapped anew."""

    resumed: bool
    rewrapped: int


async def rotate(connection: Connection, settings: Settings) -> Rotated:
    """Take a new master key into use, or finish doing so; raises `CommandError`."""
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
    await notify(connection, master_key.TOPIC, "rotated")
    done = await _take_into_use(connection, keys)
    return Rotated(unfinished or pending, done.rewrapped)


async def forget_previous(connection: Connection, settings: Settings) -> int:
    """End the previous master key and return how many data keys were still wrapped under it.

    Nodes that have it from files drop it at once. Raises `CommandError`.
    """
    await _lock(connection)
    keys = await _keys_of(connection, settings)
    if keys.previous is not None and await _stored(connection) == fingerprint(keys.previous):
        raise CommandError("The rotation has not been finished; `pilotis key rotate-master` goes on with it.")
    done = await _take_into_use(connection, keys)
    if settings.master_key is None:
        master_key.forget_previous_file(settings)
    await notify(connection, master_key.TOPIC, "forgotten")
    return done.rewrapped


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
    # The session's, so that it goes with the connection.
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


async def _take_into_use(connection: Connection, keys: MasterKeys) -> Rewrapping:
    await _store(connection, {"fingerprint": fingerprint(keys.current), "rewrapping": True})
    done = await rewrap(connection, keys)
    if done.unreadable:
        raise CommandError(
            f"The data keys of {len(done.unreadable)} apps open under no master key here, "
            f"that of {done.unreadable[0]} for one; the previous master key must be kept."
        )
    await _store(connection, {"fingerprint": fingerprint(keys.current)})
    return done


async def _store(connection: Connection, value: dict[str, object]) -> None:
    await connection.execute(
        "update pilotis.installation set value = $1, updated_at = now() where key = 'master_key'",
        json.encode(value).decode(),
    )
