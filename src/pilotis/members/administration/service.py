"""Administration of an app's members: search, read, update, delete, sign out."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.events.service import Events
from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import Actor, AppInfo, ImpersonationNotAllowedError, Principal, Role
from pilotis.http.api.schemas import ActiveSession, time_field
from pilotis.kit import clock
from pilotis.kit.account_settings import Remains
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import NotFoundError, invalid
from pilotis.kit.ids import is_uuid
from pilotis.kit.mail_addresses import folded, is_address
from pilotis.kit.passwords import Passwords
from pilotis.members import events
from pilotis.members import store as member_store
from pilotis.members.administration import store
from pilotis.members.administration.store import StoredMember, Wanted, WholeMember
from pilotis.members.administration.types import (
    Impersonation,
    ImpersonationToken,
    MemberChange,
    MemberItem,
    MemberPage,
    MemberQuery,
    MemberRecord,
    MemberSessions,
    MemberToken,
    NewMember,
)
from pilotis.members.gate.service import MemberInactiveError
from pilotis.members.service import (
    GUEST_PREFIX,
    AddressTakenError,
    EmailTakenError,
    Members,
    NoPasswordError,
    check_password,
    claims_text,
    custom_data_text,
    distinct,
)
from pilotis.security.audit.service import record
from pilotis.security.sessions.service import Sessions
from pilotis.security.sessions.types import Session

TOKEN_SECONDS = 300
"""How long a token is valid with which a console user tries what a member can do."""

_LIKE_SPECIAL = re.compile(r"[\\%_]")
_ESCAPED = r"\\\g<0>"


class MemberNotFoundError(NotFoundError):
    """404: the app has no such member."""

    code = "MEMBER_NOT_FOUND"
    message = "The app has no such member."


class MemberAdministration:
    """Administration of members by console users. The audit log has every change."""

    def __init__(
        self, database: Database, sessions: Sessions, passwords: Passwords, emitter: Events, members: Members
    ) -> None:
        self._members = members
        self._database = database
        self._events = emitter
        self._sessions = sessions
        self._passwords = passwords

    async def page(self, app: AppInfo, query: MemberQuery) -> MemberPage:
        """Return a page of the members that match a query, newest first."""
        limit = app.limits.page_size(query.limit)
        pattern = containing(query.search) if query.search else None
        wanted = Wanted(
            pattern=pattern,
            is_guest=query.is_guest,
            is_active=query.is_active,
            email_folded=folded(query.email) if query.email is not None else None,
            role=query.role,
            team_id=query.team_id,
            provider=query.provider,
            factor=query.factor,
            created_after=time_field(query.created_after, "created_after"),
            active_after=time_field(query.active_after, "active_after"),
        )
        total, rows = await store.page(self._database, app.app_id, wanted, limit, query.offset)
        return MemberPage(
            data=[MemberItem(**_item(row)) for row in rows], total_count=total, limit=limit, offset=query.offset
        )

    async def read(self, app: AppInfo, member_id: str) -> MemberRecord:
        """Return a member; raises `MemberNotFoundError`."""
        _require_id(member_id)
        row = await store.read(self._database.of(app.app_id), app.app_id, member_id)
        if row is None:
            raise MemberNotFoundError
        return _record(row)

    async def create(self, app: AppInfo, actor: Actor, new: NewMember, member_id: str) -> MemberRecord:
        """Create a member and return it, also where the app lets nobody sign up; raises `LoginIdTakenError`."""
        await self._members.create(
            app, actor, new.login_id, new.password, new.nickname, member_id, new.roles, new.claims, new.profile
        )
        return await self.read(app, member_id)

    async def sessions(self, app: AppInfo, member_id: str) -> MemberSessions:
        """Return a member's active sessions; raises `MemberNotFoundError`."""
        await self.read(app, member_id)
        rows = await self._sessions.active(app.app_id, member_id)
        return MemberSessions([_session(row) for row in rows])

    async def token(self, app: AppInfo, actor: Actor, member_id: str) -> MemberToken:
        """Return an access token of a member, to try what the member can do; the audit log has who asked for it.

        Raises `MemberNotFoundError`, or `MemberInactiveError`.
        """
        async with self._locked(app.app_id, member_id) as (connection, row):
            if not row.is_active:
                raise MemberInactiveError
            session_id, token = await self._sessions.start_brief(connection, app.app_id, member_id, TOKEN_SECONDS)
            await record(connection, app.app_id, actor, "member.run_as", member_id, session_id=session_id)
        return MemberToken(token, TOKEN_SECONDS, session_id)

    async def impersonate(
        self, app: AppInfo, principal: Principal, actor: Actor, member_id: str, given: Impersonation
    ) -> ImpersonationToken:
        """Return an access token with which somebody of the app's team acts as a member; told and recorded.

        Raises `ImpersonationNotAllowedError`, `MemberNotFoundError` and `MemberInactiveError`.
        """
        allowed = {"owner": Role.OWNER, "editor": Role.EDITOR}.get(app.accounts.impersonation)
        assert actor.id is not None
        async with self._locked(app.app_id, member_id) as (connection, row):
            if allowed is None or not principal.may(allowed):
                raise ImpersonationNotAllowedError
            if not row.is_active:
                raise MemberInactiveError
            session_id, token = await self._sessions.start_impersonation(
                connection, app.app_id, member_id, given.seconds, actor.id
            )
            await self._emit(connection, app, events.MEMBER_IMPERSONATED, actor, row)
            details = {"reason": given.reason, "seconds": given.seconds, "session_id": session_id}
            await record(connection, app.app_id, actor, "member.impersonate", member_id, **details)
        expires_at = clock.now() + timedelta(seconds=given.seconds)
        return ImpersonationToken(token, rfc3339(expires_at), session_id)

    async def end_session(self, app: AppInfo, actor: Actor, member_id: str, session_id: UUID) -> None:
        """End one session of a member; raises `MemberNotFoundError`, or `SessionNotFoundError`."""
        async with self._locked(app.app_id, member_id) as (connection, row):
            await self._sessions.revoke_of(connection, app.app_id, member_id, session_id)
            await self._emit(connection, app, events.MEMBER_SIGNED_OUT, actor, row)
            await record(connection, app.app_id, actor, "member.end_session", member_id, session_id=session_id)

    async def change(self, app: AppInfo, actor: Actor, member_id: str, change: MemberChange) -> MemberRecord:
        """Update a member and return it. A deactivated member is refused from its next request on."""
        if change.roles is not msgspec.UNSET:
            change.roles = distinct(change.roles)
        async with self._locked(app.app_id, member_id) as (connection, before):
            if change.is_active is not msgspec.UNSET:
                await member_store.set_active(connection, app.app_id, member_id, change.is_active)
                if change.is_active:
                    await self._members.returned(connection, app.app_id, member_id)
            if change.nickname is not msgspec.UNSET:
                await member_store.set_nickname(connection, app.app_id, member_id, change.nickname)
            if change.custom_data is not msgspec.UNSET:
                data = custom_data_text(change.custom_data, app.limits)
                await member_store.replace_custom_data(connection, app.app_id, member_id, data)
            if change.roles is not msgspec.UNSET or change.claims is not msgspec.UNSET:
                roles = None if change.roles is msgspec.UNSET else change.roles
                claims = None if change.claims is msgspec.UNSET else claims_text(change.claims)
                await member_store.set_facts(connection, app.app_id, member_id, roles, claims)
            if change.email is not msgspec.UNSET:
                await self._set_email(connection, app, actor, member_id, change.email)
            if change.banned_until is not msgspec.UNSET or change.ban_reason is not msgspec.UNSET:
                await self._ban(connection, app, actor, before, change)
            changed = {name: value for name, value in msgspec.structs.asdict(change).items() if value != msgspec.UNSET}
            if changed:
                # What an app keeps of a member is not for the log.
                changed |= {"custom_data": "changed"} if "custom_data" in changed else {}
                await record(connection, app.app_id, actor, "member.update", member_id, **changed)
            row = await store.read(connection, app.app_id, member_id)
            assert row is not None
            await self._events.emit_all(connection, app.app_id, _changes(change, before, actor, row))
        return _record(row)

    async def _set_email(
        self, connection: Connection, app: AppInfo, actor: Actor, member_id: str, email: str | None
    ) -> None:
        """Give a member an address that the app's own side vouches for, or remove it; raises `AddressTakenError`."""
        if email is None:
            await self._members.remove_email(connection, app, actor, member_id)
            return
        if not is_address(email):
            raise invalid("email", "email: one e-mail address is expected, such as ada@example.com.", "INVALID_EMAIL")
        try:
            await self._members.set_email(connection, app, actor, member_id, email)
        except EmailTakenError:
            raise AddressTakenError from None

    async def _ban(
        self, connection: Connection, app: AppInfo, actor: Actor, before: StoredMember, change: MemberChange
    ) -> None:
        """Ban a member until a time, which ends its sessions, or lift the ban."""
        member_id, until, reason = before.member_id, change.banned_until, change.ban_reason
        if until is not msgspec.UNSET:
            end = time_field(until, "banned_until")
            await member_store.set_banned_until(connection, app.app_id, member_id, end)
            is_banned = end is not None and end > clock.now()
            if is_banned and await self._sessions.revoke_all(connection, app.app_id, member_id):
                await self._emit(connection, app, events.MEMBER_SIGNED_OUT, actor, before)
        if reason is not msgspec.UNSET:
            await member_store.set_ban_reason(connection, app.app_id, member_id, reason)

    async def delete(self, app: AppInfo, actor: Actor, member_id: str, data: Remains | None = None) -> None:
        """Delete a member and end its sessions. What it has created stays, unless `data` or the app says otherwise."""
        policy = app.accounts.on_member_delete
        remains: Remains = data or ("keep" if policy == "ask" else policy)
        _require_id(member_id)
        tell = await self._members.farewell(app.app_id)
        async with self._locked(app.app_id, member_id) as (connection, _):
            await self._members.depart(connection, app.app_id, actor, member_id, remains, tell)

    async def set_password(self, app: AppInfo, actor: Actor, member_id: str, password: str) -> int:
        """Set a member's password, end its sessions, and return how many there were.

        Raises `NoPasswordError` for a guest, which has no login_id to sign in with.
        """
        check_password(password, app.limits)
        _require_id(member_id)
        password_hash = await self._passwords.hash(password)
        async with self._locked(app.app_id, member_id) as (connection, row):
            if not await member_store.replace_password(connection, app.app_id, member_id, None, password_hash):
                raise NoPasswordError
            ended = await self._sessions.revoke_all(connection, app.app_id, member_id)
            if ended:
                await self._emit(connection, app, events.MEMBER_SIGNED_OUT, actor, row)
            await record(connection, app.app_id, actor, "member.set_password", member_id, sessions=ended)
        return ended

    async def sign_out(self, app: AppInfo, actor: Actor, member_id: str) -> int:
        """End every session of a member and return how many there were."""
        async with self._locked(app.app_id, member_id) as (connection, row):
            ended = await self._sessions.revoke_all(connection, app.app_id, member_id)
            if ended:
                await self._emit(connection, app, events.MEMBER_SIGNED_OUT, actor, row)
            await record(connection, app.app_id, actor, "member.sign_out", member_id, sessions=ended)
        return ended

    @asynccontextmanager
    async def _locked(self, app_id: UUID, member_id: str) -> AsyncGenerator[tuple[Connection, StoredMember]]:
        _require_id(member_id)
        async with self._database.transaction(app_id) as connection:
            row = await store.lock(connection, app_id, member_id)
            if row is None:
                raise MemberNotFoundError
            yield connection, row

    async def _emit(
        self,
        connection: Connection,
        app: AppInfo,
        type_: EventType[events.MemberEvent],
        actor: Actor,
        row: StoredMember,
    ) -> None:
        await self._events.emit_all(connection, app.app_id, [events.about(type_, actor, _described(row))])


def _changes(change: MemberChange, before: StoredMember, actor: Actor, row: StoredMember) -> list[NewEvent]:
    """Return the events of a change to a member, given the member `before` it. A value that stays equal is no event."""
    found = []
    if change.is_active is not msgspec.UNSET and change.is_active != before.is_active:
        type_ = events.MEMBER_ACTIVATED if change.is_active else events.MEMBER_DEACTIVATED
        found.append(events.about(type_, actor, _described(row)))
    changed = [name for name in ("nickname", "roles") if getattr(row, name) != getattr(before, name)]
    changed += [name for name in ("custom_data", "claims") if getattr(change, name) is not msgspec.UNSET]
    if changed:
        found.append(events.updated(actor, _described(row), changed))
    return found


def _described(row: StoredMember) -> events.MemberData:
    return events.MemberData(row.member_id, row.nickname, row.is_guest, row.is_active)


def containing(text: str) -> str:
    """Return the LIKE pattern that matches texts containing the given text literally."""
    return f"%{_LIKE_SPECIAL.sub(_ESCAPED, text)}%"


def _require_id(member_id: str) -> None:
    if not is_uuid(member_id.removeprefix(GUEST_PREFIX)):
        raise MemberNotFoundError


def _session(row: Session) -> ActiveSession:
    return ActiveSession(
        session_id=row.session_id,
        user_agent=row.user_agent,
        created_at=rfc3339(row.created_at),
        refreshed_at=rfc3339(row.refreshed_at),
        expires_at=rfc3339(row.expires_at),
    )


def _item(row: StoredMember) -> dict[str, Any]:
    return {
        "member_id": row.member_id,
        "login_id": row.login_id,
        "nickname": row.nickname,
        "is_guest": row.is_guest,
        "is_active": row.is_active,
        "roles": row.roles,
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
        "last_active_at": rfc3339(row.last_active_at),
    }


def _record(row: WholeMember) -> MemberRecord:
    custom_data, claims = (msgspec.Raw(text.encode()) for text in (row.custom_data, row.claims))
    return MemberRecord(
        **_item(row),
        sessions=row.sessions,
        custom_data=custom_data,
        claims=claims,
        email=row.email,
        factors=row.factors,
        banned_until=optional_rfc3339(row.banned_until),
        deletes_at=optional_rfc3339(row.deletes_at),
        ban_reason=row.ban_reason,
    )
