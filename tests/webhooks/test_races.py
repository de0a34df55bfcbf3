"""Webhooks that change while others write: what the answer of a change promises holds for every write after it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from pilotis.http.api.principals import SYSTEM
from pilotis.webhooks import holder
from pilotis.webhooks.consents import allowed
from pilotis.webhooks.sender import Sender
from tests.console import database_of
from tests.receiver import OK, Received, Receiver
from tests.services import Node
from tests.support import App
from tests.waiting import until
from tests.webhooks.test_delivery import verified
from tests.webhooks.world import Webhook, create, received
from tests.whole import times

WRITERS = 50


class Writers:
    """Clients that create rows until they are stopped; `before` and `after` have those of writes around a change.

    `before` are those that were answered before the change began, `after` those that began after it was answered.
    """

    def __init__(self, app: App, table_id: str) -> None:
        self.app = app
        self.table_id = table_id
        self.changing = self.changed = self.stopped = False
        self.before: set[str] = set()
        self.after: set[str] = set()

    async def write(self) -> None:
        async with self.app.client() as client:
            while not self.stopped:
                is_after = self.changed
                answer = await client.post(f"/v1/public/tables/{self.table_id}/data", json={"data": {"n": 1}})
                assert answer.status_code == 201, answer.text
                if is_after:
                    self.after.add(answer.json()["id"])
                elif not self.changing:
                    self.before.add(answer.json()["id"])

    async def around(self, change: Callable[[], Awaitable[Any]]) -> Any:
        """Make a change while all write, and go on until each has written after it."""
        tasks = [asyncio.create_task(self.write()) for _ in range(WRITERS)]
        await until(lambda: len(self.before) >= WRITERS)
        self.changing = True
        result = await change()
        self.changed = True
        await until(lambda: len(self.after) >= WRITERS)
        self.stopped = True
        await asyncio.gather(*tasks)
        return result


def rows_of(receiver: Receiver) -> set[str]:
    """The ids of the rows whose creation the receiver was told of."""
    return {json.loads(request.body)["data"]["row"]["id"] for request in receiver.received}


@pytest.mark.parametrize("_", range(times(1, whole=20)))
async def test_every_write_after_a_creation_arrives(app: App, receiver: Receiver, _: int):
    """Fifty writers write while a webhook is created that arms their table, twenty times."""
    writers = Writers(app, await app.table({"n": "int"}))
    await writers.around(lambda: create(app, receiver.url(), ["row.created"], max_in_flight=32))
    await until(lambda: writers.after <= rows_of(receiver))
    assert not writers.before & rows_of(receiver)


async def test_every_write_after_a_change_that_activates_or_widens_arrives(app: App, receiver: Receiver):
    inactive = await create(app, receiver.url(), ["row.created"], is_active=False, max_in_flight=32)
    writers = Writers(app, await app.table({"n": "int"}))
    await writers.around(lambda: inactive.change(is_active=True))
    await until(lambda: writers.after <= rows_of(receiver))
    assert not writers.before & rows_of(receiver)
    narrow = await create(app, receiver.url("/wide"), ["member.created"], max_in_flight=32)
    writers = Writers(app, await app.table({"n": "int"}))
    await writers.around(lambda: narrow.change(event_types=["row.created"]))

    def told() -> set[str]:
        wide = [request for request in receiver.received if request.path == "/wide"]
        return {json.loads(request.body)["data"]["row"]["id"] for request in wide}

    await until(lambda: writers.after <= told())


async def test_tables_created_beside_a_webhook_are_armed_by_one_of_the_two(app: App, receiver: Receiver):
    """Whichever commits first: a write to any of the tables after both answers arrives."""
    creating = [asyncio.create_task(app.table({"n": "int"}, title=f"table {number}")) for number in range(12)]
    await asyncio.sleep(0)
    webhook, *table_ids = await asyncio.gather(create(app, receiver.url(), ["row.created"]), *creating)
    rows = {(await app.row(table_id, {"n": 1}))["id"] for table_id in table_ids}
    await webhook.ended(12)
    assert rows_of(receiver) == rows


async def test_nothing_is_delivered_after_a_deletion_or_deactivation(app: App, receiver: Receiver):
    """Attempts that had begun may end; of what is written afterwards nothing arrives."""
    table_id = await app.table({"n": "int"})
    for silence in (lambda webhook: webhook.change(is_active=False), lambda webhook: webhook.call("DELETE")):
        receiver.received.clear()
        webhook = await create(app, receiver.url(), ["row.created"], table_ids=[table_id], max_in_flight=32)
        writers = Writers(app, table_id)
        await writers.around(lambda webhook=webhook, silence=silence: silence(webhook))
        async with database_of(app.server) as database:
            pending = "select count(*) from pilotis.deliveries where target_id = $1 and state = 'pending'"
            assert await database.fetchval(pending, UUID(webhook.id)) == 0
            # Everything that was written has been dispatched by now, or is for nobody.
            outbox = f"select not exists (select from app_{UUID(app.app_id).hex}.__events)"
            await until(lambda database=database, outbox=outbox: database.fetchval(outbox))
            assert await database.fetchval(pending, UUID(webhook.id)) == 0
        assert not writers.after & rows_of(receiver)


async def test_disabling_beside_a_new_webhook_leaves_its_table_armed(app: App, receiver: Receiver, node: Node):
    """The task that stops unused events runs while a webhook is created: the write after the answer arrives."""
    table_id = await app.table({"n": "int"})
    for number in range(5):
        old = await create(app, receiver.url("/old"), ["row.created"], table_ids=[table_id])
        await old.call("DELETE")
        new, _ = await asyncio.gather(
            create(app, receiver.url("/new"), ["row.created"], table_ids=[table_id]),
            node.services.events.disable_unused(),
        )
        row = await app.row(table_id, {"n": number})
        await until(lambda row=row: row["id"] in rows_of(receiver))
        await new.call("DELETE")


async def test_each_delivery_verifies_while_the_secret_is_rotated(app: App, receiver: Receiver):
    """During the overlap a receiver that knows either secret of a rotation verifies everything."""
    webhook = await create(app, receiver.url(), ["row.created"], max_in_flight=32)
    writers = Writers(app, await app.table({"n": "int"}))
    rotated = await writers.around(lambda: webhook.call("POST", "/regenerate-secret", json={}))
    await until(lambda: writers.before | writers.after <= rows_of(receiver))
    assert all(verified(request, webhook.secret) for request in receiver.received)
    # A process reads a webhook again after a second.
    late = await app.table({"n": "int"})
    await asyncio.sleep(1.1)
    count = len(receiver.received)
    await app.row(late, {"n": 1})
    (*_, last) = await received(receiver, count + 1)
    assert verified(last, webhook.secret)
    assert verified(last, rotated["secret"])


@asynccontextmanager
async def counting(receiver: Receiver) -> AsyncIterator[list[int]]:
    """Answers of the receiver take a while; the list has the number of open requests at each."""
    seen: list[int] = []

    async def slow(_: Received, writer: asyncio.StreamWriter) -> None:
        seen.append(receiver.in_flight)
        await asyncio.sleep(0.02)
        writer.write(OK)
        await writer.drain()

    receiver.answers["/"] = slow
    yield seen


async def test_two_nodes_never_open_more_requests_than_the_webhook_allows(app: App, receiver: Receiver, node: Node):
    """The test's node and the server's both work for lanes."""
    table_id = await app.table({"n": "int"})
    async with counting(receiver) as seen:
        webhook: Webhook = await create(app, receiver.url(), ["row.created"], max_in_flight=3)
        for start in range(10):
            async with app.client() as client:
                body = {"data": [{"n": start * 20 + number} for number in range(20)]}
                await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=body)
            await asyncio.sleep(0.1)
        await webhook.ended(200)
    assert max(seen) == 3
    assert len(receiver.received) == 200


async def test_nothing_is_sent_by_a_process_whose_lease_is_not_certain(
    app: App, receiver: Receiver, node: Node, monkeypatch: pytest.MonkeyPatch
):
    """What a delivery needs to know may take longer than the lease is certain; another process may send it by then."""
    await create(app, receiver.url(), ["member.created"])
    member_created = node.services.events.catalogue.get("member.created")
    assert member_created is not None
    lost: list[str] = []
    certain_while_sending: list[bool] = []

    async def late(*arguments: Any) -> bool:
        if not lost:
            node.background.node._renewed_at = 0.0
            lost.append("lease")
        return await allowed(*arguments)

    send = Sender.send

    async def watched(*arguments: Any, **more: Any) -> Any:
        certain_while_sending.append(node.background.node.is_certain)
        return await send(*arguments, **more)

    monkeypatch.setattr(holder, "allowed", late)
    monkeypatch.setattr(Sender, "send", watched)
    sent = 0
    # The server may take a delivery as well: then it is none of this process's.
    while not lost:
        async with node.database.transaction(UUID(app.app_id)) as connection:
            event = member_created.event(member_created.example, SYSTEM)
            await node.services.events.emit_all(connection, UUID(app.app_id), [event])
        sent += 1
        await until(lambda: lost or len(receiver.received) >= sent)  # noqa: B023 - awaited here
    await until(lambda: len(receiver.received) >= sent)
    assert False not in certain_while_sending
