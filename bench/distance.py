"""How often a request waits for the database, one wait after another: `python -m bench.distance`.

A proxy in front of PostgreSQL holds each answer for `--ms` (20 by default), as one some distance away does. The time
for which it holds at least one answer, divided by that, is the number of waits of a request: two answers held at
the same time are one. The least of several tries counts. Other work on the machine hardly changes it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx
import uvicorn
import uvloop

from bench.servers import Pilotis
from pilotis.http import logs
from pilotis.serve import worker
from pilotis.server import Node
from pilotis.settings import Settings

_PASSWORD = "correct horse battery"
_TABLE = {"text": {"type": "string"}, "stars": {"type": "int"}}
_FUNCTION = """
export default async ({ table }, ctx) => table && (await ctx.api.rows(table).list({ limit: 1 })).total_count
"""
_FAR_QUEUE = "workflows"
_NEAR_QUEUES = "bytes,builds,calls,columns,deliveries,light,long"
"""The background work of the server that is far from the database, and that of the one beside it."""
_numbers = itertools.count(1)

Ask = Callable[[httpx.AsyncClient], Awaitable[list[httpx.Response]]]


class Distance:
    """A proxy in front of PostgreSQL's socket that holds each piece of an answer for `seconds`, in order."""

    def __init__(self, address: dict[str, Any]) -> None:
        self.seconds = 0.0
        self.held_seconds = 0.0
        self._held_until = 0.0
        self._socket = f"{address['host']}/.s.PGSQL.{address['port']}"

    async def serve(self) -> int:
        """Listen and return the port."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._socket)
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        ways = [self._pass(reader, far_writer), self._hold(far_reader, held), self._release(held, writer)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for one in (writer, far_writer):
            one.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)

    async def _hold(self, reader: asyncio.StreamReader, held: asyncio.Queue[tuple[float, bytes]]) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                due = time.monotonic() + self.seconds
                self.held_seconds += min(self.seconds, max(0.0, due - self._held_until))
                self._held_until = due
                held.put_nowait((due, data))

    async def _release(self, held: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            due, data = await held.get()
            await asyncio.sleep(due - time.monotonic())
            writer.write(data)


@contextmanager
def far_server(pilotis: Pilotis) -> Iterator[tuple[str, Distance]]:
    """Serve from a thread, by way of a proxy; yield the URL and the proxy."""
    distance = Distance(pilotis.connect_arguments())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = Settings(data_dir=str(pilotis.data_dir), background=[_FAR_QUEUE])
        ready = threading.Event()
        servers: list[uvicorn.Server] = []

        async def serve() -> None:
            arguments = pilotis.connect_arguments() | {
                "host": "127.0.0.1",
                "port": await distance.serve(),
                "ssl": False,
            }
            node = Node(settings, arguments, url)
            try:
                await node.start()
                servers.append(uvicorn.Server(worker.configuration(node)))
                ready.set()
                await servers[0].serve(sockets=[listening])
            finally:
                distance.seconds = 0.0
                await node.stop()

        def run() -> None:
            logs.configure(settings.log_format, "error")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())

        thread = threading.Thread(target=run)
        thread.start()
        if not ready.wait(60):
            raise RuntimeError("The server behind the proxy did not start.")
        try:
            yield url, distance
        finally:
            servers[0].should_exit = True
            thread.join()


class World(NamedTuple):
    """An app with tables, a member and rows, as the requests need them."""

    app_id: str
    console: dict[str, str]
    member: dict[str, str]
    public: str
    own: str
    row: str
    own_row: str
    function: str
    workflow: str
    making: dict[str, str]
    """The public key of an app that makes a row with each member."""
    database: dict[str, Any]
    """How to connect to the database without waiting."""


async def prepare(pilotis: Pilotis) -> World:
    """Make the app and what is in it."""
    app_id, console = pilotis.owned_app()
    key = {"X-Public-Key": console["X-Public-Key"]}
    async with httpx.AsyncClient(base_url=pilotis.url, headers=key, timeout=60) as client:
        credentials = {"login_id": "ada", "password": _PASSWORD}
        signed_up = await client.post("/v1/public/app-members/signup", json=credentials)
        member = key | {"Authorization": f"Bearer {signed_up.raise_for_status().json()['access_token']}"}
        paths = []
        for title, level in (("public", "Public"), ("own", "Creator")):
            body = {"title": title, "schema": _TABLE, "access_level": level}
            made = (await client.post("/v1/public/tables", json=body)).raise_for_status()
            paths.append(f"/v1/public/tables/{made.json()['id']}/data")
        rows = [
            (await client.post(path, json=_row(), headers=member)).raise_for_status().json()["id"] for path in paths
        ]
        function = await _function(client, app_id, console)
        workflow = await _workflow(client, app_id, console)
    public, own = paths
    making = await _making(pilotis, console)
    database = pilotis.connect_arguments()
    row, own_row = f"{public}/{rows[0]}", f"{own}/{rows[1]}"
    return World(app_id, console, member, public, own, row, own_row, function, workflow, making, database)


async def _making(pilotis: Pilotis, console: dict[str, str]) -> dict[str, str]:
    """Make an app in which each member gets a profile, and return its public key as a header."""
    bearer = {"Authorization": console["Authorization"]}
    async with httpx.AsyncClient(base_url=pilotis.url, headers=bearer, timeout=60) as client:
        app = (await client.post("/v1/apps", json={"name": "profiles"})).raise_for_status().json()
        key = {"X-Public-Key": app["public_key"]}
        client.headers.update(key)
        schema = {"member": "string", "name": {"type": "string", "unique": True}}
        table = {"title": "profiles", "schema": schema, "access_level": "Creator"}
        (await client.post("/v1/public/tables", json=table)).raise_for_status()
        data = {"member": {"$member": "id"}, "name": {"$member": "login_id"}}
        settings = {"on_sign_up": [{"table": "profiles", "data": data}]}
        (await client.patch(f"/v1/apps/{app['app_id']}/account-settings", json=settings)).raise_for_status()
    return key


async def _function(client: httpx.AsyncClient, app_id: str, console: dict[str, str]) -> str:
    """Make a function that asks for a list of a table's rows, if told which; return the path of its calls."""
    path = f"/v1/apps/{app_id}/functions"
    body = {"name": "asks", "runtime": "javascript", "scopes": ["rows:read"]}
    made = (await client.post(path, json=body, headers=console)).raise_for_status().json()["id"]
    files = {"files": {"index.js": _FUNCTION}}
    (await client.post(f"{path}/{made}/versions", json=files, headers=console)).raise_for_status()
    return f"{path}/{made}/invoke"


async def _workflow(client: httpx.AsyncClient, app_id: str, console: dict[str, str]) -> str:
    """Make a workflow of one step, a function that asks for nothing; return the path of its executions."""
    path = f"/v1/apps/{app_id}/workflows"
    body = {"name": "one step", "steps": [{"step_type": "function", "id": "ask", "function_id": "asks"}]}
    made = (await client.post(path, json=body, headers=console)).raise_for_status()
    return f"{path}/{made.json()['id']}/execute"


def requests(world: World) -> dict[str, Ask]:
    """Return what to measure, by name."""
    key = {"X-Public-Key": world.console["X-Public-Key"]}
    apps = f"/v1/apps/{world.app_id}"

    def one(method: str, path: str, headers: dict[str, str] = key, body: Callable[[], Any] | None = None) -> Ask:
        async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
            return [await client.request(method, path, headers=headers, json=body() if body else None)]

        return ask

    async def overview(client: httpx.AsyncClient) -> list[httpx.Response]:
        paths = ("/stats?days=30", "/keys/public?limit=1", "/usage?days=30")
        return list(await asyncio.gather(*(client.get(f"{apps}{path}", headers=world.console) for path in paths)))

    table = world.public.removesuffix("/data")
    table_id = table.rpartition("/")[2]

    async def workflow(client: httpx.AsyncClient) -> list[httpx.Response]:
        answer = await client.post(world.workflow, headers=world.console, json={"input": {}})
        if not answer.is_error:
            await _ended(world.database, UUID(answer.json()["execution_id"]))
        return [answer]

    members = "/v1/public/app-members"
    operations = [{"type": "create", "table_id": table_id, **_row()} for _ in range(3)]
    return {
        "row": one("GET", world.row),
        "list": one("GET", world.public),
        "query": one("POST", f"{world.public}/query", body=lambda: {"where": {"stars": 5}}),
        "create": one("POST", world.public, body=_row),
        "update": one("PATCH", world.row, body=_row),
        "bulk of 100": one("POST", f"{world.public}/bulk", body=lambda: {"data": [_row()["data"] for _ in range(100)]}),
        "transaction of three": one("POST", "/v1/public/transactions", body=lambda: {"operations": operations}),
        "row as a member": one("GET", world.row, world.member),
        "own row": one("GET", world.own_row, world.member),
        "own rows": one("GET", world.own, world.member),
        "create as a member": one("POST", world.own, world.member, _row),
        "me": one("GET", f"{members}/me", world.member),
        "sign-up": one("POST", f"{members}/signup", body=_newcomer),
        "sign-up with a row": one("POST", f"{members}/signup", world.making, _newcomer),
        "sign-in": one("POST", f"{members}/signin", body=lambda: {"login_id": "ada", "password": _PASSWORD}),
        "guest": one("POST", members),
        "function that lists rows": one(
            "POST", world.function, world.console, lambda: {"payload": {"table": table_id}}
        ),
        "overview of the console": overview,
        "workflow of one step, to its end": workflow,
    }


def _row() -> dict[str, Any]:
    return {"data": {"text": f"text {next(_numbers)}", "stars": 5}}


async def _ended(database: dict[str, Any], execution_id: UUID) -> None:
    """Wait for the end of an execution."""
    connection = await asyncpg.connect(**database)
    try:
        while True:
            status = await connection.fetchval(
                "select status from pilotis.workflow_executions where execution_id = $1 and finished_at is not null",
                execution_id,
            )
            if status == "completed":
                return
            if status:
                raise RuntimeError(f"The execution {execution_id} ended as {status}.")
            await asyncio.sleep(0.002)
    finally:
        await connection.close()


def _newcomer() -> dict[str, str]:
    return {"login_id": f"member {next(_numbers)}", "password": _PASSWORD}


async def measure(url: str, distance: Distance, asked: dict[str, Ask], seconds: float, tries: int) -> dict[str, float]:
    """Return the number of waits of each request."""
    found = {}
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for name, ask in asked.items():
            distance.seconds = 0.0
            for _ in range(10):  # to fill caches, open connections, and prepare the statements on each
                await _held(client, distance, name, ask)
            distance.seconds = seconds
            found[name] = min([await _held(client, distance, name, ask) for _ in range(tries)]) / seconds
    return found


async def _held(client: httpx.AsyncClient, distance: Distance, name: str, ask: Ask) -> float:
    """Send a request, and return for how many seconds answers of the database were held until it was answered."""
    # What still comes of the request before is no part of this one.
    await asyncio.sleep(2 * distance.seconds)
    distance.held_seconds = 0.0
    for answer in await ask(client):
        if answer.is_error:
            raise RuntimeError(f"{name}: {answer.status_code} {answer.text}")
    return distance.held_seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.distance", description=__doc__)
    parser.add_argument("--ms", type=float, default=20.0)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--only", help="requests whose name has this text")
    options = parser.parse_args()
    os.environ["PILOTIS_BACKGROUND"] = _NEAR_QUEUES
    with tempfile.TemporaryDirectory() as directory, Pilotis(Path(directory)) as pilotis:
        world = asyncio.run(prepare(pilotis))
        asked = {name: ask for name, ask in requests(world).items() if (options.only or "") in name}
        with far_server(pilotis) as (url, distance):
            found = asyncio.run(measure(url, distance, asked, options.ms / 1000, options.tries))
    print(f"waits for a database that is {options.ms:g} ms away, one after another")
    for name, waits in found.items():
        print(f"{name:34}{waits:6.1f}")


if __name__ == "__main__":
    main()
