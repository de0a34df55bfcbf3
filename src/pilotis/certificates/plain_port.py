"""The port without TLS: it answers certificate authorities and `/healthz`, and redirects everything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate
from urllib.parse import urlsplit

from pilotis.http.api.hosts import Area, host_of
from pilotis.http.api.request import Receive, Scope, Send

CHALLENGES = b"/.well-known/acme-challenge/"
"""The path of the answers to certificate authorities (RFC 8555, section 8.3)."""
_TEXT = (b"content-type", b"text/plain; charset=utf-8")

FindAnswer = Callable[[str, str], Awaitable[bytes | None]]
"""Returns the answer to a challenge, by the host and the token that the request names."""


class PlainPort:
    """An ASGI application for the port without TLS.

    `api` answers `/healthz`. `is_served` says which hosts are reached by HTTPS; all others are sent to `base_url`.
    """

    def __init__(self, api: Area, is_served: Callable[[str], bool], answer: FindAnswer, base_url: str) -> None:
        self._api = api
        self._is_served = is_served
        self._answer = answer
        self._base_url = base_url.encode()
        port = urlsplit(base_url).port
        self._port = f":{port}" if port else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: bytes = scope["raw_path"]
        if path == b"/healthz":
            await self._api(scope, receive, send)
        elif path.startswith(CHALLENGES):
            await self._send_answer(scope, path.removeprefix(CHALLENGES), send)
        else:
            await self._redirect(scope, path, send)

    async def _send_answer(self, scope: Scope, token: bytes, send: Send) -> None:
        host = host_of(scope)
        found = await self._answer(host, token.decode("latin-1")) if host else None
        if found is None:
            await _send(send, 404, b"This challenge is not known here.\n")
        else:
            await _send(send, 200, found, (b"content-type", b"application/octet-stream"))

    async def _redirect(self, scope: Scope, path: bytes, send: Send) -> None:
        host = host_of(scope)
        known = host is not None and self._is_served(host)
        origin = f"https://{host}{self._port}".encode() if known else self._base_url
        query: bytes = scope["query_string"]
        target = path if path.startswith(b"/") else b"/"
        location = origin + target + (b"?" + query if query else b"")
        await _send(send, 308, b"This is served by HTTPS.\n", (b"location", location))


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    lines = [_TEXT] if all(name != b"content-type" for name, _ in headers) else []
    lines += [
        *headers,
        (b"date", formatdate(usegmt=True).encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
