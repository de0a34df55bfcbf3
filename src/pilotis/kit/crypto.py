"""Keys derived per purpose from one master key, hashes of high-entropy secrets, and random text."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

MASTER_KEY_BYTES = 32


class MasterKeys(NamedTuple):
    """The master key, which signs and wraps, and a second one that is also accepted while keys are rotated."""

    current: bytes
    previous: bytes | None = None

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """Both, the current one first."""
        return (self.current,) if self.previous is None else (self.current, self.previous)


class MasterKeyring:
    """Holds the current master keys. `look` reads them again; it returns None if they cannot have changed."""

    def __init__(self, keys: MasterKeys, look: Callable[[], MasterKeys | None] = lambda: None) -> None:
        self.keys = keys
        self._look = look

    def refresh(self) -> bool:
        """Read the keys from their source again; return True if they have changed."""
        found = self._look()
        if found is None or found == self.keys:
            return False
        self.keys = found
        return True


def derive_key(master_key: bytes, purpose: str) -> bytes:
    """Return 32 bytes for one purpose: HKDF-SHA256 (RFC 5869) with the purpose as info.

    That is two HMACs, for the salt that stands in for none (section 2.2) and a single block of output (2.3). A library
    for it would be the largest that a start needs.
    """
    extracted = hmac.digest(bytes(32), master_key, "sha256")
    return hmac.digest(extracted, b"pilotis/" + purpose.encode() + b"\x01", "sha256")


def fingerprint(master_key: bytes) -> str:
    """Return a hexadecimal fingerprint that tells master keys apart and reveals nothing else about them."""
    return hmac.digest(derive_key(master_key, "fingerprint"), b"pilotis", "sha256").hex()


def secret_hash(secret: str) -> bytes:
    """Return the SHA-256 of a random secret of 128 bits or more. Never use it for a password: it is fast."""
    return hashlib.sha256(secret.encode()).digest()


def random_token(byte_count: int = 32) -> str:
    """Return `byte_count` random bytes as base64url text."""
    return secrets.token_urlsafe(byte_count)


def base64url(data: bytes) -> str:
    """Return base64url text without padding (RFC 4648, section 5)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes | None:
    """Return the bytes of base64url text without padding, or None if the text is invalid."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
