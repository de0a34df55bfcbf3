"""The request on whose behalf a task works, by its id: what the task changes can be traced to it.

A call from inside the process has the id of the request that led to it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

_CURRENT: ContextVar[str | None] = ContextVar("request_id", default=None)


def begin(request_id: str) -> Token[str | None]:
    """Work for a request in this task and those that it starts; `end` takes the token."""
    return _CURRENT.set(request_id)


def end(token: Token[str | None]) -> None:
    """End the work for the request."""
    _CURRENT.reset(token)


def current() -> str | None:
    """Return the id of the request that is being worked for; None for work of the server's own."""
    return _CURRENT.get()
