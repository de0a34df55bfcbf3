"""The times of further attempts: the schedule, the circuit breaker and `Retry-After`. Pure except for the jitter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

BREAKER_FAILURES = 10
"""After this many failures in a row only one delivery at a time is attempted, with increasing pauses."""
_MAX_BREAKER_SECONDS = 300.0
_MAX_RETRY_AFTER = 24 * 3600.0
_MIN_RETRY_AFTER = 1.0
_MAY_ASK_TO_WAIT = frozenset((429, 502, 503, 504))


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`gaps` are the seconds before each attempt, including the first; each is varied by `jitter`, such as 0.1.

    `breaker_seconds` is the first pause of the breaker, which doubles up to five minutes.
    """

    gaps: Sequence[float]
    jitter: float = 0.1
    breaker_seconds: float = 1.0

    def gap(self, tries: int) -> float | None:
        """Return the seconds until the next attempt after `tries` attempts; None after the last one."""
        if tries >= len(self.gaps):
            return None
        return self.gaps[tries] * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - no secret

    def breaker_gap(self, failures: int) -> float:
        """Return the seconds for which the lane pauses after a number of failures in a row."""
        beyond = failures - BREAKER_FAILURES
        return 0.0 if beyond < 0 else min(self.breaker_seconds * 2 ** min(beyond, 20), _MAX_BREAKER_SECONDS)


def retry_after(status: int, value: str | None, now: datetime) -> float | None:
    """Return the seconds that a response asks to wait (RFC 9110, section 10.2.3): 1 s to 24 h, or None.

    `value` is the header `Retry-After`: seconds, or a date.
    """
    if value is None or status not in _MAY_ASK_TO_WAIT:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, _MIN_RETRY_AFTER), _MAX_RETRY_AFTER)
