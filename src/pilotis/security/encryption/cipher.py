"""Encryption of values with AES-256-GCM, and keyed hashes for lookups by equality. Pure.

An encrypted value is one version byte, four bytes that identify the key, a 96-bit random nonce, then ciphertext and tag
(NIST SP 800-38D). App, table, column and row are authenticated with it, so a value moved to any other place cannot be
decrypted. Equality uses HMAC-SHA256 with a separate key, for each column separately.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from uuid import UUID

from pilotis.kit.aead import Aead, TamperedError
from pilotis.kit.crypto import derive_key

KEY_BYTES = 32
_VERSION = b"\x01"
_KEY_NAME_BYTES = 4
_NONCE_BYTES = 12
_HASH_BYTES = 16
_HEADER_BYTES = len(_VERSION) + _KEY_NAME_BYTES


class DecryptionError(Exception):
    """The bytes are not an encrypted value of this key, app, table, column and row, or were tampered with."""


class Cipher:
    """Encrypts, decrypts and hashes the values of one app under its data key of 32 bytes."""

    def __init__(self, app_id: UUID, data_key: bytes) -> None:
        self._app_id = app_id
        self._aead = Aead(derive_key(data_key, "encryption/values"))
        self._hash_key = derive_key(data_key, "encryption/equality")
        self._header = _VERSION + key_name(data_key)

    def encrypt(self, plaintext: bytes, table_id: UUID, column: int, row_id: UUID) -> bytes:
        """Return the encrypted value of a column in a row."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._header + nonce + self._aead.encrypt(nonce, plaintext, self._place(table_id, column, row_id))

    def decrypt(self, encrypted: bytes, table_id: UUID, column: int, row_id: UUID) -> bytes:
        """Return the plaintext of a value that was encrypted for this column and row; raises `DecryptionError`."""
        header, nonce, rest = _parts(encrypted)
        if header != self._header:
            raise DecryptionError("The value was encrypted under another key.")
        try:
            return self._aead.decrypt(nonce, rest, self._place(table_id, column, row_id))
        except TamperedError:
            raise DecryptionError("The value was changed, or belongs to another place.") from None

    def hash(self, canonical: bytes, table_id: UUID, column: int) -> bytes:
        """Return 16 bytes that are equal for equal values of one column, and reveal nothing else about them."""
        message = table_id.bytes + column.to_bytes(4) + canonical
        return hmac.digest(self._hash_key, message, hashlib.sha256)[:_HASH_BYTES]

    def _place(self, table_id: UUID, column: int, row_id: UUID) -> bytes:
        return self._app_id.bytes + table_id.bytes + column.to_bytes(4) + row_id.bytes


def key_name(key: bytes) -> bytes:
    """Return four bytes that distinguish keys without revealing anything about them."""
    return derive_key(key, "encryption/name")[:_KEY_NAME_BYTES]


def wrap(data_key: bytes, wrapping_key: bytes, app_id: UUID) -> bytes:
    """Return an app's data key encrypted under a key derived from the master key."""
    nonce = os.urandom(_NONCE_BYTES)
    header = _VERSION + key_name(wrapping_key)
    return header + nonce + Aead(wrapping_key).encrypt(nonce, data_key, b"data key" + app_id.bytes)


def wrapped_under(wrapped: bytes) -> bytes:
    """Return the name of the key under which a data key is wrapped."""
    return wrapped[len(_VERSION) : _HEADER_BYTES]


def unwrap(wrapped: bytes, wrapping_key: bytes, app_id: UUID) -> bytes:
    """Return an app's data key; raises `DecryptionError` under any other master key or for any other app."""
    header, nonce, rest = _parts(wrapped)
    if header != _VERSION + key_name(wrapping_key):
        raise DecryptionError("The app's data key was wrapped under another master key.")
    try:
        return Aead(wrapping_key).decrypt(nonce, rest, b"data key" + app_id.bytes)
    except TamperedError:
        raise DecryptionError("The app's data key was changed, or belongs to another app.") from None


def _parts(encrypted: bytes) -> tuple[bytes, bytes, bytes]:
    end = _HEADER_BYTES + _NONCE_BYTES
    if len(encrypted) <= end:
        raise DecryptionError("The value is too short to be an encrypted value.")
    return encrypted[:_HEADER_BYTES], encrypted[_HEADER_BYTES:end], encrypted[end:]
