"""Refresh tokens: stateless texts that identify a grant and its current refresh id. Pure.

The text is `rt_` and the base64url of app, grant and refresh id with an HMAC-SHA256 of these, so that a lost response
can be repeated exactly and no secret is stored.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple
from uuid import UUID

from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, from_base64url

PREFIX = "rt_"
_PURPOSE = "oauth/refresh"
_IDS_BYTES = 48
_MAC_BYTES = 32


class RefreshToken(NamedTuple):
    """The contents of a refresh token."""

    app_id: UUID
    grant_id: UUID
    refresh_id: UUID


def write(keyring: MasterKeyring, token: RefreshToken) -> str:
    """Return the token's text under the current master key."""
    ids = b"".join(part.bytes for part in token)
    return PREFIX + base64url(ids + hmac.digest(derive_key(keyring.keys.current, _PURPOSE), ids, "sha256"))


def read(keyring: MasterKeyring, text: str) -> RefreshToken | None:
    """Return the contents of a refresh token of this server, or None for any other text."""
    data = from_base64url(text.removeprefix(PREFIX)) if text.startswith(PREFIX) and text.isascii() else None
    if data is None or len(data) != _IDS_BYTES + _MAC_BYTES:
        return None
    ids, given = data[:_IDS_BYTES], data[_IDS_BYTES:]
    if not any(
        hmac.compare_digest(hmac.digest(derive_key(key, _PURPOSE), ids, "sha256"), given)
        for key in keyring.keys.accepted
    ):
        return None
    return RefreshToken(*(UUID(bytes=ids[start : start + 16]) for start in (0, 16, 32)))
