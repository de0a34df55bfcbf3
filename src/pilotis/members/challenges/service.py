"""Proof of work: a puzzle that the server signs and does not store, whose solution works once.

A solution is a text `challenge.nonce` whose SHA-256 begins with as many zero bits as the challenge demands. It says
nothing of the client, sends nothing to others, and costs robots more than people.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import time
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo
from pilotis.kit.account_settings import ChallengedAction
from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, from_base64url
from pilotis.kit.errors import ForbiddenError
from pilotis.members.challenges.types import Puzzle
from pilotis.security.rate_limits import RateLimits

HEADER = b"x-challenge-token"
LIFETIME_SECONDS = 300
DIFFICULTY = 16
_MAX_LENGTH = 200
_BODY = struct.Struct(">16sIB16s")
_TAG = 16


class ChallengeRequiredError(ForbiddenError):
    """403: the app asks for a solved challenge in `X-Challenge-Token`; there is none, or it is wrong or was used."""

    code = "CHALLENGE_REQUIRED"
    message = "Solve a challenge of POST /v1/public/challenges, and send `challenge.nonce` as X-Challenge-Token."


class Challenges:
    """Sets puzzles, and checks what solves them."""

    def __init__(self, database: Database, rate_limits: RateLimits, keys: MasterKeyring) -> None:
        self._database = database
        self._rate_limits = rate_limits
        self._keys = keys

    def new(self, app: AppInfo) -> Puzzle:
        """Return a puzzle of an app; nothing is stored."""
        expires = int(time.time()) + LIFETIME_SECONDS
        body = _BODY.pack(app.app_id.bytes, expires, DIFFICULTY, secrets.token_bytes(16))
        text = base64url(body + _tag(self._keys.keys.current, body))
        return Puzzle(challenge=text, difficulty=DIFFICULTY, expires_in=LIFETIME_SECONDS)

    async def require(self, app: AppInfo, token: str | None, action: ChallengedAction) -> None:
        """Raise `ChallengeRequiredError` unless the app lets the action pass, or the token solves a puzzle of it.

        A solution is used up by that.
        """
        if action in app.accounts.challenge_on:
            await self.require_solved(app, token)

    async def require_solved(self, app: AppInfo, token: str | None) -> None:
        """Raise `ChallengeRequiredError` unless the token solves a puzzle of the app, which is used up by that."""
        if token is None or not self._is_solved(app.app_id, token):
            raise ChallengeRequiredError
        # By the puzzle: another solution of it is none.
        used = hashlib.sha256(token.partition(".")[0].encode()).hexdigest()
        async with self._database.transaction(app.app_id) as connection:
            if not await self._rate_limits.permits(connection, f"challenge:{used}", 1, LIFETIME_SECONDS):
                raise ChallengeRequiredError

    def _is_solved(self, app_id: UUID, token: str) -> bool:
        text, dot, nonce = token.partition(".")
        if len(token) > _MAX_LENGTH or not token.isascii() or not dot or not nonce:
            return False
        data = from_base64url(text)
        if data is None or len(data) != _BODY.size + _TAG or base64url(data) != text:
            return False
        body, tag = data[:-_TAG], data[-_TAG:]
        if not any(hmac.compare_digest(_tag(key, body), tag) for key in self._keys.keys.accepted):
            return False
        owner, expires, difficulty, _ = _BODY.unpack(body)
        if owner != app_id.bytes or expires < time.time():
            return False
        digest = hashlib.sha256(token.encode()).digest()
        return bool(int.from_bytes(digest) >> (256 - difficulty) == 0)


def _tag(master_key: bytes, body: bytes) -> bytes:
    return hmac.digest(derive_key(master_key, "members/challenges"), body, "sha256")[:_TAG]
