"""The request on whose behalf a task works, by its id and route: what the task does can be traced to it.

A call from inside the process has the id of the request that led to it.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

Origin = tuple[str, str | None]
"""A request's id and its route, such as `/v1/apps/:app_id`."""
_CURRENT: ContextVar[Origin | None] = ContextVar("origin", default=None)


def begin(request_id: str, route: str | None) -> Token[Origin | None]:
    """Work for a request in this task and those that it starts; `end` takes the token."""
    return _CURRENT.set((request_id, route))


def remember() -> Origin | None:
    """Return for whom this task works, so that another one can `resume` it."""
    return _CURRENT.get()


def resume(origin: Origin | None) -> Token[Origin | None]:
    """Work for what `remember` returned; `end` takes the token."""
    return _CURRENT.set(origin)


def end(token: Token[Origin | None]) -> None:
    """End the work for the request."""
    _CURRENT.reset(token)


def current() -> str | None:
    """Return the id of the request that is being worked for; None for work of the server's own."""
    found = _CURRENT.get()
    return found[0] if found else None


def route() -> str | None:
    """Return the route of that request, such as `/v1/apps/:app_id`."""
    found = _CURRENT.get()
    return found[1] if found else None
