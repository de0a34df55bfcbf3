"""Conditional and range requests (RFC 9110, sections 13 and 14) on a file with a strong validator. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import NamedTuple

from pilotis.files.errors import PreconditionNotMetError, RangeNotSatisfiableError

_ETAG = re.compile(rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_RANGE = re.compile(rb"[ \t]*(\d{0,19})-(\d{0,19})[ \t]*")


class Answer(NamedTuple):
    """The response: status 200, 206 or 304, and the bytes [start, end)."""

    status: int
    start: int
    end: int


def evaluate(method: str, headers: Mapping[bytes, bytes], *, etag: str, modified_at: datetime, size: int) -> Answer:
    """Return the response to a GET or HEAD, with the precedence of section 13.2.2.

    Raises `PreconditionNotMetError`, and `RangeNotSatisfiableError` with the header that gives the size. A request for
    several ranges gets the whole file (section 14.2 allows it): assembling parts would cost the server, not the client.
    """
    tag = etag.encode()
    modified = modified_at.replace(microsecond=0)
    _check_preconditions(headers, tag, modified)
    if _is_unmodified(headers, tag, modified):
        return Answer(304, 0, 0)
    wanted = headers.get(b"range") if method == "GET" else None
    if wanted is None or not _range_applies(headers, tag, modified):
        return Answer(200, 0, size)
    return _ranged(wanted, size)


def http_date(moment: datetime) -> str:
    """Return an IMF-fixdate (section 5.6.7)."""
    return _imf_fixdate(moment.astimezone(UTC).replace(microsecond=0))


@functools.lru_cache(maxsize=4096)
def _imf_fixdate(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def _check_preconditions(headers: Mapping[bytes, bytes], tag: bytes, modified: datetime) -> None:
    if (listed := headers.get(b"if-match")) is not None:
        if listed.strip() != b"*" and tag not in _ETAG.findall(listed):
            raise PreconditionNotMetError
    elif (moment := _date(headers.get(b"if-unmodified-since"))) and modified > moment:
        raise PreconditionNotMetError


def _is_unmodified(headers: Mapping[bytes, bytes], tag: bytes, modified: datetime) -> bool:
    if (listed := headers.get(b"if-none-match")) is not None:
        return listed.strip() == b"*" or tag in {known.removeprefix(b"W/") for known in _ETAG.findall(listed)}
    moment = _date(headers.get(b"if-modified-since"))
    return moment is not None and modified <= moment


def _range_applies(headers: Mapping[bytes, bytes], tag: bytes, modified: datetime) -> bool:
    condition = headers.get(b"if-range")
    if condition is None:
        return True
    if condition.startswith((b'"', b"W/")):
        return condition.strip() == tag
    return _date(condition) == modified


def _date(value: bytes | None) -> datetime | None:
    if value is None or len(value) > 64:
        return None
    try:
        moment = parsedate_to_datetime(value.decode("ascii"))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _ranged(wanted: bytes, size: int) -> Answer:
    unit, _, ranges = wanted.partition(b"=")
    if unit.strip().lower() != b"bytes" or b"," in ranges:
        return Answer(200, 0, size)
    match = _RANGE.fullmatch(ranges)
    first, last = match.groups() if match else (b"", b"")
    if first:
        start, end = int(first), min(int(last) + 1, size) if last else size
    else:
        start, end = size - min(int(last or 0), size), size
    if start >= end or (first and last and int(last) < int(first)):
        raise RangeNotSatisfiableError(headers={"Content-Range": f"bytes */{size}"})
    return Answer(206, start, end)
