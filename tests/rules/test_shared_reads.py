"""Rows that several callers read at once by one statement, each under its own values of one rule."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx

from pilotis.data.rows import shared_reads
from tests.rules.test_paths import made
from tests.rules.test_rules import findings, manager, rows, save
from tests.support import App

ME: dict[str, Any] = {"$member": "id"}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
WHO = ["ada", "eve", "sam", "kim"]


async def test_members_who_read_at_once_see_their_own_rows_alone(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    table = await app.table({"name": "string", "team": "string", "pay": "int", "org": "string"}, title="things")
    members = {name: await app.member(name) for name in WHO}
    async with app.client(app.secret_key) as side, manager(app) as console:
        for name in WHO[:3]:
            await made(side, seats, team=f"of {name}", member=members[name]["member_id"])
            path = f"/members/{members[name]['member_id']}"
            facts = {"claims": {"org": f"of {name}"}, "roles": ["boss"] if name == "sam" else []}
            assert (await console.patch(path, json=facts)).status_code == 200
        ids = {name: await made(side, table, name=name, team=f"of {name}", org=f"of {name}", pay=1) for name in WHO}
    clients = {name: app.client(members[name]["access_token"]) for name in WHO}
    boss = {"$member": {"roles": {"$arrayContains": "boss"}}}
    columns = {"pay": {"read": SEATED}, "team": {"read": boss}}
    for read, seen in (
        (SEATED, {(name, name) for name in WHO[:3]}),
        # What is known of a member decides, and is not known before its session was checked.
        ({"org": {"$member": "claims.org"}}, {(name, name) for name in WHO[:3]}),
        ({"$or": [boss, SEATED]}, {(name, name) for name in WHO[:2]} | {("sam", name) for name in WHO}),
        ({"$member": {}}, {(one, other) for one in WHO for other in WHO}),
    ):
        await save(app, table, {"read": read, "columns": columns})
        # Once, so that the rules are known; then all at once.
        for _ in range(2):
            pairs = [(one, other) for one in WHO for other in WHO] * 3

            async def ask(pair: tuple[str, str]) -> httpx.Response:
                return await clients[pair[0]].get(f"{rows(table)}/{ids[pair[1]]}")

            answers = await asyncio.gather(*map(ask, pairs))
            for (one, other), answer in zip(pairs, answers, strict=True):
                if (one, other) not in seen:
                    # Nothing is left of the rule for one without the claim.
                    code = "RULE_DENIED" if one == "kim" and "org" in read else "ROW_NOT_FOUND"
                    assert answer.json()["code"] == code, (read, one, other)
                    continue
                data = answer.json()["data"]
                assert data["name"] == other, (read, one, other)
                assert ("pay" in data) is (one == other and one != "kim"), (read, one, other)
                assert ("team" in data) is (one == "sam"), (read, one, other)
    for client in clients.values():
        await client.aclose()
    assert not any(code == "SLOW_RULE" for _, code, _ in await findings(app))


async def test_a_session_that_has_ended_is_told_before_what_a_rule_denies(app: App):
    table = await app.table({"name": "string"})
    row = await app.row(table, {"name": "x"})
    for rules in ({"read": {"$member": {"roles": {"$arrayContains": "boss"}}}}, {"create": True}):
        await save(app, table, rules)
        member = await app.member(f"m{len(rules)}{next(iter(rules))}")
        async with app.client(member["access_token"]) as client:
            for path in (f"{rows(table)}/{row['id']}", rows(table)):
                for _ in range(2):
                    assert (await client.get(path)).json()["code"] == "RULE_DENIED"
            assert (await client.post("/v1/public/app-members/signout")).status_code in {200, 204}
            for path in (f"{rows(table)}/{row['id']}", rows(table)):
                assert (await client.get(path)).status_code == 401


def test_values_that_no_record_has_are_not_shared():
    select = "select item from t where __id = $1 and a = $2::text and b = any($3::text[])"
    sql = shared_reads.shared(select, ["$2::text", "$3::text[]"])
    assert sql is not None
    assert "where __id = asked.__v1 and a = asked.__v2 and b = any(asked.__v3)" in sql
    assert "as (__v1 uuid, __v2 text, __v3 text[]))" in sql
    for place in ("$2::jsonb", "$2::bytea", "$2::double precision", "$2"):
        assert shared_reads.shared(select, [place]) is None, place
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    values = ['a"b', UUID(int=1), True, 5, moment, ["x"]]
    found = shared_reads.record(values)
    assert found is not None
    assert shared_reads.with_id("1", found).startswith(b'{"__v1":"1","__v2":"a\\"b","__v3":"00000000-')
    for value in (None, b"x", 1.5, {"a": 1}, [None], [b"x"]):
        assert shared_reads.record([value]) is None, value
