"""Subscriptions to tables whose columns change, and to tables that go and come back."""

from __future__ import annotations

import asyncio

from tests.console import owner_of
from tests.realtime.listening import listening
from tests.rules.test_rules import ruled
from tests.support import App

RESET = ("reset", {"subscription": "a", "reason": "schema"})


async def test_a_stream_goes_on_while_columns_change(app: App):
    table = await app.table({"name": "string", "state": "string", "n": "string"})
    path = f"/v1/public/tables/{table}"
    async with (
        app.client() as client,
        listening(client, {"id": "a", "table_id": table, "where": {"state": "open"}}) as told,
    ):

        async def changed(method: str, place: str, **body: object) -> None:
            answer = await client.request(method, f"{path}{place}", json=body or None)
            assert answer.is_success, answer.text

        async def is_told(**data: object) -> None:
            await app.row(table, {"state": "open", **data})
            await told.until(lambda events: any(event == "change" for event, _ in events))
            # Several changes at once are one reset.
            *resets, (_, change) = told.events
            assert resets in ([], [RESET])
            assert change["row"]["data"] == {"state": "open", **data}
            told.events.clear()

        await is_told(name="first")
        await changed("POST", "/columns", name="more", data_type="int")
        await is_told(name="second", more=1)
        async with owner_of(app).client(app) as console:
            answer = await console.post(f"/tables/{table}/columns/name/rename", json={"name": "title"})
            assert answer.is_success, answer.text
        await is_told(title="third")
        await changed("PATCH", "/columns/n", data_type="int")
        await is_told(title="fourth", n=4)
        await changed("DELETE", "/columns/n")
        await is_told(title="fifth")
        # The column that the condition names.
        await changed("DELETE", "/columns/state")
        await told.until(lambda events: any("code" in data for _, data in events))
        assert told.events[-1] == ("reset", RESET[1] | {"code": "UNKNOWN_COLUMN"})


async def test_a_table_that_is_dropped_ends_a_subscription_and_takes_one_again(app: App):
    table, other = await app.table({"name": "string"}), await app.table({"name": "string"})
    asked = {"id": "a", "table_id": table}
    async with app.client() as client, owner_of(app).client(app) as console:
        async with listening(client, asked, {"id": "b", "table_id": other}) as told:
            assert (await client.delete(f"/v1/public/tables/{table}")).status_code == 200
            assert await told.next() == [("reset", RESET[1] | {"code": "TABLE_NOT_FOUND"})]
            await app.row(other, {"name": "goes on"})
            assert (await told.change())[:2] == ("b", "create")
        answer = await console.post(f"/trash/tables/{table}/restore")
        assert answer.is_success, answer.text
        async with listening(client, asked) as told:
            await app.row(table, {"name": "back"})
            assert (await told.change())[2] == {"name": "back"}


async def test_streams_open_while_the_table_that_a_rule_looks_up_changes(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    ada = await app.member("ada")
    mine = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": {"$member": "id"}}}}
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": mine})
    async with app.client(app.secret_key) as client, app.client(ada["access_token"]) as member:
        columns = f"/v1/public/tables/{seats}/columns"
        enough = asyncio.Event()

        async def change() -> None:
            while not enough.is_set():
                for answer in (
                    await client.post(columns, json={"name": "more", "data_type": "string"}),
                    await client.delete(f"{columns}/more"),
                ):
                    assert answer.is_success, answer.text

        async def listen() -> None:
            for _ in range(20):
                async with listening(member, {"id": "a", "table_id": table}):
                    pass
            enough.set()

        await asyncio.gather(change(), listen())
