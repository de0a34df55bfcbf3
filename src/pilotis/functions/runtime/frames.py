"""Frames between the server and a sandbox: a length (u32, big endian), then that many bytes of JSON. Pure.

    server -> sandbox   load {files, entry, env} | invoke {id, payload, context} | reply {call, status, …}
    sandbox -> server   ready | loaded {error, code, stack} | log {id, level, message} | dropped {id, call: number}
                        | call {id, call, method, path, …} | token {id, call}
                        | result {id, ok, result | error, code, stack}

Frames from a sandbox may have been written by the function itself, so they are untrusted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

MAX_FRAME = 7 * 1024 * 1024
_LENGTH = struct.Struct(">I")


Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class FrameError(Exception):
    """A sandbox sent an invalid or unexpected frame; it is killed."""


class Frame(msgspec.Struct, kw_only=True):
    """A frame from a sandbox; `t` determines which fields are set. `result` stays JSON text."""

    t: str
    id: Number = 0
    ok: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    code: str | None = None
    stack: str | None = None
    level: str = "info"
    message: str = ""
    call: Number = 0
    caller: bool = False
    member: str | None = None
    method: str = "GET"
    path: str = "/"
    table: str | None = None
    headers: dict[str, str] = {}
    body: str | None = None


_decoder = msgspec.json.Decoder(Frame)


def encode(message: dict[str, Any]) -> bytes:
    """Return a frame for a sandbox; a value may be `msgspec.Raw`."""
    body = msgspec.json.encode(message)
    return _LENGTH.pack(len(body)) + body


class Reader:
    """Parses incoming bytes into frames; `size` is that of the last one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.size = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete; raises `FrameError`."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._buffer, at)
                if size > MAX_FRAME:
                    raise FrameError(f"A frame of {size} bytes.")
                end = at + _LENGTH.size + size
                if len(self._buffer) < end:
                    break
                body = bytes(memoryview(self._buffer)[at + _LENGTH.size : end])
                at, self.size = end, size
                yield _decoded(body)
        finally:
            del self._buffer[:at]


def _decoded(body: bytes) -> Frame:
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrameError(str(error)) from None
