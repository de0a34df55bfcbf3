"""Rules on two nodes of one database: what one of them changes holds for the next request to the other."""

from __future__ import annotations

from typing import Any

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
