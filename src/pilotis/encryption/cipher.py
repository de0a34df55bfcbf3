"""Values sealed with AES-256-GCM, and keyed hashes to find equal ones by. Pure.

A sealed value is one version byte, four bytes that name the key, a 96-bit random nonce, then ciphertext and tag
(NIST SP 800-38D). App, table, column and row are authenticated with it, so a value moved to any other place does not
open. Equality goes through HMAC-SHA256 under a key of its own, for each column apart.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pilotis.kit.crypto import derive_key

KEY_BYTES = 32
_VERSION = b"\x01"
_KEY_NAME_BYTES = 4
_NONCE_BYTES = 12
_HASH_BYTES = 16
_HEADER_BYTES = len(_VERSION) + _KEY_NAME_BYTES


class SealError(Exception):
    """The bytes are no sealed value, or one of another key, app, table, column or row, or were tampered with."""


class Cipher:
    """Seals, opens and hashes the values of one app under its data key of 32 bytes."""

    def __init__(self, app_id: UUID, data_key: bytes) -> None:
        self._app_id = app_id
        self._aead = AESGCM(derive_key(data_key, "encryption/values"))
        self._hash_key = derive_key(data_key, "encryption/equality")
        self._header = _VERSION + key_name(data_key)

    def seal(self, plaintext: bytes, table_id: UUID, column: int, row_id: UUID) -> bytes:
        """Return the sealed value of a column in a row."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._header + nonce + self._aead.encrypt(nonce, plaintext, self._place(table_id, column, row_id))

    def open(self, sealed: bytes, table_id: UUID, column: int, row_id: UUID) -> bytes:
        """Return the plaintext of a value sealed for this very place; raises `SealError`."""
        header, nonce, rest = _parts(sealed)
        if header != self._header:
            raise SealError("The value was sealed under another key.")
        try:
            return self._aead.decrypt(nonce, rest, self._place(table_id, column, row_id))
        except InvalidTag:
            raise SealError("The value was changed, or belongs to another place.") from None

    def hash(self, canonical: bytes, table_id: UUID, column: int) -> bytes:
        """Return 16 bytes that are equal for equal values of one column, and say nothing else about them."""
        message = table_id.bytes + column.to_bytes(4) + canonical
        return hmac.digest(self._hash_key, message, hashlib.sha256)[:_HASH_BYTES]

    def _place(self, table_id: UUID, column: int, row_id: UUID) -> bytes:
        return self._app_id.bytes + table_id.bytes + column.to_bytes(4) + row_id.bytes


def key_name(key: bytes) -> bytes:
    """Return four bytes that tell keys apart without giving anything of them away."""
    return derive_key(key, "encryption/name")[:_KEY_NAME_BYTES]


def wrap(data_key: bytes, wrapping_key: bytes, app_id: UUID) -> bytes:
    """Return an app's data key sealed under a key derived from the master key."""
    nonce = os.urandom(_NONCE_BYTES)
    header = _VERSION + key_name(wrapping_key)
    return header + nonce + AESGCM(wrapping_key).encrypt(nonce, data_key, b"data key" + app_id.bytes)


def wrapped_under(wrapped: bytes) -> bytes:
    """Return the name of the key that a data key is wrapped under."""
    return wrapped[len(_VERSION) : _HEADER_BYTES]


def unwrap(wrapped: bytes, wrapping_key: bytes, app_id: UUID) -> bytes:
    """Return an app's data key; raises `SealError` under any other master key or for any other app."""
    header, nonce, rest = _parts(wrapped)
    if header != _VERSION + key_name(wrapping_key):
        raise SealError("The app's data key was wrapped under another master key.")
    try:
        return AESGCM(wrapping_key).decrypt(nonce, rest, b"data key" + app_id.bytes)
    except InvalidTag:
        raise SealError("The app's data key was changed, or belongs to another app.") from None


def _parts(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    end = _HEADER_BYTES + _NONCE_BYTES
    if len(sealed) <= end:
        raise SealError("The value is too short to be a sealed one.")
    return sealed[:_HEADER_BYTES], sealed[_HEADER_BYTES:end], sealed[end:]
