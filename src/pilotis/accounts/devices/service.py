"""A member's own sessions: where it is signed in, and how to end that."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.accounts.devices.types import DeviceSession, DeviceSessions
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo, MemberInfo
from pilotis.kit.clock import rfc3339
from pilotis.members.service import Members
from pilotis.security.sessions.service import SessionNotFoundError, Sessions


class Devices:
    """The sessions of members, for themselves. Ending one is never dangerous to its holder, so none has to be fresh."""

    def __init__(self, database: Database, members: Members, sessions: Sessions) -> None:
        self._database = database
        self._members = members
        self._sessions = sessions

    async def own(self, app: AppInfo, member: MemberInfo) -> DeviceSessions:
        """Return the signed-in member's active sessions, the one used last first."""
        return DeviceSessions(
            [
                DeviceSession(
                    session_id=row.session_id,
                    is_current=row.session_id == member.session_id,
                    user_agent=row.user_agent,
                    methods=row.methods,
                    level=row.level,
                    created_at=rfc3339(row.created_at),
                    refreshed_at=rfc3339(row.refreshed_at),
                    expires_at=rfc3339(row.expires_at),
                )
                for row in await self._sessions.devices(app.app_id, member.member_id)
            ]
        )

    async def end(self, app: AppInfo, member: MemberInfo, session_id: UUID) -> None:
        """End a session of the signed-in member; raises `SessionNotFoundError`."""
        own = await self._sessions.devices(app.app_id, member.member_id)
        if session_id not in {row.session_id for row in own}:
            raise SessionNotFoundError
        await self._members.sign_out(app, msgspec.structs.replace(member, session_id=session_id))

    async def end_others(self, app: AppInfo, member: MemberInfo) -> int:
        """End all sessions of the signed-in member but the request's own, and return how many."""
        async with self._database.transaction(app.app_id) as connection:
            return await self._sessions.revoke_all(connection, app.app_id, member.member_id, kept=member.session_id)
