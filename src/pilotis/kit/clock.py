"""Time: RFC 3339 text in UTC with milliseconds, and reading what users write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[Tt ]([01]\d|2[0-3]):\d\d:(?P<second>\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d))?", re.ASCII
)


def now() -> datetime:
    """Return the present moment, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return the moment as `2026-01-31T12:00:00.000Z`: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_rfc3339(text: str) -> datetime | None:
    """Return the moment that an RFC 3339 full-date or date-time names, or None if the text is neither.

    A date alone is midnight UTC. A leap second (section 5.7) counts as the first moment of the next minute. Moments
    outside the years 1 to 9999 in UTC are not taken. Digits past microseconds are dropped.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    leap = match["second"] == "60"
    try:
        if match["time"] is None:
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        plain = text.upper()[:17] + ("59" if leap else text[17:19]) + text.upper()[19:]
        moment = datetime.fromisoformat(plain).astimezone(UTC)
        return moment.replace(microsecond=0) + timedelta(seconds=1) if leap else moment
    except (ValueError, OverflowError):
        return None
