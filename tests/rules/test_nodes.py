"""Rules on two nodes of one database: what one of them changes holds for the next request to the other."""

from __future__ import annotations

from typing import Any

from tests.acceptance.test_files import put_at, storage
from tests.console import client_of, owner_of
from tests.database import second_node
from tests.rules.test_paths import made, refers
from tests.rules.test_rules import manager, rows, save
from tests.support import App, assert_error

ME: dict[str, Any] = {"$member": "id"}


async def test_what_one_node_changes_holds_for_the_next_request_to_another(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    teams = await app.table({"name": "string"}, title="teams")
    table = await app.table({"name": "string", "team": "string", "pay": "int", "home": refers("teams")})
    ada = await app.member("ada")
    headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {ada['access_token']}"}
    seated = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
    boss = {"$member": {"roles": {"$arrayContains": "boss"}}}
    async with (
        app.client(app.secret_key) as side,
        manager(app) as manages,
        owner_of(app).client(app) as console,
        second_node(app.server) as node,
        client_of(node, **headers) as other,
    ):
        home = await made(side, teams, name="reds")
        await made(side, table, name="x", team="red", pay=5, home=home)
        path = f"{rows(table)}/query"

        async def seen(body: Any = None) -> Any:
            """What the second node answers; asked twice, so that it knows the rules before the next change."""
            for _ in range(2):
                answer = await other.post(path, json=body or {})
            assert answer.status_code == 200, answer.text
            return [row["data"] for row in answer.json()["data"]]

        row = {"name": "x", "team": "red", "pay": 5, "home": home}
        assert await seen() == [row]
        await save(app, table, {"read": {"$or": [boss, seated]}})
        assert await seen() == []
        seat = await made(side, seats, team="red", member=ada["member_id"])
        assert await seen() == [row]
        await side.delete(f"{rows(seats)}/{seat}")
        assert await seen() == []
        for roles, expected in ((["boss"], [row]), ([], [])):
            answer = await manages.patch(f"/members/{ada['member_id']}", json={"roles": roles})
            assert answer.status_code == 200, answer.text
            assert await seen() == expected
        # A column of a table that a rule names, and one of its own.
        await made(side, seats, team="red", member=ada["member_id"])
        assert await seen() == [row]
        for table_id, column, name in ((seats, "team", "group"), (table, "team", "squad")):
            answer = await console.post(f"/tables/{table_id}/columns/{column}/rename", json={"name": name})
            assert answer.status_code == 200, answer.text
            row = {(name if key == column and table_id == table else key): value for key, value in row.items()}
            assert await seen() == [row]
        # Where a path leads, and what a column shows by row.
        await save(app, table, {"read": {"home.name": "reds"}, "columns": {"pay": {"read": {"squad": "blue"}}}})
        without = {key: value for key, value in row.items() if key != "pay"}
        assert await seen() == [without]
        assert_error(await other.post(path, json={"order_by": "pay"}), 403, "COLUMN_NOT_READABLE")
        await save(app, table, {"read": {"home.name": "reds"}, "columns": {"pay": {"read": {"squad": "red"}}}})
        assert await seen() == [row]
        await side.patch(f"{rows(teams)}/{home}", json={"data": {"name": "blues"}})
        assert await seen() == []
        answer = await console.post(f"/tables/{teams}/columns/name/rename", json={"name": "title"})
        assert answer.status_code == 200, answer.text
        assert await seen() == []
        await side.patch(f"{rows(teams)}/{home}", json={"data": {"title": "reds"}})
        assert await seen() == [row]


async def test_columns_that_exchange_their_names_stay_what_a_rule_meant(app: App):
    """A node that has not heard of it would ask for the other column by the name that it knows."""
    seats = await app.table({"team": "string", "kind": "string", "member": "string"}, title="seats")
    table = await app.table({"name": "string"}, title="things")
    base = await storage(app, name="pictures")
    ada = await app.member("ada")
    headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {ada['access_token']}"}
    names = {"a": "team", "b": "kind"}

    def seated(row: str) -> dict[str, Any]:
        return {"$exists": {"table": "seats", "where": {"team": {"$row": row}, "member": ME}}}

    await save(app, table, {"read": seated("name")})
    async with (
        app.client(app.secret_key) as side,
        owner_of(app).client(app) as console,
        second_node(app.server) as node,
        client_of(node, **headers) as other,
    ):
        await made(side, seats, team="red", kind="blue", member=ada["member_id"])
        ids = {name: await made(side, table, name=name) for name in ("red", "blue")}
        for name in ids:
            await put_at(side, base, name)
        rules = {"rules": {"read": seated("path")}}
        address = f"/storages/files/{base.rpartition('/')[2]}/rules"
        assert (await console.put(address, json=rules)).status_code == 200

        async def exchange() -> None:
            for old, new in ((names["a"], "x"), (names["b"], names["a"]), ("x", names["b"])):
                answer = await console.post(f"/tables/{seats}/columns/{old}/rename", json={"name": new})
                assert answer.status_code == 200, answer.text
            names["a"], names["b"] = names["b"], names["a"]

        async def row() -> Any:
            return [(await other.get(f"{rows(table)}/{ids[name]}")).status_code for name in ("red", "blue")]

        async def listed() -> Any:
            return [one["data"]["name"] for one in (await other.get(rows(table))).json()["data"]]

        async def files() -> Any:
            return [one["path"] for one in (await other.get(f"{base}/items")).json()["files"]]

        for ask, expected in ((row, [200, 404]), (listed, ["red"]), (files, ["red"])):
            for _ in range(2):
                assert await ask() == expected
            await exchange()
            assert await ask() == expected, ask
