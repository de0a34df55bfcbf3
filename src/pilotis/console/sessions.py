"""A console user's session in a browser: the refresh token is in a cookie, the access token in the page's memory."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from pilotis.console.types import ConsoleSession, SessionPasskey, SessionSecondFactor, SessionStart
from pilotis.http.api.cookies import SetCookie
from pilotis.http.api.principals import Client, InvalidTokenError
from pilotis.limits import Limits
from pilotis.security.sessions.service import Sessions, refresh_lifetime
from pilotis.user_accounts.passkeys.service import UserPasskeys
from pilotis.user_accounts.service import UserFactorService
from pilotis.users.service import Users
from pilotis.users.types import SignedInUser, UserSignIn

COOKIE = "pilotis_session"
PATH = "/v1/auth/session"
# The value says whether the browser keeps the cookie, which must not change when it is rotated.
_KEPT, _PASSING = "kept.", "passing."


class Opened(NamedTuple):
    """The response about a session, and the cookie with its refresh token."""

    session: ConsoleSession
    cookie: SetCookie


class BrowserSessions:
    """Starts, refreshes and ends the sessions of browsers."""

    def __init__(
        self,
        users: Users,
        factors: UserFactorService,
        passkeys: UserPasskeys,
        sessions: Sessions,
        limits: Limits,
    ) -> None:
        self._users = users
        self._factors = factors
        self._passkeys = passkeys
        self._sessions = sessions
        self._limits = limits

    async def start(self, client: Client, start: SessionStart, agent: str | None) -> Opened:
        """Sign in; raises the errors of `Users.sign_in`."""
        signed_in = await self._users.sign_in(client, UserSignIn(start.email, start.password), agent)
        return await self._opened(signed_in, is_kept=start.remember)

    async def finish(self, client: Client, given: SessionSecondFactor, agent: str | None) -> Opened:
        """Finish a sign-in by a second factor; raises the errors of `UserFactorService.finish`."""
        signed_in = await self._factors.finish(client, given, agent)
        return await self._opened(signed_in, is_kept=given.remember)

    async def start_by_passkey(self, client: Client, given: SessionPasskey, agent: str | None) -> Opened:
        """Sign in by a passkey; raises the errors of `UserPasskeys.sign_in`."""
        signed_in = await self._passkeys.sign_in(client, given, agent)
        return await self._opened(signed_in, is_kept=given.remember)

    async def _opened(self, signed_in: SignedInUser, *, is_kept: bool) -> Opened:
        session = ConsoleSession(
            user_id=signed_in.user_id,
            email=signed_in.email,
            access_token=signed_in.access_token,
            expires_in=self._limits.access_token_seconds,
            may_create_apps=await self._users.may_create_apps(signed_in.user_id),
        )
        return Opened(session, self._cookie(signed_in.refresh_token, is_kept=is_kept))

    async def renew(self, value: str | None) -> Opened:
        """Exchange the cookie for the next one and an access token; raises `InvalidTokenError`."""
        token, is_kept = _parse(value)
        claims = self._sessions.refresh_claims(token)
        user_id = _user_id(claims.app_id, claims.sub)
        user = await self._users.read(user_id)
        await self._users.require_active(user_id)
        pair = await self._sessions.refresh(claims, self._limits)
        session = ConsoleSession(
            user_id=user_id,
            email=user.email,
            access_token=pair.access_token,
            expires_in=self._limits.access_token_seconds,
            may_create_apps=await self._users.may_create_apps(user_id),
        )
        return Opened(session, self._cookie(pair.refresh_token, is_kept=is_kept))

    async def end(self, value: str | None) -> UUID:
        """End the cookie's session and return its id; raises `InvalidTokenError`."""
        claims = self._sessions.refresh_claims(_parse(value)[0])
        _user_id(claims.app_id, claims.sub)
        await self._sessions.revoke(claims.app_id, claims.sid)
        return claims.sid

    def _cookie(self, token: str, *, is_kept: bool) -> SetCookie:
        seconds = int(refresh_lifetime(self._limits).total_seconds())
        return SetCookie(
            name=COOKIE,
            value=(_KEPT if is_kept else _PASSING) + token,
            max_age=seconds if is_kept else None,
            path=PATH,
            same_site="Strict",
        )


FORGET = SetCookie(name=COOKIE, value="", max_age=0, path=PATH, same_site="Strict")


def _parse(value: str | None) -> tuple[str, bool]:
    for prefix in (_KEPT, _PASSING):
        if value is not None and value.startswith(prefix):
            return value.removeprefix(prefix), prefix is _KEPT
    raise InvalidTokenError("This browser has no session. Sign in.")


def _user_id(app_id: UUID, subject: str) -> UUID:
    if app_id.int:
        raise InvalidTokenError
    return UUID(subject)
