"""The numbers of pending executions that this process knows without counting them again."""

from __future__ import annotations

import time
from uuid import UUID

_SECONDS = 1.0
_PROCESSES = 8
_MAX_APPS = 1000


class PendingCounts:
    """Remembers how many executions of each app were pending, to compare with the app's limit.

    A count reads each pending execution, so counting at each insertion would cost the square of the queue's length. A
    count is used for a second, and until this process has inserted an eighth of what the limit then permitted: so up to
    eight processes together do not exceed the limit.
    """

    def __init__(self) -> None:
        self._counts: dict[UUID, tuple[float, int, int]] = {}

    def known(self, app_id: UUID, limit: int, number: int) -> int | None:
        """Return how many are pending before `number` are inserted, or None if they have to be counted."""
        until, counted, inserted = self._counts.get(app_id, (0.0, 0, 0))
        if time.monotonic() >= until or inserted + number > (limit - counted) // _PROCESSES:
            return None
        return counted + inserted

    def inserted(self, app_id: UUID, number: int, counted: int | None) -> None:
        """Record an insertion, and how many the statement has counted before it."""
        if counted is not None:
            if len(self._counts) >= _MAX_APPS:
                self._counts.clear()
            self._counts[app_id] = (time.monotonic() + _SECONDS, counted, number)
        elif app_id in self._counts:
            until, before, inserted = self._counts[app_id]
            self._counts[app_id] = (until, before, inserted + number)
