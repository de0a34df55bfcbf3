"""Sign-ins as sessions. One row is one family of refresh tokens; the row alone decides which tokens are good.

A pair of tokens follows from the row word for word: same ids, same times, so a client that retries a refresh within
10 seconds gets the very pair it missed. A refresh token used later than that has been copied: the family ends.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import UUID, uuid5

import msgspec
from asyncpg import Connection, Record

from pilotis.db.pool import Database
from pilotis.http.principals import InvalidTokenError
from pilotis.kit.errors import UnauthorizedError
from pilotis.kit.ids import is_uuid, uuid7
from pilotis.kit.signing import Claims, TokenError, TokenKind, TokenSigner, looks_like
from pilotis.sessions import store

CONSOLE = UUID(int=0)
ACCESS_LIFETIME = timedelta(hours=1)
REFRESH_LIFETIME = timedelta(days=30)
GUEST_REFRESH_LIFETIME = timedelta(days=90)
RETRY_WINDOW = timedelta(seconds=10)


class TokenPair(msgspec.Struct, frozen=True):
    """What a sign-in gives: an access token for an hour, a refresh token for getting the next pair."""

    access_token: str
    refresh_token: str


class RefreshTokenReusedError(UnauthorizedError):
    """401: a refresh token that was already used came again; its whole session is revoked (RFC 9700, section 4.14)."""

    code = "REFRESH_TOKEN_REUSED"
    message = "This refresh token was used before. The session has been ended; sign in again."


class Sessions:
    """Starts, refreshes and ends sessions, and verifies their tokens."""

    def __init__(self, database: Database, signer: TokenSigner) -> None:
        self._database = database
        self._signer = signer

    async def start(
        self, connection: Connection, app_id: UUID, subject: str, lifetime: timedelta = REFRESH_LIFETIME
    ) -> TokenPair:
        """Start a session in the caller's transaction and return its first pair."""
        row = await store.insert(connection, app_id, uuid7(), subject, uuid7(), lifetime)
        return self._pair(row)

    async def sign_in(self, app_id: UUID, subject: str, attempts_key: str) -> TokenPair:
        """Start a session for whoever gave the right password; the attempts counted under the key are forgotten."""
        row = await store.sign_in(self._database, app_id, uuid7(), subject, uuid7(), REFRESH_LIFETIME, attempts_key)
        return self._pair(row)

    def access_claims(self, token: str, *, console: bool) -> Claims:
        """Return a valid access token's claims; whether its session still lives is for the caller to look up."""
        return self._claims(TokenKind.CONSOLE_ACCESS if console else TokenKind.MEMBER_ACCESS, token)

    def is_console_token(self, token: str) -> bool:
        """Tell whether a token claims to be a console user's access token."""
        return looks_like(TokenKind.CONSOLE_ACCESS, token)

    def refresh_claims(self, token: str) -> Claims:
        """Return the claims of a valid refresh token, a console user's or a member's."""
        console = looks_like(TokenKind.CONSOLE_REFRESH, token)
        return self._claims(TokenKind.CONSOLE_REFRESH if console else TokenKind.MEMBER_REFRESH, token)

    async def refresh(self, claims: Claims) -> TokenPair:
        """Exchange a refresh token, by its claims, for the next pair.

        Raises `InvalidTokenError` where the session is over, `RefreshTokenReusedError` where this ends it.
        """
        app_id, session_id, refresh_id = claims.app_id, claims.sid, claims.jti
        row = await store.rotate(self._database, app_id, session_id, refresh_id, uuid7())
        if row is None:
            row = await store.just_rotated(self._database, app_id, session_id, refresh_id, RETRY_WINDOW)
        if row is None:
            if await store.revoke(self._database, app_id, session_id):
                raise RefreshTokenReusedError
            raise InvalidTokenError
        return self._pair(row)

    async def revoke(self, app_id: UUID, session_id: UUID) -> bool:
        """End one session, its access tokens included; False if it was over already."""
        return await store.revoke(self._database, app_id, session_id)

    async def revoke_all(self, connection: Connection, app_id: UUID, subject: str) -> int:
        """End every session of a member or console user and return how many there were."""
        return await store.revoke_all(connection, app_id, subject)

    async def delete_expired(self, connection: Connection) -> None:
        """Delete sessions that have been over for a day."""
        await store.delete_expired(connection)

    def _claims(self, kind: TokenKind, token: str) -> Claims:
        try:
            claims = self._signer.verify(kind, token, time.time())
        except TokenError:
            raise InvalidTokenError from None
        console = kind in {TokenKind.CONSOLE_ACCESS, TokenKind.CONSOLE_REFRESH}
        if console != (claims.app_id == CONSOLE) or (console and not is_uuid(claims.sub)):
            raise InvalidTokenError
        return claims

    def _pair(self, row: Record) -> TokenPair:
        console = row["app_id"] == CONSOLE
        access = TokenKind.CONSOLE_ACCESS if console else TokenKind.MEMBER_ACCESS
        refresh = TokenKind.CONSOLE_REFRESH if console else TokenKind.MEMBER_REFRESH
        issued = int(row["refreshed_at"].timestamp())
        refresh_id = row["refresh_id"]

        def sign(kind: TokenKind, token_id: UUID, expires: int) -> str:
            return self._signer.sign(
                kind,
                sub=row["subject"],
                app_id=row["app_id"],
                sid=row["session_id"],
                jti=token_id,
                iat=issued,
                exp=expires,
            )

        return TokenPair(
            sign(access, uuid5(refresh_id, "access"), issued + int(ACCESS_LIFETIME.total_seconds())),
            sign(refresh, refresh_id, int(row["expires_at"].timestamp())),
        )
