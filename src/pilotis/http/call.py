"""One request, as handlers see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from pilotis.http.principals import (
    Actor,
    AppInfo,
    InvalidTokenError,
    MemberInfo,
    Principal,
    TokenRequiredError,
    UserInfo,
)
from pilotis.kit.errors import PayloadTooLargeError

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from pilotis.http.endpoint import Endpoint
    from pilotis.http.protocol import HttpProtocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NOBODY = Principal()
ANSWERING = "pilotis.answering"
"""An extension of ASGI's scope: weak references to the `cycle` and the `protocol` that uvicorn has for the request."""
_NONE: dict[str, Any] = {}


class ClientDisconnectedError(Exception):
    """The client went away before its request was whole; there is nobody to answer."""


class Call:
    """One request: its headers, who sent it (`principal`), and headers to add to its answer."""

    __slots__ = (
        "_receive",
        "address",
        "answer_headers",
        "body_ended",
        "endpoint",
        "headers",
        "principal",
        "request_id",
        "scope",
    )

    def __init__(self, scope: Scope, receive: Receive, request_id: str, headers: dict[bytes, bytes]) -> None:
        self.scope = scope
        self._receive = receive
        self.body_ended = False
        self.request_id = request_id
        self.headers = headers
        self.address = ""
        self.principal = NOBODY
        self.endpoint: Endpoint | None = None
        self.answer_headers: list[tuple[bytes, bytes]] = []

    @property
    def app(self) -> AppInfo:
        """The app of the request; only for routes whose access names one."""
        if self.principal.app is None:
            raise RuntimeError("This route's access names no app.")
        return self.principal.app

    @property
    def member(self) -> MemberInfo:
        """The signed-in member; only for routes whose access asks for one."""
        if self.principal.member is None:
            raise RuntimeError("This route's access asks for no member.")
        return self.principal.member

    @property
    def user(self) -> UserInfo:
        """The console user; only for routes whose access asks for one."""
        if self.principal.user is None:
            raise RuntimeError("This route's access asks for no console user.")
        return self.principal.user

    @property
    def actor(self) -> Actor:
        """Who acts, for the audit log."""
        return Actor(self.principal.kind, self.principal.actor_id, self.request_id)

    def header(self, name: bytes) -> str | None:
        """Return a header's value, or None. The name is in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def bearer(self) -> str | None:
        """Return the bearer credential (RFC 6750, section 2.1), or None where there is no `Authorization` header."""
        value = self.header(b"authorization")
        if value is None:
            return None
        scheme, _, token = value.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise InvalidTokenError("The Authorization header must be: Bearer, a space, and a token.")
        return token.strip()

    def need_bearer(self) -> str:
        """Return the bearer credential; raises `TokenRequiredError` where there is none."""
        token = self.bearer()
        if token is None:
            raise TokenRequiredError
        return token

    @property
    def cycle(self) -> RequestResponseCycle | None:
        """The server's object for the request, by which answers leave past ASGI; None but under uvicorn."""
        cycle: RequestResponseCycle | None = self._answering("cycle")
        return cycle

    @property
    def protocol(self) -> HttpProtocol | None:
        """The server's object for the connection, by which bodies come in past ASGI; None but under uvicorn."""
        protocol: HttpProtocol | None = self._answering("protocol")
        return protocol

    def _answering(self, name: str) -> Any:
        extension = self.scope.get("extensions", _NONE).get(ANSWERING)
        return None if extension is None else extension[name]()

    @property
    def takes_files(self) -> bool:
        """Whether the server can send a part of an open file."""
        return self.cycle is not None

    @property
    def has_unread_body(self) -> bool:
        """Whether the client announced a body (RFC 9112, section 6.3) of which a part has not been read."""
        if self.body_ended:
            return False
        return b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0") != b"0"

    async def discard(self, most: int, seconds: float) -> None:
        """Read what is left of the body, up to `most` bytes and for so long at most, and throw it away."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while size < most and not self.body_ended:
                    size += len((await self.next_message()).get("body", b""))

    async def body(self, limit: int) -> bytes:
        """Read the whole body, of at most `limit` bytes; raises `PayloadTooLargeError`."""
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        message = await self.next_message()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= limit else _refuse(limit)
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await self.next_message()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _too_large(limit)
        return b"".join(parts)

    async def disconnected(self) -> None:
        """Return once the client has gone away."""
        with contextlib.suppress(ClientDisconnectedError):
            while True:
                await self.next_message()

    async def next_message(self) -> Message:
        """Wait for more of the body, or its end; raises `ClientDisconnectedError`."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        self.body_ended = not message.get("more_body", False)
        return message


def _too_large(limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body is too large; at most {limit} bytes are taken here.")


def _refuse(limit: int) -> bytes:
    raise _too_large(limit)
