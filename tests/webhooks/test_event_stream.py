"""The events of an app as a stream: each once, of one type if asked, after a reconnection without gaps."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from uuid import UUID

from pilotis.integrations.streams import MAX_BEHIND
from pilotis.kit.ids import earliest_uuid7, uuid7_milliseconds
from tests.console import database_of, owner_of, user_with
from tests.receiver import Receiver
from tests.support import App, assert_error
from tests.waiting import PATIENCE
from tests.webhooks.test_integrations import declare, publish
from tests.webhooks.world import console, create

Told = tuple[str, str | None, Any]


async def follow(app: App, ready: asyncio.Event | None = None, **query: str) -> AsyncGenerator[Told]:
    """The events of the stream: type, id and data. Sets `ready` once it has begun."""
    async with (
        owner_of(app).client(app) as client,
        client.stream("GET", "/events/stream", params=query, timeout=PATIENCE) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if ready:
                ready.set()
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


async def order(app: App, number: int, event_type: str = "order.created") -> str:
    """Publish an event and return its id."""
    answer = await publish(app, {"event_type": event_type, "data": {"number": number}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_a_stream_brings_each_event_once_and_goes_on_after_the_last_seen(app: App, receiver: Receiver):
    await declare(app)
    await declare(app, "order.paid")
    await create(app, receiver.url(), ["order.*"])
    before = await order(app, 0)
    ready, paid_ready = asyncio.Event(), asyncio.Event()
    async with (
        aclosing(follow(app, ready)) as all_of_them,
        aclosing(follow(app, paid_ready, type="order.paid")) as paid,
    ):
        first, only = asyncio.ensure_future(anext(all_of_them)), asyncio.ensure_future(anext(paid))
        await asyncio.gather(ready.wait(), paid_ready.wait())
        ids = [await order(app, 1), await order(app, 2, "order.paid"), await order(app, 3)]
        told = [await first, await anext(all_of_them), await anext(all_of_them)]
        assert [(type_, place) for type_, place, _ in told] == [("event", one) for one in ids]
        assert [data["data"] for _, _, data in told] == [{"number": number} for number in (1, 2, 3)]
        assert (await only)[1] == ids[1]
        # Nothing comes twice although each look goes back.
        ids.append(await order(app, 4))
        assert (await anext(all_of_them))[1] == ids[3]
    async with console(app) as client:
        listed = {one["id"]: one for one in (await client.get("/events")).json()["data"]}
    assert [data for _, _, data in told] == [listed[one] for one in ids[:3]]
    # What was just seen may come again, nothing is left out.
    ids.append(await order(app, 5))
    found: list[str | None] = []
    async with aclosing(follow(app, last_event_id=ids[2])) as again:
        while ids[4] not in found:
            found.append((await anext(again))[1])
    assert found == [one for one in (before, *ids) if one in found]
    assert found[-2:] == ids[3:]


async def test_a_stream_that_missed_too_much_starts_over(app: App, receiver: Receiver):
    await declare(app)
    await create(app, receiver.url(), ["order.*"])
    seen = await order(app, 0)
    later = earliest_uuid7(uuid7_milliseconds(UUID(seen)) + 1)
    async with database_of(app.server) as connection:
        await connection.execute(
            """
            insert into pilotis.events (app_id, event_id, type, actor_kind, depth, data, dispatched_at)
            select $1, (overlay($2::text placing lpad(n::text, 12, '0') from 25))::uuid, 'order.created', 'system', 0,
                '{}', now() from generate_series(1, $3::int) n
            """,
            UUID(app.app_id),
            str(later),
            MAX_BEHIND + 1,
        )
    async with aclosing(follow(app, last_event_id=seen)) as told:
        assert await anext(told) == ("reset", None, {})


async def test_who_may_not_read_events_gets_no_stream(app: App, other_app: App):
    async with console(app) as client:
        assert_error(await client.get("/events/stream", params={"last_event_id": "x"}), 400, "VALIDATION_FAILED")
    stranger = await user_with(other_app, "owner")
    async with stranger.client(app) as client:
        assert_error(await client.get("/events/stream"), 404, "APP_NOT_FOUND")
