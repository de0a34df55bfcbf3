"""The new events of workflows, each read and encoded once for all streams of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.db.news import News
from pilotis.db.pool import Database
from pilotis.http.replies.events import Event
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import UnavailableError
from pilotis.workflows import event_store, store
from pilotis.workflows.event_store import EventRecord

MAX_BEHIND = 1000
"""A stream that has not sent so many events starts over."""
_POLL_SECONDS = 5.0
_PAUSE_SECONDS = 0.02
_RETRY_SECONDS = 1.0
_HIDDEN = ("output", "lines", "content", "arguments")


class Told(NamedTuple):
    """An event of a workflow, without users' data, and its id."""

    event_id: int
    event: Event


class Inbox:
    """The events that one stream has not sent yet. `changed` is set when there are some, or no more will come."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.has_ended = False
        self._waiting: list[Told] = []
        self._is_behind = False

    def add(self, told: list[Told]) -> None:
        """Add events; with too many of them, forget all."""
        self._waiting += told
        if len(self._waiting) > MAX_BEHIND:
            self._waiting, self._is_behind = [], True
        self.changed.set()

    def take(self) -> list[Told] | None:
        """Return the new events; None if some were forgotten."""
        waiting, is_behind = self._waiting, self._is_behind
        self._waiting, self._is_behind = [], False
        self.changed.clear()
        return None if is_behind else waiting

    def end(self) -> None:
        """Add no more: the workflow is deleted."""
        self.has_ended = True
        self.changed.set()


class _Feed(NamedTuple):
    inboxes: set[Inbox]
    task: asyncio.Task[None]


class Feeds:
    """The workflows that streams of this process follow."""

    def __init__(self, database: Database, news: News) -> None:
        self._database = database
        self._news = news
        self._feeds: dict[tuple[UUID, UUID], _Feed] = {}

    @asynccontextmanager
    async def follow(self, app_id: UUID, workflow_id: UUID) -> AsyncGenerator[Inbox]:
        """Yield an inbox that gets each event which is stored from now on, and may get some of those before."""
        place, inbox = (app_id, workflow_id), Inbox()
        if place not in self._feeds:
            floor, _, known = await event_store.now(self._database.of(app_id), *place)
            if place not in self._feeds:
                inboxes: set[Inbox] = set()
                task = asyncio.create_task(self._read(*place, floor, set(known), inboxes))
                self._feeds[place] = _Feed(inboxes, task)
        feed = self._feeds[place]
        feed.inboxes.add(inbox)
        try:
            yield inbox
        finally:
            feed.inboxes.discard(inbox)
            if not feed.inboxes and self._feeds.get(place) is feed:
                del self._feeds[place]
                feed.task.cancel()

    async def _read(self, app_id: UUID, workflow_id: UUID, floor: int, seen: set[int], inboxes: set[Inbox]) -> None:
        """Read the events above `floor` that were not `seen`, until the workflow is deleted."""
        place = (app_id, workflow_id)
        try:
            await self._follow(*place, floor, seen, inboxes)
        finally:
            # Without the workflow, or after an error, the streams end; if the last one has left, there are none.
            if inboxes:
                del self._feeds[place]
            for inbox in inboxes:
                inbox.end()

    async def _follow(self, app_id: UUID, workflow_id: UUID, floor: int, seen: set[int], inboxes: set[Inbox]) -> None:
        connection, place = self._database.of(app_id), (app_id, workflow_id)
        with self._news.listen(workflow_id) as changed:
            while True:
                try:
                    changed.clear()
                    rows = await event_store.of_workflow(connection, *place, floor, list(seen), MAX_BEHIND)
                    if not rows and not await store.exists(connection, *place):
                        return
                    told = [Told(row.event_id, event_of(row, row.event_id, is_hidden=True)) for row in rows]
                    for inbox in inboxes if told else ():
                        inbox.add(told)
                    seen |= {row.event_id for row in rows}
                    if rows:
                        floor = await event_store.settled(connection, *place, floor)
                        seen = {one for one in seen if one > floor}
                except UnavailableError:
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if len(rows) < MAX_BEHIND:
                    await pause(changed)


async def pause(changed: asyncio.Event) -> None:
    """Wait for news, or until those whose notification was lost should be looked for."""
    # The sender has gathered the news already: this only bounds how often is read when many send.
    await asyncio.sleep(_PAUSE_SECONDS)
    with suppress(TimeoutError):
        async with asyncio.timeout(_POLL_SECONDS):
            await changed.wait()


def event_of(row: EventRecord, event_id: int, *, is_hidden: bool) -> Event:
    """Return a stored event as a stream sends it; hidden, without users' data."""
    content = json.decode(row.data.encode())
    told = {
        "type": row.type,
        "execution_id": str(row.execution_id),
        "workflow_id": str(row.workflow_id),
        "seq": row.seq,
        "timestamp": rfc3339(row.created_at),
        **(_hidden(content) if is_hidden else content),
    }
    return Event(event=row.type, id=str(event_id), data=json.encode(told))


def _hidden(content: dict[str, Any]) -> dict[str, Any]:
    """Return an event's content without users' data."""
    shown = dict(content)
    for name in _HIDDEN:
        if name in shown:
            shown[name] = None
    if isinstance(shown.get("error"), dict):
        shown["error"] = shown["error"] | {"message": None}
    if isinstance(shown.get("step"), dict):
        shown["step"] = _hidden(shown["step"])
    return shown
