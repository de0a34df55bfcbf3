"""The console routes of an app's members."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.principals import Access
from pilotis.members.administration.service import MemberAdministration, MemberNotFoundError
from pilotis.members.administration.types import (
    MemberChange,
    MemberDone,
    MemberPage,
    MemberQuery,
    MemberRecord,
    SignedOut,
)

_MEMBERS = "/v1/apps/:app_id/members"
_MEMBER = f"{_MEMBERS}/:member_id"


class MemberAdministrationEndpoints(Endpoints, tag="App member administration"):
    """An app's members, for console users."""

    def __init__(self, administration: MemberAdministration) -> None:
        self._administration = administration

    @get(_MEMBERS, access=Access.APP_VIEWER)
    async def page(self, call: Call, app_id: UUID, query: MemberQuery) -> MemberPage:
        """List members, the newest first, with search and filters."""
        return await self._administration.page(call.app, query)

    @get(_MEMBER, access=Access.APP_VIEWER, errors=[MemberNotFoundError])
    async def read(self, call: Call, app_id: UUID, member_id: str) -> MemberRecord:
        """Read a member."""
        return await self._administration.read(call.app, member_id)

    @patch(_MEMBER, access=Access.APP_EDITOR, errors=[MemberNotFoundError])
    async def change(self, call: Call, app_id: UUID, member_id: str, body: MemberChange) -> MemberRecord:
        """Activate, deactivate or rename a member.

        A deactivated member is answered 403 `MEMBER_INACTIVE` at once, whatever tokens it holds. Once it is activated
        again, its sessions work as before.
        """
        return await self._administration.change(call.app, call.actor, member_id, body)

    @delete(_MEMBER, access=Access.APP_EDITOR, errors=[MemberNotFoundError])
    async def delete(self, call: Call, app_id: UUID, member_id: str) -> MemberDone:
        """Delete a member and end its sessions.

        Rows that it created stay. In a table of the access level Creator no other member sees them, but the console
        and secret keys do. Its login_id is free again.
        """
        await self._administration.delete(call.app, call.actor, member_id)
        return MemberDone("Member deleted.", member_id)

    @post(f"{_MEMBER}/sign-out-everywhere", access=Access.APP_EDITOR, errors=[MemberNotFoundError])
    async def sign_out(self, call: Call, app_id: UUID, member_id: str) -> SignedOut:
        """End every session of a member; its access and refresh tokens stop working at once."""
        ended = await self._administration.sign_out(call.app, call.actor, member_id)
        return SignedOut("Member signed out everywhere.", member_id, ended)
