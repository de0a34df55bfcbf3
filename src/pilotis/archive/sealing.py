"""What a passphrase does for an archive: it encrypts the app's data key, and authenticates the manifest. Pure.

Two keys come from the passphrase by scrypt (RFC 7914) with N = 2¹⁷, r = 8, p = 1 and the archive's salt, which takes
128 MiB and a third of a second, and HKDF (RFC 5869). An archive cannot ask for other parameters.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import unicodedata
from uuid import UUID

from pilotis.archive.errors import ArchiveKeyError, InvalidArchiveError
from pilotis.kit.aead import Aead, TamperedError
from pilotis.kit.crypto import derive_key

SALT_BYTES = 16
_NONCE_BYTES = 12
_N, _R = 2**17, 8


class Passphrase:
    """The keys of a passphrase with the salt of one archive."""

    def __init__(self, text: str, salt: bytes) -> None:
        secret = unicodedata.normalize("NFC", text).encode()
        root = hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=1, maxmem=256 << 20, dklen=32)
        self.salt = salt
        self._sealing = derive_key(root, "archive/key")
        self._signing = derive_key(root, "archive/manifest")

    @classmethod
    def new(cls, text: str) -> Passphrase:
        """Return the keys for a new archive."""
        return cls(text, os.urandom(SALT_BYTES))

    def seal(self, data_key: bytes, app_id: UUID) -> bytes:
        """Return the data key of an app, encrypted for the archive."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + Aead(self._sealing).encrypt(nonce, data_key, app_id.bytes)

    def open(self, sealed: bytes, app_id: UUID) -> bytes:
        """Return the data key of the archive's app; raises `ArchiveKeyError`."""
        try:
            return Aead(self._sealing).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], app_id.bytes)
        except TamperedError:
            raise ArchiveKeyError("This is not the passphrase of the archive.") from None

    def sign(self, manifest: bytes) -> bytes:
        """Return the hexadecimal HMAC-SHA256 of a manifest."""
        return hmac.digest(self._signing, manifest, "sha256").hex().encode()


def signature(passphrase: Passphrase | None, manifest: bytes) -> bytes:
    """Return what follows a manifest: its HMAC, or without a passphrase its SHA-256, which finds damage alone."""
    return hashlib.sha256(manifest).hexdigest().encode() if passphrase is None else passphrase.sign(manifest)


def verify(passphrase: Passphrase | None, manifest: bytes, found: bytes) -> None:
    """Raise an error unless the manifest is the one whose signature was found."""
    if hmac.compare_digest(signature(passphrase, manifest), found):
        return
    if passphrase is None:
        raise InvalidArchiveError("The archive is damaged: its manifest was changed.")
    raise ArchiveKeyError("This is not the passphrase of the archive, or the archive was changed.")
