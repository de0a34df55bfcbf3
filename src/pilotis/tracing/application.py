"""The application of a process that exports traces: a span for each request that is traced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import random
from typing import Any

import msgspec

from pilotis.http.api.application import CLIENT_CLOSED, Application
from pilotis.http.api.cors import Headers
from pilotis.http.api.direct import DirectRoutes, Found, Outcome, Started, lines_of
from pilotis.http.api.principals import Principal
from pilotis.http.api.request import Call, Receive, Scope, Send, request_id_of
from pilotis.http.replies.reply import Reply
from pilotis.http.server.known_heads import Request
from pilotis.tracing.recorder import CURRENT, Active, Recorder

_PARENT, _ID = b"traceparent", b"x-request-id"


class TracedApplication(Application):
    """Answers requests, and records those that `recorder` chooses."""

    def __init__(self, recorder: Recorder, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._recorder = recorder
        self._counted = self._finished
        self._finished = self._recorded

    def direct(self, is_area: Callable[[bytes], bool]) -> DirectRoutes:
        """Return the routes that need no task."""
        lines = lines_of(self._cors.answer(None, None))
        return _TracedRoutes(self._recorder, self.endpoints, self, self._bounds, lines, is_area, self._ready)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, answer: Any) -> None:
        headers = dict(scope["headers"])
        active = self._recorder.request(scope["method"], headers.get(_PARENT), _given_id(headers))
        if active is None:
            return await super()._serve(scope, receive, send, answer)
        lines: Headers = scope["headers"]
        if active.request_id == active.traceparent:
            lines = [*lines, (_ID, active.request_id.encode())]
        try:
            with active.being_worked_for():
                await super()._serve({**scope, "headers": lines}, receive, send, answer)
        finally:
            # It has ended already, unless the request was cancelled.
            self._recorder.answered(active, scope["method"], CLIENT_CLOSED, None)

    async def call_inside(
        self, principal: Principal, method: str, path: str, *, request_id: str | None = None, **named: Any
    ) -> Reply:
        """Answer a call from inside this process."""
        described = {"http.request.method": method}
        with self._recorder.span(method, described, kind="internal", request_id=request_id, is_root=False):
            return await super().call_inside(principal, method, path, request_id=request_id, **named)

    def _recorded(self, call: Call, status: int, seconds: float) -> None:
        self._counted(call, status, seconds)
        active = CURRENT.get()
        if active is None or not active.is_open:
            return
        route = call.endpoint.path if call.endpoint else None
        name = call.scope["method"] if route is None else f"{call.scope['method']} {route}"
        if route is not None:
            active.set("http.route", route)
        if call.principal.app is not None:
            active.set("pilotis.app_id", str(call.principal.app.app_id))
        active.set("pilotis.actor", call.principal.kind)
        if not call.is_inside:
            self._recorder.answered(active, name, status, call.error_code)
            return
        active.recorded.update_name(name)
        active.set("http.response.status_code", status)
        if status >= 500:
            active.fail(call.error_code or str(status))


class _TracedRoutes(DirectRoutes):
    """Direct routes that record the requests that a recorder chooses."""

    def __init__(self, recorder: Recorder, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recorder = recorder
        self._traced: dict[Call, Active] = {}

    def begin(self, found: Found, request: Request, address: str) -> Started | None:
        """Begin the answer to a request."""
        active, headers = None, request.headers
        # What most requests pass: `request` would decide the same.
        if _PARENT in headers or random() < self._recorder.ratio:  # noqa: S311
            active = self._recorder.chosen(found.endpoint.method, headers.get(_PARENT), _given_id(headers))
        if active is None:
            return super().begin(found, request, address)
        named = {**headers, _ID: active.request_id.encode()}
        with active.being_worked_for():
            started = super().begin(found, msgspec.structs.replace(request, headers=named), address)
        if started is None:
            self._recorder.discard(active)
        else:
            self._traced[started.call] = active
        return started

    def sent(self, started: Started) -> None:
        """Record a request whose answer was sent."""
        active = self._traced.pop(started.call, None) if self._traced else None
        if active is None:
            super().sent(started)
        else:
            with active.being_worked_for():
                super().sent(started)

    def resumed(self, started: Started, outcome: Outcome) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the ASGI application that answers a request by the usual path."""
        active = self._traced.pop(started.call, None)
        resume = super().resumed(started, outcome)
        if active is None:
            return resume

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            with active.being_worked_for():
                await resume(scope, receive, send)

        return traced


def _given_id(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the id that the client has chosen, if that is a valid one."""
    given = headers.get(_ID)
    return given if given is not None and request_id_of(headers).encode() == given else None
