"""The numbers of pending executions that this process knows without counting them again."""

from __future__ import annotations

import time
from typing import NamedTuple
from uuid import UUID

_SECONDS = 1.0
_FULL_SECONDS = 0.1
_PROCESSES = 8
_MAX_APPS = 1000


class _Count(NamedTuple):
    """What a statement counted, and what this process has inserted since; it is used `until` then."""

    until: float
    counted: int
    inserted: int


class PendingCounts:
    """Remembers how many executions of each app were pending, to compare with the app's limit.

    A count reads each pending execution, so counting at each insertion would cost the square of the queue's length. A
    count is used for a second, and until this process has inserted an eighth of what the limit then permitted: so up to
    eight processes together do not exceed the limit. A full queue rejects for a tenth of a second without a statement.
    """

    def __init__(self) -> None:
        self._counts: dict[UUID, _Count] = {}

    def is_full(self, app_id: UUID, limit: int) -> bool:
        """Return whether the queue of an app was full a moment ago."""
        last = self._counts.get(app_id)
        # What was inserted may have ended: only a count tells.
        return last is not None and last.counted >= limit and time.monotonic() < last.until

    def forget(self, app_id: UUID) -> None:
        """Count at the next insertion: executions that were pending have been cancelled."""
        self._counts.pop(app_id, None)

    def known(self, app_id: UUID, limit: int, number: int) -> int | None:
        """Return how many are pending before `number` are inserted, or None if they have to be counted."""
        last = self._counts.get(app_id)
        if last is None or time.monotonic() >= last.until:
            return None
        if last.inserted + number > (limit - last.counted) // _PROCESSES:
            return None
        return last.counted + last.inserted

    def inserted(self, app_id: UUID, number: int, counted: int | None, limit: int) -> None:
        """Record an insertion, and how many the statement has counted before it, up to the limit."""
        if counted is not None:
            if len(self._counts) >= _MAX_APPS:
                self._counts.clear()
            # A full queue has taken nothing.
            seconds, taken = (_FULL_SECONDS, 0) if counted >= limit else (_SECONDS, number)
            self._counts[app_id] = _Count(time.monotonic() + seconds, counted, taken)
        elif app_id in self._counts:
            last = self._counts[app_id]
            self._counts[app_id] = last._replace(inserted=last.inserted + number)
