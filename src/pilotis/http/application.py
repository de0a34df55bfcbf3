"""The ASGI application: request, router, principal, typed decode, service, typed encode."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from pilotis.http import binding, failures
from pilotis.http.addresses import client_address
from pilotis.http.call import Call, ClientDisconnectedError, Receive, Scope, Send
from pilotis.http.cors import Cors, Headers
from pilotis.http.endpoint import Endpoint, FilePart, NoAnswer, Reply, Stream
from pilotis.http.gate import Gate
from pilotis.http.ready import ReadyAnswer, ReadyAnswers
from pilotis.http.router import Match, Router
from pilotis.http.whole import header_lines, send_whole
from pilotis.http.zero_copy import send_file
from pilotis.kit import json
from pilotis.kit.errors import MethodNotAllowedError, NotFoundError, PilotisError
from pilotis.kit.ids import uuid7_text

_REQUEST_ID = re.compile(rb"[\w.:-]{8,128}", re.ASCII)
_log = structlog.get_logger("pilotis.request")

Finished = Callable[[Call, int, float], None]
CLIENT_CLOSED = 499
"""The status that is logged and counted where the client went away before its request was whole."""

_NOTHING: Headers = []
_SMALL_REST = 64 * 1024
_LARGE_REST = 32 * 1024 * 1024
_DISCARD_SECONDS = 3.0


class Limiter(Protocol):
    """Counts requests of a rate-limit class; raises `RateLimitedError` for one too many."""

    async def check(self, call: Call, endpoint: Endpoint) -> None:
        """Count the request, and put `RateLimit-*` headers on its answer where it is of a limited class."""

    async def check_body(self, call: Call, endpoint: Endpoint, body: Any) -> None:
        """Count what a body of several operations costs beyond the one request that `check` has counted."""


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
        self._ready = ReadyAnswers()
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3). WebSockets are refused; start and stop belong to the server."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        call = Call(scope, receive, _request_id(headers), headers)
        call.address = client_address(scope, self._trusted_proxies)
        self.in_flight += 1
        try:
            status = await self._exchange(call, send)
        except ClientDisconnectedError:
            status = CLIENT_CLOSED
        finally:
            self.in_flight -= 1
        self._finished(call, status, time.perf_counter() - started)

    async def _exchange(self, call: Call, send: Send) -> int:
        reply = await self._answer(call)
        cycle = call.cycle
        if isinstance(reply, ReadyAnswer):
            assert cycle is not None
            call.endpoint = reply.endpoint
            await send_whole(cycle, 200, reply.lines_for(call.request_id), reply.body)
            return 200
        status = reply.status or 200
        headers = self._headers(call, reply, status)
        body = reply.body
        if not isinstance(body, bytes):
            await self._send_stream(call, status, headers, body, send)
            return status
        body = b"" if call.scope["method"] == "HEAD" else body
        if call.has_unread_body:
            await _send_early(call, status, headers, body, send)
        elif cycle is not None:
            await send_whole(cycle, status, header_lines(headers), body)
            self._ready.keep(call, reply, headers)
        else:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        return status

    async def _send_stream(
        self, call: Call, status: int, headers: Headers, body: Stream | FilePart, send: Send
    ) -> None:
        try:
            if isinstance(body, Stream):
                await _send_stream(call, status, headers, body, send)
            else:
                await _send_file(call, status, headers, body, send)
        except ClientDisconnectedError:
            raise
        except Exception as error:
            # Too late for an error's answer: the connection is cut, so that nobody takes a part for the whole.
            _log.warning("cut off", request_id=call.request_id, error=type(error).__name__, exc_info=error)

    async def _answer(self, call: Call) -> Reply | ReadyAnswer:
        try:
            return await self._ready.find(call) or await self._dispatch(call)
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
        if method == "OPTIONS":
            wanted = call.header(b"access-control-request-method") or ""
            call.answer_headers.extend(self._cors.preflight(match.targets.get(wanted), _allow(match)))
        endpoint = match.targets.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            return _without_endpoint(method, match)
        call.endpoint = endpoint
        call.principal = await self._gate.admit(endpoint, call, match.values)
        await self._limiter.check(call, endpoint)
        arguments = await binding.arguments(endpoint, call, match.values)
        if endpoint.cost is not None:
            await self._limiter.check_body(call, endpoint, arguments[-1])
        return _reply(endpoint, await endpoint.handler(call, *arguments))

    def _headers(self, call: Call, reply: Reply, status: int) -> list[tuple[bytes, bytes]]:
        # No length with 204 and 304 (RFC 9110, section 8.6); OPTIONS brings the headers of its preflight along.
        return [
            *(_NOTHING if status in {204, 304} else ((b"content-type", reply.content_type), *_length(reply.body))),
            (b"x-request-id", call.request_id.encode()),
            *(self._cors.answer(call.endpoint) if call.scope["method"] != "OPTIONS" else _NOTHING),
            *call.answer_headers,
            *reply.headers,
        ]


def _without_endpoint(method: str, match: Match[Endpoint]) -> Reply:
    if method == "OPTIONS":
        return Reply(b"", 204)
    allow = _allow(match)
    raise MethodNotAllowedError(f"This path takes {allow}.", headers={"Allow": allow})


def _allow(match: Match[Endpoint]) -> str:
    methods = set(match.targets) | ({"HEAD"} if "GET" in match.targets else set()) | {"OPTIONS"}
    return ", ".join(sorted(methods))


async def _send_early(call: Call, status: int, headers: Headers, body: bytes, send: Send) -> None:
    """Answer a request whose body has not been read whole.

    Most clients send their body before they look for an answer, and closing a connection with unread bytes takes the
    answer away with it (RFC 9112, section 9.6). So what comes is read, within bounds; a small rest at once, so that
    the connection stays, a large one after the answer and before the close. A client that waits for
    `100 Continue` has not sent anything.
    """
    waits = call.headers.get(b"expect", b"").lower() == b"100-continue"
    if not waits:
        await call.discard(_SMALL_REST, 0.5)
    closing = call.has_unread_body
    if closing:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": closing})
    if closing:
        with contextlib.suppress(ClientDisconnectedError):
            if not waits:
                await call.discard(_LARGE_REST, _DISCARD_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _send_stream(call: Call, status: int, headers: Headers, body: Stream, send: Send) -> None:
    """Send a body piece by piece, as long as there is somebody to take it; `send` waits for a slow client."""
    async with contextlib.aclosing(body.chunks):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if call.scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        gone = asyncio.ensure_future(call.disconnected())
        try:
            async for chunk in body.chunks:
                if gone.done():
                    raise ClientDisconnectedError
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _send_file(call: Call, status: int, headers: Headers, body: FilePart, send: Send) -> None:
    """Send a part of a file, as long as there is somebody to take it."""
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        assert call.cycle is not None
        sending = asyncio.ensure_future(send_file(call.cycle, body.file, body.start, body.size))
        gone = asyncio.ensure_future(call.disconnected())
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            sending.cancel()
            # Until it has ended it uses the file.
            await asyncio.wait([sending])
        if sending.cancelled():
            raise ClientDisconnectedError
        sending.result()
        await send({"type": "http.response.body", "body": b""})
    finally:
        os.close(body.file)


def _length(body: bytes | Stream | FilePart) -> Headers:
    size = len(body) if isinstance(body, bytes) else body.size
    return _NOTHING if size is None else [(b"content-length", b"%d" % size)]


def _reply(endpoint: Endpoint, result: Any) -> Reply:
    if type(result) is Reply:
        if result.status is None:
            return Reply(result.body, endpoint.status, result.headers, result.content_type, result.holds)
        return result
    if isinstance(result, NoAnswer):
        return Reply(b"", 204)
    return Reply(json.encode(result), endpoint.status)


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return uuid7_text()
