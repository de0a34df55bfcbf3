"""Streams the events of one execution, or of all executions of a workflow.

Events are rows; a notification only names an execution with new ones, and a periodic query finds those whose
notification was lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID

import msgspec

from pilotis.db.batching import SingleFlight
from pilotis.db.news import News
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppInfo
from pilotis.http.replies.events import Event
from pilotis.kit import json
from pilotis.kit.errors import invalid
from pilotis.workflows import event_store, execution_store
from pilotis.workflows.event_store import EventRecord
from pilotis.workflows.execution_store import ExecutionRecord
from pilotis.workflows.executions import FINAL, Executions
from pilotis.workflows.feed import MAX_BEHIND, Feeds, event_of, pause

MAX_SNAPSHOT = 100
_MAX_ID = 2**63


def _last_id(text: str | None) -> int | None:
    """Return the id of the last event that a client has seen; raises a 400 error for an invalid one."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < _MAX_ID):
        raise invalid("last_event_id", "last_event_id: the id of an event is expected.")
    return int(text)


class WorkflowStreams:
    """Reads the events of executions for streams."""

    def __init__(self, database: Database, executions: Executions, news: News) -> None:
        self._database = database
        self._executions = executions
        self._news = news
        self._feeds = Feeds(database, news)
        self._reads: SingleFlight[list[EventRecord]] = SingleFlight()
        self._looks: SingleFlight[ExecutionRecord | None] = SingleFlight()

    async def of_execution(
        self, app: AppInfo, workflow_id: UUID, execution_id: UUID, last: str | None, *, is_hidden: bool
    ) -> AsyncGenerator[Event]:
        """Return the events of an execution: a snapshot, or those after the last seen one.

        Raises 404 errors, and a 400 error if `last` is not an id.
        """
        await self._executions.read(app, workflow_id, execution_id, is_hidden=True)
        return self._execution(app, workflow_id, execution_id, _last_id(last), is_hidden=is_hidden)

    async def of_workflow(self, app: AppInfo, workflow_id: UUID, last: str | None) -> AsyncGenerator[Event]:
        """Return the events of all executions of a workflow; raises the errors of `of_execution`."""
        await self._executions.require(app.app_id, workflow_id)
        return self._workflow(app, workflow_id, _last_id(last))

    async def _execution(
        self, app: AppInfo, workflow_id: UUID, execution_id: UUID, after: int | None, *, is_hidden: bool
    ) -> AsyncGenerator[Event]:
        connection = self._database.of(app.app_id)
        with self._news.listen(execution_id) as changed:
            if after is not None and not await event_store.continues(connection, app.app_id, execution_id, after):
                yield Event(event="reset", data=b"{}")
                after = None
            while True:
                if after is None:
                    row = await execution_store.read(connection, app.app_id, workflow_id, execution_id)
                    if row is None:
                        return
                    after = row.seq
                    yield await self._snapshot(app, row, is_hidden=is_hidden)
                    if row.status in FINAL:
                        yield _end(row.status)
                        return
                changed.clear()
                rows = await self._after(app.app_id, execution_id, after)
                if len(rows) > MAX_BEHIND:
                    yield Event(event="reset", data=b"{}")
                    after = None
                    continue
                for event in rows:
                    after = event.seq
                    yield event_of(event, after, is_hidden=is_hidden)
                    if (status := event.type.removeprefix("execution.")) in FINAL:
                        yield _end(status)
                        return
                if not rows and await self._has_ended_silently(app, workflow_id, execution_id, after):
                    after = None
                    continue
                await pause(changed)

    async def _after(self, app_id: UUID, execution_id: UUID, seq: int) -> list[EventRecord]:
        """Return the events of an execution after a number, at most one more than a stream sends at once."""
        connection = self._database.of(app_id)

        async def read() -> list[EventRecord]:
            return await event_store.after(connection, app_id, execution_id, seq, MAX_BEHIND + 1)

        return await self._reads.run((execution_id, seq), read)

    async def _has_ended_silently(self, app: AppInfo, workflow_id: UUID, execution_id: UUID, after: int) -> bool:
        """Return whether the execution has ended, and its events after the last seen one are deleted."""
        place = (app.app_id, workflow_id, execution_id)

        async def read() -> ExecutionRecord | None:
            return await execution_store.read(self._database.of(app.app_id), *place)

        row = await self._looks.run(place, read)
        return row is None or (row.status in FINAL and row.seq <= after)

    async def _snapshot(self, app: AppInfo, row: ExecutionRecord, *, is_hidden: bool) -> Event:
        found = await self._executions.details(app, row, is_hidden=is_hidden)
        return Event(event="snapshot", id=str(row.seq), data=json.encode(found))

    async def _workflow(self, app: AppInfo, workflow_id: UUID, after: int | None) -> AsyncGenerator[Event]:
        connection, place = self._database.of(app.app_id), (app.app_id, workflow_id)
        # First the inbox, then what is stored: what is in both is sent once.
        async with self._feeds.follow(*place) as inbox:
            floor, known = None if after is None else await event_store.floor_of(connection, *place, after), set[int]()
            if floor is not None:
                rows = await event_store.of_workflow(connection, *place, floor, [], MAX_BEHIND + 1)
                if len(rows) > MAX_BEHIND:
                    floor = None
                else:
                    known = {row.event_id for row in rows}
                    for row in rows:
                        yield event_of(row, row.event_id, is_hidden=True)
            has_seen = after is not None
            while True:
                if floor is None:
                    if has_seen:
                        yield Event(event="reset", data=b"{}")
                    has_seen = True
                    inbox.take()
                    floor, newest, ids = await event_store.now(connection, *place)
                    known = set(ids)
                    running = await self._executions.running(app, workflow_id, MAX_SNAPSHOT)
                    yield Event(event="snapshot", id=str(newest), data=json.encode({"executions": running}))
                if inbox.has_ended:
                    return
                await inbox.changed.wait()
                told = inbox.take()
                if told is None:
                    floor = None
                    continue
                for event_id, event in told:
                    if event_id > floor and event_id not in known:
                        yield event


def _end(status: str) -> Event:
    return Event(event="end", data=msgspec.json.encode({"status": status}))
