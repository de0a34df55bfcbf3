"""Administering an app's members: finding, reading, changing, deleting them, signing them out."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.audit.service import record
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import NotFoundError
from pilotis.kit.ids import is_uuid
from pilotis.members.administration import store
from pilotis.members.administration.types import MemberChange, MemberItem, MemberPage, MemberQuery, MemberRecord
from pilotis.members.service import GUEST_PREFIX
from pilotis.sessions.service import Sessions

_LIKE_SPECIAL = re.compile(r"[\\%_]")
_ESCAPED = r"\\\g<0>"


class MemberNotFoundError(NotFoundError):
    """404: the app has no such member."""

    code = "MEMBER_NOT_FOUND"
    message = "The app has no such member."


class MemberAdministration:
    """What a console user does about members. Every change is in the audit log."""

    def __init__(self, database: Database, sessions: Sessions) -> None:
        self._database = database
        self._sessions = sessions

    async def page(self, app: AppInfo, query: MemberQuery) -> MemberPage:
        """Return a part of the members that satisfy a query, the newest first."""
        limit = min(query.limit, app.limits.page_rows)
        pattern = containing(query.search) if query.search else None
        total, rows = await store.page(
            self._database, app.app_id, pattern, query.is_guest, query.is_active, limit, query.offset
        )
        return MemberPage([MemberItem(**_item(row)) for row in rows], total, limit, query.offset)

    async def read(self, app: AppInfo, member_id: str) -> MemberRecord:
        """Return a member; raises `MemberNotFoundError`."""
        _require_id(member_id)
        row = await store.read(self._database, app.app_id, member_id)
        if row is None:
            raise MemberNotFoundError
        return _record(row)

    async def change(self, app: AppInfo, actor: Actor, member_id: str, change: MemberChange) -> MemberRecord:
        """Change a member and return it. A deactivated one is refused from its next request on."""
        async with self._locked(app.app_id, member_id) as connection:
            if change.is_active is not msgspec.UNSET:
                await store.set_active(connection, app.app_id, member_id, change.is_active)
            if change.nickname is not msgspec.UNSET:
                await store.set_nickname(connection, app.app_id, member_id, change.nickname)
            changed = {name: value for name, value in msgspec.structs.asdict(change).items() if value != msgspec.UNSET}
            if changed:
                await record(connection, app.app_id, actor, "member.update", member_id, **changed)
            row = await store.read(connection, app.app_id, member_id)
        assert row is not None
        return _record(row)

    async def delete(self, app: AppInfo, actor: Actor, member_id: str) -> None:
        """Delete a member and end its sessions. Its rows stay, and are nobody's from then on."""
        async with self._locked(app.app_id, member_id) as connection:
            await self._sessions.revoke_all(connection, app.app_id, member_id)
            await store.delete(connection, app.app_id, member_id)
            await record(connection, app.app_id, actor, "member.delete", member_id)

    async def sign_out(self, app: AppInfo, actor: Actor, member_id: str) -> int:
        """End every session of a member and return how many there were."""
        async with self._locked(app.app_id, member_id) as connection:
            ended = await self._sessions.revoke_all(connection, app.app_id, member_id)
            await record(connection, app.app_id, actor, "member.sign_out", member_id, sessions=ended)
        return ended

    @asynccontextmanager
    async def _locked(self, app_id: UUID, member_id: str) -> AsyncGenerator[Connection]:
        _require_id(member_id)
        async with self._database.transaction() as connection:
            if not await store.lock(connection, app_id, member_id):
                raise MemberNotFoundError
            yield connection


def containing(text: str) -> str:
    """Return the LIKE pattern of texts that contain the given one, letter by letter."""
    return f"%{_LIKE_SPECIAL.sub(_ESCAPED, text)}%"


def _require_id(member_id: str) -> None:
    if not is_uuid(member_id.removeprefix(GUEST_PREFIX)):
        raise MemberNotFoundError


def _item(row: Record) -> dict[str, Any]:
    return {
        "member_id": row["member_id"],
        "login_id": row["login_id"],
        "nickname": row["nickname"],
        "is_guest": row["is_guest"],
        "is_active": row["is_active"],
        "created_at": rfc3339(row["created_at"]),
        "updated_at": rfc3339(row["updated_at"]),
        "last_active_at": rfc3339(row["last_active_at"]),
    }


def _record(row: Record) -> MemberRecord:
    return MemberRecord(**_item(row), sessions=row["sessions"], custom_data=msgspec.Raw(row["custom_data"].encode()))
