"""Answers that the protocol sends as soon as it has read a request's head, without a task, a call or a route.

The usual processing of a request takes several times as long as sending a small file from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from pilotis.http.api.cors import Headers
from pilotis.http.server.single_write import header_lines


class CachedAnswer(NamedTuple):
    """A whole answer: its status, its head but for the date and the request's id, and its body."""

    status: int
    head: bytes
    body: bytes


FindCached: TypeAlias = Callable[[bytes, Mapping[bytes, bytes]], CachedAnswer | None]
"""Returns the answer to a GET request without a body, by its target and its headers; None if it is not known."""


class CachedAnswers(NamedTuple):
    """Where cached answers are found, and what is called with the request's id, the status and the seconds it took."""

    sources: Sequence[FindCached]
    sent: Callable[[str, int, float], None]

    def find(self, target: bytes, headers: Mapping[bytes, bytes]) -> CachedAnswer | None:
        """Return the answer of the first source that has one."""
        for source in self.sources:
            if answer := source(target, headers):
                return answer
        return None


def cached_answer(status: int, headers: Headers, body: bytes) -> CachedAnswer:
    """Return an answer; `headers` are all but `date` and `x-request-id`. Raises `ValueError` for control characters."""
    return CachedAnswer(status, STATUS_LINE[status] + header_lines(headers), body)
