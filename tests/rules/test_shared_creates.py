"""Rows that several callers create at once by one statement, each under its own values of one rule."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from pilotis.data.rows import shared_reads
from tests.console import client_of, owner_of
from tests.database import second_node
from tests.rules.test_paths import made, refers
from tests.rules.test_rules import manager, rows, save
from tests.support import App, assert_error

ME: dict[str, Any] = {"$member": "id"}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
WHO = ["ada", "eve", "sam", "kim"]


async def test_members_who_create_at_once_create_what_their_own_rule_allows(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    homes = await app.table({"name": "string"}, title="homes")
    schema = {"name": "string", "team": "string", "pay": "int", "org": "string", "home": refers("homes")}
    table = await app.table(schema, title="things")
    members = {name: await app.member(name) for name in WHO}
    async with app.client(app.secret_key) as side, manager(app) as console:
        home = await made(side, homes, name="x")
        for name in WHO[:3]:
            await made(side, seats, team=f"of {name}", member=members[name]["member_id"])
            path = f"/members/{members[name]['member_id']}"
            facts = {"claims": {"org": f"of {name}"}, "roles": ["boss"] if name == "sam" else []}
            assert (await console.patch(path, json=facts)).status_code == 200
    clients = {name: app.client(members[name]["access_token"]) for name in WHO}
    boss = {"$member": {"roles": {"$arrayContains": "boss"}}}
    own = {(name, name) for name in WHO[:3]}
    for create, allowed in (
        (SEATED, own),
        # What is known of a member decides, and is not known before its session was checked.
        ({"org": {"$member": "claims.org"}}, own),
        ({"$or": [boss, SEATED]}, own | {("sam", name) for name in WHO}),
        ({"$creator": ME, "pay": {"$lt": 5}, "$not": {"org": {"$in": ["a", "b"]}}}, {(a, b) for a in WHO for b in WHO}),
        ({"$member": {}}, {(a, b) for a in WHO for b in WHO}),
    ):
        await save(app, table, {"create": create, "columns": {"pay": {"read": boss}}})
        # Once, so that the rules are known, then all at once.
        for _ in range(2):
            pairs = [(one, other) for one in WHO for other in WHO] * 3

            async def ask(pair: tuple[str, str]) -> httpx.Response:
                data = {"name": f"by {pair[0]}", "team": f"of {pair[1]}", "org": f"of {pair[1]}", "pay": 1}
                return await clients[pair[0]].post(rows(table), json={"data": {**data, "home": home}})

            answers = await asyncio.gather(*map(ask, pairs))
            expected = list[tuple[str, str]]()
            for (one, other), answer in zip(pairs, answers, strict=True):
                if (one, other) not in allowed:
                    assert_error(answer, 403, "RULE_DENIED")
                    continue
                expected.append((f"by {one}", f"of {other}"))
                assert answer.status_code == 201, answer.text
                data = answer.json()["data"]
                assert (data["team"], data["home"]) == (f"of {other}", home)
                assert ("pay" in data) is (one == "sam"), (create, one)
            stored = await _taken(app, table)
            assert sorted((row["data"]["name"], row["data"]["team"]) for row in stored) == sorted(expected)
            assert {row["created_by"] for row in stored} <= {one["member_id"] for one in members.values()}
            by_name = {f"by {name}": one["member_id"] for name, one in members.items()}
            assert all(by_name[row["data"]["name"]] == row["created_by"] for row in stored)
            told = {answer.json()["id"] for answer in answers if answer.status_code == 201}
            assert told == {row["id"] for row in stored}
    for client in clients.values():
        await client.aclose()


async def test_rows_that_fail_take_no_others_along(app: App):
    await app.table({"team": "string", "member": "string"}, title="seats")
    table = await app.table({"name": {"type": "string", "unique": True}, "n": "int"}, title="things")
    await save(app, table, {"create": {"$creator": ME, "n": {"$lt": 100}}})
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(ada["access_token"]) as one, app.client(eve["access_token"]) as other, app.client() as nobody:
        for start in (0, 50):

            async def ask(n: int, start: int = start) -> httpx.Response:
                data: dict[str, Any] = {"name": f"{start + n}", "n": 1}
                data |= {1: {"name": f"{start}"}, 2: {"n": 100}, 3: {"n": "x"}, 4: {"name": "\0"}}.get(n % 6, {})
                return await (nobody if n == 11 else (one, other)[n % 2]).post(rows(table), json={"data": data})

            answers = await asyncio.gather(*(ask(n) for n in range(12)))
            codes = [answer.json().get("code", answer.status_code) for answer in answers]
            assert sorted(str(codes[n]) for n in (0, 1, 7)) == ["201", "UNIQUE_VIOLATION", "UNIQUE_VIOLATION"]
            assert codes[2::6] == ["RULE_DENIED"] * 2
            assert codes[3::6] == ["VALIDATION_FAILED"] * 2
            assert {codes[4], codes[10]} & {201} == set()
            assert (codes[5], codes[6], codes[11]) == (201, 201, "MEMBER_TOKEN_REQUIRED")
        assert (await one.post("/v1/public/app-members/signout")).status_code in {200, 204}
        assert (await one.post(rows(table), json={"data": {"name": "late", "n": 1}})).status_code == 401


async def test_who_creates_a_row_is_shown_what_this_row_shows(app: App):
    table = await app.table({"name": "string", "team": "string", "pay": "int"}, title="things")
    await save(app, table, {"create": {"name": "x"}, "columns": {"pay": {"read": {"team": "red"}}}})
    async with app.client() as client:
        for team in ("red", "blue") * 5:
            answer = await client.post(rows(table), json={"data": {"name": "x", "team": team, "pay": 1}})
            assert answer.status_code == 201, answer.text
            assert ("pay" in answer.json()["data"]) is (team == "red")


async def test_another_node_creates_by_the_rule_of_now(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    table = await app.table({"name": "string", "team": "string"}, title="things")
    ada = await app.member("ada")
    headers = {"X-Public-Key": app.public_key, "Authorization": f"Bearer {ada['access_token']}"}
    async with (
        app.client(app.secret_key) as side,
        owner_of(app).client(app) as console,
        second_node(app.server) as node,
        client_of(node, **headers) as other,
    ):
        seat = await made(side, seats, team="red", member=ada["member_id"])

        async def asked() -> Any:
            data = {"name": "x", "team": "red"}
            answers = await asyncio.gather(*(other.post(rows(table), json={"data": data}) for _ in range(4)))
            codes = {answer.json().get("code", answer.status_code) for answer in answers}
            assert len(codes) == 1
            return codes.pop()

        for create, expected in (
            (SEATED, 201),
            ({"$not": SEATED}, "RULE_DENIED"),
            ({"team": "red"}, 201),
            (None, "RULE_DENIED"),
            (True, 201),
            ({"team": "blue"}, "RULE_DENIED"),
            (SEATED, 201),
        ):
            await save(app, table, {"read": True} if create is None else {"create": create})
            assert await asked() == expected, create
        await side.delete(f"{rows(seats)}/{seat}")
        assert await asked() == "RULE_DENIED"
        await made(side, seats, team="red", member=ada["member_id"])
        assert await asked() == 201
        for table_id, name in ((seats, "group"), (table, "squad")):
            assert await asked() == 201
            answer = await console.post(f"/tables/{table_id}/columns/team/rename", json={"name": name})
            assert answer.status_code == 200, answer.text
        assert (await other.post(rows(table), json={"data": {"name": "x", "squad": "red"}})).status_code == 201


def test_a_condition_reads_its_values_from_records():
    found = shared_reads.of_records("r.a = $2::text and b = any($3::text[])", ["$2::text", "$3::text[]"], "r")
    assert found == ("r.a = r.__v2 and b = any(r.__v3)", ["__v2 text", "__v3 text[]"])
    for place in ("$2::jsonb", "$2::bytea", "$2::double precision", "$2"):
        assert shared_reads.of_records("", [place], "r") is None, place


async def _taken(app: App, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as the app sees them, and delete them."""
    async with app.client(app.secret_key) as side:
        answer = await side.post(f"{rows(table)}/query", json={"limit": 1000})
        assert (await side.post(f"{rows(table)}/delete-where", json={"all": True})).status_code == 200
    found: list[dict[str, Any]] = answer.json()["data"]
    return found
