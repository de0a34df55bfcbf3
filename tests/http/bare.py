"""An application with a few endpoints and nothing behind it, under the real server."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from uuid import UUID

import uvicorn

from pilotis.http.api.application import Application, Finished
from pilotis.http.api.cors import Cors
from pilotis.http.api.endpoint import Endpoints
from pilotis.http.server.protocol import HttpProtocol
from pilotis.kit.errors import Standing


class Unlimited:
    async def count(self, *_: Any, **__: Any) -> Standing:
        return Standing(1, 1, 1)


class NobodyKnown:
    """Accepts no credentials; the routes here are open."""

    async def public_key(self, key: str, origin: str | None) -> Any: ...
    def known_public_key(self, key: str, origin: str | None) -> Any: ...
    async def bearer(self, app: Any, token: str) -> Any: ...
    async def secret_key(self, app: Any, key: str) -> Any: ...
    async def member(self, token: str) -> Any: ...
    async def console_user(self, token: str) -> Any: ...
    async def oauth_client(self, call: Any) -> Any: ...
    async def function(self, token: str) -> Any: ...
    async def secret_key_on(self, key: str, app_id: UUID, role: Any) -> Any: ...
    async def user_on_app(self, token: Any, app_id: UUID, role: Any) -> Any: ...


def application(
    endpoints: Endpoints, finished: Finished = lambda *_: None, authenticator: Any = None, **options: Any
) -> Application:
    return Application(
        endpoints.table(),
        authenticator=authenticator or NobodyKnown(),
        limiter=Unlimited(),
        cors=Cors("http://console.example"),
        finished=finished,
        **options,
    )


@asynccontextmanager
async def serving(
    application: Callable[..., Any],
    http: type[HttpProtocol] = HttpProtocol,
    keep_alive_seconds: int = 75,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve an application on a free port of the loopback, by TLS with a context; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, http=http, lifespan="off", ws="none", log_config=None, timeout_keep_alive=keep_alive_seconds
    )
    config.load()
    config.ssl = context
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task
