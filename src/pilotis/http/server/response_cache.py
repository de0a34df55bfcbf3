"""Response cache: a shared cache (RFC 9111) that validates each answer before use.

Only an answer with a validation function (`Reply.still_valid`) is cached. So no invalidation is needed when something
changes on any node, and no stale answer is sent. A hit saves routing, decoding, the handler, and reading the bytes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from pilotis.http.api.cors import Headers
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.http.server.known_heads import Request
from pilotis.http.server.single_write import header_lines

MAX_BODY_BYTES = 64 << 10
_ENTRY_BYTES = 1024

# With one of these headers the answer may differ.
_SPECIAL = frozenset(
    {
        b"authorization",
        b"content-length",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
        b"transfer-encoding",
    }
)
# Each answer has its own.
_OWN = frozenset({b"content-length", b"x-request-id"})
_Key: TypeAlias = tuple[bytes | None, bytes]


class ReadyAnswer(NamedTuple):
    """A complete answer with status 200: its header lines without its length and the request id, and its body."""

    endpoint: Endpoint
    lines: bytes
    body: bytes
    still_valid: Callable[[], Awaitable[bool]]

    def lines_for(self, request_id: str) -> bytes:
        """Return all header lines; a request id contains no control characters."""
        return b"%bcontent-length: %d\r\nx-request-id: %b\r\n" % (self.lines, len(self.body), request_id.encode())

    @property
    def size(self) -> int:
        """The approximate memory use, in bytes."""
        return _ENTRY_BYTES + len(self.lines) + len(self.body)


class ReadyAnswers:
    """The most recently used answers, by host and URL; at most `max_bytes` of them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._answers: OrderedDict[_Key, ReadyAnswer] = OrderedDict()

    async def find(self, call: Call) -> ReadyAnswer | None:
        """Return the answer to a request, if it is cached and still valid; raises what `still_valid` raises."""
        if not self._answers or not _is_plain(call):
            return None
        key = _key(call)
        answer = self._answers.get(key)
        if answer is None:
            return None
        return answer if self._checked(key, answer, await answer.still_valid()) else None

    def of(self, request: Request) -> ReadyAnswer | None:
        """Return the answer to a whole request, if it is cached; `check` tells whether it may be sent."""
        if not self._answers or request.method != b"GET" or not _SPECIAL.isdisjoint(request.headers):
            return None
        return self._answers.get((request.headers.get(b"host"), request.target))

    def check(self, request: Request, answer: ReadyAnswer, ended: asyncio.Future[bool]) -> bool:
        """Return whether the answer to the request may be sent, by the ended future of its `still_valid`."""
        return self._checked((request.headers.get(b"host"), request.target), answer, ended.result())

    def _checked(self, key: _Key, answer: ReadyAnswer, still_valid: bool) -> bool:
        # In the meantime it may have been evicted or replaced.
        if self._answers.get(key) is answer:
            if still_valid:
                self._answers.move_to_end(key)
            else:
                self._drop(key)
        return still_valid

    def keep(self, call: Call, reply: Reply, headers: Headers) -> None:
        """Cache the answer to a request, if it can be validated, is small, and depends on the URL alone."""
        endpoint, body = call.endpoint, reply.body
        if reply.still_valid is None or endpoint is None or not isinstance(body, bytes) or len(body) > MAX_BODY_BYTES:
            return
        if (
            reply.status != 200
            or reply.cookies
            or callable(endpoint.cors)
            or call.answer_headers
            or not _is_plain(call)
        ):
            return
        key = _key(call)
        if key in self._answers:
            self._drop(key)
        lines = header_lines([header for header in headers if header[0] not in _OWN])
        self._answers[key] = answer = ReadyAnswer(endpoint, lines, body, reply.still_valid)
        self._size += answer.size + _key_size(key)
        while self._size > self._max_bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: _Key) -> None:
        self._size -= self._answers.pop(key).size + _key_size(key)


def _key_size(key: _Key) -> int:
    """Return the size of the key (host and target) in bytes, which clients can choose."""
    host, target = key
    return len(host or b"") + len(target)


def _is_plain(call: Call) -> bool:
    return call.scope["method"] == "GET" and _SPECIAL.isdisjoint(call.headers)


def _key(call: Call) -> _Key:
    path, query_string = call.scope["raw_path"], call.scope["query_string"]
    return call.headers.get(b"host"), b"%b?%b" % (path, query_string) if query_string else path
