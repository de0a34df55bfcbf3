"""Sign-ins as sessions. One row is one family of refresh tokens; the row alone decides which tokens are valid.

A pair of tokens is computed from the row, with the same ids and times, so a client that soon retries a refresh gets the
same pair again. It may retry until a token of the new pair was used, and a little longer: a tab that was frozen in
between has lost the pair. A refresh token that is used later must have been copied, so the family ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid5

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import InvalidTokenError, TokenFault
from pilotis.kit.errors import NotFoundError, UnauthorizedError
from pilotis.kit.ids import is_uuid, uuid7
from pilotis.kit.signing import Claims, TokenError, TokenExpiredError, TokenKind, TokenSigner, claimed_kind, looks_like
from pilotis.limits import Limits
from pilotis.security.sessions import store
from pilotis.security.sessions.types import Device, Session

CONSOLE = UUID(int=0)
unused_successor = store.UNUSED_SUCCESSOR
"""The expression for a statement that verifies a session `s`; see `Sessions.tokens_used`."""
session_insert = store.insertion
"""The insert of a session, for the statement that creates its member; see `Sessions.opening`."""


def refresh_lifetime(limits: Limits, *, is_guest: bool = False) -> timedelta:
    """Return the lifetime of a refresh token."""
    seconds = limits.guest_refresh_token_seconds if is_guest else limits.refresh_token_seconds
    return timedelta(seconds=seconds)


class TokenPair(msgspec.Struct, frozen=True):
    """The result of a sign-in: an access token, and a refresh token for the next pair."""

    access_token: str
    refresh_token: str


class SessionOrigin(NamedTuple):
    """Where a subject signs in from: its address, which is kept of console users alone, and its browser or program."""

    address: str | None
    user_agent: str | None


class Proof(NamedTuple):
    """How a subject has signed in: its methods, how many factors they are, and what the session still awaits.

    `proven_at` is when, if not as the session begins.
    """

    methods: list[str]
    level: int = 1
    awaits: Sequence[str] = ()
    proven_at: datetime | None = None


class SessionNotFoundError(NotFoundError):
    """404: there is no such active session."""

    code = "SESSION_NOT_FOUND"
    message = "There is no such active session."


class RefreshTokenReusedError(UnauthorizedError):
    """401: a refresh token was used a second time; its whole session is revoked (RFC 9700, section 4.14)."""

    code = "REFRESH_TOKEN_REUSED"
    message = "This refresh token was used before. The session has been ended; sign in again."


class Sessions:
    """Starts, refreshes and ends sessions, and verifies their tokens."""

    def __init__(self, database: Database, signer: TokenSigner) -> None:
        self._database = database
        self._signer = signer

    def opening(
        self, limits: Limits, agent: str | None, *, is_guest: bool = False
    ) -> tuple[UUID, UUID, timedelta, str, str | None]:
        """Return the arguments of a `session_insert` for a member who signs in for the first time."""
        return uuid7(), uuid7(), refresh_lifetime(limits, is_guest=is_guest), "pwd", agent

    def opened(self, session: Session, limits: Limits) -> TokenPair:
        """Return the first pair of tokens of an inserted session."""
        return self._pair(session, limits)

    async def start(
        self,
        connection: Connection,
        app_id: UUID,
        subject: str,
        limits: Limits,
        origin: SessionOrigin | None = None,
        *,
        is_guest: bool = False,
        session_id: UUID | None = None,
        method: str = "pwd",
        proof: Proof | None = None,
    ) -> TokenPair:
        """Start a session in the caller's transaction and return its first pair; `limits` are the app's.

        `method` is how the subject has signed in, in the words of RFC 8176; `fed` is at another provider. `proof` says
        it in more detail.
        """
        lifetime = refresh_lifetime(limits, is_guest=is_guest)
        session_id = session_id or uuid7()
        address, agent = origin or (None, None)
        row = await store.insert(
            connection, app_id, session_id, subject, uuid7(), lifetime, method, address, agent, *(proof or ())
        )
        return self._pair(row, limits)

    async def reprove(
        self, connection: Connection, app_id: UUID, session_id: UUID, method: str, level: int
    ) -> datetime | None:
        """Record that the subject of a session has proved again who it is, and return when; None if it has ended."""
        return await store.reprove(connection, app_id, session_id, method, level)

    async def proof_of(self, connection: Connection, app_id: UUID, session_id: UUID) -> Proof | None:
        """Return how an active session was proved; None of one in which nobody has proved anything."""
        found = await store.proof_of(connection, app_id, session_id)
        return None if found is None else Proof(*found)

    async def devices(self, app_id: UUID, subject: str) -> list[Device]:
        """Return a member's active sessions with how each began, the one used last first."""
        return await store.devices(self._database, app_id, subject)

    async def complete(self, connection: Connection, app_id: UUID, subject: str, proof: str) -> None:
        """Record that the active sessions of a subject no longer await a proof."""
        await store.complete(connection, app_id, subject, proof)

    async def sign_in(
        self,
        app_id: UUID,
        subject: str,
        attempts_key: str,
        password_hash: str,
        limits: Limits,
        origin: SessionOrigin,
    ) -> TokenPair | None:
        """Start a session for a console user who sent the right password, and reset the attempts counted under the key.

        Returns None if the account has changed since the password was compared with its hash.
        """
        lifetime = refresh_lifetime(limits)
        row = await store.sign_in(
            self._database, app_id, uuid7(), subject, uuid7(), lifetime, attempts_key, password_hash, *origin
        )
        return self._pair(row, limits) if row else None

    async def sign_in_member(
        self,
        app_id: UUID,
        subject: str,
        attempts_key: str,
        password_hash: str,
        limits: Limits,
        event: str,
        agent: str | None,
    ) -> tuple[TokenPair, bool] | None:
        """Start a session for a member as `sign_in` does; also return whether its event, JSON, was stored."""
        lifetime = refresh_lifetime(limits)
        row = await store.sign_in(
            self._database, app_id, uuid7(), subject, uuid7(), lifetime, attempts_key, password_hash, event, agent
        )
        return (self._pair(row, limits), row.emitted) if row else None

    def access_claims(self, token: str, *, console: bool) -> Claims:
        """Return a valid access token's claims; the caller checks whether its session is still active."""
        return self._claims(TokenKind.CONSOLE_ACCESS if console else TokenKind.MEMBER_ACCESS, token)

    async def tokens_used(self, used: Sequence[tuple[Claims, UUID | None]]) -> None:
        """Record the first use of a pair after a refresh, by the claims of access tokens of one app.

        Beside each is what `unused_successor` has found for its session.
        """
        first = {
            claims.sid: refresh_id
            for claims, refresh_id in used
            if refresh_id is not None and claims.jti == _access_id(refresh_id)
        }
        if first:
            await store.successor_used(self._database, used[0][0].app_id, list(first), list(first.values()))

    def is_console_token(self, token: str) -> bool:
        """Return whether a token claims to be a console user's access token."""
        return looks_like(TokenKind.CONSOLE_ACCESS, token)

    def refresh_claims(self, token: str) -> Claims:
        """Return the claims of a valid refresh token, a console user's or a member's."""
        console = looks_like(TokenKind.CONSOLE_REFRESH, token)
        return self._claims(TokenKind.CONSOLE_REFRESH if console else TokenKind.MEMBER_REFRESH, token)

    async def refresh(self, claims: Claims, limits: Limits, *, is_guest: bool = False) -> TokenPair:
        """Exchange a refresh token, by its claims, for the next pair.

        The new pair has the lifetime of the previous one, within the limits.

        Raises `InvalidTokenError` if the session has ended, and `RefreshTokenReusedError` if this ends it.
        """
        app_id, session_id, refresh_id = claims.app_id, claims.sid, claims.jti
        lifetime, window = refresh_lifetime(limits, is_guest=is_guest), timedelta(seconds=limits.refresh_retry_seconds)
        row = await store.rotate(self._database, app_id, session_id, refresh_id, uuid7(), lifetime)
        if row is None:
            row = await store.just_rotated(self._database, app_id, session_id, refresh_id, window)
        if row is None:
            if await store.revoke(self._database, app_id, session_id):
                raise RefreshTokenReusedError
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return self._pair(row, limits)

    def short_token(self, app_id: UUID, subject: str, session_id: UUID, seconds: int) -> str:
        """Return an access token of a member's active session that is valid for so many seconds."""
        now = int(time.time())
        return self._signer.sign(
            TokenKind.MEMBER_ACCESS, sub=subject, app_id=app_id, sid=session_id, jti=uuid7(), iat=now, exp=now + seconds
        )

    async def start_brief(self, connection: Connection, app_id: UUID, subject: str, seconds: int) -> tuple[UUID, str]:
        """Start a session of a member that nobody can refresh, and return it with its access token.

        Both end after so many seconds. The method is one that no sign-in has: nobody has proved to be the member.
        """
        return await self._start_brief(connection, app_id, subject, seconds)

    async def start_impersonation(
        self, connection: Connection, app_id: UUID, subject: str, seconds: int, impersonator: str
    ) -> tuple[UUID, str]:
        """Start a session as `start_brief` does, in which somebody of the app's team acts as the member."""
        return await self._start_brief(
            connection, app_id, subject, seconds, methods=["impersonation"], impersonator=impersonator
        )

    async def _start_brief(
        self,
        connection: Connection,
        app_id: UUID,
        subject: str,
        seconds: int,
        methods: Sequence[str] | None = None,
        impersonator: str | None = None,
    ) -> tuple[UUID, str]:
        row = await store.insert(
            connection,
            app_id,
            uuid7(),
            subject,
            uuid7(),
            timedelta(seconds=seconds),
            "console",
            methods=methods,
            impersonator=impersonator,
        )
        return row.session_id, self.short_token(app_id, subject, row.session_id, seconds)

    async def active(self, app_id: UUID, subject: str) -> list[Session]:
        """Return a subject's active sessions, the one used last first."""
        return await store.active(self._database, app_id, subject)

    async def revoke_of(self, connection: Connection, app_id: UUID, subject: str, session_id: UUID) -> None:
        """End a session of a subject; raises `SessionNotFoundError`."""
        if not await store.revoke_of(connection, app_id, subject, session_id):
            raise SessionNotFoundError

    async def revoke(self, app_id: UUID, session_id: UUID) -> bool:
        """End a session with its access tokens; False if it had already ended."""
        return await store.revoke(self._database, app_id, session_id)

    async def sign_out_member(self, app_id: UUID, session_id: UUID, event: str) -> bool:
        """End a member's session as `revoke` does; return whether its event, JSON without data, was stored."""
        return await store.sign_out_member(self._database, app_id, session_id, event)

    async def revoke_all(self, connection: Connection, app_id: UUID, subject: str, kept: UUID | None = None) -> int:
        """End all sessions of a member or console user except one to keep, and return how many."""
        return await store.revoke_all(connection, app_id, subject, kept)

    async def delete_expired(self, connection: Connection) -> None:
        """Delete sessions that ended more than a day ago."""
        await store.delete_expired(connection)

    def _claims(self, kind: TokenKind, token: str) -> Claims:
        try:
            claims = self._signer.verify(kind, token, time.time())
        except TokenExpiredError:
            raise InvalidTokenError(fault=TokenFault.EXPIRED) from None
        except TokenError:
            raise _not_valid(kind, token) from None
        console = kind in {TokenKind.CONSOLE_ACCESS, TokenKind.CONSOLE_REFRESH}
        if console != (claims.app_id == CONSOLE) or (console and not is_uuid(claims.sub)):
            raise InvalidTokenError
        return claims

    def _pair(self, session: Session, limits: Limits) -> TokenPair:
        console = session.app_id == CONSOLE
        access = TokenKind.CONSOLE_ACCESS if console else TokenKind.MEMBER_ACCESS
        refresh = TokenKind.CONSOLE_REFRESH if console else TokenKind.MEMBER_REFRESH
        issued = int(session.refreshed_at.timestamp())
        refresh_id = session.refresh_id

        def sign(kind: TokenKind, token_id: UUID, expires: int) -> str:
            return self._signer.sign(
                kind,
                sub=session.subject,
                app_id=session.app_id,
                sid=session.session_id,
                jti=token_id,
                iat=issued,
                exp=expires,
            )

        return TokenPair(
            sign(access, _access_id(refresh_id), issued + limits.access_token_seconds),
            sign(refresh, refresh_id, int(session.expires_at.timestamp())),
        )


def _access_id(refresh_id: UUID) -> UUID:
    """Return the id of the access token in the pair of a refresh token."""
    return uuid5(refresh_id, "access")


_KINDS = {
    TokenKind.MEMBER_ACCESS: "a member's access token",
    TokenKind.MEMBER_REFRESH: "a member's refresh token",
    TokenKind.CONSOLE_ACCESS: "a console user's access token",
    TokenKind.CONSOLE_REFRESH: "a console user's refresh token",
}


def _not_valid(wanted: TokenKind, token: str) -> InvalidTokenError:
    """Return the error about a token that is not of the wanted kind, or of none."""
    found = claimed_kind(token)
    if found is None or found is wanted:
        return InvalidTokenError(fault=TokenFault.MALFORMED)
    is_one = f"This is {_KINDS[found]}" if found in _KINDS else "This is a token of another kind"
    return InvalidTokenError(f"{is_one}; {_KINDS[wanted]} belongs here.", TokenFault.WRONG_KIND)
