"""The data keys of apps: made when first needed, kept in the database only wrapped under the master key.

The database holds the fingerprint of the master key in force. A new data key is wrapped only by who holds that one,
so nothing is ever wrapped under a key that was forgotten.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.encryption.cipher import KEY_BYTES, Cipher, SealError, key_name, unwrap, wrap, wrapped_under
from pilotis.kit.crypto import MasterKeyring, MasterKeys, derive_key, fingerprint
from pilotis.kit.errors import NotFoundError, UnavailableError

_CIPHERS_KEPT = 1000


class DataKeyUnavailableError(UnavailableError):
    """503: the app's data key cannot be opened with the master key this server has."""

    code = "DATA_KEY_UNAVAILABLE"
    message = "Encrypted columns cannot be read: the server has another master key than the one they need."


class Encryption:
    """Gives each app its cipher."""

    def __init__(self, database: Database, keyring: MasterKeyring | None) -> None:
        """`keyring` is None where there is no master key: then no cipher can be had."""
        self._database = database
        self._keyring = keyring
        self._ciphers: OrderedDict[UUID, Cipher] = OrderedDict()

    async def cipher(self, app_id: UUID) -> Cipher:
        """Return the app's cipher, making its data key if there is none yet."""
        cipher = self._ciphers.get(app_id)
        if cipher is None:
            cipher = self._ciphers[app_id] = Cipher(app_id, await self._data_key(app_id))
            while len(self._ciphers) > _CIPHERS_KEPT:
                self._ciphers.popitem(last=False)
        return cipher

    async def _data_key(self, app_id: UUID) -> bytes:
        if self._keyring is None:
            raise DataKeyUnavailableError
        try:
            return await self._unwrapped(app_id, self._keyring.keys)
        except DataKeyUnavailableError:
            # Another node may have taken a new key into use a moment before this one hears of it.
            if not self._keyring.refresh():
                raise
            return await self._unwrapped(app_id, self._keyring.keys)

    async def _unwrapped(self, app_id: UUID, keys: MasterKeys) -> bytes:
        # Of two nodes that make a key at once, the first one's stays: the second's update changes nothing. The lock
        # on the fingerprint keeps the master key in force until the new data key is committed.
        row = await self._database.fetchrow(
            """
            with in_force as (
                select from pilotis.installation
                where key = 'master_key' and value ->> 'fingerprint' = any($3) for share
            )
            update pilotis.apps
            set encryption_key = coalesce(encryption_key, case when exists (select from in_force) then $2::bytea end)
            where app_id = $1 returning encryption_key
            """,
            app_id,
            wrap(secrets.token_bytes(KEY_BYTES), wrapping_key(keys.current), app_id),
            [fingerprint(key) for key in keys.accepted],
        )
        if row is None:
            raise NotFoundError
        if row["encryption_key"] is None:
            raise DataKeyUnavailableError
        try:
            return open_data_key(row["encryption_key"], keys, app_id)
        except SealError as error:
            raise DataKeyUnavailableError from error


def wrapping_key(master_key: bytes) -> bytes:
    """Return the key that wraps data keys."""
    return derive_key(master_key, "encryption/wrapping")


def open_data_key(wrapped: bytes, keys: MasterKeys, app_id: UUID) -> bytes:
    """Return an app's data key, wrapped under any accepted master key; raises `SealError`."""
    candidates = [wrapping_key(key) for key in keys.accepted]
    fitting = [key for key in candidates if wrapped_under(wrapped) == key_name(key)]
    return unwrap(wrapped, (fitting or candidates)[0], app_id)


class Rewrapping(NamedTuple):
    """How many data keys were wrapped anew, and the apps whose data key opens under neither master key."""

    rewrapped: int
    unreadable: list[UUID]


async def rewrap(connection: Connection, keys: MasterKeys) -> Rewrapping:
    """Wrap every data key under the current master key that is not yet. Can be interrupted and repeated anywhere."""
    current = wrapping_key(keys.current)
    rewrapped, unreadable, last = 0, [], UUID(int=0)
    while rows := await connection.fetch(_NOT_UNDER, last, key_name(current)):
        for row in rows:
            last = row["app_id"]
            try:
                data_key = open_data_key(row["encryption_key"], keys, last)
            except SealError:
                unreadable.append(last)
                continue
            rewrapped += await connection.fetchval(
                """
                with changed as (
                    update pilotis.apps set encryption_key = $3
                    where app_id = $1 and encryption_key = $2 returning app_id
                ) select count(*) from changed
                """,
                last,
                row["encryption_key"],
                wrap(data_key, current, last),
            )
    return Rewrapping(rewrapped, unreadable)


# A wrapped key tells the name of its wrapping key in the bytes 2 to 5.
_NOT_UNDER = """
    select app_id, encryption_key from pilotis.apps
    where app_id > $1 and encryption_key is not null and substr(encryption_key, 2, 4) <> $2
    order by app_id limit 500
"""
