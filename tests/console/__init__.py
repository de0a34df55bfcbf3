"""Console users of a running server, and what a test needs to look behind it."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx

from pilotis.limits import Limits
from pilotis.settings import Settings
from tests import databases
from tests.conftest import PASSWORD
from tests.services import Node
from tests.support import App, Server
from tests.waiting import PATIENCE

_numbers = itertools.count(1)


class ConsoleClient(httpx.AsyncClient):
    """A client whose paths begin with a prefix; unlike a base URL it adds no slash to it."""

    prefix = ""

    def build_request(self, method: str, url: str, **options: Any) -> httpx.Request:
        return super().build_request(method, self.prefix + url, **options)


@dataclass
class ConsoleUser:
    """A signed-in console user."""

    server: Server
    user_id: str
    email: str
    access_token: str

    def client(self, app: App | None = None) -> ConsoleClient:
        """A client of the console routes, of one app's where one is given."""
        client = ConsoleClient(headers={"Authorization": f"Bearer {self.access_token}"}, timeout=PATIENCE, verify=False)
        client.prefix = f"{self.server.url}/v1" + (f"/apps/{app.app_id}" if app else "")
        return client


def owner_of(app: App) -> ConsoleUser:
    """The console user who made the app."""
    return ConsoleUser(app.server, app.console["user_id"], app.console["email"], app.console["access_token"])


async def invite(app: App, role: str, email: str | None = None) -> dict[str, Any]:
    """Invite a user to an app and return the answer."""
    body = {"email": email or f"user{next(_numbers)}@example.com", "role": role}
    async with owner_of(app).client(app) as console:
        answer = await console.post("/invitations", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def set_limits(app: App, **limits: int | None) -> None:
    """Set an app's own limits, or remove them with None; they take effect immediately."""
    async with owner_of(app).client(app) as console:
        answer = await console.patch("/limits", json=limits)
    assert answer.status_code == 200, answer.text


async def set_auth(app: App, **settings: Any) -> None:
    """Set an app's sign-in methods; others are as in a new app. They take effect immediately."""
    new = {"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []}
    async with owner_of(app).client(app) as console:
        answer = await console.put("/auth-settings", json=new | settings)
    assert answer.status_code == 200, answer.text


async def sign_up(server: Server, email: str, token: str) -> httpx.Response:
    """Sign a console user up."""
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, verify=False) as client:
        return await client.post("/v1/auth/signup", json={"email": email, "password": PASSWORD, "token": token})


async def user_with(app: App, role: str) -> ConsoleUser:
    """A new console user with a role on the app."""
    invitation = await invite(app, role)
    answer = await sign_up(app.server, invitation["email"], invitation["token"])
    assert answer.status_code == 201, answer.text
    user = answer.json()
    return ConsoleUser(app.server, user["user_id"], user["email"], user["access_token"])


@asynccontextmanager
async def database_of(server: Server) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the server's database, for what only time would bring about."""
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def second_node(
    server: Server,
    *,
    listening: bool = True,
    statement_seconds: float = PATIENCE,
    limits: Limits | None = None,
    dns_servers: Sequence[str] = (),
    **given: Any,
) -> AsyncIterator[Node]:
    """Another node on the server's database, in this process; one that does not listen knows of no change."""
    address = databases.address(server.data_dir)
    settings = Settings(
        data_dir=str(server.data_dir),
        statement_seconds=statement_seconds,
        limits=limits or Limits(),
        dns_servers=list(dns_servers),
        **given,
    )
    node = Node(settings, address, server.url)
    if listening:
        await node.start()
    try:
        yield node
    finally:
        await node.stop()


def client_of(node: Node, **headers: str) -> httpx.AsyncClient:
    """A client of a node in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(node.application), base_url="http://node", headers=headers)


async def the_log(app: App, **filters: str) -> list[dict[str, Any]]:
    """The newest entries of an app's audit log."""
    async with owner_of(app).client(app) as console:
        answer = await console.get("/audit-log", params={"limit": "1000", **filters})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]
