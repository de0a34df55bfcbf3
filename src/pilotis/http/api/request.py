"""One request."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from pilotis.http.api.principals import (
    Actor,
    Anonymous,
    AppInfo,
    Client,
    InvalidTokenError,
    MemberInfo,
    Presumption,
    Principal,
    TokenRequiredError,
    UserInfo,
    app_of,
)
from pilotis.http.in_flight import UNCOUNTED_BYTES, InFlight, Reservation
from pilotis.kit.addresses import one_client
from pilotis.kit.effects import took_effect
from pilotis.kit.errors import PayloadTooLargeError, PilotisError
from pilotis.kit.ids import uuid7_text
from pilotis.kit.pace import Pace
from pilotis.limits import Limits

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from pilotis.http.api.endpoint import Endpoint

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NOBODY = Anonymous()
DEFAULT_LIMITS = Limits()
_MAX_USER_AGENT = 300
ANSWERING = "pilotis.answering"
"""An ASGI scope extension: a weak reference to uvicorn's `cycle` of the request."""
_NONE: dict[str, Any] = {}
_REQUEST_ID = re.compile(rb"[\w.:-]{8,128}", re.ASCII)


class ClientDisconnectedError(Exception):
    """The client disconnected before its request was complete; nobody receives an answer."""


class BodyStalledError(PilotisError):
    """408 `BODY_STALLED`: the body arrived more slowly than the minimum rate, or stopped for a minute."""

    status = 408
    code = "BODY_STALLED"
    message = "The body arrived too slowly or stopped arriving."


class ServerBounds(NamedTuple):
    """What applies to every request of a server: limits, bytes in flight, trusted proxies, and its own address."""

    limits: Limits
    in_flight: InFlight
    trusted_proxies: frozenset[str] = frozenset()
    base_url: str = ""

    @property
    def secure(self) -> bool:
        """Whether the server is reached by https."""
        return self.base_url.startswith("https:")


class RequestHead(NamedTuple):
    """A request without its body, as services take it that answer with files.

    `target` is the path and query string as received, `headers` are keyed by lower-case name, and `takes_files` says
    whether the server can send a `FilePart`. `inside` is who calls from inside the process; None for a request by HTTP.
    """

    method: str
    target: bytes
    headers: Mapping[bytes, bytes]
    takes_files: bool
    inside: Principal | None = None

    def header(self, name: bytes) -> str | None:
        """Return a header's value, or None. The name is in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def bearer(self) -> str | None:
        """Return the bearer credential (RFC 6750, section 2.1), or None without an `Authorization` header."""
        return bearer_of(self.headers)


class Call:
    """One request: its headers, its sender (`principal`), and headers to add to its answer."""

    reservation: Reservation | None = None
    body_ended = False
    principal: Principal = NOBODY
    presumption: Presumption | None = None
    endpoint: Endpoint | None = None
    path_values: tuple[str, ...] = ()
    error_code: str | None = None
    sent = 0
    """The bytes of the answer's body that were sent, as the app's traffic counts them."""
    function_id: UUID | None = None
    is_area = False
    is_inside = False
    reserved_id: UUID | None = None

    def __init__(
        self, scope: Scope, receive: Receive, client: Client, headers: Mapping[bytes, bytes], server: ServerBounds
    ) -> None:
        self.scope = scope
        self.client = client
        self.server = server
        self._receive = receive
        self.headers = headers
        self.answer_headers: list[tuple[bytes, bytes]] = []

    @property
    def app(self) -> AppInfo:
        """The app of the request; only for routes whose access requires an app."""
        return app_of(self.principal)

    @property
    def request_id(self) -> str:
        """The request's id, as in its answer and in the logs."""
        return self.client.request_id

    @property
    def limits(self) -> Limits:
        """The limits in force: the app's, or the server's if the request names no app."""
        app = self.principal.app
        return self.server.limits if app is None else app.limits

    def new_id(self) -> str:
        """Return the id for what this call creates: the one reserved by its `Idempotency-Key`, or a new one."""
        return uuid7_text() if self.reserved_id is None else str(self.reserved_id)

    def reserve(self, size: int) -> None:
        """Count bytes that will be held until the request ends; raises 429 or 503 errors."""
        if self.reservation is None:
            app = self.principal.app
            address = self.client.address
            client = None if address in self.server.trusted_proxies else one_client(address)
            self.reservation = Reservation(self.server.in_flight, None if app is None else app.app_id, client)
        self.reservation.grow(size)

    def new_pace(self) -> Pace:
        """Return the `Pace` of a transfer of this call."""
        limits = self.server.limits
        return Pace(limits.transfer_bytes_per_second, limits.transfer_grace_seconds)

    @property
    def member(self) -> MemberInfo:
        """The signed-in member; only for routes whose access requires one."""
        if self.principal.member is None:
            raise RuntimeError("This route's access requires no member.")
        return self.principal.member

    @property
    def user(self) -> UserInfo:
        """The console user; only for routes whose access requires one."""
        if self.principal.user is None:
            raise RuntimeError("This route's access requires no console user.")
        return self.principal.user

    @property
    def actor(self) -> Actor:
        """The actor, for the audit log."""
        return Actor(self.principal.kind, self.principal.actor_id, self.client.request_id, self.principal.depth)

    def header(self, name: bytes) -> str | None:
        """Return a header's value, or None. The name is in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def user_agent(self) -> str | None:
        """What the client's browser or program calls itself: at most 300 printable characters, or None."""
        named = "".join(filter(str.isprintable, self.header(b"user-agent") or ""))
        return named[:_MAX_USER_AGENT] or None

    @property
    def head(self) -> RequestHead:
        """The request without its body."""
        scope = self.scope
        query = scope["query_string"]
        target = scope["raw_path"] + b"?" + query if query else scope["raw_path"]
        inside = self.principal if self.is_inside else None
        return RequestHead(scope["method"], target, self.headers, self.takes_files, inside)

    def bearer(self) -> str | None:
        """Return the bearer credential (RFC 6750, section 2.1), or None without an `Authorization` header."""
        return bearer_of(self.headers)

    def need_bearer(self) -> str:
        """Return the bearer credential; raises `TokenRequiredError` if there is none."""
        token = self.bearer()
        if token is None:
            raise TokenRequiredError
        return token

    @property
    def cycle(self) -> RequestResponseCycle | None:
        """The object with which uvicorn handles the request; answers can bypass ASGI through it.

        None with other servers.
        """
        extension = self.scope.get("extensions", _NONE).get(ANSWERING)
        cycle: RequestResponseCycle | None = None if extension is None else extension["cycle"]()
        return cycle

    @property
    def takes_files(self) -> bool:
        """Whether the server can send part of an open file."""
        return self.cycle is not None

    @property
    def has_unread_body(self) -> bool:
        """Whether the client announced a body (RFC 9112, section 6.3) that has not been read completely."""
        if self.body_ended:
            return False
        return b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0") != b"0"

    async def discard(self, max_bytes: int, seconds: float) -> None:
        """Read the rest of the body, up to `max_bytes` bytes and for so long at most, and discard it."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while size < max_bytes and not self.body_ended:
                    size += len((await self.next_message()).get("body", b""))

    async def linger(self, seconds: float, pause: float) -> None:
        """Read and discard the rest of the body for so many seconds, or until the client pauses for `pause` seconds."""
        now = asyncio.get_running_loop().time
        end = now() + seconds
        with contextlib.suppress(TimeoutError):
            while not self.body_ended:
                async with asyncio.timeout(min(pause, end - now())):
                    await self.next_message()

    async def body(self, limit: int) -> bytes:
        """Read the whole body, of at most `limit` bytes; raises `PayloadTooLargeError`."""
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit():
            size = int(declared)
            if size > limit:
                raise _too_large(limit)
            if size > UNCOUNTED_BYTES:
                self.reserve(size)
        message = await self.next_message()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= limit else _refuse(limit)
        return await self._rest_of_body(body, limit, declared is None)

    async def _rest_of_body(self, first: bytes, limit: int, is_chunked: bool) -> bytes:
        parts, size, pace = [first], len(first), self.new_pace()
        counted = 0
        now = asyncio.get_running_loop().time
        while not self.body_ended:
            begun = now()
            part: bytes = (await self.next_message()).get("body", b"")
            pace.count(now() - begun, len(part))
            if pace.is_too_slow:
                raise BodyStalledError
            parts.append(part)
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            if is_chunked and size > counted + UNCOUNTED_BYTES:
                # Its length becomes known only as it arrives.
                self.reserve(size - counted)
                counted = size
        return b"".join(parts)

    async def disconnected(self) -> None:
        """Return once the client has disconnected."""
        with contextlib.suppress(ClientDisconnectedError):
            while True:
                await self.next_message()

    async def next_message(self) -> Message:
        """Wait for more of the body, or its end; raises `ClientDisconnectedError`."""
        took_effect()
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        self.body_ended = not message.get("more_body", False)
        return message


def request_id_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the id that a client gives its request by `X-Request-Id`, or a new one."""
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return uuid7_text()


def bearer_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the bearer credential (RFC 6750, section 2.1), or None without an `Authorization` header."""
    value = headers.get(b"authorization")
    if value is None:
        return None
    scheme, _, token = value.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InvalidTokenError("The Authorization header must be: Bearer, a space, and a token.")
    return token.strip()


def _too_large(limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body is too large; at most {limit} bytes are taken here.")


def _refuse(limit: int) -> bytes:
    raise _too_large(limit)
