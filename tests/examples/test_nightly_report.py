"""`examples/workflows/nightly-report`: a schedule, an aggregation, a file and a webhook, deployed and run for real."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_files import storage
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.examples.examples import WORKFLOWS, deployed
from tests.functions.support import Functions
from tests.receiver import OK, Received, Receiver
from tests.support import Server
from tests.waiting import until
from tests.workflows.support import Workflows, statuses
from tests.workflows.test_cli import Command, signed_in

EXAMPLE = WORKFLOWS / "nightly-report"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, sandboxes: None) -> Iterator[Server]:
    """A server whose functions may reach loopback."""
    environment = {"PILOTIS_EGRESS_NETWORKS": "127.0.0.0/8"}
    running = Server(tmp_path_factory.mktemp("shop") / "data", environment=environment).start()
    yield running
    running.stop()


@pytest.fixture
async def world(shop: Server) -> AsyncIterator[tuple[Functions, Workflows]]:
    app = new_app(shop, first_console_user(shop))
    functions, workflows = Functions(app), Workflows(app)
    yield functions, workflows
    await functions.console.aclose()
    await workflows.console.aclose()


async def test_a_day_is_reported_once(world: tuple[Functions, Workflows], tmp_path: Path):
    functions, workflows = world
    app = functions.app
    columns = {"item": "string", "price": "number", "quantity": "int", "sold": "string"}
    orders = await app.table(columns, title="orders")
    for item, price, quantity, sold in [
        ("tea", 4.5, 2, "2026-02-10"),
        ("tea", 4.5, 1, "2026-02-10"),
        ('"Sacher" cake', 6, 3, "2026-02-10"),
        ("water", 1, 10, "2026-02-11"),
    ]:
        await app.row(orders, {"item": item, "price": price, "quantity": quantity, "sold": sold})
    reports = (await storage(app)).rpartition("/")[2]
    bodies: list[dict[str, Any]] = []

    async def books(received: Received, writer: Any) -> None:
        # It is down at first, and closes the connection, as it is asked to.
        writer.write(BUSY if not bodies else OK)
        bodies.append({**json.loads(received.body), "key": received.headers["idempotency-key"]})
        await writer.drain()
        writer.close()

    async with Receiver.listening({"/books": books}) as receiver:
        address = f"127.0.0.1:{receiver.port}"
        await deployed(functions, EXAMPLE / "sales-of-day", {})
        await deployed(functions, EXAMPLE / "store-report", {"STORAGE": reports})
        await deployed(functions, EXAMPLE / "send-report", {"WEBHOOK_URL": f"http://{address}/books"}, address)
        command = await signed_in(workflows, tmp_path)
        deploy = await command.done("workflows", "deploy", str(EXAMPLE / "workflow.yaml"))
        assert deploy == "nightly-report version 1 is deployed.\n"
        output = await command.done("workflows", "run", "nightly-report", "--data", '{"day": "2026-02-10"}', "--follow")
        assert "sales  2 items were sold on 2026-02-10" in output
        first, second = bodies
        assert first["key"] == second["key"]
        assert (second["day"], second["revenue"]) == ("2026-02-10", 31.5)
        async with app.client() as client:
            file = await client.get(second["url"])
        assert file.text == 'item,quantity,revenue\r\n"""Sacher"" cake",3,18\r\n"tea",3,13.5\r\n'
        await a_slot_without_sales(workflows, command)
        assert len(bodies) == 2


async def a_slot_without_sales(workflows: Workflows, command: Command) -> None:
    """A night's run finds nothing, so it stores and sends nothing."""
    (found,) = (await workflows.console.get(workflows.base)).json()["data"]
    slot = "update pilotis.schedules set next_run_at = date_trunc('minute', now()) where schedule_id = $1"
    await run_sql(workflows.app.server, slot, found["id"])

    async def fired() -> dict[str, Any] | None:
        path = f"{workflows.base}/{found['id']}/executions?trigger=schedule"
        return next(iter((await workflows.console.get(path)).json()["data"]), None)

    scheduled = await until(fired)
    execution = await workflows.reached(found["id"], scheduled["id"])
    assert execution["status"] == "completed", execution
    assert statuses(execution) == {"sales": "completed", "any-sales": "completed", "file": "skipped", "told": "skipped"}
    assert "  schedule  completed" in await command.done("workflows", "executions", "nightly-report")
