"""Serves `/metrics` on its own port, for one process or for all workers of a server; and what a proxy asks there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import uvicorn

from pilotis.http.metrics import Metrics, Snapshot
from pilotis.kit.errors import QueryTimeoutError, UnavailableError

_PUBLISH_SECONDS = 1.0
_MAX_CONNECTIONS = 16


Allowed = Callable[[str], Awaitable[bool]]
"""Says whether a proxy may get a certificate for a name."""


async def no_name(_name: str) -> bool:
    """Allow no name."""
    return False


async def serve(
    metrics: Metrics, listening: socket.socket, directory: Path | None = None, allowed: Allowed = no_name
) -> None:
    """Serve `/metrics` and `/tls/allowed` on a listening socket until cancelled.

    Several workers share the socket and a directory, which is empty at the start, and each of them answers for all.
    """
    if directory is None:
        await _serve(metrics, lambda: [metrics.snapshot()], listening, allowed)
        return
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_publish(metrics, directory))
        tasks.create_task(_serve(metrics, lambda: list(_published(directory)), listening, allowed))


async def _publish(metrics: Metrics, directory: Path) -> None:
    path = directory / f"{os.getpid()}.metrics"
    last = b""
    while True:
        data = msgspec.msgpack.encode(metrics.snapshot())
        if data != last:
            # On a full disk the numbers stay as they were; the end of this task would be that of `/metrics`.
            with contextlib.suppress(OSError):
                _write(path, data)
                last = data
        await asyncio.sleep(_PUBLISH_SECONDS)


async def _serve(
    metrics: Metrics, snapshots: Callable[[], Sequence[Snapshot]], listening: socket.socket, allowed: Allowed
) -> None:
    config = uvicorn.Config(
        _answering(metrics, snapshots, allowed),
        interface="asgi3",
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config)
    try:
        await server.serve([listening])
    except asyncio.CancelledError:
        await server.shutdown([listening])
        raise


def _answering(metrics: Metrics, snapshots: Callable[[], Sequence[Snapshot]], allowed: Allowed) -> Callable[..., Any]:
    application: Callable[..., Any] | None = None

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        nonlocal application
        # Prometheus' application answers every other path, and a proxy takes 200 for a yes.
        if scope["path"].startswith("/tls/"):
            query = scope["query_string"] if scope["path"] == "/tls/allowed" else b""
            await _answer_proxy(query, allowed, send)
            return
        if application is None:
            # Prometheus' client takes a while to import, and a start need not wait for it.
            from pilotis.http import metric_families

            application = metric_families.application(metrics.declared, snapshots)
        await application(scope, receive, send)

    return answer


async def _answer_proxy(query: bytes, allowed: Allowed, send: Any) -> None:
    """Answer 200 if a proxy may get a certificate for `name`, else 404; Caddy calls it `domain`.

    The answer is 503 if the database does not say.
    """
    given = parse_qs(query.decode("latin-1"))
    names = given.get("name", []) + given.get("domain", [])
    try:
        status, body = (200, b"yes\n") if len(names) == 1 and await allowed(names[0]) else (404, b"no\n")
    except (UnavailableError, QueryTimeoutError):
        status, body = 503, b"not known now\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """A server next to the main one, to which it leaves signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _published(directory: Path) -> Iterator[Snapshot]:
    for path in directory.glob("*.metrics"):
        yield msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)


def _write(path: Path, data: bytes) -> None:
    """Replace the file atomically, so that a reader never sees a partial one."""
    new = path.with_suffix(".new")
    new.write_bytes(data)
    new.replace(path)
