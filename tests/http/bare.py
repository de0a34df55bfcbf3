"""An application with a few endpoints and nothing behind it, under the real server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from uuid import UUID

import uvicorn

from pilotis.http.application import Application, Finished
from pilotis.http.call import Call
from pilotis.http.cors import Cors
from pilotis.http.endpoint import Endpoint, Endpoints
from pilotis.http.gate import Gate
from pilotis.http.protocol import HttpProtocol


class Unlimited:
    async def check(self, call: Call, endpoint: Endpoint) -> None: ...


class NobodyKnown:
    """Finds nobody; the routes here are open."""

    async def public_key(self, key: str, origin: str | None) -> Any: ...
    async def bearer(self, app: Any, token: str) -> Any: ...
    async def secret_key(self, app: Any, key: str) -> Any: ...
    async def member(self, token: str) -> Any: ...
    async def console_user(self, token: str) -> Any: ...
    async def on_app(self, principal: Any, app_id: UUID, role: Any) -> Any: ...


def application(endpoints: Endpoints, finished: Finished = lambda *_: None) -> Application:
    return Application(
        endpoints.table(),
        gate=Gate(NobodyKnown()),
        limiter=Unlimited(),
        cors=Cors("http://console.example"),
        finished=finished,
    )


@asynccontextmanager
async def serving(
    application: Callable[..., Any], http: type[HttpProtocol] = HttpProtocol, keep_alive_seconds: int = 75
) -> AsyncIterator[str]:
    """Serve an application on a free port of the loopback; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            application, http=http, lifespan="off", ws="none", log_config=None, timeout_keep_alive=keep_alive_seconds
        )
    )
    server.capture_signals = nullcontext  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task
