"""Requests, and their heads that were parsed before: the next one with the same header lines is not parsed again.

A client sends the same lines with nearly every request of a connection; only the request line and the body differ. What
the parser makes of the lines depends on nothing else, so a copy of them, byte for byte, means the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from pilotis.http.api.capabilities import HEADER

MAX_BYTES = 64 * 1024
"""Larger requests are parsed."""
_MAX_LINES = 2048
_MAX_KEPT = 1024
# Fewer characters than the parser takes (RFC 9112, section 3.2): all that routes and files usually need.
_REQUEST_LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE|OPTIONS) (/(?!/)[\w.~%&=:,+*/?@-]*) HTTP/1\.1")
# Each request has another one.
_CHANGING = frozenset({b"x-request-id", b"traceparent"})


# With one of these the caller is another one, the body arrives in parts, or the request is repeated.
_SPECIAL = frozenset(
    {
        b"expect",
        b"idempotency-key",
        b"transfer-encoding",
        b"upgrade",
        b"x-act-as",
        b"x-app-id",
        HEADER,
    }
)


class Asker(msgspec.Struct, frozen=True):
    """What header lines say of who asks with a public key, alone or with a member's token, for which host."""

    host: bytes
    key: str
    origin: str | None
    has_token: bool


class Known(msgspec.Struct, frozen=True):
    """What is known of header lines: the headers by lower-case name, and the size of the body that they announce."""

    headers: Mapping[bytes, bytes]
    asker: Asker | None
    body_size: int


class Request(msgspec.Struct, frozen=True):
    """A whole request; its `asker` is that of its headers."""

    method: bytes
    target: bytes
    headers: Mapping[bytes, bytes]
    asker: Asker | None
    body: bytes


def asker_of(headers: Mapping[bytes, bytes]) -> Asker | None:
    """Return who asks, if it is somebody with a public key, and the request is a usual one; else None."""
    host, key, origin = headers.get(b"host"), headers.get(b"x-public-key"), headers.get(b"origin")
    if host is None or key is None or not _SPECIAL.isdisjoint(headers):
        return None
    origin_text = None if origin is None else origin.decode("latin-1")
    return Asker(host, key.decode("latin-1"), origin_text, b"authorization" in headers)


class KnownHeads:
    """Keeps header lines of up to 2 KiB, and forgets all of them when there are a thousand."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Known] = {}

    def read(self, data: bytes) -> Request | None:
        """Return the request that these bytes are, no more and no less; None if only the parser can tell."""
        head, separator, body = data.partition(b"\r\n\r\n")
        line, _, lines = head.partition(b"\r\n")
        known = self._kept.get(lines)
        if known is None or not separator or len(body) != known.body_size:
            return None
        match = _REQUEST_LINE.fullmatch(line)
        return None if match is None else Request(match[1], match[2], known.headers, known.asker, body)

    def keep(self, data: bytes, request: Request) -> None:
        """Keep the header lines of bytes that the parser has taken for this whole request, kept alive."""
        head, _, body = data.partition(b"\r\n\r\n")
        line, _, lines = head.partition(b"\r\n")
        announced = request.headers.get(b"content-length", b"0")
        if (
            len(lines) > _MAX_LINES
            or not announced.isdigit()
            or len(body) != int(announced)
            or line != b"%b %b HTTP/1.1" % (request.method, request.target)
            or not _CHANGING.isdisjoint(request.headers)
        ):
            return
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[lines] = Known(request.headers, request.asker, len(body))
