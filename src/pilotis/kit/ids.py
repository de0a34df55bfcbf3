"""Identifiers: UUID version 7 (RFC 9562, section 5.7), which sort by the time they were made."""

from __future__ import annotations

import os
import re
import time
from uuid import UUID

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")

_last = 0


def uuid7() -> UUID:
    """Return a new UUIDv7; within one process each is greater than the one before.

    The 12 bits after the milliseconds hold their fraction (RFC 9562, section 6.2, method 3), and a call that finds
    the clock not advanced takes the next value, so rows made one after the other keep their order.
    """
    return UUID(int=_timestamp() << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2)


def uuid7_text() -> str:
    """Return a new UUIDv7 in canonical text form, without building a `UUID` on the way."""
    number = _timestamp() << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    text = number.to_bytes(16).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID in its hyphenated form, of either case."""
    return _UUID.fullmatch(text) is not None


def _timestamp() -> int:
    global _last
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    _last = max(_last + 1, milliseconds << 12 | rest * 4096 // 1_000_000)
    return (_last >> 12) << 16 | 7 << 12 | _last & 0xFFF
