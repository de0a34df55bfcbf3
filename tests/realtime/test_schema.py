"""Subscriptions to tables whose columns change, and to tables that go and come back."""

from __future__ import annotations

from tests.console import owner_of
from tests.realtime.listening import listening
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
