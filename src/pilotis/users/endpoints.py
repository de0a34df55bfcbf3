"""The routes of console users, of their roles on apps and of invitations."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, ReauthenticationRequiredError, RoleRequiredError
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, ItemPage, Paging, Whole
from pilotis.members.gate.service import SecondFactorRequiredError
from pilotis.members.service import WrongPasswordError
from pilotis.security.audit.service import AuditLog
from pilotis.security.audit.types import AuditEntry, AuditQuery
from pilotis.security.sessions.service import SessionNotFoundError
from pilotis.users.activation import Activation
from pilotis.users.invitations import (
    AlreadyOnAppError,
    InvalidInvitationError,
    InvitationNotFoundError,
    Invitations,
)
from pilotis.users.roles import AppUserNotFoundError, LastOwnerError, Roles
from pilotis.users.service import (
    EmailTakenError,
    InvalidResetLinkError,
    InvalidUserCredentialsError,
    UserInactiveError,
    UserNotFoundError,
    Users,
)
from pilotis.users.types import (
    AcceptedInvitation,
    AppUser,
    Invitation,
    InvitationToken,
    NewInvitation,
    PasswordReset,
    RoleChange,
    ShownInvitation,
    SignedInUser,
    User,
    UserChange,
    UserPasswordChange,
    UserPreferences,
    UserSessions,
    UserSignIn,
    UserSignUp,
)


class UserEndpoints(Endpoints, tag="Console users"):
    """Sign-up with a token, sign-in, the user's own record and password, deactivation."""

    def __init__(self, users: Users, activation: Activation, audit_log: AuditLog) -> None:
        self._users = users
        self._activation = activation
        self._audit_log = audit_log

    @post(
        "/v1/auth/signup",
        access=Access.OPEN,
        console=True,
        status=201,
        creates="user_id",
        rate="signup",
        errors=[EmailTakenError, InvalidInvitationError],
    )
    async def sign_up(self, call: Call, body: UserSignUp) -> SignedInUser:
        """Sign up a console user with the token of the first-run link or of an invitation.

        The first console user becomes the owner of the existing apps.
        """
        return await self._users.sign_up(call.client, body, call.user_agent)

    @post(
        "/v1/auth/signin",
        access=Access.OPEN,
        needs_room=False,
        console=True,
        errors=[InvalidUserCredentialsError, UserInactiveError, SecondFactorRequiredError],
    )
    async def sign_in(self, call: Call, body: UserSignIn) -> SignedInUser:
        """Sign a console user in with e-mail and password.

        One that has set up a second factor gets 401 `SECOND_FACTOR_REQUIRED` with a ticket instead of tokens.
        """
        return await self._users.sign_in(call.client, body, call.user_agent)

    @get("/v1/auth/me", access=Access.CONSOLE)
    async def me(self, call: Call) -> User:
        """Read the signed-in console user."""
        return await self._users.read(call.user.user_id)

    @put(
        "/v1/auth/me/password", access=Access.CONSOLE, needs_room=False, errors=[WrongPasswordError, UserInactiveError]
    )
    async def change_password(self, call: Call, body: UserPasswordChange) -> User:
        """Change the signed-in console user's password, and end its other sessions.

        Attempts with the current password are limited like sign-ins, for the user from all addresses together.
        """
        await self._users.change_password(call.client, call.actor, call.user, body)
        return await self._users.read(call.user.user_id)

    @post(
        "/v1/auth/password-reset",
        access=Access.OPEN,
        console=True,
        rate="signup",
        needs_room=False,
        errors=[InvalidResetLinkError, UserInactiveError, SecondFactorRequiredError],
    )
    async def reset_password(self, call: Call, body: PasswordReset) -> SignedInUser:
        """Set a forgotten password with the token of a link from `pilotis user reset`.

        This ends all sessions of the console user and starts a new one, once it has sent its second factor if it has
        one.
        """
        return await self._users.reset_password(call.client, body, call.user_agent)

    @get("/v1/auth/sessions", access=Access.CONSOLE)
    async def sessions(self, call: Call, query: Whole) -> UserSessions:
        """List the signed-in console user's sessions, the one used last first, with address and browser."""
        return await self._users.sessions(call.user)

    @delete("/v1/auth/sessions/:session_id", access=Access.CONSOLE, errors=[SessionNotFoundError])
    async def end_session(self, call: Call, session_id: UUID) -> Deleted:
        """End a session of the signed-in console user: its tokens stop working immediately."""
        await self._users.end_session(call.actor, call.user, session_id)
        return Deleted("Session ended.", session_id)

    @get("/v1/auth/me/preferences", access=Access.CONSOLE)
    async def preferences(self, call: Call) -> UserPreferences:
        """Read what the console remembers for the signed-in user."""
        return await self._users.preferences(call.user.user_id)

    @put("/v1/auth/me/preferences", access=Access.CONSOLE)
    async def replace_preferences(self, call: Call, body: UserPreferences) -> UserPreferences:
        """Replace what the console remembers for the signed-in user: any object of at most 16 KiB."""
        return await self._users.set_preferences(call.user.user_id, body)

    @get("/v1/auth/audit-log", access=Access.CONSOLE)
    async def audit_log(self, call: Call, query: AuditQuery) -> ItemPage[AuditEntry]:
        """List the console user's sign-ins, including failed ones, and changes to its account, newest first."""
        return await self._audit_log.of_user(call.user.user_id, query, call.limits)

    @patch(
        "/v1/users/:user_id",
        access=Access.CONSOLE,
        needs_room=False,
        errors=[UserNotFoundError, LastOwnerError, RoleRequiredError],
    )
    async def change(self, call: Call, user_id: UUID, body: UserChange) -> User:
        """Deactivate or reactivate a console user; the caller must own every app on which the user has a role.

        A deactivated user can neither sign in nor use its tokens and secret keys, from its next request on: 403
        `USER_INACTIVE`. Its roles, keys and sessions stay. The last active owner of an app cannot be deactivated.
        All users may deactivate themselves.
        """
        return await self._activation.change(call.user.user_id, call.actor, user_id, is_active=body.is_active)


class RoleEndpoints(Endpoints, tag="Roles"):
    """Console users with a role on an app: `owner`, `editor` or `viewer`.

    An owner may do everything; an editor everything except deleting and restoring the app, locking its schema, and
    managing users and invitations; a viewer may only read.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    @get("/v1/apps/:app_id/users", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[AppUser]:
        """List the console users with a role on the app."""
        return await self._roles.page(call.app, query)

    @patch(
        "/v1/apps/:app_id/users/:user_id",
        access=Access.APP_OWNER_FRESH,
        errors=[AppUserNotFoundError, LastOwnerError, ReauthenticationRequiredError],
    )
    async def change(self, call: Call, app_id: UUID, user_id: UUID, body: RoleChange) -> AppUser:
        """Change a console user's role on the app. The last owner must remain an owner."""
        return await self._roles.change(call.principal, call.actor, user_id, body.role)

    @delete(
        "/v1/apps/:app_id/users/:user_id",
        access=Access.APP_VIEWER,
        errors=[AppUserNotFoundError, LastOwnerError, RoleRequiredError],
    )
    async def remove(self, call: Call, app_id: UUID, user_id: UUID) -> Deleted:
        """Remove a console user's role on the app. Owners may remove any role, others only their own.

        The user's secret keys for the app are revoked with it. The last owner cannot leave.
        """
        await self._roles.remove(call.principal, call.actor, user_id)
        return Deleted("Removed from the app.", user_id)


class InvitationEndpoints(Endpoints, tag="Invitations"):
    """Invitations of console users to an app."""

    def __init__(self, invitations: Invitations) -> None:
        self._invitations = invitations

    @post(
        "/v1/apps/:app_id/invitations",
        access=Access.APP_OWNER_FRESH,
        status=201,
        creates="invitation_id",
        errors=[AlreadyOnAppError, ReauthenticationRequiredError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewInvitation) -> ShownInvitation:
        """Invite a person by e-mail address. Token and link are shown only once; sending them is up to you.

        The invitation is valid for one use and 7 days by default; a newer one for the same address replaces it.
        A person without an account signs up with the token, and one with an account accepts it.
        """
        return await self._invitations.create(call.app, call.user, call.actor, body)

    @get("/v1/apps/:app_id/invitations", access=Access.APP_OWNER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[Invitation]:
        """List the invitations that can still be accepted."""
        return await self._invitations.page(call.app, query)

    @delete("/v1/apps/:app_id/invitations/:invitation_id", access=Access.APP_OWNER, errors=[InvitationNotFoundError])
    async def revoke(self, call: Call, app_id: UUID, invitation_id: UUID) -> Deleted:
        """Revoke an invitation."""
        await self._invitations.revoke(app_id, call.actor, invitation_id)
        return Deleted("Invitation revoked.", invitation_id)

    @post("/v1/invitations/accept", access=Access.CONSOLE, errors=[InvalidInvitationError, AlreadyOnAppError])
    async def accept(self, call: Call, body: InvitationToken) -> AcceptedInvitation:
        """Accept an invitation to the console user's own e-mail address."""
        return await self._invitations.accept(call.user, call.actor, body.token)
