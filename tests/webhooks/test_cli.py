"""`pilotis webhook`, `event-type` and `event`, beside a running server."""

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

from tests.commands import run_beside
from tests.receiver import Receiver
from tests.support import App
from tests.waiting import PATIENCE, until
from tests.webhooks.test_delivery import verified
from tests.webhooks.world import Webhook, console, create, events, received


async def command(app: App, *words: str) -> Any:
    """Run a command about the app, while receivers go on, and return the JSON that it prints."""
    done = await run_beside(*words, "--app", app.app_id, "--json", *app.server.place)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def listening_program(app: App, receiver: Receiver) -> subprocess.Popen[str]:
    """Start `pilotis webhook listen` for the receiver."""
    words = ["webhook", "listen", "--app", app.app_id, "--port", str(receiver.port), "--path", "/local"]
    return subprocess.Popen(
        [sys.executable, "-m", "pilotis", *words, *app.server.place],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


async def test_a_webhook_is_managed_by_commands(app: App, receiver: Receiver):
    made = await command(app, "webhook", "create", receiver.url(), "--event", "row.created", "--name", "orders")
    table_id = await app.table({"n": "int"})
    await app.row(table_id, {"n": 1})
    webhook = Webhook(app, made["id"], made["secret"], made)
    (delivery,) = await webhook.ended()
    assert [one["name"] for one in (await command(app, "webhook", "list"))] == ["orders"]
    assert (await command(app, "webhook", "show", made["id"]))["succeeded_24h"] == 1
    assert [one["id"] for one in (await command(app, "webhook", "logs", made["id"]))] == [delivery["id"]]
    assert (await command(app, "webhook", "test", made["id"]))["success"] is True
    assert (await command(app, "webhook", "redeliver", made["id"], delivery["id"]))["status"] == "pending"
    await received(receiver, 3)
    await webhook.ended(2)
    since = ["--since", "2026-01-01T00:00:00", "--all"]
    assert (await command(app, "webhook", "recover", made["id"], *since)) == {"queued": 1}
    rotated = await command(app, "webhook", "rotate-secret", made["id"], "--overlap", "0")
    assert rotated["secret"] != made["secret"]
    await webhook.ended(2)
    assert (await command(app, "webhook", "delete", made["id"])) == {"deleted": made["id"]}
    assert (await command(app, "webhook", "list")) == []


async def test_types_are_declared_and_events_published_by_commands(app: App, receiver: Receiver):
    example = ["--example", '{"total": 1}', "--scope", "orders:read"]
    assert (await command(app, "event-type", "set", "order.created", *example))["new"] is True
    assert [one["scope"] for one in (await command(app, "event-type", "list"))] == ["orders:read"]
    webhook = await create(app, receiver.url(), ["order.*"])
    published = await command(app, "event", "publish", "order.created", "--data", '{"total": 2}', "--key", "one")
    assert published["duplicate"] is False
    await webhook.ended()
    (event,) = events(receiver)
    assert (event["id"], event["data"]) == (published["id"], {"total": 2})
    assert event["actor"]["kind"] == "operator"
    assert (await command(app, "event", "publish", "order.created", "--key", "one"))["duplicate"] is True
    assert (await command(app, "event-type", "delete", "order.created")) == {"deleted": "order.created"}


async def test_listen_forwards_events_until_it_is_interrupted(app: App, receiver: Receiver):
    table_id = await app.table({"n": "int"})
    program = listening_program(app, receiver)
    try:
        program.stdout.readline()
        secret = re.search(r"whsec_\S+", program.stdout.readline())[0]
        await app.row(table_id, {"n": 1})
        await received(receiver)
        (request,) = receiver.received
        assert request.path == "/local"
        assert verified(request, secret)
        async with console(app) as client:
            (listed,) = (await client.get("/webhooks")).json()["data"]
            assert listed["name"] == "pilotis webhook listen"
    finally:
        program.send_signal(signal.SIGINT)
        assert program.wait(PATIENCE) == 0
        program.stdout.close()
    async with console(app) as client:

        async def deleted() -> bool:
            return (await client.get("/webhooks")).json()["total_count"] == 0

        await until(deleted)
