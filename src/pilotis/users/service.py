"""Console users: the first one, invited ones, signing in, and their roles on apps."""

from __future__ import annotations

from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.principals import InvalidTokenError, Role, UserInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import ConflictError, ForbiddenError, UnauthorizedError
from pilotis.kit.ids import uuid7
from pilotis.kit.passwords import Passwords
from pilotis.limits import Limits
from pilotis.members.service import check_password
from pilotis.rates.service import RateLimits
from pilotis.sessions.service import CONSOLE, Sessions
from pilotis.users import store
from pilotis.users.types import SignedInUser, User, UserSignIn, UserSignUp


class EmailTakenError(ConflictError):
    """409: there is a console user with this e-mail address."""

    code = "EMAIL_TAKEN"
    message = "There is a console user with this e-mail address."


class InvalidUserCredentialsError(UnauthorizedError):
    """401: the e-mail address is unknown or the password is wrong; which of the two is not told."""

    code = "INVALID_CREDENTIALS"
    message = "The e-mail address or the password is wrong."


class InvalidInvitationError(ForbiddenError):
    """403: the token is not the first-run link's, nor a valid invitation of this e-mail address."""

    code = "INVALID_INVITATION"
    message = "The token is used up, expired, or meant for another e-mail address."


class UserInactiveError(ForbiddenError):
    """403: the console user has been deactivated."""

    code = "USER_INACTIVE"
    message = "This console user has been deactivated."


class Users:
    """Console users."""

    def __init__(
        self,
        database: Database,
        sessions: Sessions,
        passwords: Passwords,
        rate_limits: RateLimits,
        limits: Limits,
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._passwords = passwords
        self._rate_limits = rate_limits
        self._limits = limits

    async def new_setup_token(self) -> str | None:
        """Return the token of a new first-run link, in place of the last one; None once there is a console user."""
        async with self._database.transaction() as connection:
            if await store.any_user(connection):
                return None
            token = random_token()
            await store.set_setup_hash(connection, secret_hash(token).hex())
            return token

    async def create(self, email: str, password: str) -> UUID:
        """Make a console user without a token, for whoever runs the server; the first one owns the apps there are."""
        check_password(password, self._limits)
        password_hash = await self._passwords.hash(password)
        async with self._database.transaction() as connection:
            first = not await store.any_user(connection)
            await store.clear_setup(connection)
            return await self._insert(connection, _normalised(email), password_hash, first=first)

    async def sign_up(self, new: UserSignUp, address: str) -> SignedInUser:
        """Make a console user with the token of the first-run link or of an invitation, and sign it in."""
        await self._rate_limits.hit(f"console signup:{address}", self._limits.signup_per_minute)
        check_password(new.password, self._limits)
        email = _normalised(new.email)
        password_hash = await self._passwords.hash(new.password)
        async with self._database.transaction() as connection:
            first = await store.take_setup(connection, secret_hash(new.token).hex())
            invitation = None
            if not first:
                invitation = await store.take_invitation(connection, secret_hash(new.token), email)
                if invitation is None:
                    raise InvalidInvitationError
            user_id = await self._insert(connection, email, password_hash, first=first)
            if invitation:
                await grant_role(connection, invitation["app_id"], user_id, invitation["role"])
            tokens = await self._sessions.start(connection, CONSOLE, str(user_id))
        return SignedInUser(user_id, email, tokens.access_token, tokens.refresh_token)

    async def sign_in(self, credentials: UserSignIn, address: str) -> SignedInUser:
        """Sign a console user in."""
        email = _normalised(credentials.email)
        key = f"console:{address}:{email}"
        await self._rate_limits.hit(key, self._limits.signin_per_minute, back_off=True)
        row = await store.by_email(self._database, email)
        if not await self._passwords.verify(row["password_hash"] if row else None, credentials.password):
            raise InvalidUserCredentialsError
        assert row is not None
        await self._rate_limits.forgive(key)
        if not row["is_active"]:
            raise UserInactiveError
        async with self._database.connection() as connection:
            tokens = await self._sessions.start(connection, CONSOLE, str(row["user_id"]))
        return SignedInUser(row["user_id"], email, tokens.access_token, tokens.refresh_token)

    async def authenticate(self, token: str) -> UserInfo:
        """Return the console user of an access token whose session lives."""
        claims = self._sessions.access_claims(token, console=True)
        user_id, session_id = UUID(claims.sub), UUID(claims.sid)
        row = await store.of_session(self._database, CONSOLE, session_id, user_id)
        if row is None:
            raise InvalidTokenError
        if not row["is_active"]:
            raise UserInactiveError
        return UserInfo(user_id, row["email"], session_id)

    async def require_active(self, user_id: UUID) -> None:
        """Raise `InvalidTokenError` for a user that is gone, `UserInactiveError` for a deactivated one."""
        row = await store.by_id(self._database, user_id)
        if row is None:
            raise InvalidTokenError
        if not row["is_active"]:
            raise UserInactiveError

    async def read(self, user_id: UUID) -> User:
        """Return a console user."""
        row = await store.by_id(self._database, user_id)
        if row is None:
            raise InvalidTokenError
        return User(user_id, row["email"], row["is_active"], rfc3339(row["created_at"]))

    async def role_on(self, app_id: UUID, user_id: UUID) -> Role | None:
        """Return a user's role on an app, or None."""
        role = await store.role_on(self._database, app_id, user_id)
        return Role[role.upper()] if role else None

    async def _insert(self, connection: Connection, email: str, password_hash: str, *, first: bool) -> UUID:
        user_id = uuid7()
        try:
            await store.insert(connection, user_id, email, password_hash)
        except asyncpg.UniqueViolationError:
            raise EmailTakenError from None
        if first:
            await store.adopt_apps(connection, user_id)
        return user_id


async def grant_role(connection: Connection, app_id: UUID, user_id: UUID, role: str) -> None:
    """Give a console user the role `owner`, `editor` or `viewer` on an app, in place of the one it has."""
    await store.upsert_role(connection, app_id, user_id, role)


def _normalised(email: str) -> str:
    return email.strip().lower()
