"""The format of keys: `pk_` or `sk_`, then the app's id and random bytes in base64url.

A key contains its app's id, so a lookup reads only the app's own rows, wherever they are stored.
"""

from __future__ import annotations

import secrets
from uuid import UUID

from pilotis.kit.crypto import base64url, from_base64url

PUBLIC_PREFIX = "pk_"
SECRET_PREFIX = "sk_"  # noqa: S105 - a prefix, not a secret
SHOWN_CHARACTERS = 32
_PUBLIC_BYTES = 8
_SECRET_BYTES = 32


def new_public_key(app_id: UUID) -> str:
    """Return a new public key of the app: 35 characters."""
    return PUBLIC_PREFIX + base64url(app_id.bytes + secrets.token_bytes(_PUBLIC_BYTES))


def new_secret_key(app_id: UUID) -> str:
    """Return a new secret key of the app: 67 characters, 256 random bits."""
    return SECRET_PREFIX + base64url(app_id.bytes + secrets.token_bytes(_SECRET_BYTES))


def app_of(key: str, prefix: str) -> UUID | None:
    """Return the id of the app that a key names, or None if the key is malformed."""
    random_bytes = _PUBLIC_BYTES if prefix == PUBLIC_PREFIX else _SECRET_BYTES
    if not key.startswith(prefix):
        return None
    data = from_base64url(key[len(prefix) :])
    return UUID(bytes=data[:16]) if data and len(data) == 16 + random_bytes else None
