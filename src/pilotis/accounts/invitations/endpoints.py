"""The routes of invitations of members: for the app's team, and for who was invited."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.invitations.service import (
    MemberInvitationNotFoundError,
    MemberInvitations,
    TooManyMemberInvitationsError,
)
from pilotis.accounts.invitations.types import (
    InvitedAddress,
    MemberInvitation,
    MemberInvitationPage,
    MemberInvitationQuery,
    MemberInvitationUse,
    NewMemberInvitation,
)
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted
from pilotis.members.invitations.types import TokenExpiredError
from pilotis.members.service import AddressTakenError, SignUpClosedError

_INVITATIONS = "/v1/apps/:app_id/members/invitations"
_INVITATION = f"{_INVITATIONS}/:member_invitation_id"

READ = console(Role.VIEWER, secret_key=True, scope="members:read")
WRITE = console(Role.EDITOR, secret_key=True, scope="members:write")


class MemberInvitationEndpoints(Endpoints, tag="App member administration"):
    """Invitations to become a member of an app."""

    def __init__(self, invitations: MemberInvitations) -> None:
        self._invitations = invitations

    @post(
        _INVITATIONS,
        access=WRITE,
        status=201,
        creates="member_invitation_id",
        again="read",
        errors=[AddressTakenError, SignUpClosedError, TooManyMemberInvitationsError],
    )
    async def create(self, call: Call, app_id: UUID, body: NewMemberInvitation) -> MemberInvitation:
        """Invite an address to become a member, by a mail with a link that works once and for 7 days.

        The address need not be proved again: who accepts has it verified, with the roles and the team of the
        invitation. Another invitation of the same address replaces one that is open, whose link stops working.
        """
        invitation_id = UUID(call.new_id())
        return await self._invitations.create(call.app, call.actor, call.client, body, invitation_id)

    @get(_INVITATIONS, access=READ)
    async def page(self, call: Call, app_id: UUID, query: MemberInvitationQuery) -> MemberInvitationPage:
        """List invitations of members, newest first, until 30 days after they have expired."""
        return await self._invitations.page(call.app, query)

    @get(_INVITATION, access=READ, errors=[MemberInvitationNotFoundError])
    async def read(self, call: Call, app_id: UUID, member_invitation_id: UUID) -> MemberInvitation:
        """Read an invitation of a member."""
        return await self._invitations.read(call.app.app_id, member_invitation_id)

    @delete(_INVITATION, access=WRITE, errors=[MemberInvitationNotFoundError])
    async def revoke(self, call: Call, app_id: UUID, member_invitation_id: UUID) -> Deleted:
        """Revoke an invitation of a member: its link stops working."""
        await self._invitations.revoke(call.app.app_id, call.actor, member_invitation_id)
        return Deleted("Invitation revoked.", member_invitation_id)


class InvitedEndpoints(Endpoints, tag="App member authentication"):
    """What an invitation says to who was invited."""

    def __init__(self, invitations: MemberInvitations) -> None:
        self._invitations = invitations

    @post(
        "/v1/public/app-members/invitations/read",
        access=Access.PUBLIC_KEY,
        needs_room=False,
        errors=[TokenExpiredError],
    )
    async def look(self, call: Call, body: MemberInvitationUse) -> InvitedAddress:
        """Read which address an invitation is for; this uses nothing up.

        It is accepted by `POST /v1/public/app-members/signup` with `invitation`, or by another proof of the address.
        """
        return await self._invitations.look(call.app.app_id, body.token)
