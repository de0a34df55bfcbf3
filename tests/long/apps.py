"""Twenty thousand apps on one server, of which hardly any is used: `python -m tests.long apps`.

What a server does at its start, from time to time, or when somebody asks how it is, must not take longer the more apps
there are: it looks at those that are used.
"""

import asyncio
import os
import time
from pathlib import Path

from tests import commands
from tests.background import run_task
from tests.conftest import first_console_user
from tests.database import second_node
from tests.support import App, Server, plain_client

APPS = int(os.environ.get("TEST_APPS", "20000"))
_CLIENTS = 8
_START_SECONDS = 3.0
_TASK_SECONDS = 1.5
_COMMAND_SECONDS = 15.0
"""The doctor looks at the schema of each app's tables at once, by a few statements."""


async def make_apps(server: Server, token: str) -> None:
    """Make the apps, of which one in ten has a table with a row."""
    numbers = iter(range(APPS))

    async def work() -> None:
        async with plain_client(server.url, Authorization=f"Bearer {token}") as client:
            for number in numbers:
                answer = await client.post("/v1/apps", json={"name": f"app {number}"})
                assert answer.status_code == 201, answer.text
                if number % 10 == 0:
                    body = answer.json()
                    app = App(server, body["app_id"], body["public_key"], body["secret_key"], {})
                    await app.row(await app.table({"text": "string"}), {"text": "x"})

    await asyncio.gather(*(work() for _ in range(_CLIENTS)))


async def test_what_a_server_does_takes_no_longer_with_many_apps(tmp_path: Path):
    server = Server(tmp_path / "data").start()
    told: dict[str, float] = {}
    try:
        token = first_console_user(server)["access_token"]
        await make_apps(server, token)
        server.stop()
        began = time.monotonic()
        server.start()
        told["start"] = time.monotonic() - began
        async with second_node(server) as node:
            for task in node.services.periodic():
                began = time.monotonic()
                await run_task(node, task.name)
                told[task.name] = time.monotonic() - began
        async with plain_client(server.url, Authorization=f"Bearer {token}") as client:
            for path in ("/v1/apps?limit=20", "/readyz"):
                began = time.monotonic()
                assert (await client.get(path)).status_code == 200
                told[path] = time.monotonic() - began
        began = time.monotonic()
        assert (await commands.run_beside("doctor", *server.place)).returncode == 0
        told["doctor"] = time.monotonic() - began
    finally:
        server.stop()
    for name, seconds in sorted(told.items(), key=lambda one: -one[1]):
        print(f"{name:32}{seconds:8.2f} s")
    limits = {"start": _START_SECONDS, "doctor": _COMMAND_SECONDS}
    assert not {name: taken for name, taken in told.items() if taken > limits.get(name, _TASK_SECONDS)}
