"""Secrets of an app or of the server, each encrypted for one place: an owner, a purpose and a name within it. Pure.

An encrypted secret is the version byte 2, four bytes that identify the key, a 96-bit random nonce, then ciphertext and
tag of AES-256-GCM (NIST SP 800-38D). Each purpose has its own key, derived from the app's data key or from the master
key. Owner, purpose and name are authenticated, each with its length, so a value moved to any other place cannot be
decrypted. Values of columns have the version byte 1; see `cipher`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from uuid import UUID

from pilotis.kit.aead import Aead, TamperedError
from pilotis.kit.crypto import derive_key
from pilotis.security.encryption.cipher import DecryptionError, key_name
from pilotis.security.encryption.types import Purpose

SERVER = UUID(int=0)
"""The owner of the server's own secrets."""

_VERSION = b"\x02"
_HEADER_BYTES = 5
_NONCE_BYTES = 12


class AppSecrets:
    """Encrypts and decrypts the secrets of one app under its data key."""

    def __init__(self, app_id: UUID, data_key: bytes) -> None:
        self._app_id = app_id
        self._data_key = data_key

    def encrypt(self, purpose: Purpose, name: str, value: bytes) -> bytes:
        """Return the value encrypted for its place."""
        return encrypt(self._app_id, self._data_key, purpose, name, value)

    def decrypt(self, purpose: Purpose, name: str, encrypted: bytes) -> bytes:
        """Return the plaintext of a value encrypted for exactly this place; raises `DecryptionError`."""
        return decrypt(self._app_id, (self._data_key,), purpose, name, encrypted)


def encrypt(owner: UUID, key: bytes, purpose: Purpose, name: str, value: bytes) -> bytes:
    """Return the value encrypted for its place under a key derived from `key` for the purpose."""
    nonce = os.urandom(_NONCE_BYTES)
    return header_of(key) + nonce + _aead(key, purpose).encrypt(nonce, value, _place(owner, purpose, name))


def decrypt(owner: UUID, keys: Sequence[bytes], purpose: Purpose, name: str, encrypted: bytes) -> bytes:
    """Return the plaintext of a value encrypted for this place under one of the keys; raises `DecryptionError`."""
    end = _HEADER_BYTES + _NONCE_BYTES
    header, nonce = encrypted[:_HEADER_BYTES], encrypted[_HEADER_BYTES:end]
    key = next((key for key in keys if header_of(key) == header), None)
    if key is None or len(nonce) < _NONCE_BYTES:
        raise DecryptionError("The secret was encrypted under another key, or is malformed.")
    try:
        return _aead(key, purpose).decrypt(nonce, encrypted[end:], _place(owner, purpose, name))
    except TamperedError:
        raise DecryptionError("The secret was changed, or belongs to another place.") from None


def header_of(key: bytes) -> bytes:
    """Return the first five bytes of every secret under the key."""
    return _VERSION + key_name(key)


def _place(owner: UUID, purpose: Purpose, name: str) -> bytes:
    parts = (owner.bytes, purpose.encode(), name.encode())
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def _aead(key: bytes, purpose: Purpose) -> Aead:
    return Aead(derive_key(key, f"secrets/{purpose.value}"))
