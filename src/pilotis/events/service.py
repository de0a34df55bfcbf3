"""Emitting events, and registering targets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.blocks import after_commit
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database, TenantDatabase
from pilotis.events import store
from pilotis.events.types import Catalogue, Event, EventType, NewEvent, Target, encoded, row_operations
from pilotis.http.api.principals import Actor
from pilotis.kit.clock import rfc3339
from pilotis.kit.reports import Report

D = TypeVar("D", bound=msgspec.Struct)
OVERDUE = timedelta(seconds=10)
"""After how long an event that has not been dispatched is reported."""


async def register_outbox(connection: Connection, app_id: UUID) -> None:
    """Record that an app has a table for row events, in the transaction that creates it and before it does.

    Others that do the same wait until the transaction ends.
    """
    await store.register_outbox(connection, app_id)


Wanted = Callable[[Connection], Awaitable[frozenset[str]]]
"""The operations on a table's rows that have a target, as a transaction sees them."""


class EmittingTables(Protocol):
    """Makes statements on a table's rows write events; implemented by the tables."""

    async def tables_of(self, app_id: UUID) -> Collection[UUID]:
        """Return the ids of an app's tables."""

    async def emits(self, app_id: UUID, table_id: UUID) -> bool:
        """Return whether a table emits events of its rows."""

    async def set_emitted(self, app_id: UUID, table_id: UUID, wanted: Wanted) -> None:
        """Make a table emit events of exactly the wanted operations, on every node, after this has returned.

        `wanted` is asked while the table is locked: one who stops its events beside one who listens to it must not
        decide by what was so before.
        """


async def report(connection: Connection) -> list[Report]:
    """Return reports for the operator about events that wait for too long or could not be dispatched."""
    reports = []
    oldest = await store.oldest_waiting(connection)
    if oldest is not None and datetime.now(UTC) - oldest > OVERDUE:
        sentence = f"Events have been waiting for dispatch since {rfc3339(oldest)}."
        reports.append(Report(sentence, "Start a server, or read the log of the one that runs."))
    if number := await store.given_up(connection):
        sentence = f"{number} events could not be dispatched."
        reports.append(Report(sentence, "The server's log gives the reason (event not dispatched)."))
    return reports


class Events:
    """Stores events in the transaction of their change, if a target listens to them.

    Statements on rows write their own events; see `pilotis.data.rows.statements`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.catalogue = Catalogue()
        self._tables: EmittingTables | None = None
        self._emitted: Callable[[UUID], None] = _no_op

    def attach(self, tables: EmittingTables) -> None:
        """Set the tables that can emit events."""
        self._tables = tables

    def on_emitted(self, emitted: Callable[[UUID], None]) -> None:
        """Call `emitted` with an app's id whenever this process has committed an event of the app."""
        self._emitted = emitted

    def committed(self, app_id: UUID) -> None:
        """Report that a statement has committed events of an app that it wrote itself."""
        self._emitted(app_id)

    async def emit(
        self,
        connection: Connection,
        app_id: UUID,
        type_: EventType[D],
        data: D,
        *,
        actor: Actor,
        subject: str | None = None,
        table_id: UUID | None = None,
        storage_id: UUID | None = None,
        member_id: str | None = None,
        depth: int | None = None,
    ) -> None:
        """Store an event in the caller's transaction, if a target listens to its type: one statement."""
        event = type_.event(
            data,
            actor,
            subject=subject,
            table_id=table_id,
            storage_id=storage_id,
            member_id=member_id,
            depth=depth,
        )
        await self.emit_all(connection, app_id, [event])

    async def emit_all(self, connection: Connection, app_id: UUID, events: Sequence[NewEvent]) -> None:
        """Store those events that a target listens to, in the caller's transaction: one statement for all."""
        if events and await store.emit(connection, app_id, encoded(*events)):
            if self._emitted is _no_op:
                await store.make_outbox_due(connection, app_id)
            else:
                after_commit(connection, partial(self._emitted, app_id))

    async def listen(self, target: Target) -> None:
        """Register a target: `store_target` and `enable`."""
        async with self._database.transaction(target.app_id) as connection:
            await self.store_target(connection, target)
        await self.enable(target)

    async def store_target(self, connection: Connection, target: Target) -> None:
        """Insert or change a target, in the caller's transaction. `enable` must follow its commit.

        If the process dies in between, `finish_enabling` continues.
        """
        # A table that is being created waits for this lock, or this for it: one of the two enables its events.
        await lock_app(connection, target.app_id)
        await store.store_target(connection, target, state="arming")
        await store.register_outbox(connection, target.app_id)

    async def enable(self, target: Target) -> None:
        """Make the tables of a target emit its events. It receives every change that begins afterwards.

        Each table changes in its own short transaction.
        """
        await self._set_emitted(target.app_id)
        await store.set_active(self._database.of(target.app_id), target.app_id, target.kind, target.target_id)

    async def unlisten(self, app_id: UUID, kind: str, target_id: UUID) -> None:
        """Remove a target. `disable_unused` later stops the events of tables without targets."""
        async with self._database.transaction(app_id) as connection:
            await self.remove_target(connection, app_id, kind, target_id)

    async def remove_target(self, connection: Connection, app_id: UUID, kind: str, target_id: UUID) -> None:
        """Remove a target, in the caller's transaction."""
        await store.remove_target(connection, app_id, kind, target_id)

    async def pending_targets(self, app_id: UUID, kind: str) -> set[UUID]:
        """Return the ids of targets that do not receive every event yet, because their tables do not emit them yet."""
        return await store.pending_targets(self._database.of(app_id), app_id, kind)

    async def keep(self, connection: Connection, app_id: UUID, event: NewEvent) -> None:
        """Store an event without dispatching it, such as a test event, so that a delivery can refer to it."""
        await store.keep(connection, app_id, encoded(event))

    async def can_be_sent(self, connection: Connection, app_id: UUID, event_id: UUID) -> bool:
        """Return whether an event is stored with its data, which goes a day after it was delivered everywhere."""
        return await store.has_payload(connection, app_id, event_id)

    async def read(self, app_id: UUID, event_id: UUID) -> Event | None:
        """Return a stored event."""
        return await store.event(self._database.of(app_id), app_id, event_id)

    async def page(
        self, app_id: UUID, type_: str | None, since: datetime | None, before: UUID | None, limit: int
    ) -> list[Event]:
        """Return at most `limit` stored events, newest first; only those that had a target."""
        return await store.page(self._database.of(app_id), app_id, type_, since, before, limit)

    async def stored_since(
        self, app_id: UUID, type_: str | None, after: UUID, without: Collection[UUID], limit: int
    ) -> list[Event]:
        """Return at most `limit` stored events with later ids than `after`, oldest first, without some of them."""
        return await store.since(self._database.of(app_id), app_id, type_, after, list(without), limit)

    async def ids_since(self, app_id: UUID, after: UUID, limit: int) -> list[UUID]:
        """Return the ids of at most `limit` stored events with later ids than `after`."""
        return await store.ids_since(self._database.of(app_id), app_id, after, limit)

    async def finish_enabling(self) -> None:
        """Finish enabling the targets of a process that died."""
        for app_id, kind, target_id in await store.pending(self._database):
            await self._set_emitted(app_id)
            await store.set_active(self._database.of(app_id), app_id, kind, target_id)

    async def disable_unused(self) -> None:
        """Stop events of tables to which no target listens."""
        for app_id in await store.listened_apps(self._database):
            await self._set_emitted(app_id, disable_unused=True)

    async def operations_for(
        self, connection: Connection | TenantDatabase, app_id: UUID, table_id: UUID
    ) -> frozenset[str]:
        """Return the operations on a table's rows that have a target."""
        wanted = frozenset[str]()
        for target in await store.targets(connection, app_id):
            if target.table_ids is None or table_id in target.table_ids:
                wanted |= row_operations(target.types)
        return wanted

    async def _set_emitted(self, app_id: UUID, *, disable_unused: bool = False) -> None:
        assert self._tables is not None
        for table_id in await self._tables.tables_of(app_id):
            wanted = await self.operations_for(self._database.of(app_id), app_id, table_id)
            if wanted or (disable_unused and await self._tables.emits(app_id, table_id)):
                await self._tables.set_emitted(app_id, table_id, partial(self._wanted, app_id, table_id))

    async def _wanted(self, app_id: UUID, table_id: UUID, connection: Connection) -> frozenset[str]:
        return await self.operations_for(connection, app_id, table_id)


def _no_op(_: UUID) -> None:
    """Wake no process: this one does not dispatch, as a command, for example; another one finds the outbox due."""
