"""The ASGI application: request, router, principal, typed decode, service, typed encode."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from pilotis.http import binding, failures
from pilotis.http.addresses import client_address
from pilotis.http.call import Call, ClientDisconnectedError, Receive, Scope, Send
from pilotis.http.cors import Cors
from pilotis.http.endpoint import Endpoint, NoAnswer, Reply
from pilotis.http.gate import Gate
from pilotis.http.router import Match, Router
from pilotis.kit import json
from pilotis.kit.errors import MethodNotAllowedError, NotFoundError, PilotisError
from pilotis.kit.ids import uuid7_text

_REQUEST_ID = re.compile(rb"[\w.:-]{8,128}", re.ASCII)
_log = structlog.get_logger("pilotis.request")

Finished = Callable[[Call, int, float], None]


class Limiter(Protocol):
    """Counts requests of a rate-limit class; raises `RateLimitedError` for one too many."""

    async def check(self, call: Call, endpoint: Endpoint) -> None:
        """Count the request, and put `RateLimit-*` headers on its answer where it is of a limited class."""


class Application:
    """Serves an endpoint table. `finished` is called after every request with its status and its seconds."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        gate: Gate,
        limiter: Limiter,
        cors: Cors,
        trusted_proxies: Iterable[str] = (),
        finished: Finished,
    ) -> None:
        self.endpoints = endpoints
        self._router: Router[Endpoint] = Router()
        for endpoint in endpoints:
            self._router.add(endpoint.method, endpoint.path, endpoint)
        self._gate = gate
        self._limiter = limiter
        self._cors = cors
        self._trusted_proxies = frozenset(trusted_proxies)
        self._finished = finished

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3). WebSockets are refused; start and stop belong to the server."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        call = Call(scope, receive, _request_id(headers), headers)
        call.address = client_address(scope, headers, self._trusted_proxies)
        try:
            reply = await self._answer(call)
        except ClientDisconnectedError:
            return
        status = reply.status or 200
        await self._send(call, reply, status, send)
        self._finished(call, status, time.perf_counter() - started)

    async def _answer(self, call: Call) -> Reply:
        try:
            return await self._dispatch(call)
        except PilotisError as error:
            if error.status >= 500:
                _log.warning("unavailable", request_id=call.request_id, code=error.code, exc_info=error.__cause__)
            return failures.rendered(error, call.request_id)
        except ClientDisconnectedError:
            raise
        except Exception as error:
            _log.exception("failed", request_id=call.request_id, error=type(error).__name__)
            return failures.rendered(PilotisError(), call.request_id)

    async def _dispatch(self, call: Call) -> Reply:
        method = call.scope["method"]
        match = self._router.find("GET" if method == "HEAD" else method, call.scope["path"])
        if match is None:
            raise NotFoundError
        endpoint = match.targets.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            return self._without_endpoint(method, match)
        call.endpoint = endpoint
        call.principal = await self._gate.admit(endpoint, call, match.values)
        await self._limiter.check(call, endpoint)
        arguments = await binding.arguments(endpoint, call, match.values)
        result = await endpoint.handler(call, *arguments)
        return _reply(endpoint, result)

    def _without_endpoint(self, method: str, match: Match[Endpoint]) -> Reply:
        methods = set(match.targets) | ({"HEAD"} if "GET" in match.targets else set()) | {"OPTIONS"}
        allow = ", ".join(sorted(methods))
        if method == "OPTIONS":
            return Reply(b"", 204, self._cors.preflight(match.targets.values(), allow))
        raise MethodNotAllowedError(f"This path takes {allow}.", headers={"Allow": allow})

    async def _send(self, call: Call, reply: Reply, status: int, send: Send) -> None:
        headers = [
            (b"content-type", reply.content_type),
            (b"content-length", b"%d" % len(reply.body)),
            (b"x-request-id", call.request_id.encode()),
            *(self._cors.answer(call.endpoint) if status != 204 else ()),
            *call.answer_headers,
            *reply.headers,
        ]
        body = b"" if call.scope["method"] == "HEAD" else reply.body
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _reply(endpoint: Endpoint, result: Any) -> Reply:
    if type(result) is Reply:
        if result.status is None:
            return Reply(result.body, endpoint.status, result.headers, result.content_type)
        return result
    if isinstance(result, NoAnswer):
        return Reply(b"", 204)
    return Reply(json.encode(result), endpoint.status)


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return uuid7_text()
