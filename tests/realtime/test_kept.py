"""What channels keep for who joins, whether somebody listens to them, and what their rules name."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx

from tests.background import run_task
from tests.console import client_of, owner_of
from tests.database import connection_to, second_node
from tests.functions.support import Functions
from tests.realtime.listening import Listener, listening
from tests.realtime.test_channels import SEATED, declare, messages, sent
from tests.rules.test_rules import manager
from tests.support import App, assert_error
from tests.waiting import until

ROOM = {"pattern": "room:{room}", "listen": True, "send": True}


async def declared(app: App, **more: Any) -> None:
    answer = await declare(app, {**ROOM, **more})
    assert answer.status_code == 200, answer.text
    assert {name: answer.json()["channels"][0][name] for name in more} == more


async def told_messages(told: Listener, number: int) -> list[Any]:
    """Take so many messages of a stream: payloads, and whether they are replayed; others are left out."""
    await told.until(lambda events: sum(event == "message" for event, _ in events) >= number, 6)
    found = [(data["payload"], data.get("replay", False)) for event, data in told.events if event == "message"]
    told.events.clear()
    return found


def resets(told: Listener) -> list[Any]:
    return [data["reason"] for event, data in told.events if event == "reset"]


async def test_who_joins_is_told_what_was_sent(app: App):
    await declared(app, keep={"messages": 3, "seconds": 3600})
    asked = {"name": "room:a"}
    async with app.client() as client:
        ids = []
        for number in range(4):
            ids += await sent(client, "room:a", "said", number)
        await sent(client, "room:a", "moved", "volatile", volatile=True)
        await sent(client, "room:b", "said", "elsewhere")
        async with listening(client, channels=[asked]) as told:
            await sent(client, "room:a", "said", 4)
            assert await told_messages(told, 4) == [(1, True), (2, True), (3, True), (4, False)]
        # On from the last message that was seen; nothing is missing.
        async with listening(client, channels=[asked | {"after": ids[3]}]) as told:
            assert await told_messages(told, 1) == [(4, True)]
            assert resets(told) == []
        # That one is not kept any more, and so others may be missing.
        async with listening(client, channels=[asked | {"after": str(UUID(int=7))}]) as told:
            assert await told_messages(told, 3) == [(2, True), (3, True), (4, True)]
        async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": app.public_key}) as there:
            await sent(there, "room:a", "said", 5)
            async with listening(client, channels=[asked]) as told:
                assert await told_messages(told, 3) == [(3, True), (4, True), (5, True)]
        assert_error(await client.post(messages("none:a"), json={"event": "a"}), 403, "CHANNEL_DENIED")


async def test_a_message_that_is_missing_is_told_by_a_reset(app: App):
    await declared(app, keep={"messages": 3, "seconds": 3600})
    async with app.client() as client:
        for kept in ({"messages": 3, "seconds": 3600}, None):
            await declared(app, keep=kept)
            async with listening(client, channels=[{"name": "room:a", "after": str(UUID(int=7))}]) as told:
                await told.until(lambda events: any(event == "reset" for event, _ in events))
                assert resets(told) == ["gap"]


async def test_messages_that_come_while_the_history_is_read_are_told_once_and_in_order(app: App):
    await declared(app, keep={"messages": 200, "seconds": 3600})
    is_over = asyncio.Event()

    async def talk(client: httpx.AsyncClient, number: int = 0) -> None:
        while not is_over.is_set():
            await sent(client, "room:a", "said", number)
            number += 1

    async with app.client(app.secret_key) as side, app.client() as client, asyncio.TaskGroup() as group:
        group.create_task(talk(side))
        for _ in range(6):
            async with listening(client, channels=[{"name": "room:a"}]) as told:
                found = [payload for payload, _ in await told_messages(told, 20)]
                assert found == list(range(found[0], found[0] + len(found)))
        is_over.set()


async def test_what_is_kept_is_bounded_and_goes(app: App):
    await declared(app, keep={"messages": 1000, "seconds": 3600})
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as client, app.client(app.secret_key) as side:
        await sent(client, "room:a", "said", "of a member")
        await sent(side, "room:a", "said", "of the app")
        ids = []
        for number in range(9):
            ids += await sent(side, "room:big", "said", str(number) * 200_000)
        # The newest, as many as the client may be behind.
        async with listening(client, channels=[{"name": "room:big"}]) as told:
            assert [payload[0] for payload, _ in await told_messages(told, 3)] == list("678")
        async with listening(client, channels=[{"name": "room:big", "after": ids[4]}]) as told:
            await told.until(lambda events: any(event == "reset" for event, _ in events))
            assert resets(told) == ["gap"]
        async with manager(app) as manage:
            assert (await manage.delete(f"/members/{ada['member_id']}")).is_success
        async with app.client() as nobody, listening(nobody, channels=[{"name": "room:a"}]) as told:
            assert await told_messages(told, 1) == [("of the app", True)]
        async with second_node(app.server) as node, connection_to(app.server) as connection:
            count = "select count(*) from pilotis.kept_messages where app_id = $1"
            before = await connection.fetchval(count, app.app_id)
            await run_task(node, "realtime.channels")
            assert await connection.fetchval(count, app.app_id) == before - 1
            old = "update pilotis.kept_messages set expires_at = now() where app_id = $1"
            await connection.execute(old, app.app_id)
            await run_task(node, "realtime.channels")
            assert await connection.fetchval(count, app.app_id) == 0
            # Of an app with too many bytes the channel goes that has been silent for longest.
            await connection.execute(
                """
                insert into pilotis.kept_messages (app_id, name, message_id, body, bytes, at, expires_at)
                select $1, n, gen_random_uuid(), '{}', 60000000, now(), now() + interval '1 hour'
                from unnest(array['old', 'new']) n
                """,
                app.app_id,
            )
            await run_task(node, "realtime.channels")
            name = "select string_agg(name, ' ') from pilotis.kept_messages where app_id = $1"
            assert await connection.fetchval(name, app.app_id) == "new"


async def test_what_cannot_be_kept(app: App):
    for keep in ({"messages": 0, "seconds": 1}, {"messages": 1001, "seconds": 1}, {"messages": 1, "seconds": 604_801}):
        assert_error(await declare(app, {**ROOM, "keep": keep}), 400, "VALIDATION_FAILED")
    async with app.client() as client:
        body = {"channels": [{"name": "room:a", "after": "x"}]}
        assert (await client.post("/v1/public/realtime", json=body)).status_code == 400


async def test_a_function_is_told_whether_somebody_listens(app: App, functions: Functions):
    answer = await declare(app, {**ROOM, "events": True}, {"pattern": "quiet:{x}", "listen": True})
    assert answer.status_code == 200
    table = await app.table({"type": "string", "name": "string"}, title="heard")
    source = "export default (event, ctx) => ctx.api.rows('heard').create({type: event.type, name: event.data.name})"
    made = await functions.made("hears", source, scopes=["rows:write"])
    body = {"type": "event", "events": ["channel.*"]}
    assert (await functions.console.post(f"{functions.base}/{made}/triggers", json=body)).status_code == 201

    async def heard() -> list[tuple[str, str]]:
        async with app.client() as client:
            answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"order_by": "created_at"})
        return [(row["data"]["type"], row["data"]["name"]) for row in answer.json()["data"]]

    async def have_heard(number: int) -> bool:
        return len(await heard()) >= number

    both = [{"name": "room:a"}, {"name": "quiet:a"}]
    async with second_node(app.server) as node, connection_to(app.server) as connection, app.client() as client:
        async with listening(client, channels=both):
            await until(lambda: have_heard(1))
            async with listening(client, channels=both):
                pass
        # The others left less than five seconds ago.
        async with listening(client, channels=both):
            await asyncio.sleep(0.2)
        # Another process, which has listeners, too, and then dies.
        other = await connection.fetchval(
            """
            insert into pilotis.channel_nodes values ($1, gen_random_uuid(), now() + interval '1 hour')
            returning node_id
            """,
            app.app_id,
        )
        joined = "update pilotis.occupied_channels set nodes = array_append(nodes, $2) where app_id = $1"
        await connection.execute(joined, app.app_id, other)
        gone = "select cardinality(nodes) from pilotis.occupied_channels where app_id = $1"

        async def has_left() -> bool:
            return await connection.fetchval(gone, app.app_id) == 1

        await until(has_left, 20)
        assert await heard() == [("channel.occupied", "room:a")]
        await connection.execute("delete from pilotis.channel_nodes where node_id = $1", other)
        await run_task(node, "realtime.channels")
        await until(lambda: have_heard(2))
        assert await heard() == [("channel.occupied", "room:a"), ("channel.vacated", "room:a")]


async def test_what_the_rule_of_a_channel_names_stays(app: App):
    seats = await app.table({"room": "string", "member": "string", "note": "string"}, title="seats")
    assert (await declare(app, {"pattern": "room:{room}", "listen": SEATED, "send": {"$use": "listen"}})).is_success
    async with manager(app) as side:
        column = f"/v1/public/tables/{seats}/columns"
        async with app.client(app.secret_key) as client:
            for name in ("room", "member"):
                body = assert_error(await client.delete(f"{column}/{name}"), 409, "USED_IN_RULE")
                assert "the channel room:{room}" in body["message"]
            assert_error(await client.delete(f"/v1/public/tables/{seats}"), 409, "USED_IN_RULE")
            assert (await client.delete(f"{column}/note")).is_success
        async with owner_of(app).client(app) as console:
            renamed = await console.post(f"/tables/{seats}/columns/room/rename", json={"name": "place"})
        assert renamed.is_success, renamed.text
        shown = (await side.get("/channels")).json()["channels"][0]["listen"]["$exists"]["where"]
        assert shown["place"] == {"$channel": "room"}
        assert (await side.put("/channels", json={"channels": []})).is_success
        async with app.client(app.secret_key) as client:
            assert (await client.delete(f"{column}/member")).is_success
