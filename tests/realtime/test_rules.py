"""Streams under rules: what a caller is told is what its queries show it, for each rule and caller."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

from tests.realtime.listening import TrueList, deleted, listening, patched, refused
from tests.rules.test_matrix import CALLERS, ME, RULES, SIGNED_IN, Place, place, use
from tests.rules.test_rules import manager, ruled
from tests.support import App, assert_error
from tests.whole import WHOLE

__all__ = ["place"]

# In a whole run all of them.
SHORT = ("role", "own", "shared", "of the team", "not banned", "two deep", "through a reference", "shown to some")
CHOSEN = RULES if WHOLE else {name: RULES[name] for name in (*SHORT, "closed list", "narrow list")}


async def test_what_a_stream_tells_is_what_queries_show(place: Place):
    app, table = place.app, place.table
    async with app.client(app.secret_key) as side:
        for name, rules in CHOSEN.items():
            await use(place, rules)
            try:
                await compared(place, app, table)
            except AssertionError as error:
                error.add_note(f"Under the rules {name!r}: {rules}")
                raise
            answer = await side.post(f"/v1/public/tables/{place.seats}/data/query", json={"where": {"team": "new"}})
            for seat in answer.json()["data"]:
                await side.delete(f"/v1/public/tables/{place.seats}/data/{seat['id']}")


async def compared(place: Place, app: App, table: str) -> None:
    """Listen as every caller while rows and seats change, and compare with what queries show after each change."""
    asked = {"id": "all", "table_id": table}
    lists: dict[str, tuple[Any, TrueList]] = {}
    shown: dict[str, set[str]] = {}
    async with AsyncExitStack() as stack:
        for caller in CALLERS:
            client = await stack.enter_async_context(app.client(place.tokens[caller]))
            query = await client.post(f"/v1/public/tables/{table}/data/query", json={})
            if query.status_code != 200:
                assert_error(await refused(client, asked), query.status_code, query.json()["code"])
                continue
            listener = await stack.enter_async_context(listening(client, asked))
            rows = TrueList(client, table)
            await rows.read()
            lists[caller], shown[caller] = (listener, rows), set()

        async def settled() -> None:
            for caller, (listener, rows) in lists.items():
                try:
                    await rows.until_true(listener)
                except AssertionError as error:
                    error.add_note(f"As {caller}")
                    raise
                shown[caller] |= {json.dumps(row, sort_keys=True) for row in rows.rows.values()}

        first = {"id": place.things[1]["id"]}
        mate, owner = (place.facts[name]["id"] for name in ("mate", "owner"))  # type: ignore[index]
        await settled()
        for change in (
            {"state": "published", "team": "blue"},
            {"state": "draft", "owner": mate, "price": 7},
            {"state": "draft", "owner": owner, "price": 2, "team": "red"},
        ):
            await patched(app, table, first, app.secret_key, **change)
            await settled()
        made = await app.row(table, {"name": "new", "team": "new", "owner": mate, "state": "draft"}, app.secret_key)
        await settled()
        # One seat lets somebody see what no change of the row tells of.
        for member in (mate, place.facts["stranger"]["id"]):  # type: ignore[index]
            await app.row(place.seats, {"team": "new", "member": member}, app.secret_key)
        await settled()
        await deleted(app, table, made, app.secret_key)
        await settled()
        for caller, (_, rows) in lists.items():
            assert rows.told <= shown[caller], (caller, rows.told - shown[caller])


async def test_a_member_whose_roles_change_reads_again_and_one_who_may_not_any_more_is_told(app: App):
    rule = {"$member": {"roles": {"$arrayContains": "helper"}}}
    table = await ruled(app, {"name": "string"}, {"read": {"$or": [rule, {"name": "open"}]}, "create": True})
    closed = await ruled(app, {"name": "string"}, {"read": rule, "create": True})
    ada = await app.member("ada")
    async with manager(app) as side, app.client(ada["access_token"]) as client:
        await side.patch(f"/members/{ada['member_id']}", json={"roles": ["helper"]})
        both = [{"id": "some", "table_id": table}, {"id": "all", "table_id": closed}]
        async with listening(client, *both) as told:
            await app.row(table, {"name": "secret"})
            assert (await told.change())[2] == {"name": "secret"}
            await side.patch(f"/members/{ada['member_id']}", json={"roles": []})
            events = sorted(await told.next(2), key=lambda event: event[1]["subscription"])
            assert events == [
                ("reset", {"subscription": "all", "reason": "access", "code": "RULE_DENIED"}),
                ("reset", {"subscription": "some", "reason": "access"}),
            ]
            await app.row(closed, {"name": "never told"})
            await app.row(table, {"name": "never told"})
            await app.row(table, {"name": "open"})
            assert (await told.change())[2] == {"name": "open"}


async def test_rules_that_change_hold_for_streams(app: App):
    table = await ruled(app, {"name": "string", "pay": "int"}, {"read": True, "create": True})
    async with manager(app) as side, app.client() as client, listening(client, {"id": "a", "table_id": table}) as told:
        await app.row(table, {"name": "x", "pay": 5})
        assert (await told.change())[2] == {"name": "x", "pay": 5}
        hides = {"read": True, "create": True, "columns": {"pay": {"read": None}}}
        assert (await side.put(f"/tables/{table}/rules", json={"rules": hides})).status_code == 200
        assert await told.next() == [("reset", {"subscription": "a", "reason": "schema"})]
        await app.row(table, {"name": "y", "pay": 6})
        assert (await told.change())[2] == {"name": "y"}
        only = {"read": SIGNED_IN, "create": True}
        assert (await side.put(f"/tables/{table}/rules", json={"rules": only})).status_code == 200
        ((event, data),) = await told.next()
        assert (event, data) == (
            "reset",
            {"subscription": "a", "reason": "access", "code": "MEMBER_TOKEN_REQUIRED"},
        )


async def test_a_thousand_members_with_rows_of_their_own_are_one_shape(app: App):
    """Own rows, by level and by rule, are found by a lookup: the statement is the same for every member."""
    table = await app.table({"name": "string"}, access_level="Creator")
    ruled_table = await ruled(app, {"name": "string"}, {"read": {"$creator": ME}, "create": SIGNED_IN})
    members = [await app.member(name) for name in ("ada", "ben")]
    async with AsyncExitStack() as stack:
        told = []
        for member in members:
            client = await stack.enter_async_context(app.client(member["access_token"]))
            both = [{"id": "level", "table_id": table}, {"id": "rule", "table_id": ruled_table}]
            told.append(await stack.enter_async_context(listening(client, *both)))
        for number, member in enumerate(members):
            for table_id in (table, ruled_table):
                await app.row(table_id, {"name": str(number)}, member["access_token"])
        for number, listener in enumerate(told):
            changes = sorted([await listener.change(), await listener.change()], key=lambda change: change[0])
            assert changes == [(name, "create", {"name": str(number)}) for name in ("level", "rule")]


async def test_rows_of_ones_teams_are_told_by_what_the_rule_looks_up(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    mine = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": mine, "create": True})
    ada, ben = await app.member("ada"), await app.member("ben")
    for team in ("red", "blue"):
        await app.row(seats, {"team": team, "member": ada["member_id"]})
    async with (
        app.client(ada["access_token"]) as one,
        app.client(ben["access_token"]) as other,
        listening(one, {"id": "a", "table_id": table}) as first,
        listening(other, {"id": "b", "table_id": table, "where": {"team": "blue"}}) as second,
    ):
        row = await app.row(table, {"name": "x", "team": "red"})
        await app.row(table, {"name": "y", "team": "blue"})
        assert [(await first.change())[2]["name"] for _ in range(2)] == ["x", "y"]
        seat = await app.row(seats, {"team": "blue", "member": ben["member_id"]})
        assert await second.next() == [("reset", {"subscription": "b", "reason": "access"})]
        await app.row(table, {"name": "z", "team": "blue"})
        assert (await second.change())[2]["name"] == "z"
        assert (await first.change())[2]["name"] == "z"
        await patched(app, table, row, app.secret_key, team="green")
        assert await first.change() == ("a", "leave", None)
        await deleted(app, seats, seat)
        await app.row(table, {"name": "unseen", "team": "blue"})
        assert (await first.change())[2]["name"] == "unseen"
        await app.row(table, {"name": "unseen", "team": "red"})
        assert (await first.change())[2]["name"] == "unseen"
        assert second.events == []


async def test_a_member_who_joins_a_team_reads_its_rows_again(app: App):
    rule = {"team": {"$in": {"$member": "teams"}}}
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": rule, "create": True})
    ada = await app.member("ada")
    async with manager(app) as side, app.client(ada["access_token"]) as client:
        team = (await side.post("/teams", json={"name": "red"})).json()["team_id"]
        async with (
            listening(client, {"id": "a", "table_id": table}) as told,
            app.client(app.secret_key) as own,
            listening(own, {"id": "b", "table_id": table}) as all_rows,
        ):
            await app.row(table, {"name": "before", "team": team})
            # It was judged for everybody who listens, before the member joins.
            assert (await all_rows.change())[2]["name"] == "before"
            answer = await side.put(f"/teams/{team}/members/{ada['member_id']}", json={"roles": []})
            assert answer.status_code == 200, answer.text
            assert await told.next() == [("reset", {"subscription": "a", "reason": "access"})]
            await app.row(table, {"name": "x", "team": "another"})
            await app.row(table, {"name": "y", "team": team})
            assert (await told.change())[2] == {"name": "y", "team": team}
