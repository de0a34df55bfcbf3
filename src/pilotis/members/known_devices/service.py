"""Tokens of devices: who has one signs in by password while strangers guess it, without a solved challenge.

A token says that the right password was once sent from where it is kept. It is signed and stored nowhere, holds for one
member and one password, and permits ten tries an hour, so that a stolen one guesses little.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import time
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, from_base64url
from pilotis.members.gate.service import password_version
from pilotis.members.records import Entrant
from pilotis.security.rate_limits import HOUR_SECONDS, RateLimits

HEADER = b"x-device-token"
LIFETIME_SECONDS = 90 * 24 * 3600
_TRIES_PER_HOUR = 10
_MAX_TOKENS = 5
_BODY = struct.Struct(">16sI16s8s")
_TAG = 16


class KnownDevices:
    """Makes and checks the tokens of devices."""

    def __init__(self, database: Database, rate_limits: RateLimits, keys: MasterKeyring) -> None:
        self._database = database
        self._rate_limits = rate_limits
        self._keys = keys

    def token(self, app_id: UUID, entrant: Entrant) -> str:
        """Return a token for a member that has sent its password."""
        body = _BODY.pack(app_id.bytes, int(time.time()) + LIFETIME_SECONDS, *_subject(entrant))
        return base64url(body + _tag(self._keys.keys.current, body))

    async def permits(self, app_id: UUID, entrant: Entrant | None, text: str | None) -> bool:
        """Count a try with the member's token among at most five, with commas between them.

        A device on which several members sign in has one of each, and need not know whose they are. False where all are
        of other members or passwords, and after ten tries in an hour.
        """
        if entrant is None or text is None:
            return False
        tokens = [one.strip() for one in text.split(",", _MAX_TOKENS)[:_MAX_TOKENS]]
        own = next((one for one in tokens if self._is_of(app_id, entrant, one)), None)
        if own is None:
            return False
        used = hashlib.sha256(own.encode()).hexdigest()
        async with self._database.transaction(app_id) as connection:
            return await self._rate_limits.permits(connection, f"device:{used}", _TRIES_PER_HOUR, HOUR_SECONDS)

    def _is_of(self, app_id: UUID, entrant: Entrant, text: str) -> bool:
        data = from_base64url(text) if text.isascii() else None
        # Only one way of writing it counts, or each would have tries of its own.
        if data is None or len(data) != _BODY.size + _TAG or base64url(data) != text:
            return False
        body, tag = data[:-_TAG], data[-_TAG:]
        if not any(hmac.compare_digest(_tag(key, body), tag) for key in self._keys.keys.accepted):
            return False
        owner, expires, *subject = _BODY.unpack(body)
        return owner == app_id.bytes and expires > time.time() and tuple(subject) == _subject(entrant)


def _subject(entrant: Entrant) -> tuple[bytes, bytes]:
    member = hashlib.sha256(entrant.member_id.encode()).digest()[:16]
    return member, password_version(entrant.password_hash)[:8]


def _tag(master_key: bytes, body: bytes) -> bytes:
    return hmac.digest(derive_key(master_key, "members/devices"), body, "sha256")[:_TAG]
