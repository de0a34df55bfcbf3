"""App members: signing up, signing in, guests and their promotion, and a member's own record."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.call import Call
from pilotis.http.principals import AppInfo, InvalidPublicKeyError, InvalidTokenError, MemberInfo
from pilotis.kit import json
from pilotis.kit.errors import ConflictError, ForbiddenError, PayloadTooLargeError, UnauthorizedError, invalid
from pilotis.kit.ids import uuid7_text
from pilotis.kit.passwords import Passwords
from pilotis.limits import Limits
from pilotis.members import store
from pilotis.members.types import LOGIN_ID_LENGTH, CustomData, OwnRecord, SignedIn, SignedInGuest, SignIn, SignUp
from pilotis.rates.service import RateLimits, rate_key
from pilotis.sessions.service import GUEST_REFRESH_LIFETIME, Sessions

GUEST_PREFIX = "guest_"


class LoginIdTakenError(ConflictError):
    """409: another member of the app has this login_id."""

    code = "LOGIN_ID_TAKEN"
    message = "This login_id is taken. Choose another one."


class InvalidCredentialsError(UnauthorizedError):
    """401: the login_id is unknown or the password is wrong; which of the two is not told."""

    code = "INVALID_CREDENTIALS"
    message = "The login_id or the password is wrong."


class LoginDisabledError(ForbiddenError):
    """403: the app has this way of signing in switched off."""

    code = "LOGIN_DISABLED"
    message = "This way of signing in is switched off for this app."


class MemberInactiveError(ForbiddenError):
    """403: the member has been deactivated."""

    code = "MEMBER_INACTIVE"
    message = "This member has been deactivated."


class NotAGuestError(ConflictError):
    """409: only a guest can be promoted by signing up, and only once."""

    code = "NOT_A_GUEST"
    message = "The token's member is no guest. Sign up without a token to make another member."


class Members:
    """What members do for themselves."""

    def __init__(self, database: Database, sessions: Sessions, passwords: Passwords, rate_limits: RateLimits) -> None:
        self._database = database
        self._sessions = sessions
        self._passwords = passwords
        self._rate_limits = rate_limits

    async def sign_up(self, app: AppInfo, new: SignUp, guest: MemberInfo | None) -> SignedIn:
        """Make a member, or make the given guest one, keeping its id and data; sign it in."""
        if not app.allow_id_password_login:
            raise LoginDisabledError
        if guest is not None and not guest.is_guest:
            raise NotAGuestError
        check_password(new.password, app.limits)
        login_id = _normalised(new.login_id)
        password_hash = await self._passwords.hash(new.password)
        member_id, nickname = guest.member_id if guest else uuid7_text(), new.nickname
        async with _unique_login_id(), self._database.transaction() as connection:
            if guest is None:
                await self._insert(connection, app, member_id, login_id, password_hash, nickname)
            else:
                promoted = await store.promote(connection, app.app_id, member_id, login_id, password_hash, nickname)
                if promoted is None:
                    raise NotAGuestError
                nickname = promoted["nickname"]
                # Whoever knew the guest's tokens must not know the member's.
                await self._sessions.revoke_all(connection, app.app_id, member_id)
            tokens = await self._sessions.start(connection, app.app_id, member_id)
        return SignedIn(member_id, nickname, tokens.access_token, tokens.refresh_token)

    async def sign_in(self, call: Call, credentials: SignIn) -> SignedIn:
        """Sign a member in; an unknown login_id costs the time of a wrong password and gives the same answer.

        The rate limit counts for the login_id and the call's address.
        """
        app = call.app
        if not app.allow_id_password_login:
            raise LoginDisabledError
        login_id = _normalised(credentials.login_id)
        key = rate_key("signin", call, login_id)
        row = await self._rate_limits.attempt_sign_in(
            call, key, app.limits.signin_per_minute, store.BY_LOGIN_ID, app.app_id, login_id
        )
        if not await self._passwords.verify(row["password_hash"], credentials.password):
            raise InvalidCredentialsError
        if not row["is_active"]:
            await self._rate_limits.forgive(key)
            raise MemberInactiveError
        member_id = row["member_id"]
        tokens = await self._sessions.sign_in(app.app_id, member_id, key)
        return SignedIn(member_id, row["nickname"], tokens.access_token, tokens.refresh_token)

    async def create_guest(self, app: AppInfo) -> SignedInGuest:
        """Make an anonymous member and sign it in for 90 days."""
        if not app.allow_guest_login:
            raise LoginDisabledError
        member_id = GUEST_PREFIX + uuid7_text()
        async with self._database.transaction() as connection:
            await self._insert(connection, app, member_id, None, None, None)
            tokens = await self._sessions.start(connection, app.app_id, member_id, GUEST_REFRESH_LIFETIME)
        return SignedInGuest(member_id, tokens.access_token, tokens.refresh_token)

    @staticmethod
    async def _insert(
        connection: Connection,
        app: AppInfo,
        member_id: str,
        login_id: str | None,
        password_hash: str | None,
        nickname: str | None,
    ) -> None:
        # What this node remembers of the app may be a moment old.
        if not await store.insert(connection, app.app_id, member_id, login_id, password_hash, nickname):
            raise InvalidPublicKeyError

    async def authenticate(self, token: str) -> tuple[UUID, MemberInfo]:
        """Return the app's id and the member of an access token whose session lives and whose member is active."""
        claims = self._sessions.access_claims(token, console=False)
        app_id, session_id = claims.app_id, claims.sid
        row = await store.of_session(self._database, app_id, session_id, claims.sub)
        if row is None:
            raise InvalidTokenError
        if not row["is_active"]:
            raise MemberInactiveError
        if row["active_again"]:
            await store.touch(self._database, app_id, claims.sub)
        return app_id, MemberInfo(claims.sub, session_id, row["is_guest"])

    async def require_active(self, app_id: UUID, member_id: str) -> None:
        """Raise `InvalidTokenError` for a member that is gone, `MemberInactiveError` for a deactivated one."""
        active = await store.is_active(self._database, app_id, member_id)
        if active is None:
            raise InvalidTokenError
        if not active:
            raise MemberInactiveError

    async def own_record(self, app: AppInfo, member: MemberInfo) -> OwnRecord:
        """Return a member's own record."""
        row = await store.own_record(self._database, app.app_id, member.member_id)
        if row is None:
            raise InvalidTokenError
        return OwnRecord(row["member_id"], row["nickname"], row["is_active"], msgspec.Raw(row["custom_data"].encode()))

    async def merge_custom_data(self, app: AppInfo, member: MemberInfo, change: dict[str, object]) -> CustomData:
        """Merge a JSON Merge Patch (RFC 7396) into the member's custom_data and return the result."""
        most = app.limits.custom_data_bytes
        merged = await store.merge_custom_data(
            self._database, app.app_id, member.member_id, json.encode(change).decode(), most
        )
        if merged is None:
            raise PayloadTooLargeError(f"custom_data would be larger than {most} bytes.")
        return CustomData(member.member_id, msgspec.Raw(merged.encode()))

    async def sign_out(self, app: AppInfo, member: MemberInfo) -> None:
        """End the member's session: its access and refresh tokens stop working at once."""
        await self._sessions.revoke(app.app_id, member.session_id)


def check_password(password: str, limits: Limits) -> None:
    """Raise a validation error for a password that is too short or too long."""
    shortest, longest = limits.password_min_length, limits.password_max_length
    if not shortest <= len(password) <= longest:
        raise invalid("password", f"A password has {shortest} to {longest} characters.", "INVALID_LENGTH")


def _normalised(login_id: str) -> str:
    normal = unicodedata.normalize("NFC", login_id)
    # A few characters have no composed form and become two or three.
    if len(normal) > LOGIN_ID_LENGTH:
        raise invalid("login_id", f"A login_id has at most {LOGIN_ID_LENGTH} characters in NFC.", "INVALID_LENGTH")
    return normal


@asynccontextmanager
async def _unique_login_id() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "login_id_unique":
            raise LoginIdTakenError from None
        raise
