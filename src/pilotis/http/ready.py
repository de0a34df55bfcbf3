"""Answers kept ready: a shared cache (RFC 9111) that asks before each use whether its answer still holds.

Only an answer that says how to ask (`Reply.holds`) is kept. So nothing has to be told to the cache when something
changes, on whatever node, and it never gives what is no longer true. What it saves is the way to the answer: routing,
decoding, the handler, reading the bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from pilotis.http.call import Call
from pilotis.http.cors import Headers
from pilotis.http.endpoint import Endpoint, Reply
from pilotis.http.whole import header_lines

MOST_BYTES = 16 << 20
MOST_BODY_BYTES = 64 << 10
_ENTRY_BYTES = 1024

# With one of these the answer may be another one.
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
_Key: TypeAlias = tuple[bytes | None, bytes, bytes]


class ReadyAnswer(NamedTuple):
    """A whole answer with status 200: the lines of its headers, but for the id of the request, and its body."""

    endpoint: Endpoint
    lines: bytes
    body: bytes
    holds: Callable[[], Awaitable[bool]]

    def lines_for(self, request_id: str) -> bytes:
        """Return the lines of all headers; a request id has no control characters."""
        return b"%bx-request-id: %b\r\n" % (self.lines, request_id.encode())

    @property
    def size(self) -> int:
        """About how much memory it takes to keep, in bytes."""
        return _ENTRY_BYTES + len(self.lines) + len(self.body)


class ReadyAnswers:
    """The answers used last, by host and URL; at most `most_bytes` of them."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._answers: OrderedDict[_Key, ReadyAnswer] = OrderedDict()

    async def find(self, call: Call) -> ReadyAnswer | None:
        """Return the answer to a request, if one is kept and it holds; raises whatever asking raises."""
        if not self._answers or not _is_plain(call):
            return None
        key = _key(call)
        answer = self._answers.get(key)
        if answer is None:
            return None
        holds = await answer.holds()
        # Meanwhile it may have made room, or another one may have taken its place.
        if self._answers.get(key) is answer:
            if holds:
                self._answers.move_to_end(key)
            else:
                self._drop(key)
        return answer if holds else None

    def keep(self, call: Call, reply: Reply, headers: Headers) -> None:
        """Keep the answer that a request got, if it can be asked for, is small, and depends on the URL alone."""
        endpoint, body = call.endpoint, reply.body
        if reply.holds is None or endpoint is None or not isinstance(body, bytes) or len(body) > MOST_BODY_BYTES:
            return
        if reply.status != 200 or call.answer_headers or not _is_plain(call):
            return
        key = _key(call)
        if key in self._answers:
            self._drop(key)
        lines = header_lines([header for header in headers if header[0] != b"x-request-id"])
        self._answers[key] = answer = ReadyAnswer(endpoint, lines, body, reply.holds)
        self._size += answer.size
        while self._size > self._most_bytes:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: _Key) -> None:
        self._size -= self._answers.pop(key).size


def _is_plain(call: Call) -> bool:
    return call.scope["method"] == "GET" and _SPECIAL.isdisjoint(call.headers)


def _key(call: Call) -> _Key:
    return call.headers.get(b"host"), call.scope["raw_path"], call.scope["query_string"]
