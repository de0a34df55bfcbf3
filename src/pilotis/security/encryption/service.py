"""The data keys of apps: created when first needed, stored only wrapped under the master key.

The database stores the fingerprint of the current master key. Only a process that has this key wraps new data keys, so
no data key is wrapped under a lost key.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.kit.crypto import MasterKeyring, MasterKeys, derive_key, fingerprint
from pilotis.kit.errors import NotFoundError, UnavailableError
from pilotis.security.encryption.cipher import KEY_BYTES, Cipher, DecryptionError, key_name, unwrap, wrap, wrapped_under
from pilotis.security.encryption.secrets import AppSecrets
from pilotis.security.encryption.server_secrets import ServerSecrets

_CIPHERS_KEPT = 1000
_SET_KEY = """
    with in_force as (
        select from pilotis.installation
        where key = 'master_key' and value ->> 'fingerprint' = any($3) for share
    )
    update pilotis.apps
    set encryption_key = coalesce(encryption_key, case when exists (select from in_force) then $2::bytea end)
    where app_id = $1 returning encryption_key
"""


class DataKeyUnavailableError(UnavailableError):
    """503: this server's master key cannot decrypt the app's data key."""

    code = "DATA_KEY_UNAVAILABLE"
    message = "Encrypted columns cannot be read: the server's master key is not the one that they require."


class Encryption:
    """Provides the cipher of each app."""

    def __init__(self, database: Database, keyring: MasterKeyring | None) -> None:
        """`keyring` is None if there is no master key: then there are no ciphers."""
        self._database = database
        self._keyring = keyring
        self._ciphers: OrderedDict[UUID, Cipher] = OrderedDict()

    async def cipher(self, app_id: UUID) -> Cipher:
        """Return the app's cipher; creates its data key if there is none yet."""
        cipher = self._ciphers.get(app_id)
        if cipher is None:
            cipher = self._ciphers[app_id] = Cipher(app_id, await self.data_key(app_id))
            while len(self._ciphers) > _CIPHERS_KEPT:
                self._ciphers.popitem(last=False)
        return cipher

    async def data_key(self, app_id: UUID) -> bytes:
        """Return the app's data key, created if it does not exist; raises `DataKeyUnavailableError`."""
        if self._keyring is None:
            raise DataKeyUnavailableError
        keys = self._keyring.keys
        try:
            return await self._unwrapped(app_id, keys)
        except DataKeyUnavailableError:
            # Another node may have switched to a new key before this one was notified, or while this waited.
            self._keyring.refresh()
            if self._keyring.keys == keys:
                raise
            return await self._unwrapped(app_id, self._keyring.keys)

    async def set_data_key(self, connection: Connection, app_id: UUID, data_key: bytes) -> None:
        """Give a new app a data key that another server made, in the caller's transaction.

        Raises `DataKeyUnavailableError` if this process does not have the server's master key.
        """
        if self._keyring is None:
            raise DataKeyUnavailableError
        keys = self._keyring.keys
        stored = await connection.fetchval(
            _SET_KEY,
            app_id,
            wrap(data_key, wrapping_key(keys.current), app_id),
            [fingerprint(key) for key in keys.accepted],
        )
        if stored is None:
            raise DataKeyUnavailableError

    async def _unwrapped(self, app_id: UUID, keys: MasterKeys) -> bytes:
        # Almost always there is a key, which a reader gets without a wait for those who have locked the app.
        wrapped: bytes | None = await self._database.fetchval(
            "select encryption_key from pilotis.apps where app_id = $1", app_id, tenant=app_id
        )
        if wrapped is None:
            wrapped = await self._create(app_id, keys)
        try:
            return open_data_key(wrapped, keys, app_id)
        except DecryptionError as error:
            raise DataKeyUnavailableError from error

    async def _create(self, app_id: UUID, keys: MasterKeys) -> bytes:
        # If two nodes create a key at once, the first one wins: the second's update changes nothing. The lock
        # on the fingerprint prevents a change of the master key until the new data key is committed.
        row = await self._database.fetchrow(
            _SET_KEY,
            app_id,
            wrap(secrets.token_bytes(KEY_BYTES), wrapping_key(keys.current), app_id),
            [fingerprint(key) for key in keys.accepted],
            tenant=app_id,
        )
        if row is None:
            raise NotFoundError
        wrapped: bytes | None
        (wrapped,) = row
        if wrapped is None:
            raise DataKeyUnavailableError
        return wrapped


class Secrets:
    """The secrets of apps and of the server."""

    def __init__(self, encryption: Encryption, keyring: MasterKeyring | None) -> None:
        self._encryption = encryption
        self._server = ServerSecrets(keyring)
        self._apps: OrderedDict[UUID, AppSecrets] = OrderedDict()

    async def app(self, app_id: UUID) -> AppSecrets:
        """Return the cipher of the app's secrets; raises `DataKeyUnavailableError`."""
        found = self._apps.get(app_id)
        if found is None:
            found = self._apps[app_id] = AppSecrets(app_id, await self._encryption.data_key(app_id))
            while len(self._apps) > _CIPHERS_KEPT:
                self._apps.popitem(last=False)
        return found

    def server(self) -> ServerSecrets:
        """Return the cipher of the server's own secrets under the master key."""
        return self._server


def wrapping_key(master_key: bytes) -> bytes:
    """Return the key that wraps data keys."""
    return derive_key(master_key, "encryption/wrapping")


def open_data_key(wrapped: bytes, keys: MasterKeys, app_id: UUID) -> bytes:
    """Return an app's data key, wrapped under any accepted master key; raises `DecryptionError`."""
    candidates = [wrapping_key(key) for key in keys.accepted]
    fitting = [key for key in candidates if wrapped_under(wrapped) == key_name(key)]
    return unwrap(wrapped, (fitting or candidates)[0], app_id)


class Rewrapping(NamedTuple):
    """The number of re-wrapped data keys, and the apps whose data key neither master key unwraps."""

    rewrapped: int
    unreadable: list[UUID]


async def rewrap(connection: Connection, keys: MasterKeys) -> Rewrapping:
    """Wrap the data keys that are not yet under the current master key. Can be interrupted and repeated."""
    current = wrapping_key(keys.current)
    rewrapped, unreadable, last = 0, [], UUID(int=0)
    while rows := await connection.fetch(_NOT_UNDER, last, key_name(current)):
        for app_id, wrapped in rows:
            last = app_id
            try:
                data_key = open_data_key(wrapped, keys, last)
            except DecryptionError:
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
                wrapped,
                wrap(data_key, current, last),
            )
    return Rewrapping(rewrapped, unreadable)


# Bytes 2 to 5 of a wrapped key name its wrapping key.
_NOT_UNDER = """
    select app_id, encryption_key from pilotis.apps
    where app_id > $1 and encryption_key is not null and substr(encryption_key, 2, 4) <> $2
    order by app_id limit 500
"""
