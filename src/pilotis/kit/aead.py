"""AES-256-GCM (NIST SP 800-38D). Its library takes nine megabytes, and is imported with the first key. Pure."""

from __future__ import annotations


class TamperedError(Exception):
    """The bytes were encrypted under another key or for another place, or were changed since."""


class Aead:
    """Encrypts and decrypts under one key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._refusals = (InvalidTag, ValueError)

    def encrypt(self, nonce: bytes, plaintext: bytes, place: bytes) -> bytes:
        """Return the ciphertext and tag of a plaintext; `place` is authenticated with it.

        The nonce has 12 bytes, and is that of no other plaintext under this key.
        """
        return self._cipher.encrypt(nonce, plaintext, place)

    def decrypt(self, nonce: bytes, encrypted: bytes, place: bytes) -> bytes:
        """Return the plaintext of what `encrypt` returned for the same nonce and place; raises `TamperedError`."""
        try:
            return self._cipher.decrypt(nonce, encrypted, place)
        except self._refusals:
            raise TamperedError from None
