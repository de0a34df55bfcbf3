"""Multipart bodies (RFC 7578), parsed as they arrive: nothing is spooled, and no part is buffered unless read whole."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from pilotis.kit.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MAX_PARTS = 1000


class MalformedMultipartError(BadRequestError):
    """400 `MALFORMED_MULTIPART`: the body is not `multipart/form-data` (RFC 7578), or has too many parts."""

    code = "MALFORMED_MULTIPART"
    message = "The body is not valid multipart/form-data."


class Part(AsyncIterator[bytes]):
    """One part: its field `name`, and its `filename` and `content_type` if present.

    Its chunks are read once and in order, before the next part is requested; unread chunks are then discarded.
    """

    def __init__(self, parts: Multipart, name: str, filename: str | None, content_type: str | None) -> None:
        self._parts = parts
        self.name = name
        self.filename = filename
        self.content_type = content_type

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next chunk; raises any error of reading the body, and `MalformedMultipartError`."""
        piece = await self._parts.next_piece(self)
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def read(self, max_bytes: int) -> bytes:
        """Return the rest of the part; raises `PayloadTooLargeError` beyond `max_bytes`."""
        pieces, size = [], 0
        async for piece in self:
            size += len(piece)
            if size > max_bytes:
                raise PayloadTooLargeError(f"The part {self.name} is too large; at most {max_bytes} bytes are taken.")
            pieces.append(piece)
        return b"".join(pieces)


class Multipart(AsyncIterator[Part]):
    """The parts of a body, in order; at most `MAX_PARTS`."""

    def __init__(self, pieces: AsyncIterator[bytes], content_type: bytes) -> None:
        essence, options = parse_options_header(content_type)
        if essence != b"multipart/form-data":
            raise UnsupportedMediaTypeError("Send the body as multipart/form-data.")
        try:
            self._parser = MultipartParser(options.get(b"boundary") or b"", self._callbacks())
        except FormParserError:
            raise MalformedMultipartError("The boundary is longer than 70 characters.") from None
        if not options.get(b"boundary"):
            raise MalformedMultipartError("The Content-Type header names no boundary.")
        self._pieces = pieces
        # What has been parsed but not requested: the start of a part, a chunk, or None at the end of a part.
        self._parsed: deque[Part | bytes | None] = deque()
        self._current: Part | None = None
        self._count = 0
        # Whether the final boundary was parsed, and whether everything parsed was requested.
        self._is_whole = self._is_read = False
        self._field = b""
        self._value = b""
        self._headers: dict[bytes, bytes] = {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Part:
        """Return the next part; raises any error of reading the body, and `MalformedMultipartError`."""
        while True:
            found = await self._next_parsed()
            if isinstance(found, Part):
                self._current = found
                return found
            if self._is_read:
                raise StopAsyncIteration

    async def next_piece(self, part: Part) -> bytes | None:
        """Return the next chunk of a part; None at its end, or if the next part was requested meanwhile."""
        if part is not self._current:
            return None
        found = await self._next_parsed()
        if isinstance(found, bytes):
            return found
        self._current = None
        return None

    async def _next_parsed(self) -> Part | bytes | None:
        while not self._parsed:
            piece = await anext(self._pieces, None)
            if piece is None:
                if not self._is_whole:
                    raise MalformedMultipartError("The body ends before its last boundary.")
                self._is_read = True
                return None
            try:
                self._parser.write(piece)
            except FormParserError:
                raise MalformedMultipartError from None
        return self._parsed.popleft()

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._add_to_field,
            "on_header_value": self._add_to_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_data,
            "on_part_data": lambda data, start, end: self._parsed.append(data[start:end]),
            "on_part_end": lambda: self._parsed.append(None),
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._count += 1
        if self._count > MAX_PARTS:
            raise MalformedMultipartError(f"The body has more than {MAX_PARTS} parts.")
        self._headers = {}

    def _add_to_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _begin_data(self) -> None:
        disposition, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if disposition != b"form-data" or b"name" not in options:
            raise MalformedMultipartError("Each part has a header Content-Disposition: form-data with a name.")
        content_type = self._headers.get(b"content-type")
        filename = options.get(b"filename")
        self._parsed.append(
            Part(
                self,
                _text(options[b"name"]),
                None if filename is None else _text(filename),
                None if content_type is None else _text(content_type),
            )
        )

    def _end(self) -> None:
        self._is_whole = True


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise MalformedMultipartError("A part's headers are not in UTF-8 (RFC 7578, section 5.1.2).") from None
    if not text.isprintable():
        raise MalformedMultipartError("A part's name contains a control character.")
    return text
