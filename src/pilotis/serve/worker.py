"""One process that answers requests, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import math
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import structlog
import uvicorn
import uvloop
from uvicorn.server import ServerState

from pilotis.certificates.feature import CertificatesFeature
from pilotis.certificates.plain_port import PlainPort
from pilotis.certificates.service import Certificates
from pilotis.hosting.feature import HostingFeature
from pilotis.hosting.ports import as_site
from pilotis.http import exposition, logs
from pilotis.http.server.protocol import HttpProtocol, protocol_for
from pilotis.jobs.node import Identity
from pilotis.serve.database import DatabaseSource
from pilotis.serve.listening import Listening, accepting
from pilotis.serve.metrics import Exposure
from pilotis.serve.stopping import StopRequest
from pilotis.server import Node
from pilotis.settings import Settings

KEEP_ALIVE_SECONDS = 75  # longer than the keep-alive of load balancers, so that they close connections first
_BACKLOG = 2048
_HANDSHAKE_SECONDS = 10.0
_TLS_CLOSE_SECONDS = 5.0
_POSTGRES_PORT = 5432
# How long the event loop waits for a thread that decodes a large body, each time that it has something to do.
_SWITCH_SECONDS = 0.001
# The numbers of `gc.set_threshold`. Caches drop tables and compiled programs that refer to themselves, which are to be
# collected; but no request with a thousand rows, which are ten thousand containers, is to be searched for garbage.
_COLLECT_AFTER = (50_000, 2, 1)
# How often what has become garbage since is collected, however little there is: so it does not grow to 50,000 objects,
# and what lives among it does not spread over all of their memory. What has lived for a minute or two, such as tables
# that others drove out of a cache, is old by then, and is collected each tenth time: CPython itself would wait until a
# quarter of all objects are new.
_COLLECT_SECONDS = 60.0
_ALL_EACH = 10

_log = structlog.get_logger("pilotis.https")


def run(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: Listening,
    base_url: str,
    exposed: Exposure | None,
    member: Identity,
) -> None:
    """Answer requests on the sockets until told to stop."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, source, stop, listening, base_url, exposed, member))
    finally:
        logs.flush()


async def _serve(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: Listening,
    base_url: str,
    exposed: Exposure | None,
    member: Identity,
) -> None:
    node = Node(
        settings, source.connect_arguments, base_url, member, own_ports=_own_ports(settings, source, listening, exposed)
    )
    hosting = node.made.get(HostingFeature).hosting
    if ports := hosting.ports:
        ports.attach(lambda host: _site_protocol(node, host))
    metrics = (
        asyncio.create_task(exposition.serve(node.metrics, *exposed, hosting.domains.is_allowed)) if exposed else None
    )
    try:
        await stop.before(node.start())
        tune()
        _collect(asyncio.get_running_loop())
        server = _Server(configuration(node), stop, node.begin_stop)
        certificates = node.made.get(CertificatesFeature).certificates
        main, plain = (accepting(sockets, settings.workers) for sockets in listening)
        if certificates is not None:
            server.encrypt(certificates, _plain(node, certificates), plain)
        if certificates is not None and settings.https_certificate is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, certificates.reload)
        await server.serve(sockets=[*main, *plain])
    finally:
        if metrics:
            metrics.cancel()
            await asyncio.wait([metrics])
        await node.stop()


def _own_ports(settings: Settings, source: DatabaseSource, listening: Listening, exposed: Exposure | None) -> set[int]:
    """Return the ports of this server and its database, which outgoing requests must not reach on this machine."""
    ports = set(listening.ports)
    if exposed is not None:
        ports.add(exposed.listening.getsockname()[1])
    for url in {source.connect_arguments.get("dsn"), settings.database_url} - {None}:
        ports.add(urlsplit(url).port or _POSTGRES_PORT)
    return ports


def configuration(node: Node) -> uvicorn.Config:
    """Return how uvicorn serves a node."""
    hsts = node.settings.https_hsts_seconds if node.settings.uses_https else 0
    return _config(
        node.hosts,
        protocol_for(node.settings.limits, node.cached_answers, node.direct),
        headers=[("strict-transport-security", f"max-age={hsts}")] if hsts else [],
        backlog=_BACKLOG,
        timeout_graceful_shutdown=math.ceil(node.settings.stop_seconds),
    )


def _config(application: Any, protocol: type[asyncio.Protocol], **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        interface="asgi3",
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # `trusted_proxies` decides whose X-Forwarded-For is believed; uvicorn believes any local process.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        **more,
    )


def _site_protocol(node: Node, host: str) -> Callable[[], asyncio.Protocol]:
    """Return what creates the protocol of a connection to the port of a site."""
    protocol = protocol_for(node.settings.limits)
    config = _config(as_site(node.hosts, host), protocol)
    config.load()
    return partial(protocol, config=config, server_state=ServerState(), app_state={})


def _plain(node: Node, certificates: Certificates) -> Callable[[ServerState], Callable[[], asyncio.Protocol]]:
    """Return what returns, for a server's state, what creates the protocol of a connection to the port without TLS."""
    protocol = protocol_for(node.settings.limits)

    def is_served(host: str) -> bool:
        return certificates.is_served(host) or node.hosts.is_area(host.encode())

    application = PlainPort(node.application, is_served, certificates.answer, node.floor.base_url)
    config = _config(application, protocol)
    config.load()
    return lambda state: partial(protocol, config=config, server_state=state, app_state={})


def tune() -> None:
    """Exclude from garbage collection what is there from the start; let threads interrupt each other sooner."""
    # Not after a collection: the start leaves less than a megabyte of garbage, and a collection writes to every object,
    # so that workers would no longer share their modules' memory.
    gc.freeze()
    # CPython collects the old generation when it has grown by a quarter since the last time: count from nothing.
    gc.collect()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_SECONDS)


def _collect(loop: asyncio.AbstractEventLoop, number: int = 1) -> None:
    """Collect what has become garbage since the last time, again and again.

    That takes a millisecond or two, and each tenth time, with the old, ten to thirty for a hundred thousand objects.
    """
    gc.collect(1 if number % _ALL_EACH else 2)
    loop.call_later(_COLLECT_SECONDS, _collect, loop, number + 1)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers, with which a second Ctrl-C drops requests in flight."""

    def __init__(self, config: uvicorn.Config, stop: StopRequest, begin_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._begin_stop = begin_stop
        self._certificates: Certificates | None = None
        self._plain: Callable[[ServerState], Callable[[], asyncio.Protocol]] | None = None
        self._plain_sockets: Sequence[socket.socket] = ()

    def encrypt(
        self,
        certificates: Certificates,
        plain: Callable[[ServerState], Callable[[], asyncio.Protocol]],
        plain_sockets: Sequence[socket.socket],
    ) -> None:
        """Answer by TLS, except on the sockets of the port without it."""
        self._certificates, self._plain, self._plain_sockets = certificates, plain, plain_sockets

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets: uvicorn has one way of serving for all of them, and no limits for handshakes."""
        if self._certificates is None or self._plain is None:
            await super().startup(sockets)
            return
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        made = self.config.http_protocol_class
        main = partial(made, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)  # type: ignore[call-arg]
        # Without the headers of answers by TLS (RFC 6797, section 7.2), but ended at a stop like the others.
        beside = ServerState()
        beside.connections, beside.tasks = self.server_state.connections, self.server_state.tasks
        self.servers = []
        for listening in sockets or ():
            if listening in self._plain_sockets:
                server = await loop.create_server(self._plain(beside), sock=listening, backlog=_BACKLOG)
            else:
                server = await loop.create_server(
                    main,
                    sock=listening,
                    backlog=_BACKLOG,
                    ssl=self._certificates.context,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_TLS_CLOSE_SECONDS,
                )
            self.servers.append(server)
        self.started = True
        _log.info("serving by HTTPS", ports=sorted({one.getsockname()[1] for one in sockets or ()}))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop as uvicorn does, and cancel after the same time what is answered without a task of uvicorn."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpProtocol):
                connection.cancel_direct_answer()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop gracefully when told to."""
        loop = asyncio.get_running_loop()
        self._stop.then(lambda: loop.call_soon_threadsafe(self._end))
        yield

    def _end(self) -> None:
        self._begin_stop()
        self.should_exit = True
