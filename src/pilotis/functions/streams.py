"""The live log of a function: each call's lines and record, as server-sent events, once they are written.

A notification says that a function has news, and a look now and then covers lost ones. Processes write records at
slightly different times, so each look goes back a few seconds and skips what was sent already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pilotis.db.news import News
from pilotis.db.pool import Database
from pilotis.functions import execution_store, store
from pilotis.functions.errors import FunctionNotFoundError
from pilotis.functions.execution_store import LoggedExecution
from pilotis.functions.executions import decoded_lines, execution_of
from pilotis.http.api.principals import AppInfo
from pilotis.http.replies.events import Event
from pilotis.kit import json
from pilotis.kit.errors import invalid

MAX_BEHIND = 1000
_BATCH_SIZE = 100
_LATE = timedelta(seconds=10)
_POLL_SECONDS = 5.0


class FunctionStreams:
    """Reads the logs of functions for streams."""

    def __init__(self, database: Database, news: News) -> None:
        self._database = database
        self._news = news

    async def follow(self, app: AppInfo, function_id: UUID, last: str | None) -> AsyncGenerator[Event]:
        """Return the events of calls from now on, or after the last seen one.

        Raises `FunctionNotFoundError`, and a 400 error where `last` is not an event's id.
        """
        connection = self._database.of(app.app_id)
        if await store.read(connection, app.app_id, function_id) is None:
            raise FunctionNotFoundError
        since = _moment(last)
        place = (app.app_id, function_id)
        is_behind = False
        if since is not None:
            missed = await execution_store.number_since(connection, *place, since, MAX_BEHIND + 1)
            is_behind = missed > MAX_BEHIND
        if since is not None and not is_behind:
            return self._follow(*place, since, {}, is_behind=False)
        since = await execution_store.now(connection) - _LATE
        seen = await execution_store.ids_since(connection, *place, since)
        return self._follow(*place, since, seen, is_behind=is_behind)

    async def _follow(
        self, app_id: UUID, function_id: UUID, since: datetime, seen: dict[UUID, datetime], *, is_behind: bool
    ) -> AsyncGenerator[Event]:
        connection = self._database.of(app_id)
        if is_behind:
            yield Event(event="reset", data=b"{}")
        with self._news.listen(function_id) as changed:
            while True:
                changed.clear()
                rows = await execution_store.since(connection, app_id, function_id, since, list(seen), _BATCH_SIZE)
                for row in rows:
                    seen[row.execution_id] = row.finished_at
                    for event in _events(row):
                        yield event
                if rows:
                    since = max(since, rows[-1].finished_at - _LATE)
                    seen = {key: at for key, at in seen.items() if at >= since}
                if len(rows) == _BATCH_SIZE:
                    continue
                if not rows and await store.read(connection, app_id, function_id) is None:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await changed.wait()


def _events(row: LoggedExecution) -> Iterator[Event]:
    """Yield the lines of a call, and then its record."""
    for line in decoded_lines(row.execution_id, row.logs):
        yield Event(event="log", data=json.encode(line))
    moment = str(int(row.finished_at.timestamp() * 1_000_000))
    yield Event(event="execution", id=moment, data=json.encode(execution_of(row)))


def _moment(last: str | None) -> datetime | None:
    """Return when the call of the last seen event ended, in microseconds since 1970 as its id says."""
    if last is None:
        return None
    if not (last.isascii() and last.isdigit() and len(last) < 17):
        raise invalid("last_event_id", "last_event_id: the id of an event is expected.")
    return datetime.fromtimestamp(int(last) / 1_000_000, UTC)
