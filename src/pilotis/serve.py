"""`pilotis serve`: the database, then the node, then HTTP."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import uvicorn

from pilotis.db.embedded import EmbeddedPostgres
from pilotis.db.migrations import migrate
from pilotis.http import logs
from pilotis.server import Node
from pilotis.settings import Settings


def run(settings: Settings) -> None:
    """Serve until a signal ends it."""
    logs.configure(settings.log_format, settings.log_level)
    data_dir = Path(settings.data_dir)
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if settings.database_url:
        asyncio.run(_serve(settings, {"dsn": settings.database_url}))
        return
    binaries = Path(settings.postgres_binaries) if settings.postgres_binaries else None
    postgres = EmbeddedPostgres(data_dir / "postgres", binaries=binaries)
    address = postgres.start()
    try:
        asyncio.run(_serve(settings, address._asdict()))
    finally:
        postgres.stop()


async def _serve(settings: Settings, connect_arguments: dict[str, Any]) -> None:
    listening = socket.create_server((settings.host, settings.port), backlog=2048)
    # Accepted connections inherit it. Without it an answer's second packet waits 40 ms for the client to acknowledge
    # the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    base_url = settings.base_url or f"http://{settings.host}:{listening.getsockname()[1]}"
    node = Node(settings, connect_arguments, base_url)
    connection = await node.database.open_connection(statement_seconds=0)
    await migrate(connection)
    await connection.close()
    await node.start()
    await _welcome(node, base_url)
    config = uvicorn.Config(
        node.application, lifespan="off", access_log=False, log_level="warning", proxy_headers=False
    )
    server = uvicorn.Server(config)
    try:
        await server.serve(sockets=[listening])
    finally:
        await node.stop()


async def _welcome(node: Node, base_url: str) -> None:
    lines = [f"Pilotis is at {base_url}"]
    if not await node.database.fetchval("select exists (select from pilotis.apps)"):
        app = await node.services.apps.create("first app", None)
        lines += [f"app_id      {app.app_id}", f"public key  {app.public_key}"]
    if token := await node.services.users.new_setup_token():
        lines.append(f"Create the first console user: {base_url}/setup#{token}")
    lines.append("Ctrl-C stops it.")
    print("\n".join(lines), flush=True)  # noqa: T201 - this is what the command is to print
