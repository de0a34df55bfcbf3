"""Console users: the first one, invited ones, sign-in, and their roles on apps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.db.batching import SingleFlight
from pilotis.db.pool import Database
from pilotis.http.api.principals import OPERATOR, Actor, Client, InvalidTokenError, Role, TokenFault, UserInfo
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.crypto import secret_hash
from pilotis.kit.errors import ConflictError, ForbiddenError, NotFoundError, PayloadTooLargeError, UnauthorizedError
from pilotis.kit.ids import uuid7
from pilotis.kit.passwords import Passwords
from pilotis.limits import Limits
from pilotis.members.gate.service import TICKET_LIFETIME, SecondFactorRequiredError, password_version
from pilotis.members.service import WrongPasswordError, check_password
from pilotis.security import single_use
from pilotis.security.audit.service import record
from pilotis.security.rate_limits import RateLimits, sign_in_key
from pilotis.security.sessions.service import CONSOLE, Proof, SessionOrigin, Sessions
from pilotis.security.sessions.types import Session
from pilotis.users import invitations, role_store, store
from pilotis.users.types import (
    PasswordReset,
    RoleName,
    SignedInUser,
    User,
    UserPasswordChange,
    UserPreferences,
    UserSession,
    UserSessions,
    UserSignIn,
    UserSignUp,
    normalised,
)

_FIRST_RUN = "first_run"
_RESET = "password_reset"
_TICKET_PREFIX = "uf_"
_MAX_PREFERENCES = 16 * 1024


class EmailTakenError(ConflictError):
    """409: a console user with this e-mail address already exists."""

    code = "EMAIL_TAKEN"
    message = "A console user with this e-mail address already exists."


class InvalidUserCredentialsError(UnauthorizedError):
    """401: the e-mail address is unknown or the password is wrong; the response does not say which."""

    code = "INVALID_CREDENTIALS"
    message = "The e-mail address or the password is wrong."


class UserInactiveError(ForbiddenError):
    """403: the console user has been deactivated."""

    code = "USER_INACTIVE"
    message = "This console user has been deactivated."


class InvalidResetLinkError(ForbiddenError):
    """403: the password reset link has been used, replaced by a newer one, or has expired."""

    code = "INVALID_RESET_LINK"
    message = "This link has been used, replaced by a newer one, or has expired. Ask for a new one."


class UserNotFoundError(NotFoundError):
    """404: the console user does not exist, or you share no app with it."""

    code = "USER_NOT_FOUND"
    message = "The console user does not exist, or you share no app with it."


class ResetToken(NamedTuple):
    """The token of a reset link, and when it expires (RFC 3339)."""

    token: str
    expires_at: str


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
        self.limits = limits
        # A console, or a program with a user's token, makes several requests at a time: they share their lookups.
        self._of_sessions: SingleFlight[store.SessionUser | None] = SingleFlight(runs=2)
        self._roles: SingleFlight[str | None] = SingleFlight(runs=2)

    async def new_setup_token(self) -> str | None:
        """Return the token of a new first-run link, which replaces the previous one.

        None once a console user exists.
        """
        async with self._database.transaction(CONSOLE) as connection:
            if await store.any_user(connection):
                return None
            value = single_use.mint("su_", CONSOLE)
            await single_use.put(connection, CONSOLE, value, _FIRST_RUN, {}, None, subject=_FIRST_RUN)
            return value.text

    async def create(self, email: str, password: str) -> UUID:
        """Create a console user without a token, for the operator; the first one owns the existing apps."""
        check_password(password, self.limits)
        password_hash = await self._passwords.hash(password)
        async with self._database.transaction(CONSOLE) as connection:
            first = not await store.any_user(connection)
            await single_use.revoke(connection, CONSOLE, _FIRST_RUN, _FIRST_RUN)
            user_id = uuid7()
            await _insert(connection, user_id, normalised(email), password_hash, OPERATOR, first=first)
        return user_id

    async def exist(self) -> bool:
        """Return whether any console user exists."""
        async with self._database.connection(CONSOLE) as connection:
            return await store.any_user(connection)

    async def id_of(self, email: str) -> UUID:
        """Return the id of the console user with an e-mail address; raises `UserNotFoundError`."""
        async with self._database.connection(CONSOLE) as connection:
            user = await store.by_email(connection, normalised(email))
        if user is None:
            raise UserNotFoundError(f"There is no console user {email}; `pilotis user create` creates one.")
        return user.user_id

    async def sign_up(self, client: Client, new: UserSignUp, agent: str | None = None) -> SignedInUser:
        """Create a console user with the token of the first-run link or of an invitation, and sign it in."""
        check_password(new.password, self.limits)
        email = normalised(new.email)
        password_hash = await self._passwords.hash(new.password)
        async with self._database.transaction(CONSOLE) as connection:
            first = await single_use.consume(connection, CONSOLE, _FIRST_RUN, new.token) is not None
            # Check the token before the response reveals anything about the e-mail address.
            invitation = None if first else await invitations.take(connection, email, new.token)
            user_id = uuid7()
            actor = Actor("console_user", str(user_id), client.request_id)
            is_viewer = invitation is not None and invitation.role == "viewer"
            await _insert(connection, user_id, email, password_hash, actor, first=first, may_create_apps=not is_viewer)
            if invitation:
                await invitations.join(connection, invitation, user_id, email, actor)
            tokens = await self._sessions.start(
                connection, CONSOLE, str(user_id), self.limits, SessionOrigin(client.address, agent)
            )
        return SignedInUser(
            user_id=user_id, email=email, access_token=tokens.access_token, refresh_token=tokens.refresh_token
        )

    async def sign_in(self, client: Client, credentials: UserSignIn, agent: str | None = None) -> SignedInUser:
        """Sign a console user in; success and failure are recorded in the console's audit log.

        Raises `SecondFactorRequiredError` for a user that has one.

        One rate limit applies to the combination of e-mail address and client address, another to the e-mail address.
        """
        email = normalised(credentials.email)
        user, _ = await self._rate_limits.attempt_sign_in(client, None, email, store.StoredUser, store.BY_EMAIL, email)
        key = sign_in_key(client, None, email)
        is_right = await self._passwords.verify(None if user is None else user.password_hash, credentials.password)
        if user is None or not is_right:
            await self._record_failure(client, None if user is None else user.user_id, email, "wrong credentials")
            raise InvalidUserCredentialsError
        user_id = user.user_id
        if not user.is_active:
            await self._rate_limits.forgive(None, key)
            await self._record_failure(client, user_id, email, "deactivated")
            raise UserInactiveError
        if user.factors:
            await self._rate_limits.forgive(None, key)
            async with self._database.transaction(CONSOLE) as connection:
                waiting = await self._ticket(connection, user)
            raise waiting
        tokens = await self._sessions.sign_in(
            CONSOLE, str(user_id), key, user.password_hash, self.limits, SessionOrigin(client.address, agent)
        )
        if tokens is None:
            await self._record_failure(client, user_id, email, "changed meanwhile")
            raise InvalidUserCredentialsError
        async with self._database.connection(CONSOLE) as connection:
            actor = Actor("console_user", str(user_id), client.request_id)
            await record(connection, CONSOLE, actor, "user.sign_in", user_id, address=client.address)
        return SignedInUser(
            user_id=user_id, email=email, access_token=tokens.access_token, refresh_token=tokens.refresh_token
        )

    async def _ticket(self, connection: Connection, user: store.StoredUser) -> SecondFactorRequiredError:
        """Insert a ticket for a user that has a second factor, and return the error that has it."""
        minted = single_use.mint(_TICKET_PREFIX, CONSOLE)
        version = password_version(user.password_hash)
        expires_at = await store.insert_ticket(connection, minted.hash, user.user_id, version, TICKET_LIFETIME)
        return SecondFactorRequiredError(minted.text, user.factors, expires_at, "/v1/auth/second-factor")

    async def count_try(self, text: str) -> store.Ticket | None:
        """Count a try of a ticket and return it; None for an unknown or expired one, or after five tries."""
        return await store.count_try(self._database.of(CONSOLE), secret_hash(text))

    async def finish(
        self, connection: Connection, client: Client, ticket: store.Ticket, method: str, agent: str | None
    ) -> SignedInUser | None:
        """Sign in whose ticket it is, in the transaction that uses the second factor.

        The caller has locked the user. None if the ticket was used, the password has changed, or the user was
        deactivated.
        """
        user = await store.by_id(connection, ticket.user_id)
        if user is None or not user.is_active or password_version(user.password_hash) != ticket.password_version:
            return None
        if not await store.use_ticket(connection, ticket.ticket_hash):
            return None
        return await self._enter(connection, client, user, ["password", method], agent)

    async def enter(
        self, connection: Connection, client: Client, user_id: UUID, methods: Sequence[str], agent: str | None
    ) -> SignedInUser:
        """Sign in a locked console user that has proved two factors; raises `UserInactiveError`."""
        user = await store.by_id(connection, user_id)
        if user is None or not user.is_active:
            raise UserInactiveError
        return await self._enter(connection, client, user, methods, agent)

    async def _enter(
        self, connection: Connection, client: Client, user: store.StoredUser, methods: Sequence[str], agent: str | None
    ) -> SignedInUser:
        user_id = user.user_id
        tokens = await self._sessions.start(
            connection,
            CONSOLE,
            str(user_id),
            self.limits,
            SessionOrigin(client.address, agent),
            proof=Proof(list(methods), 2),
        )
        actor = Actor("console_user", str(user_id), client.request_id)
        await record(connection, CONSOLE, actor, "user.sign_in", user_id, address=client.address, method=methods[-1])
        return SignedInUser(
            user_id=user_id, email=user.email, access_token=tokens.access_token, refresh_token=tokens.refresh_token
        )

    async def require_password(self, client: Client, user_id: UUID, password: str) -> None:
        """Verify a console user's password; raises `WrongPasswordError`. Tries are counted for the user."""
        row = await store.by_id(self._database.of(CONSOLE), user_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        key = f"password:console:{user_id}"
        await self._rate_limits.attempt_password(client, None, key)
        if not await self._passwords.verify(row.password_hash, password):
            raise WrongPasswordError
        await self._rate_limits.forgive(None, key)

    async def reprove(self, connection: Connection, user: UserInfo, method: str, level: int) -> datetime | None:
        """Record that a console user has proved again in its session who it is, and return when."""
        if user.session_id is None:
            return None
        return await self._sessions.reprove(connection, CONSOLE, user.session_id, method, level)

    async def lock(self, connection: Connection, user_id: UUID) -> None:
        """Lock a console user before what belongs to it, until the transaction ends."""
        await store.lock(connection, user_id)

    async def set_factors(
        self, connection: Connection, actor: Actor, user_id: UUID, factors: Sequence[str], action: str
    ) -> None:
        """Record which kinds of second factors a console user has, as `action` has changed them."""
        await store.set_factors(connection, user_id, factors)
        await store.end_tickets(connection, user_id)
        await record(connection, CONSOLE, actor, action, user_id)

    async def _record_failure(self, client: Client, user_id: UUID | None, email: str, reason: str) -> None:
        # With and without an account, so that neither the log's size nor the time to write it reveals the difference.
        async with self._database.connection(CONSOLE) as connection:
            await record(
                connection,
                CONSOLE,
                Actor("anonymous", None, client.request_id),
                "user.sign_in_failed",
                user_id,
                email=email,
                address=client.address,
                reason=reason,
            )

    async def change_password(self, client: Client, actor: Actor, user: UserInfo, change: UserPasswordChange) -> None:
        """Replace the signed-in console user's password, and end its other sessions; raises `WrongPasswordError`.

        Attempts with the current password are counted for the user, from all addresses together.
        """
        user_id = user.user_id
        check_password(change.new_password, self.limits, "new_password")
        row = await store.by_id(self._database.of(CONSOLE), user_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        key = f"password:console:{user_id}"
        await self._rate_limits.attempt_password(client, None, key)
        if not await self._passwords.verify(row.password_hash, change.current_password):
            raise WrongPasswordError
        new_hash = await self._passwords.hash(change.new_password)
        async with self._database.transaction(CONSOLE) as connection:
            if not await store.replace_password(connection, user_id, row.password_hash, new_hash):
                raise WrongPasswordError
            await store.end_tickets(connection, user_id)
            await single_use.revoke(connection, CONSOLE, _RESET, str(user_id))
            ended = await self._sessions.revoke_all(connection, CONSOLE, str(user_id), kept=user.session_id)
            await record(connection, CONSOLE, actor, "user.change_password", user_id, sessions=ended)
        await self._rate_limits.forgive(None, key)

    async def new_reset_token(self, email: str) -> ResetToken:
        """Return the token of a new reset link, which replaces the user's previous one, for the operator.

        Raises `UserNotFoundError`, or `UserInactiveError`.
        """
        value, lifetime = single_use.mint("pr_", CONSOLE), timedelta(seconds=self.limits.password_reset_seconds)
        async with self._database.transaction(CONSOLE) as connection:
            user = await store.by_email(connection, normalised(email))
            if user is None:
                raise UserNotFoundError
            if not user.is_active:
                raise UserInactiveError
            user_id = str(user.user_id)
            expires_at = await single_use.put(
                connection, CONSOLE, value, _RESET, {"user_id": user_id}, lifetime, subject=user_id
            )
            await record(connection, CONSOLE, OPERATOR, "user.reset_link", user.user_id)
        return ResetToken(value.text, rfc3339(expires_at))

    async def reset_password(self, client: Client, reset: PasswordReset, agent: str | None = None) -> SignedInUser:
        """Replace a password with the token of a reset link, end the user's sessions, and sign it in.

        Raises `InvalidResetLinkError`, and for a user that has a second factor `SecondFactorRequiredError`.
        """
        check_password(reset.password, self.limits)
        # Check the token before computing a hash, which is expensive.
        if not await single_use.is_usable(self._database, CONSOLE, _RESET, reset.token):
            raise InvalidResetLinkError
        new_hash = await self._passwords.hash(reset.password)
        async with self._database.transaction(CONSOLE) as connection:
            data = await single_use.consume(connection, CONSOLE, _RESET, reset.token)
            if data is None:
                raise InvalidResetLinkError
            user_id = UUID(data["user_id"])
            await store.replace_password(connection, user_id, None, new_hash)
            user = await store.by_id(connection, user_id)
            if user is None or not user.is_active:
                raise UserInactiveError
            ended = await self._sessions.revoke_all(connection, CONSOLE, str(user_id))
            actor = Actor("console_user", str(user_id), client.request_id)
            await record(
                connection, CONSOLE, actor, "user.reset_password", user_id, sessions=ended, address=client.address
            )
            await store.end_tickets(connection, user_id)
            # Who reads the link has not shown the second factor.
            waiting = await self._ticket(connection, user) if user.factors else None
            if waiting is None:
                tokens = await self._sessions.start(
                    connection, CONSOLE, str(user_id), self.limits, SessionOrigin(client.address, agent)
                )
        # A user who forgot the password has probably tried several.
        await self._rate_limits.forgive(None, sign_in_key(client, None, user.email))
        if waiting is not None:
            raise waiting
        return SignedInUser(
            user_id=user_id, email=user.email, access_token=tokens.access_token, refresh_token=tokens.refresh_token
        )

    async def authenticate(self, token: str) -> UserInfo:
        """Return the console user of an access token with an active session."""
        return (await self.authenticate_on(token, None))[0]

    async def authenticate_on(self, token: str, app_id: UUID | None) -> tuple[UserInfo, Role | None]:
        """Return the console user of an access token with an active session, and its role on an app, if it has one."""
        claims = self._sessions.access_claims(token, console=True)
        user_id, session_id = UUID(claims.sub), claims.sid
        find = partial(store.of_session, self._database, CONSOLE, session_id, user_id, app_id)
        row = await self._of_sessions.run((session_id, user_id, app_id), find)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        if not row.is_active:
            raise UserInactiveError
        await self._sessions.tokens_used([(claims, row.unused_successor)])
        role = row.role
        user = UserInfo(user_id, row.email, session_id, row.proved_at, tuple(row.factors), row.level)
        return user, Role[role.upper()] if role else None

    async def require_active(self, user_id: UUID) -> None:
        """Raise `InvalidTokenError` for a deleted user, `UserInactiveError` for a deactivated one."""
        row = await store.by_id(self._database.of(CONSOLE), user_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        if not row.is_active:
            raise UserInactiveError

    async def read(self, user_id: UUID) -> User:
        """Return a console user."""
        row = await store.by_id(self._database.of(CONSOLE), user_id)
        if row is None:
            raise InvalidTokenError(fault=TokenFault.REVOKED)
        return User(user_id=user_id, email=row.email, is_active=row.is_active, created_at=rfc3339(row.created_at))

    async def may_create_apps(self, user_id: UUID) -> bool:
        """Return whether a console user may create apps: not one who was invited only to look at some."""
        return await store.may_create_apps(self._database.of(CONSOLE), user_id)

    async def allow_apps(self, email: str) -> UUID:
        """Let a console user create apps, for the operator, and return its id; raises `UserNotFoundError`."""
        async with self._database.transaction(CONSOLE) as connection:
            user_id = await store.allow_apps(connection, normalised(email))
            if user_id is None:
                raise UserNotFoundError("There is no console user with this e-mail address.")
            await record(connection, CONSOLE, OPERATOR, "user.allow_apps", user_id, email=normalised(email))
        return user_id

    async def sessions(self, user: UserInfo) -> UserSessions:
        """Return the signed-in console user's active sessions, the one used last first."""
        rows = await self._sessions.active(CONSOLE, str(user.user_id))
        return UserSessions([_session(row, user) for row in rows])

    async def end_session(self, actor: Actor, user: UserInfo, session_id: UUID) -> None:
        """End a session of the signed-in console user; raises `SessionNotFoundError`."""
        async with self._database.transaction(CONSOLE) as connection:
            await self._sessions.revoke_of(connection, CONSOLE, str(user.user_id), session_id)
            await record(connection, CONSOLE, actor, "user.end_session", user.user_id, session_id=session_id)

    async def preferences(self, user_id: UUID) -> UserPreferences:
        """Return what the console remembers for a user."""
        stored = await store.preferences(self._database.of(CONSOLE), user_id)
        return UserPreferences(json.decode(stored.encode()))

    async def set_preferences(self, user_id: UUID, new: UserPreferences) -> UserPreferences:
        """Replace what the console remembers for a user; raises `PayloadTooLargeError` above 16 KiB."""
        encoded = json.encode(new.preferences)
        if len(encoded) > _MAX_PREFERENCES:
            raise PayloadTooLargeError(f"UserPreferences have at most {_MAX_PREFERENCES} bytes.")
        await store.set_preferences(self._database.of(CONSOLE), user_id, encoded.decode())
        return new

    async def role_on(self, app_id: UUID, user_id: UUID) -> Role | None:
        """Return a user's role on an app, or None."""
        find = partial(store.role_on, self._database, app_id, user_id)
        role = await self._roles.run((app_id, user_id), find)
        return Role[role.upper()] if role else None


def _session(row: Session, user: UserInfo) -> UserSession:
    return UserSession(
        session_id=row.session_id,
        created_at=rfc3339(row.created_at),
        refreshed_at=rfc3339(row.refreshed_at),
        expires_at=rfc3339(row.expires_at),
        address=row.address,
        user_agent=row.user_agent,
        is_current=row.session_id == user.session_id,
    )


class AppCreationNotAllowedError(ForbiddenError):
    """403: a console user who was invited only as a viewer creates no apps, unless the operator allows it."""

    code = "APP_CREATION_NOT_ALLOWED"
    message = "You may not create apps. The operator of the server can allow it with `pilotis user allow-apps`."


class AppPolicy(NamedTuple):
    """Who may create apps, how many apps a console user may own, 0 = any number, and the plan of a new app."""

    app_creation: Literal["everybody", "operators"] = "everybody"
    apps_per_user: int = 0
    default_plan: str | None = None


ANYBODY = AppPolicy()


async def require_app_creator(connection: Connection, user_id: UUID, policy: AppPolicy) -> None:
    """Raise `AppCreationNotAllowedError` for a console user who may not create apps, or owns as many as it may."""
    if policy.app_creation == "operators" or not await store.may_create_apps(connection, user_id):
        raise AppCreationNotAllowedError
    await require_room_for_app(connection, user_id, policy)


async def require_room_for_app(connection: Connection, user_id: UUID, policy: AppPolicy) -> None:
    """Raise `AppCreationNotAllowedError` for a console user who owns as many apps as it may."""
    if policy.apps_per_user and await store.lock_owned_apps(connection, user_id) >= policy.apps_per_user:
        raise AppCreationNotAllowedError(f"You own {policy.apps_per_user} apps, as many as this server allows.")


async def grant_role(connection: Connection, app_id: UUID, user_id: UUID, role: RoleName) -> None:
    """Grant a role on an app to a console user that has none there."""
    await role_store.insert_role(connection, app_id, user_id, role)


async def copy_roles(connection: Connection, app_id: UUID, branch_id: UUID) -> None:
    """Give a new branch the console users of its parent; later changes of their roles apply to both."""
    await role_store.copy_roles(connection, app_id, branch_id)


async def renew_roles(connection: Connection, app_id: UUID, branch_id: UUID) -> None:
    """Give a branch that others see the console users of its parent, after the changes of roles that are running."""
    await role_store.lock_users(connection, app_id)
    await role_store.lock_owners(connection, [app_id])
    await role_store.copy_roles(connection, app_id, branch_id)


async def _insert(
    connection: Connection,
    user_id: UUID,
    email: str,
    password_hash: str,
    actor: Actor,
    *,
    first: bool,
    may_create_apps: bool = True,
) -> None:
    try:
        await store.insert(connection, user_id, email, password_hash, may_create_apps=may_create_apps)
    except asyncpg.UniqueViolationError:
        raise EmailTakenError from None
    if first:
        for app_id in await role_store.claim_ownerless_apps(connection, user_id):
            await record(connection, app_id, actor, "app.adopt", user_id, email=email)
