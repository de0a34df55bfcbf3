"""Splits chunks of bytes into lines, each with its number and offset. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pilotis.kit.errors import BadRequestError

LONGEST = 8 * 1024 * 1024
"""The bytes of the longest line or record; a row has at most 1 MB, which quotes and escapes can double."""
_SHOWN = 64 * 1024
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class NotUtf8Error(BadRequestError):
    """400 `NOT_UTF8`: the text is not UTF-8."""

    code = "NOT_UTF8"
    message = "The text is not UTF-8."


class Line(NamedTuple):
    """A line with its line feed, if it has one. `number` counts from 1; `end` is the offset of the byte after it.

    For a line longer than `LONGEST`, `is_whole` is False and `text` is its beginning.
    """

    number: int
    end: int
    text: bytes
    is_whole: bool = True


class LineSplitter:
    """Splits chunks at line feeds. It can start in the middle of a file, at `offset`, after `number` lines."""

    def __init__(self, offset: int = 0, number: int = 0) -> None:
        self._end = offset
        self._number = number
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that end in the chunk."""
        begin = 0
        while (end := chunk.find(b"\n", begin) + 1) > 0:
            self._keep(chunk[begin:end])
            yield self._line()
            begin = end
        if begin < len(chunk):
            self._keep(chunk[begin:])

    def finish(self) -> Iterator[Line]:
        """Yield the last line, if it does not end in a line feed."""
        if self._size:
            yield self._line()

    def _keep(self, part: bytes) -> None:
        if self._size <= LONGEST:
            self._parts.append(part)
        self._size += len(part)

    def _line(self) -> Line:
        text, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        self._end += size
        self._number += 1
        if self._number == 1:
            if text.startswith(_UTF16):
                raise NotUtf8Error("The file is UTF-16; save it as UTF-8.")
            text = text.removeprefix(_BOM)
        if size > LONGEST:
            return Line(self._number, self._end, text[:_SHOWN], is_whole=False)
        return Line(self._number, self._end, text)
