"""The routes of a member's own sessions."""

from __future__ import annotations

from uuid import UUID

from pilotis.accounts.devices.service import Devices
from pilotis.accounts.devices.types import DeviceSessions, EndedSessions
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Deleted, Whole
from pilotis.members.gate.service import MemberInactiveError
from pilotis.security.sessions.service import SessionNotFoundError

_SESSIONS = "/v1/public/app-members/me/sessions"


class DeviceEndpoints(Endpoints, tag="App member authentication"):
    """Where a member is signed in."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    @get(_SESSIONS, access=Access.ACCOUNT, errors=[MemberInactiveError])
    async def own(self, call: Call, query: Whole) -> DeviceSessions:
        """List where the signed-in member is signed in, the session used last first."""
        return await self._devices.own(call.app, call.member)

    @delete(f"{_SESSIONS}/:session_id", access=Access.ACCOUNT, errors=[MemberInactiveError, SessionNotFoundError])
    async def end(self, call: Call, session_id: UUID) -> Deleted:
        """End a session of the signed-in member. Its access and refresh tokens stop working immediately."""
        await self._devices.end(call.app, call.member, session_id)
        return Deleted("Session ended.", session_id)

    @post(f"{_SESSIONS}/end-others", access=Access.ACCOUNT, needs_room=False, errors=[MemberInactiveError])
    async def end_others(self, call: Call) -> EndedSessions:
        """End all sessions of the signed-in member but this one."""
        return EndedSessions("Other sessions ended.", await self._devices.end_others(call.app, call.member))
