"""The server's own secrets, such as signing keys, encrypted under the master key and re-encrypted by rotations."""

from __future__ import annotations

from typing import NamedTuple

from asyncpg import Connection

from pilotis.kit.crypto import MasterKeyring, MasterKeys, fingerprint
from pilotis.kit.errors import UnavailableError
from pilotis.security.encryption.cipher import DecryptionError
from pilotis.security.encryption.secrets import SERVER, decrypt, encrypt, header_of
from pilotis.security.encryption.types import EncryptedColumn, Purpose

_BATCH_SIZE = 100


class MasterKeyUnavailableError(UnavailableError):
    """503: this process does not have the master key that the database requires."""

    code = "MASTER_KEY_UNAVAILABLE"
    message = "The server's master key is not the one that its secrets require."


class ServerSecrets:
    """Encrypts under the current master key, and decrypts under every accepted one.

    A feature that stores such secrets declares their column in `Feature.encrypted_columns`.
    """

    def __init__(self, keyring: MasterKeyring | None) -> None:
        """`keyring` is None if there is no master key: then nothing can be encrypted or decrypted."""
        self._keyring = keyring

    async def encrypt(self, connection: Connection, purpose: Purpose, name: str, value: bytes) -> bytes:
        """Return the value encrypted for its place, to be stored in the connection's transaction.

        The master key cannot be rotated until the transaction ends, so the value cannot be stored under a retired key.
        Raises `MasterKeyUnavailableError`.
        """
        stored = await connection.fetchval(
            "select value ->> 'fingerprint' from pilotis.installation where key = 'master_key' for share"
        )
        key = self._key_of(stored)
        if key is None and self._keyring is not None and self._keyring.refresh():
            # Another node may have switched to a new key before this one has been notified.
            key = self._key_of(stored)
        if key is None:
            raise MasterKeyUnavailableError
        return encrypt(SERVER, key, purpose, name, value)

    def encrypt_for_a_while(self, purpose: Purpose, name: str, value: bytes) -> bytes:
        """Return the value encrypted under the current key of this process. A rotation may make it unreadable.

        Raises `MasterKeyUnavailableError`.
        """
        if self._keyring is None:
            raise MasterKeyUnavailableError
        return encrypt(SERVER, self._keyring.keys.current, purpose, name, value)

    def decrypt(self, purpose: Purpose, name: str, encrypted: bytes) -> bytes:
        """Return the plaintext of a value encrypted for exactly this place; raises `DecryptionError`."""
        if self._keyring is None:
            raise DecryptionError("There is no master key.")
        try:
            return decrypt(SERVER, self._keyring.keys.accepted, purpose, name, encrypted)
        except DecryptionError:
            if not self._keyring.refresh():
                raise
            return decrypt(SERVER, self._keyring.keys.accepted, purpose, name, encrypted)

    def _key_of(self, stored: str | None) -> bytes | None:
        accepted = self._keyring.keys.accepted if self._keyring else ()
        return next((key for key in accepted if fingerprint(key) == stored), None)


class Renewal(NamedTuple):
    """The number of re-encrypted secrets of a column, and the names of those that neither key decrypts."""

    renewed: int
    unreadable: list[str]


async def renew(connection: Connection, keys: MasterKeys, column: EncryptedColumn) -> Renewal:
    """Re-encrypt the secrets of a column that are not yet under the current master key.

    Can be interrupted and repeated anywhere: a separate statement replaces each secret, and skips one that was changed
    or deleted meanwhile.
    """
    renewed, unreadable, last = 0, [], ""
    while rows := await connection.fetch(_not_under(column), last, header_of(keys.current), _BATCH_SIZE):
        for name, encrypted in rows:
            last = name
            try:
                value = decrypt(SERVER, keys.accepted, column.purpose, last, encrypted)
            except DecryptionError:
                unreadable.append(last)
                continue
            new = encrypt(SERVER, keys.current, column.purpose, last, value)
            tag = await connection.execute(_replace(column), last, encrypted, new)
            renewed += tag == "UPDATE 1"
    return Renewal(renewed, unreadable)


# Features declare the names of tables and columns. The first five bytes of a secret identify its key.
def _not_under(column: EncryptedColumn) -> str:
    return f"""
        select {column.name} as name, {column.column} as encrypted from pilotis.{column.table}
        where {column.name} > $1 and {column.column} is not null and substr({column.column}, 1, 5) <> $2
        order by {column.name} limit $3
    """


def _replace(column: EncryptedColumn) -> str:
    return f"""
        update pilotis.{column.table} set {column.column} = $3 where {column.name} = $1 and {column.column} = $2
    """
