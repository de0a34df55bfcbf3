"""Encryption of what a backup store has: parts of a stream with AES-256-GCM, names by HMAC, entries with a MAC.

A stream is a sequence of objects of up to 8 MiB: the STREAM construction (Hoang, Reyhanitabar, Rogaway, Vizár 2015),
in which place, number and end of each part are authenticated. So parts that were damaged, exchanged, left out or cut
off are errors. The keys are derived from the backup key by HKDF (RFC 5869), one for each folder of the store.
"""

from __future__ import annotations

import hmac
import os

from pilotis.backup.errors import DamagedError
from pilotis.kit.aead import Aead, TamperedError
from pilotis.kit.crypto import derive_key

KEY_BYTES = 32
_MAGIC = b"PLTB\x01"
_NAME_BYTES, _NONCE_BYTES = 4, 12
_HEADER_BYTES = len(_MAGIC) + _NAME_BYTES


class BackupKey:
    """The key of 32 bytes, without which nothing in the store can be read."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.fingerprint = hmac.digest(derive_key(key, "backup/fingerprint"), b"pilotis", "sha256").hex()
        self._header = _MAGIC + bytes.fromhex(self.fingerprint)[:_NAME_BYTES]
        self._names = derive_key(key, "backup/names")
        self._entries = derive_key(key, "backup/entries")

    def of(self, folder: str) -> FolderKey:
        """Return the key for the objects of a folder."""
        return FolderKey(self._header, derive_key(self._key, f"backup/folder/{folder}"))

    def name_of(self, text: str) -> str:
        """Return the name under which something is stored, which says nothing about it: 64 hexadecimal digits."""
        return hmac.digest(self._names, text.encode(), "sha256").hex()

    def sign(self, entry: bytes) -> str:
        """Return the hexadecimal HMAC-SHA256 of an entry."""
        return hmac.digest(self._entries, entry, "sha256").hex()

    def is_signed(self, entry: bytes, mac: str) -> bool:
        """Whether an entry is as it was when it was signed."""
        return hmac.compare_digest(self.sign(entry), mac)


class FolderKey:
    """Encrypts and decrypts objects of one folder."""

    def __init__(self, header: bytes, key: bytes) -> None:
        self._header = header
        self._aead = Aead(key)

    def seal(self, place: str, data: bytes) -> bytes:
        """Return bytes encrypted for the place of their object in the folder."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._header + nonce + self._aead.encrypt(nonce, data, place.encode())

    def open(self, place: str, sealed: bytes) -> bytes:
        """Return the plaintext of an object; raises `DamagedError`."""
        if sealed[: len(_MAGIC)] != _MAGIC:
            raise DamagedError(f"{place} in the backup store is damaged: it is nothing that Pilotis wrote.")
        if sealed[:_HEADER_BYTES] != self._header:
            raise DamagedError(f"{place} in the backup store was written with another backup key.")
        nonce, rest = sealed[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES], sealed[_HEADER_BYTES + _NONCE_BYTES :]
        try:
            return self._aead.decrypt(nonce, rest, place.encode())
        except TamperedError:
            raise DamagedError(f"{place} in the backup store is damaged: its bytes were changed.") from None
