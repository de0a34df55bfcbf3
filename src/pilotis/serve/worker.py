"""One process that answers requests, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import uvicorn
import uvloop
from uvicorn.server import ServerState

from pilotis.hosting.feature import HostingFeature
from pilotis.hosting.ports import as_site
from pilotis.http import exposition, logs
from pilotis.http.server.protocol import protocol_for
from pilotis.jobs.node import Identity
from pilotis.serve.database import DatabaseSource
from pilotis.serve.metrics import Exposure
from pilotis.serve.stopping import StopRequest
from pilotis.server import Node
from pilotis.settings import Settings

KEEP_ALIVE_SECONDS = 75  # longer than the keep-alive of load balancers, so that they close connections first
_BACKLOG = 2048
_POSTGRES_PORT = 5432
# How long the event loop waits for a thread that decodes a large body, each time that it has something to do.
_SWITCH_SECONDS = 0.001
_COLLECT_AFTER = (50_000, 20, 100)


def run(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: socket.socket,
    base_url: str,
    exposed: Exposure | None,
    member: Identity,
) -> None:
    """Answer requests on the socket until told to stop."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, source, stop, listening, base_url, exposed, member))
    finally:
        logs.flush()


async def _serve(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: socket.socket,
    base_url: str,
    exposed: Exposure | None,
    member: Identity,
) -> None:
    node = Node(
        settings, source.connect_arguments, base_url, member, own_ports=_own_ports(settings, source, listening, exposed)
    )
    if ports := node.made.get(HostingFeature).hosting.ports:
        ports.attach(lambda host: _site_protocol(node, host))
    metrics = asyncio.create_task(exposition.serve(node.metrics, *exposed)) if exposed else None
    try:
        await stop.before(node.start())
        tune()
        server = _Server(configuration(node), stop, node.begin_stop)
        await server.serve(sockets=[listening])
    finally:
        if metrics:
            metrics.cancel()
            await asyncio.wait([metrics])
        await node.stop()


def _own_ports(
    settings: Settings, source: DatabaseSource, listening: socket.socket, exposed: Exposure | None
) -> set[int]:
    """Return the ports of this server and its database, which outgoing requests must not reach on this machine."""
    ports = {listening.getsockname()[1]}
    if exposed is not None:
        ports.add(exposed.listening.getsockname()[1])
    for url in {source.connect_arguments.get("dsn"), settings.database_url} - {None}:
        ports.add(urlsplit(url).port or _POSTGRES_PORT)
    return ports


def configuration(node: Node) -> uvicorn.Config:
    """Return how uvicorn serves a node."""
    return uvicorn.Config(
        node.hosts,
        interface="asgi3",
        http=protocol_for(node.settings.limits, node.cached_answers, node.direct),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # `trusted_proxies` decides whose X-Forwarded-For is believed; uvicorn believes any local process.
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(node.settings.stop_seconds),
    )


def _site_protocol(node: Node, host: str) -> Callable[[], asyncio.Protocol]:
    """Return what creates the protocol of a connection to the port of a site."""
    protocol = protocol_for(node.settings.limits)
    config = uvicorn.Config(
        as_site(node.hosts, host),
        interface="asgi3",
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    return partial(protocol, config=config, server_state=ServerState(), app_state={})


def tune() -> None:
    """Run the garbage collector rarely and exclude long-lived objects; let threads interrupt each other sooner."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_SECONDS)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers, with which a second Ctrl-C drops requests in flight."""

    def __init__(self, config: uvicorn.Config, stop: StopRequest, begin_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._begin_stop = begin_stop

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop gracefully when told to."""
        loop = asyncio.get_running_loop()
        self._stop.then(lambda: loop.call_soon_threadsafe(self._end))
        yield

    def _end(self) -> None:
        self._begin_stop()
        self.should_exit = True
