"""The data keys of apps: made when first needed, kept in the database only wrapped under the master key."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.encryption.cipher import KEY_BYTES, Cipher, SealError, unwrap, wrap
from pilotis.kit.crypto import derive_key
from pilotis.kit.errors import NotFoundError, UnavailableError

_CIPHERS_KEPT = 1000


class DataKeyUnavailableError(UnavailableError):
    """503: the app's data key cannot be opened with the master key this server has."""

    code = "DATA_KEY_UNAVAILABLE"
    message = "Encrypted columns cannot be read: the server has another master key than the one they need."


class Encryption:
    """Gives each app its cipher."""

    def __init__(self, database: Database, master_key: bytes) -> None:
        self._database = database
        self._wrapping_key = derive_key(master_key, "encryption/wrapping")
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
        # Of two nodes that make a key at once, the first one's stays: the second's update changes nothing.
        wrapped = await self._database.fetchval(
            """
            update pilotis.apps set encryption_key = coalesce(encryption_key, $2)
            where app_id = $1 returning encryption_key
            """,
            app_id,
            wrap(secrets.token_bytes(KEY_BYTES), self._wrapping_key, app_id),
        )
        if wrapped is None:
            raise NotFoundError
        try:
            return unwrap(wrapped, self._wrapping_key, app_id)
        except SealError as error:
            raise DataKeyUnavailableError from error
