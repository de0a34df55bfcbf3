"""Time: formats RFC 3339 in UTC with milliseconds, and parses users' input."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_DATE_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[Tt ]([01]\d|2[0-3]):\d\d:(?P<second>\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d))?", re.ASCII
)


_PLAIN_SIZE = len("2026-01-31T12:00:00Z")
_WITH_MILLISECONDS = len("2026-01-31T12:00:00.000Z")


def now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return the moment as `2026-01-31T12:00:00.000Z`: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def optional_rfc3339(moment: datetime | None) -> str | None:
    """Return the moment as `rfc3339` does, and None for None."""
    return None if moment is None else rfc3339(moment)


def is_plain_utc(text: str) -> bool:
    """Return whether the text is a valid `2026-01-31T12:00:00Z`, with or without milliseconds: the usual form.

    This takes a tenth of the time of `parse_rfc3339`. Other forms, a leap second among them, are not plain.
    """
    size = len(text)
    if (
        (size != _PLAIN_SIZE and (size != _WITH_MILLISECONDS or text[19] != "."))
        or text[4] != "-"
        or text[7] != "-"
        or text[10] != "T"
        or text[13] != ":"
        or text[16] != ":"
        or text[-1] != "Z"
    ):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def are_plain_utc(texts: Sequence[str]) -> bool:
    """Return whether `is_plain_utc` accepts every text and all are of one length, in a quarter of its time for many."""
    sizes = set(map(len, texts))
    if sizes not in ({_PLAIN_SIZE}, {_WITH_MILLISECONDS}):
        return False
    (size,) = sizes
    whole = "".join(texts)
    marks = {4: "-", 7: "-", 10: "T", 13: ":", 16: ":", size - 1: "Z"} | ({} if size == _PLAIN_SIZE else {19: "."})
    if any(whole[place::size] != mark * len(texts) for place, mark in marks.items()):
        return False
    try:
        deque(map(datetime.fromisoformat, texts), maxlen=0)
    except ValueError:
        return False
    return True


def parse_rfc3339(text: str) -> datetime | None:
    """Parse an RFC 3339 full-date or date-time; return None if the text is neither.

    A date alone is midnight UTC. A leap second (section 5.7) becomes the first second of the next minute. Times outside
    the years 1 to 9999 in UTC are rejected. Digits past microseconds are dropped.
    """
    if is_plain_utc(text):
        return datetime.fromisoformat(text)
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
