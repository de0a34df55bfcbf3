"""The routes of console users, of their roles on apps and of invitations."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.principals import Access, RoleRequiredError
from pilotis.http.shapes import Deleted, ItemPage, Paging
from pilotis.users.invitations import (
    AlreadyOnAppError,
    InvalidInvitationError,
    InvitationNotFoundError,
    Invitations,
)
from pilotis.users.roles import AppUserNotFoundError, LastOwnerError, Roles
from pilotis.users.service import (
    EmailTakenError,
    InvalidUserCredentialsError,
    UserInactiveError,
    Users,
)
from pilotis.users.types import (
    Accepted,
    AppUser,
    Invitation,
    InvitationToken,
    NewInvitation,
    RoleChange,
    ShownInvitation,
    SignedInUser,
    User,
    UserSignIn,
    UserSignUp,
)


class UserEndpoints(Endpoints, tag="Console users"):
    """Sign-up with a token, sign-in, the own record."""

    def __init__(self, users: Users) -> None:
        self._users = users

    @post(
        "/v1/auth/signup",
        access=Access.OPEN,
        console=True,
        status=201,
        rate="signup",
        errors=[EmailTakenError, InvalidInvitationError],
    )
    async def sign_up(self, call: Call, body: UserSignUp) -> SignedInUser:
        """Sign a console user up with the token of the first-run link or of an invitation.

        The first console user owns the apps that are there.
        """
        return await self._users.sign_up(body, call.request_id)

    @post(
        "/v1/auth/signin",
        access=Access.OPEN,
        console=True,
        errors=[InvalidUserCredentialsError, UserInactiveError],
    )
    async def sign_in(self, call: Call, body: UserSignIn) -> SignedInUser:
        """Sign a console user in with e-mail and password."""
        return await self._users.sign_in(call, body)

    @get("/v1/auth/me", access=Access.CONSOLE)
    async def me(self, call: Call) -> User:
        """Read the signed-in console user."""
        return await self._users.read(call.user.user_id)


class RoleEndpoints(Endpoints, tag="Roles"):
    """Console users with a role on an app: `owner`, `editor` or `viewer`.

    An owner may do everything; an editor everything but deleting and restoring the app, locking its schema, and
    deciding on users and invitations; a viewer may read.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    @get("/v1/apps/:app_id/users", access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: Paging) -> ItemPage[AppUser]:
        """List the console users with a role on the app."""
        return await self._roles.page(call.app, query)

    @patch("/v1/apps/:app_id/users/:user_id", access=Access.APP_OWNER, errors=[AppUserNotFoundError, LastOwnerError])
    async def change(self, call: Call, app_id: UUID, user_id: UUID, body: RoleChange) -> AppUser:
        """Change a console user's role on the app. The last owner stays one."""
        return await self._roles.change(call.principal, call.actor, user_id, body.role)

    @delete(
        "/v1/apps/:app_id/users/:user_id",
        access=Access.APP_VIEWER,
        errors=[AppUserNotFoundError, LastOwnerError, RoleRequiredError],
    )
    async def remove(self, call: Call, app_id: UUID, user_id: UUID) -> Deleted:
        """Take a console user's role on the app away: an owner anybody's, everybody their own.

        The user's secret keys for the app are revoked with it. The last owner cannot leave.
        """
        await self._roles.remove(call.principal, call.actor, user_id)
        return Deleted("Removed from the app.", user_id)


class InvitationEndpoints(Endpoints, tag="Invitations"):
    """Inviting console users to an app."""

    def __init__(self, invitations: Invitations) -> None:
        self._invitations = invitations

    @post("/v1/apps/:app_id/invitations", access=Access.APP_OWNER, status=201, errors=[AlreadyOnAppError])
    async def create(self, call: Call, app_id: UUID, body: NewInvitation) -> ShownInvitation:
        """Invite somebody by e-mail address. Token and link are shown this once; sending them is up to you.

        The invitation is good for 7 days and one use; a newer one for the same address takes its place. Who has no
        account signs up with the token, who has one accepts it.
        """
        return await self._invitations.create(app_id, call.user, call.actor, body)

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
    async def accept(self, call: Call, body: InvitationToken) -> Accepted:
        """Accept an invitation that was made for the console user's own e-mail address."""
        return await self._invitations.accept(call.user, call.actor, body.token)
