"""Rows as COPY writes them (text format): whole lines of bytes, checked, prefixed and rewritten. Pure.

The lines of an archive are a stranger's. PostgreSQL takes a backslash before a tab or the end of a line for data, and
knows escapes that it never writes: with them, what this module takes for a row's values would not be what PostgreSQL
takes for them. So only what COPY itself writes is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from pilotis.archive.errors import InvalidArchiveError
from pilotis.archive.format import MAX_LINE_BYTES

NULL = b"\\N"
_FOREIGN = re.compile(rb"\\(?![bfnrtvN])|[\r\0]")
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"\\": b"\\"}
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_TO_ESCAPE = re.compile(rb"[\b\f\n\r\t\v\\]")
_BY_BYTE = {value: b"\\" + name for name, value in _ESCAPES.items()}


def whole_lines(chunks: Iterable[bytes], max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the chunks as blocks of whole lines; raises `InvalidArchiveError` for lines that COPY does not write."""
    rest: list[bytes] = []
    size = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield _checked(b"".join((*rest, chunk[:end])))
            rest, size = [], 0
        if end < len(chunk):
            rest.append(chunk[end:])
            size += len(chunk) - end
            if size > max_bytes:
                raise InvalidArchiveError(f"A row of the archive has more than {max_bytes} bytes.")
    if rest:
        raise InvalidArchiveError("The archive is damaged: the last row of a part is not complete.")


def _checked(block: bytes) -> bytes:
    if _FOREIGN.search(block.replace(b"\\\\", b"")):
        raise InvalidArchiveError("The archive is damaged: a row has a character that no value of PostgreSQL has.")
    return block


def prefixed(block: bytes, prefix: bytes) -> bytes:
    """Return whole lines, each after a prefix."""
    return prefix + block[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


def rewritten(block: bytes, width: int, change: Callable[[list[bytes]], Sequence[bytes]], prefix: bytes) -> bytes:
    """Return whole lines whose values were changed; each line must have `width` values."""
    lines = []
    for line in block[:-1].split(b"\n"):
        values = line.split(b"\t")
        if len(values) != width:
            raise InvalidArchiveError(f"The archive is damaged: a row has {len(values)} values instead of {width}.")
        lines.append(prefix + b"\t".join(change(values)))
    return b"\n".join(lines) + b"\n"


def text_of(value: bytes) -> str:
    """Return a value that is not null as text; raises `InvalidArchiveError` for bytes that are not UTF-8."""
    if b"\\" in value:
        value = _ESCAPED.sub(lambda found: _ESCAPES[found[1]], value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArchiveError("The archive is damaged: a text is not UTF-8.") from None


def value_of(text: str | None) -> bytes:
    """Return a text, or null, as COPY writes it."""
    if text is None:
        return NULL
    return _TO_ESCAPE.sub(lambda found: _BY_BYTE[found[0]], text.encode())


def bytes_of(value: bytes) -> bytes:
    """Return a value of type bytea; raises `InvalidArchiveError`."""
    try:
        if value[:3] != b"\\\\x":
            raise ValueError
        return bytes.fromhex(value[3:].decode("ascii"))
    except ValueError:
        raise InvalidArchiveError("The archive is damaged: a value is not written as bytes.") from None


def value_of_bytes(data: bytes) -> bytes:
    """Return bytes as COPY writes them."""
    return b"\\\\x" + data.hex().encode()
