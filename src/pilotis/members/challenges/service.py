"""What tells people from robots: proof of work, a vendor, or a function of the app. What solved it works once.

Proof of work is a puzzle that the server signs and does not store.

A solution is a text `challenge.nonce` whose SHA-256 begins with as many zero bits as the challenge demands. It says
nothing of the client, sends nothing to others, and costs robots more than people.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, Client
from pilotis.kit.account_settings import ChallengedAction
from pilotis.kit.crypto import MasterKeyring, base64url, derive_key, from_base64url
from pilotis.kit.errors import ForbiddenError
from pilotis.members.challenges.types import Puzzle
from pilotis.members.challenges.vendors import MAX_TOKEN, Outcome, VendorChallenges
from pilotis.members.hooks import Hooks
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


VendorSecret = Callable[[UUID], Awaitable[str | None]]
"""Returns what proves an app to the vendor of its challenges; None if it is not set."""
_BY_VENDOR = "Send the token of the widget of challenge.provider as X-Challenge-Token: it is absent, wrong or used."
_UNREACHABLE = "The challenge cannot be verified now. Try again later."


class Challenges:
    """Sets puzzles, and checks what solves them."""

    def __init__(
        self, database: Database, rate_limits: RateLimits, keys: MasterKeyring, vendors: VendorChallenges, hooks: Hooks
    ) -> None:
        self._database = database
        self._rate_limits = rate_limits
        self._keys = keys
        self._vendors = vendors
        self._hooks = hooks
        self._secret: VendorSecret | None = None

    def attach(self, secret: VendorSecret) -> None:
        """Set what returns the secrets of apps at their vendors."""
        self._secret = secret

    def new(self, app: AppInfo) -> Puzzle:
        """Return a puzzle of an app; nothing is stored."""
        expires = int(time.time()) + LIFETIME_SECONDS
        body = _BODY.pack(app.app_id.bytes, expires, DIFFICULTY, secrets.token_bytes(16))
        text = base64url(body + _tag(self._keys.keys.current, body))
        return Puzzle(challenge=text, difficulty=DIFFICULTY, expires_in=LIFETIME_SECONDS)

    async def require(self, app: AppInfo, client: Client, token: str | None, action: ChallengedAction) -> None:
        """Raise `ChallengeRequiredError` unless the app lets the action pass, or the token solves a challenge of it.

        A solution is used up by that. Raises what the app's hook does.
        """
        if action in app.accounts.challenge_on:
            await self.require_solved(app, client, token, action)

    async def require_solved(self, app: AppInfo, client: Client, token: str | None, action: ChallengedAction) -> None:
        """Raise `ChallengeRequiredError` unless the token solves a challenge of the app, which is used up by that."""
        provider, hook = app.accounts.challenge.provider, app.accounts.hooks.verify_challenge
        if hook is None and provider == "proof_of_work":
            if token is None or not self._is_solved(app.app_id, token):
                raise ChallengeRequiredError
            # By the puzzle: another solution of it is none.
            return await self._use(app.app_id, token.partition(".")[0])
        if not token or len(token) > MAX_TOKEN:
            raise ChallengeRequiredError(_BY_VENDOR)
        if hook is not None:
            await self._hooks.verify_challenge(app, client, token, action)
        else:
            await self._ask_vendor(app, client, token)
        return await self._use(app.app_id, token)

    async def _ask_vendor(self, app: AppInfo, client: Client, token: str) -> None:
        challenge = app.accounts.challenge
        secret = None if self._secret is None else await self._secret(app.app_id)
        # A copy of an app without its secrets cannot ask.
        if secret is None:
            raise ChallengeRequiredError(_UNREACHABLE)
        outcome = await self._vendors.verify(challenge.provider, secret, token, client.address)
        if outcome is Outcome.WRONG:
            raise ChallengeRequiredError(_BY_VENDOR)
        if outcome is Outcome.UNREACHABLE and not challenge.open_when_unreachable:
            raise ChallengeRequiredError(_UNREACHABLE)

    async def _use(self, app_id: UUID, what: str) -> None:
        used = hashlib.sha256(what.encode()).hexdigest()
        async with self._database.transaction(app_id) as connection:
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
