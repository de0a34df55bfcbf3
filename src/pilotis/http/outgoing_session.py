"""aiohttp under the guard: the connections of one reach, and the mapping of aiohttp's errors.

It is a separate module because aiohttp takes 6 MB: it is imported with the first outgoing request.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from pilotis.http.outgoing_guard import Guard
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure, OutgoingRequest, OutgoingResponse
from pilotis.kit.target_urls import Target

CONNECT_SECONDS = 5.0
_KEEP_ALIVE_SECONDS = 15.0
_MAX_CONNECTIONS = 512
_MAX_HEADER_BYTES = 8192
# These frame the message or concern the connection (RFC 9110, section 7.6.1), so the client writes them.
_OWN_HEADERS = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection")
) | {"te", "trailer", "transfer-encoding", "upgrade"}
_DEFAULT_HEADERS = {"User-Agent": "Pilotis", "Accept-Encoding": "identity"}


class OutgoingSession:
    """Sends requests over connections that the guard permits, and keeps the connections alive."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext, proxy: str | None) -> None:
        self._proxy = proxy
        self._session = _new_session(guard, tls)

    async def send(self, request: OutgoingRequest, target: Target, max_bytes: int) -> OutgoingResponse:
        """Return the response, whatever its status; raises `OutgoingError`, or `TimeoutError` past the deadline."""
        _check_headers(request.headers)
        trace = _Trace()
        try:
            try:
                return await self._attempt(request, target, max_bytes, trace)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The server may close a kept-alive connection at the moment it is used again.
                if not trace.is_reused or "Idempotency-Key" not in request.headers:
                    raise
            return await self._attempt(request, target, max_bytes, trace)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutgoingError(_failure_of(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _attempt(
        self, request: OutgoingRequest, target: Target, max_bytes: int, trace: _Trace
    ) -> OutgoingResponse:
        async with self._session.request(
            request.method,
            target.url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            proxy=self._proxy,
            trace_request_ctx=trace,
        ) as response:
            body, is_truncated = await _body(response, max_bytes)
            headers = tuple(response.headers.items())
            return OutgoingResponse(status=response.status, headers=headers, body=body, is_truncated=is_truncated)


class _Resolver(AbstractResolver):
    """The guard as aiohttp's resolver."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host=address[0], port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
            )
            for kind, _, protocol, _, address in await self._guard.addresses(host, port)
            if family in (socket.AF_UNSPEC, kind)
        ]

    async def close(self) -> None:
        """Nothing to close."""


def _new_session(guard: Guard, tls: ssl.SSLContext) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        ssl=tls,
        resolver=_Resolver(guard),
        socket_factory=guard.open_socket,
        use_dns_cache=False,
        limit=_MAX_CONNECTIONS,
        keepalive_timeout=_KEEP_ALIVE_SECONDS,
    )
    reuse = aiohttp.TraceConfig()
    reuse.on_connection_reuseconn.append(_mark_reused)
    return aiohttp.ClientSession(
        connector=connector,
        headers=_DEFAULT_HEADERS,
        skip_auto_headers=["Content-Type"],
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
        trace_configs=[reuse],
    )


class _Trace:
    """Whether an attempt used a connection that had been used before."""

    is_reused = False


async def _mark_reused(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceConnectionReuseconnParams) -> None:
    context.trace_request_ctx.is_reused = True


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """Return the part of the body within the limit, and whether there is more, which is not read."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            response.close()
            return bytes(body[:max_bytes]), True
    return bytes(body), False


def _check_headers(headers: Mapping[str, str]) -> None:
    for name in headers:
        if name.lower() in _OWN_HEADERS:
            raise OutgoingError(OutgoingFailure.PROTOCOL, f"The header {name} is the client's own.")


def _failure_of(error: Exception) -> OutgoingFailure:
    """Return the `OutgoingFailure` of an error of aiohttp or of the layers below it."""
    if isinstance(error, TimeoutError):
        return OutgoingFailure.TIMEOUT
    if isinstance(error, aiohttp.ClientSSLError) or any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
        return OutgoingFailure.TLS
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientHttpProxyError, OSError)):
        return OutgoingFailure.CONNECT
    return OutgoingFailure.PROTOCOL


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
