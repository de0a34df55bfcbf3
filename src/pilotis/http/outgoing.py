"""The HTTP client for every request that leaves the server: guarded, and bounded in time and size.

Redirects, cookies, decompression, DNS caching and proxies named by the environment are disabled. An answer is read up
to a limit. Certificates are always verified, with TLS 1.2 or newer.
"""

from __future__ import annotations

import asyncio
import enum
import importlib
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Hashable, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import structlog

from pilotis.http.outgoing_allowance import Allowance
from pilotis.http.outgoing_guard import Guard
from pilotis.http.outgoing_resolver import TENANT, Lookup, Resolver
from pilotis.http.outgoing_types import (
    REFUSALS,
    OutgoingError,
    OutgoingFailure,
    OutgoingRequest,
    OutgoingResponse,
    RedirectError,
)
from pilotis.kit import spans
from pilotis.kit.effects import took_effect
from pilotis.kit.networks import (
    LOOPBACK,
    AddressRules,
    Network,
    OwnPorts,
    is_loopback,
    parse_network,
    serves_this_machine,
)
from pilotis.kit.target_urls import Target, parse_target

if TYPE_CHECKING:
    from pilotis.http.outgoing_session import OutgoingSession


CONNECT_SECONDS = 10.0
NODES_SECONDS = 10.0
"""How long the addresses of the cluster's nodes are cached."""

Nodes = Callable[[], Awaitable[Iterable[tuple[str | None, Collection[int]]]]]
"""Returns the address and ports of each process of the cluster; the address None is this machine."""

_log = structlog.get_logger("pilotis.outgoing")


class Reach(enum.Enum):
    """On whose behalf a request is sent, which determines what it may reach."""

    SERVER = "server"
    """The server, for an app: `https` to public addresses; any scheme to `outgoing_networks`."""
    FUNCTION = "function"
    """An app's own code: public addresses and `egress_networks`, with any scheme; the code handles redirects itself."""


class OutgoingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings for outgoing requests."""

    host: str
    base_url: str
    outgoing_networks: tuple[str, ...] = ()
    egress_networks: tuple[str, ...] = ()
    ca_file: str | None = None
    proxy: str | None = None

    @property
    def is_on_loopback(self) -> bool:
        """Whether the server listens only on loopback and its URL is there, as on a developer's machine."""
        # A command has no URL unless one is set; a server's URL would be derived from the host.
        return serves_this_machine(self.host, self.base_url)


class Outgoing:
    """The client; one for each process. Connections are pooled separately for each reach."""

    def __init__(
        self,
        settings: OutgoingSettings,
        *,
        own_ports: Collection[int] = (),
        nodes: Nodes | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        """`own_ports` of this machine and the `nodes` of the cluster are never called; `lookup` resolves names.

        Raises `ValueError` for an invalid network.
        """
        self._proxy = settings.proxy
        self._ca_file = settings.ca_file
        self._base_url = settings.base_url
        self._tls: ssl.SSLContext | None = None
        self._preparing = asyncio.Lock()
        self._resolver = Resolver(lookup)
        self._own_ports = OwnPorts(own_ports)
        self._nodes = nodes
        self._nodes_known_until = 0.0
        self.refused: Counter[str] = Counter()
        development = LOOPBACK if settings.is_on_loopback else ()
        networks = [*_networks(settings.outgoing_networks), *development]
        anything = AddressRules(networks, own_ports=self._own_ports)
        allowed_alone = AddressRules(networks, public=False, own_ports=self._own_ports)
        function = AddressRules([*_networks(settings.egress_networks), *development], own_ports=self._own_ports)
        self._guards = {
            (Reach.SERVER, "https"): Guard(self._resolver, anything),
            (Reach.SERVER, "http"): Guard(self._resolver, allowed_alone),
            (Reach.FUNCTION, "https"): Guard(self._resolver, function),
            (Reach.FUNCTION, "http"): Guard(self._resolver, function),
        }
        self._sessions: dict[Guard, OutgoingSession] = {}

    async def send(
        self,
        request: OutgoingRequest,
        *,
        reach: Reach,
        seconds: float,
        max_bytes: int,
        allowance: Allowance | None = None,
        tenant: Hashable = None,
    ) -> OutgoingResponse:
        """Send the request and return its answer within `seconds`, reading at most `max_bytes` of the body.

        An `allowance` also bounds the hosts and bytes of one execution. `tenant` is the app for which names are looked
        up: each has its share. Raises `OutgoingError`; for `Reach.SERVER` an
        answer that redirects is a `RedirectError`.
        """
        took_effect()
        with self._counted(tenant), spans.span("request", {}, kind="client") as span:
            if span.traceparent is not None:
                request = _traced(request, span, span.traceparent)
            try:
                response = await self._allowed(request, reach, seconds, max_bytes, allowance)
            except OutgoingError as error:
                span.fail(error.failure.value)
                raise
            span.set("http.response.status_code", response.status)
            return response

    async def _allowed(
        self, request: OutgoingRequest, reach: Reach, seconds: float, max_bytes: int, allowance: Allowance | None
    ) -> OutgoingResponse:
        if allowance is None:
            return await self._send(request, reach, seconds, max_bytes)
        target = _parsed(request.url)
        allowance.check_host(target.host, target.port)
        allowance.count(len(request.body or b""))
        response = await self._send(request, reach, seconds, min(max_bytes, allowance.bytes_left))
        # A request that was cut off because the allowance is used up was sent, but is incomplete.
        allowance.count(len(response.body) + (response.is_truncated and allowance.bytes_left < max_bytes))
        return response

    async def _send(self, request: OutgoingRequest, reach: Reach, seconds: float, max_bytes: int) -> OutgoingResponse:
        target = _parsed(request.url)
        await self._learn_nodes()
        guard = self._guards[reach, target.scheme]
        self._check_before(target, reach, guard)
        try:
            async with asyncio.timeout(seconds):
                session = await self._session(guard)
                response = await session.send(request, target, max_bytes)
        except TimeoutError:
            raise OutgoingError(OutgoingFailure.TIMEOUT) from None
        if reach is Reach.SERVER and 300 <= response.status < 400 and response.status != 304:
            raise RedirectError(response)
        return response

    async def check(self, url: str, *, reach: Reach, tenant: Hashable = None) -> None:
        """Raise `OutgoingError` for a URL that is invalid, or leads to an address that must not be called.

        A name that does not resolve yet is not an error, except with `http`, which is only for allowed networks.
        """
        with self._counted(tenant):
            await self._check(url, reach)

    async def _check(self, url: str, reach: Reach) -> None:
        target = _parsed(url)
        await self._learn_nodes()
        guard = self._guards[reach, target.scheme]
        self._check_before(target, reach, guard)
        if self._proxy is not None:
            return
        try:
            await guard.addresses(target.host, target.port)
        except OutgoingError as error:
            if error.failure is not OutgoingFailure.DNS:
                raise
            if reach is Reach.SERVER and target.scheme == "http":
                raise OutgoingError(OutgoingFailure.ADDRESS_NOT_ALLOWED) from None

    def guard(self, reach: Reach) -> Guard:
        """Return the guard for other connections than this client's."""
        return self._guards[reach, "https"]

    async def connect(self, host: str, port: int, *, reach: Reach, tenant: Hashable = None) -> socket.socket:
        """Return a TCP connection to a host, for a protocol that is not this client's, such as a tunnel.

        Raises `OutgoingError`, also where the server's own requests have to take a proxy.
        """
        with self._counted(tenant):
            await self._learn_nodes()
            return await self._connect(self.guard(reach), host, port)

    async def connect_to_base(self) -> socket.socket:
        """Return a TCP connection to the server's own base URL, wherever its name leads; raises `OutgoingError`."""
        parts = urlsplit(self._base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with self._counted():
            return await self._connect(Guard(self._resolver, None), parts.hostname or "", port)

    async def connect_for_operator(self, host: str, port: int) -> socket.socket:
        """Return a TCP connection to a host that the operator has configured, wherever its name leads.

        Raises `OutgoingError`.
        """
        with self._counted():
            return await self._connect(Guard(self._resolver, None), host, port)

    def may_be_plain(self, address: str, port: int) -> bool:
        """Return whether a connection to an IP address needs no TLS: loopback and `outgoing_networks`."""
        if is_loopback(address):
            return True
        try:
            self._guards[Reach.SERVER, "http"].check(address, port)
        except OutgoingError:
            return False
        return True

    async def tls(self) -> ssl.SSLContext:
        """Return the TLS context of outgoing connections."""
        # Reading the system's certificates and importing aiohttp would block the event loop.
        async with self._preparing:
            if self._tls is None:
                self._tls = await asyncio.to_thread(_prepare, self._ca_file)
        return self._tls

    async def _connect(self, guard: Guard, host: str, port: int) -> socket.socket:
        if self._proxy is not None:
            raise OutgoingError(OutgoingFailure.CONNECT, "Connections that do not use the server's proxy are off.")
        for info in await guard.addresses(host, port):
            opened = guard.open_socket(info)
            opened.setblocking(False)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await asyncio.get_running_loop().sock_connect(opened, info[4])
            except (OSError, TimeoutError):
                opened.close()
            except BaseException:
                opened.close()
                raise
            else:
                return opened
        raise OutgoingError(OutgoingFailure.CONNECT)

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def _check_before(self, target: Target, reach: Reach, guard: Guard) -> None:
        """Reject what can be recognised without a resolver, and what a proxy would resolve instead of this guard."""
        if target.is_literal:
            guard.check(target.host, target.port)
        elif self._proxy is not None and reach is Reach.SERVER and target.scheme == "http":
            raise OutgoingError(OutgoingFailure.ADDRESS_NOT_ALLOWED)

    @contextmanager
    def _counted(self, tenant: Hashable = None) -> Generator[None]:
        token = TENANT.set(tenant)
        try:
            yield
        except OutgoingError as error:
            if error.failure in REFUSALS:
                self.refused[error.failure.value] += 1
            raise
        finally:
            TENANT.reset(token)

    async def _learn_nodes(self) -> None:
        """Refresh the addresses of the cluster's processes if they are old; without a database keep the last."""
        now = time.monotonic()
        if self._nodes is None or now < self._nodes_known_until:
            return
        self._nodes_known_until = now + NODES_SECONDS
        try:
            self._own_ports.replace_nodes(await self._nodes())
        except Exception as error:
            self._nodes_known_until = 0.0
            _log.warning("reading the addresses of nodes failed", error=type(error).__name__)

    async def _session(self, guard: Guard) -> OutgoingSession:
        session = self._sessions.get(guard)
        if session is None:
            tls = await self.tls()
            session = self._sessions.get(guard) or self._new_session(guard, tls)
        return session

    def _new_session(self, guard: Guard, tls: ssl.SSLContext) -> OutgoingSession:
        from pilotis.http.outgoing_session import OutgoingSession

        # With a proxy, only the proxy is connected to, and the operator has configured it.
        connected = guard if self._proxy is None else Guard(self._resolver, None)
        session = self._sessions[guard] = OutgoingSession(connected, tls, self._proxy)
        return session


def _parsed(url: str) -> Target:
    try:
        return parse_target(url)
    except ValueError as error:
        raise OutgoingError(OutgoingFailure.INVALID_URL, str(error)) from None


def _traced(request: OutgoingRequest, span: spans.Span, traceparent: str) -> OutgoingRequest:
    """Return a request that carries its trace; paths and queries may contain secrets, and are not recorded."""
    span.set("http.request.method", request.method)
    with suppress(ValueError):
        span.set("server.address", parse_target(request.url).host)
    if any(name.lower() == "traceparent" for name in request.headers):
        return request
    return msgspec.structs.replace(request, headers={**request.headers, "traceparent": traceparent})


def _networks(texts: Iterable[str]) -> list[Network]:
    return [parse_network(text) for text in texts]


def _prepare(ca_file: str | None) -> ssl.SSLContext:
    """Import aiohttp, and return a TLS context that trusts the system's roots and those of the file."""
    importlib.import_module("pilotis.http.outgoing_session")
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
