"""One process that answers requests, until a signal or the end of its database ends it."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
import uvloop

from pilotis.http import logs
from pilotis.http.protocol import HttpProtocol
from pilotis.serve.database import DatabaseSource
from pilotis.serve.errors import CommandError
from pilotis.serve.metrics import Exposure
from pilotis.serve.stopping import StopRequest
from pilotis.server import Node
from pilotis.settings import Settings

DRAIN_SECONDS = 10
KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep theirs, so that they close first
_BACKLOG = 2048
_COLLECT_AFTER = (50_000, 20, 100)


def run(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: socket.socket,
    base_url: str,
    exposed: Exposure | None,
) -> None:
    """Answer requests on the socket until told to stop; raises `CommandError` if PostgreSQL ends."""
    logs.configure(settings.log_format, settings.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, source, stop, listening, base_url, exposed))


async def _serve(
    settings: Settings,
    source: DatabaseSource,
    stop: StopRequest,
    listening: socket.socket,
    base_url: str,
    exposed: Exposure | None,
) -> None:
    node = Node(settings, source.connect_arguments, base_url)
    metrics = asyncio.create_task(node.metrics.serve(*exposed)) if exposed else None
    try:
        await stop.before(node.start())
        _tune_collector()
        server = _Server(_config(node), source, stop)
        await server.serve(sockets=[listening])
    finally:
        if metrics:
            metrics.cancel()
            await asyncio.wait([metrics])
        await node.stop()
    if failure := source.failure():
        raise CommandError(failure)


def _config(node: Node) -> uvicorn.Config:
    return uvicorn.Config(
        node.application,
        interface="asgi3",
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose X-Forwarded-For is believed is for `trusted_proxies` to say; uvicorn believes any local process.
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def _tune_collector() -> None:
    """Keep the collector away from what lives as long as the process, and from most requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers, whose second Ctrl-C drops requests in flight."""

    def __init__(self, config: uvicorn.Config, source: DatabaseSource, stop: StopRequest) -> None:
        super().__init__(config)
        self._source = source
        self._stop = stop

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End with grace when told to stop, or when PostgreSQL has ended."""
        self._stop.then(self._end)
        if self._source.postgres:
            signal.signal(signal.SIGCHLD, self._child_ended)
            self._child_ended()
        yield

    def _end(self) -> None:
        self.should_exit = True

    def _child_ended(self, *_: object) -> None:
        if self._source.failure():
            self._end()
