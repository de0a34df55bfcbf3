"""Console users: the first one, invited ones, signing in, and their roles on apps."""

from __future__ import annotations

from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.call import Call
from pilotis.http.principals import OPERATOR, Actor, InvalidTokenError, Role, UserInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import random_token, secret_hash
from pilotis.kit.errors import ConflictError, ForbiddenError, UnauthorizedError
from pilotis.kit.ids import uuid7
from pilotis.kit.passwords import Passwords
from pilotis.limits import Limits
from pilotis.members.service import check_password
from pilotis.rates.service import RateLimits, rate_key
from pilotis.sessions.service import CONSOLE, Sessions
from pilotis.users import invitations, role_store, store
from pilotis.users.types import RoleName, SignedInUser, User, UserSignIn, UserSignUp, normalised


class EmailTakenError(ConflictError):
    """409: there is a console user with this e-mail address."""

    code = "EMAIL_TAKEN"
    message = "There is a console user with this e-mail address."


class InvalidUserCredentialsError(UnauthorizedError):
    """401: the e-mail address is unknown or the password is wrong; which of the two is not told."""

    code = "INVALID_CREDENTIALS"
    message = "The e-mail address or the password is wrong."


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
            user_id = uuid7()
            await _insert(connection, user_id, normalised(email), password_hash, OPERATOR, first=first)
        return user_id

    async def sign_up(self, new: UserSignUp, request_id: str) -> SignedInUser:
        """Make a console user with the token of the first-run link or of an invitation, and sign it in."""
        check_password(new.password, self._limits)
        email = normalised(new.email)
        password_hash = await self._passwords.hash(new.password)
        async with self._database.transaction() as connection:
            first = await store.take_setup(connection, secret_hash(new.token).hex())
            # Before anything is told about the e-mail address.
            invitation = None if first else await invitations.take(connection, email, new.token)
            user_id = uuid7()
            actor = Actor("console_user", str(user_id), request_id)
            await _insert(connection, user_id, email, password_hash, actor, first=first)
            if invitation:
                await invitations.join(connection, invitation, user_id, email, actor)
            tokens = await self._sessions.start(connection, CONSOLE, str(user_id))
        return SignedInUser(user_id, email, tokens.access_token, tokens.refresh_token)

    async def sign_in(self, call: Call, credentials: UserSignIn) -> SignedInUser:
        """Sign a console user in; its rate limit counts for its e-mail address and the call's address."""
        email = normalised(credentials.email)
        key = rate_key("signin", call, email)
        limit = self._limits.signin_per_minute
        row = await self._rate_limits.attempt_sign_in(call, key, limit, store.BY_EMAIL, email)
        if not await self._passwords.verify(row["password_hash"], credentials.password):
            raise InvalidUserCredentialsError
        if not row["is_active"]:
            await self._rate_limits.forgive(key)
            raise UserInactiveError
        tokens = await self._sessions.sign_in(CONSOLE, str(row["user_id"]), key)
        return SignedInUser(row["user_id"], email, tokens.access_token, tokens.refresh_token)

    async def authenticate(self, token: str) -> UserInfo:
        """Return the console user of an access token whose session lives."""
        claims = self._sessions.access_claims(token, console=True)
        user_id, session_id = UUID(claims.sub), claims.sid
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


async def grant_role(connection: Connection, app_id: UUID, user_id: UUID, role: RoleName) -> None:
    """Give a console user a role on an app that it has none on."""
    await role_store.insert_role(connection, app_id, user_id, role)


async def _insert(
    connection: Connection, user_id: UUID, email: str, password_hash: str, actor: Actor, *, first: bool
) -> None:
    try:
        await store.insert(connection, user_id, email, password_hash)
    except asyncpg.UniqueViolationError:
        raise EmailTakenError from None
    if first:
        for app_id in await store.adopt_apps(connection, user_id):
            await record(connection, app_id, actor, "app.adopt", user_id, email=email)
