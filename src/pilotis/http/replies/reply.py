"""The answers that a handler can compose itself: complete bytes, a stream, part of a file."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec

from pilotis.http.api.cookies import SetCookie


class Stream(msgspec.Struct, frozen=True):
    """A body of `size` bytes, or None if unknown, that is read only as fast as the client accepts it.

    It is closed in any case.
    """

    size: int | None
    chunks: AsyncGenerator[bytes]


class FilePart(msgspec.Struct, frozen=True):
    """A body of `size` bytes of an open file, from `start` on, for a call that `takes_files`.

    The descriptor `file` is closed in any case.
    """

    file: int
    start: int
    size: int


class Reply(msgspec.Struct, frozen=True):
    """A complete answer: the bytes to send, with a status and headers where they differ from the endpoint's.

    `still_valid` tells whether a cached answer may still be sent. An answer with it is the same for every request for
    the URL without credentials, conditions or ranges, and counts in no rate limit, so it may be cached.
    """

    body: bytes | Stream | FilePart | Answer
    status: int | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    content_type: bytes = b"application/json"
    still_valid: Callable[[], Awaitable[bool]] | None = None
    cookies: Sequence[SetCookie] = ()


class Answer(msgspec.Struct, frozen=True):
    """Base of what a handler returns instead of a struct: converts itself to a `Reply`, and documents itself."""

    media_type: ClassVar[str] = "application/json"
    """Its content type; empty if it has no body."""
    default_status: ClassVar[int] = 200

    def reply(self) -> Reply:
        """Return the answer to send."""
        raise NotImplementedError


def disposition(kind: str, name: str) -> str:
    """Return a `Content-Disposition` of the kind `inline` or `attachment` (RFC 6266), ASCII only."""
    plain = re.sub(r"[^\x20-\x7e]|[\"\\%]", "_", name)
    encoded = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'{kind}; filename="{plain}"{encoded}'
