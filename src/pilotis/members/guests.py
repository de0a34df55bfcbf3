"""Deletes guests that nobody can act as any more, and that nothing is left of: without a session and without data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis.db.locks import lock_app
from pilotis.events.service import Events
from pilotis.http.api.principals import SYSTEM
from pilotis.members import events, store
from pilotis.members.records import OldGuest

_BATCH_SIZE = 500


class Guests:
    """The retention of guests, `days` after their last request at most."""

    def __init__(
        self, emitter: Events, days: int, departed: Callable[[Connection, UUID, Sequence[str]], Awaitable[None]]
    ) -> None:
        self._departed = departed
        self._events = emitter
        self._days = days

    async def expire(self, connection: Connection) -> None:
        """Delete the guests of all apps that are too old."""
        for app_id, days in await store.apps_with_old_guests(connection, self._days):
            # A table or the app may be deleted meanwhile: the next run continues.
            with suppress(asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
                await self._expire(connection, app_id, days)

    async def _expire(self, connection: Connection, app_id: UUID, days: int) -> None:
        last: OldGuest | None = None
        while guests := await store.old_guests(connection, app_id, days, last, _BATCH_SIZE):
            last = guests[-1]
            unused = await self._without_data(connection, app_id, [guest.member_id for guest in guests])
            if unused:
                await self._delete(connection, app_id, days, unused)

    async def _without_data(self, connection: Connection, app_id: UUID, member_ids: Sequence[str]) -> list[str]:
        """Return those that have created neither a row, in the trash either, nor a file."""
        left = set(member_ids) - await store.file_creators(connection, app_id, member_ids)
        for table_id in await store.table_ids(connection, app_id):
            if left:
                left -= await store.row_creators(connection, app_id, table_id, list(left))
        return sorted(left)

    async def _delete(self, connection: Connection, app_id: UUID, days: int, member_ids: Sequence[str]) -> None:
        async with connection.transaction():
            await lock_app(connection, app_id)
            deleted = await store.delete_old_guests(connection, app_id, days, member_ids)
            await self._departed(connection, app_id, [row.member_id for row in deleted])
            await self._events.emit_all(
                connection, app_id, [events.about(events.MEMBER_DELETED, SYSTEM, row) for row in deleted]
            )
