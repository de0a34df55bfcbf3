"""Records the requests that one node answers, in memory, and writes them to the database every few seconds.

A request costs one lookup and one addition. Those that the log keeps cost a tuple more; a flood of them is cut off,
so that neither memory nor the log of another app suffers.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from uuid import UUID

from pilotis.apps.requests import store
from pilotis.apps.requests.store import Durations, LogRow
from pilotis.db.buffered_writer import FLUSH_SECONDS, BufferedWriter
from pilotis.db.pool import Database
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.principals import AppPrincipal, Client
from pilotis.kit.durations import BOUNDS_MS, BUCKETS
from pilotis.kit.ids import uuid7

_SLOW_SECONDS = 0.5
_SAMPLED = 100
_MAX_HELD = 500


class RequestLogger(BufferedWriter):
    """Records requests by app; an app's entries beyond 500 between two flushes are dropped."""

    what = "request log"

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        super().__init__(seconds)
        self._database = database
        self._entries: dict[UUID, list[LogRow]] = {}
        self._durations: dict[tuple[UUID, Endpoint, int], list[int]] = {}
        self._until_sample = _SAMPLED

    def record(
        self,
        principal: AppPrincipal,
        client: Client,
        endpoint: Endpoint,
        status: int,
        code: str | None,
        seconds: float,
        function_id: UUID | None = None,
    ) -> None:
        """Record a request that was answered, with the code of its error, and the function that it called."""
        key = (principal.app.app_id, endpoint, status // 100)
        buckets = self._durations.get(key)
        if buckets is None:
            buckets = self._durations[key] = [0] * BUCKETS
        buckets[bisect_left(BOUNDS_MS, seconds * 1000)] += 1
        self._until_sample -= 1
        if status >= 400 or seconds >= _SLOW_SECONDS or not self._until_sample:
            if self._until_sample <= 0:
                self._until_sample = _SAMPLED
            self._log(principal, client, endpoint, status, code, seconds, function_id)

    def _log(
        self,
        principal: AppPrincipal,
        client: Client,
        endpoint: Endpoint,
        status: int,
        code: str | None,
        seconds: float,
        function_id: UUID | None,
    ) -> None:
        app_id = principal.app.app_id
        held = self._entries.setdefault(app_id, [])
        if len(held) < _MAX_HELD:
            held.append(
                LogRow(
                    app_id,
                    uuid7(),
                    client.request_id,
                    datetime.now(UTC),
                    endpoint.method,
                    endpoint.path,
                    status,
                    code,
                    seconds * 1000,
                    principal.kind,
                    principal.actor_id,
                    client.address,
                    function_id,
                )
            )

    async def flush(self) -> None:
        """Write what was recorded. If the database rejects the log, it is lost; the durations are tried again."""
        entries, self._entries = self._entries, {}
        durations, self._durations = self._durations, {}
        try:
            if durations:
                rows = [
                    Durations(app_id, f"{endpoint.method} {endpoint.path}", status, buckets)
                    for (app_id, endpoint, status), buckets in durations.items()
                ]
                await store.add_durations(self._database, rows)
        except BaseException:
            for key, buckets in durations.items():
                present = self._durations.setdefault(key, [0] * BUCKETS)
                self._durations[key] = [a + b for a, b in zip(present, buckets, strict=True)]
            raise
        if entries:
            await store.add_entries(self._database, [row for rows in entries.values() for row in rows])
