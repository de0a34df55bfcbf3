"""The console routes of an app's members."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import ImpersonationNotAllowedError, ReauthenticationRequiredError, Role, console
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Whole
from pilotis.members.administration.service import MemberAdministration, MemberNotFoundError
from pilotis.members.administration.types import (
    Impersonation,
    ImpersonationToken,
    MemberChange,
    MemberDeletion,
    MemberPage,
    MemberQuery,
    MemberRecord,
    MemberResult,
    MemberSessions,
    MemberToken,
    NewMember,
    NewMemberPassword,
    SignedOut,
)
from pilotis.members.gate.service import MemberInactiveError
from pilotis.members.service import AddressTakenError, LoginIdTakenError, NoPasswordError
from pilotis.security.sessions.service import SessionNotFoundError

_MEMBERS = "/v1/apps/:app_id/members"
_MEMBER = f"{_MEMBERS}/:member_id"

READ = console(Role.VIEWER, secret_key=True, scope="members:read")
WRITE = console(Role.EDITOR, secret_key=True, scope="members:write")


class MemberAdministrationEndpoints(Endpoints, tag="App member administration"):
    """An app's members, for console users, secret keys and functions."""

    def __init__(self, administration: MemberAdministration) -> None:
        self._administration = administration

    @get(_MEMBERS, access=READ)
    async def page(self, call: Call, app_id: UUID, query: MemberQuery) -> MemberPage:
        """List members, newest first, with search and filters."""
        return await self._administration.page(call.app, query)

    @post(_MEMBERS, access=WRITE, status=201, creates="member_id", again="read", errors=[LoginIdTakenError])
    async def create(self, call: Call, app_id: UUID, body: NewMember) -> MemberRecord:
        """Create a member, also where the app lets nobody sign up.

        The member signs in with its login_id and the password.
        """
        return await self._administration.create(call.app, call.actor, body, call.new_id())

    @get(_MEMBER, access=READ, errors=[MemberNotFoundError])
    async def read(self, call: Call, app_id: UUID, member_id: str) -> MemberRecord:
        """Read a member."""
        return await self._administration.read(call.app, member_id)

    @patch(_MEMBER, access=WRITE, errors=[MemberNotFoundError, AddressTakenError])
    async def change(self, call: Call, app_id: UUID, member_id: str, body: MemberChange) -> MemberRecord:
        """Activate, deactivate or rename a member, or replace its custom_data, its roles or its claims.

        Rules of tables ask for roles and claims; a member cannot change its own. They hold from its next request on.
        A deactivated member is answered 403 `MEMBER_INACTIVE` at once, whatever tokens it holds. Once it is activated
        again, its sessions work as before.
        """
        return await self._administration.change(call.app, call.actor, member_id, body)

    @post(
        f"{_MEMBER}/token",
        access=console(Role.EDITOR, fresh=True),
        needs_room=False,
        errors=[MemberNotFoundError, MemberInactiveError, ReauthenticationRequiredError],
    )
    async def token(self, call: Call, app_id: UUID, member_id: str) -> MemberToken:
        """Get an access token of a member for 5 minutes, to try requests as the member; the audit log has each.

        Its session ends with it, or with the member's other sessions.
        """
        return await self._administration.token(call.app, call.actor, member_id)

    @post(
        f"{_MEMBER}/impersonate",
        access=console(Role.EDITOR, fresh=True),
        needs_room=False,
        errors=[
            MemberNotFoundError,
            MemberInactiveError,
            ImpersonationNotAllowedError,
            ReauthenticationRequiredError,
        ],
    )
    async def impersonate(self, call: Call, app_id: UUID, member_id: str, body: Impersonation) -> ImpersonationToken:
        """Act as a member for at most 15 minutes, where the account settings allow it, such as to help it.

        The reason is in the audit log, an event tells of it, and the member sees the session among its own. It reads
        and writes what the member may, but nothing of its account: passwords, addresses, factors, consents and teams.
        It ends with its token, which cannot be refreshed.
        """
        return await self._administration.impersonate(call.app, call.principal, call.actor, member_id, body)

    @delete(
        f"{_MEMBER}/sessions/:session_id",
        access=WRITE,
        errors=[MemberNotFoundError, SessionNotFoundError],
    )
    async def end_session(self, call: Call, app_id: UUID, member_id: str, session_id: UUID) -> Deleted:
        """End a session of a member: its access and refresh tokens stop working immediately."""
        await self._administration.end_session(call.app, call.actor, member_id, session_id)
        return Deleted("Session ended.", session_id)

    @delete(_MEMBER, access=WRITE, errors=[MemberNotFoundError])
    async def delete(self, call: Call, app_id: UUID, member_id: str, query: MemberDeletion) -> MemberResult:
        """Delete a member and end its sessions.

        Rows and files that it created stay, unless `data` is `delete`, or the account settings say so. In a table of
        the access level Creator no other member sees them, but the console and secret keys do. Its login_id is free
        again.
        """
        await self._administration.delete(call.app, call.actor, member_id, query.data)
        return MemberResult("Member deleted.", member_id)

    @put(f"{_MEMBER}/password", access=WRITE, needs_room=False, errors=[MemberNotFoundError, NoPasswordError])
    async def set_password(self, call: Call, app_id: UUID, member_id: str, body: NewMemberPassword) -> SignedOut:
        """Set the password of a member who forgot it, and end the member's sessions."""
        ended = await self._administration.set_password(call.app, call.actor, member_id, body.password)
        return SignedOut("Password set. The member is signed out everywhere.", member_id, ended)

    @get(f"{_MEMBER}/sessions", access=READ, errors=[MemberNotFoundError])
    async def sessions(self, call: Call, app_id: UUID, member_id: str, query: Whole) -> MemberSessions:
        """List a member's active sessions, the one used last first."""
        return await self._administration.sessions(call.app, member_id)

    @post(f"{_MEMBER}/sign-out-everywhere", access=WRITE, needs_room=False, errors=[MemberNotFoundError])
    async def sign_out(self, call: Call, app_id: UUID, member_id: str) -> SignedOut:
        """End every session of a member. Its access and refresh tokens stop working immediately."""
        ended = await self._administration.sign_out(call.app, call.actor, member_id)
        return SignedOut("Member signed out everywhere.", member_id, ended)
