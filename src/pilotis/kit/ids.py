"""Identifiers: UUID version 7 (RFC 9562, section 5.7), which sort by creation time."""

from __future__ import annotations

import functools
import os
import re
import struct
import time
from uuid import UUID

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")

# Each byte with the variant 0b10 in place of its first two bits.
_VARIANT = bytes(0b10 << 6 | byte & 0x3F for byte in range(256))
_NUMBERS = 256
_numbers: list[int] = []
_last = 0


def uuid7() -> UUID:
    """Return a new UUIDv7, greater than every earlier one of this process.

    The 12 bits after the milliseconds hold their fraction (RFC 9562, section 6.2, method 3). A call within the same
    clock tick takes the next value, so rows created one after the other keep their order.
    """
    return UUID(int=_timestamp() << 64 | 0b10 << 62 | _random() >> 2)


def uuid7_text() -> str:
    """Return a new UUIDv7 in canonical text form, without building a `UUID`."""
    # The functions above in one: the id of a request is made for each.
    global _last
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    _last = ticks = max(_last + 1, milliseconds << 12 | rest * 4096 // 1_000_000)
    try:
        random = _numbers.pop()
    except IndexError:
        random = _random()
    text = "%032x" % (ticks >> 12 << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 0b10 << 62 | random >> 2)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid7_texts(count: int) -> list[str]:
    """Return new UUIDv7s in canonical text form, in ascending order, with two system calls for all of them."""
    last = _next_ticks(count)
    middle = bytearray(os.urandom(2 * count))
    # The variant is the first two bits (RFC 9562, section 4.1).
    middle[::2] = middle[::2].translate(_VARIANT)
    middles, ends = middle.hex(" ", 2).split(), os.urandom(6 * count).hex(" ", 6).split()
    texts: list[str] = []
    next_ = last - count + 1
    while next_ <= last:
        milliseconds, tick = divmod(next_, 1 << 12)
        number = min(last + 1 - next_, (1 << 12) - tick)
        # With the version in front each is two bytes.
        tick |= 7 << 12
        ticks = struct.pack(f">{number}H", *range(tick, tick + number)).hex(" ", 2).split()
        stamp = f"{milliseconds:012x}"
        stamp = f"{stamp[:8]}-{stamp[8:]}"
        place = slice(len(texts), len(texts) + number)
        parts = zip(ticks, middles[place], ends[place], strict=True)
        texts += [f"{stamp}-{tick_text}-{middle_text}-{end}" for tick_text, middle_text, end in parts]
        next_ += number
    return texts


def earliest_uuid7(milliseconds: int) -> UUID:
    """Return the id that sorts before every UUIDv7 of that time, in milliseconds since 1970, or of a later one."""
    return UUID(int=milliseconds << 80)


def uuid7_milliseconds(identifier: UUID) -> int:
    """Return when a UUIDv7 was created, in milliseconds since 1970."""
    return identifier.int >> 80


@functools.lru_cache(4096)
def known_uuid(text: str) -> UUID:
    """Return the `UUID` of a canonical text that many requests name, such as a table's; it is parsed once."""
    return UUID(text)


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID in its hyphenated form, in upper or lower case."""
    return _UUID.fullmatch(text) is not None


def _random() -> int:
    """Return 64 bits of the system's randomness, read for hundreds of ids at a time."""
    try:
        return _numbers.pop()
    except IndexError:
        _numbers.extend(struct.unpack(f"{_NUMBERS}Q", os.urandom(8 * _NUMBERS)))
        return _numbers.pop()


# A process that is forked must not use the numbers of the other one.
os.register_at_fork(after_in_child=_numbers.clear)


def _timestamp() -> int:
    ticks = _next_ticks(1)
    return (ticks >> 12) << 16 | 7 << 12 | ticks & 0xFFF


def _next_ticks(count: int) -> int:
    """Take the next `count` values, each 1/4096 of a millisecond, and return the last one."""
    global _last
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    _last = max(_last + 1, milliseconds << 12 | rest * 4096 // 1_000_000) + count - 1
    return _last
