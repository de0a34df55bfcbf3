"""Rules against the oracle: every route on rows, for each rule and caller; and random rules."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import databases
from tests.rules.oracle import NOT_FOUND, Denied, Oracle, Row, World
from tests.rules.test_rules import manager, rows
from tests.support import App, Server
from tests.views.support import save
from tests.whole import WHOLE, sample

GROUPS = [{"$group": {"_id": "$state", "n": {"$count": {}}}}]
ME: dict[str, Any] = {"$member": "id"}
SIGNED_IN: dict[str, Any] = {"$member": {}}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
ORG = "0198a000-0000-7000-8000-000000000001"
SCHEMA = {
    "name": "string",
    "state": "string",
    "owner": "string",
    "team": "string",
    "org": "uuid",
    "readers": "array",
    "price": "number",
    "place": "object",
    "code": "string",
    "link": {"type": "uuid", "references": {"table": "seats"}},
}


def same(rule: Any, **others: Any) -> dict[str, Any]:
    return {"read": rule, "create": rule, "update": rule, "delete": rule, **others}


RULES: dict[str, dict[str, Any]] = {
    "null": same(None),
    "true": same(True),
    "drop box": {"create": True},
    "signed in": same(SIGNED_IN),
    "guest": same({"$member": {"is_guest": True}}),
    "role": same({"$member": {"roles": {"$arrayContains": "helper"}}}),
    "claim": same({"org": {"$member": "claims.org"}}),
    "absent claim": same({"$or": [{"team": {"$ne": {"$member": "claims.none"}}}, {"state": "published"}]}),
    "not an absent claim": same({"$not": {"$or": [{"team": {"$member": "claims.none"}}, {"state": "draft"}]}}),
    "own": same({"$or": [{"$creator": ME}, {"owner": ME}]}),
    "of others": same({"owner": {"$ne": ME}}),
    "shared": same({"readers": {"$arrayContains": ME}}),
    "seated at all": same({"$exists": {"table": "seats", "where": {"member": ME}}}),
    "of the team": same({"$or": [{"state": "published"}, SEATED]}),
    "of another team": same(
        {"$exists": {"table": "seats", "where": {"$not": {"team": {"$row": "team"}}, "member": ME}}}
    ),
    "not banned": same(
        {**SIGNED_IN, "$not": {"$exists": {"table": "bans", "where": {"member": ME, "team": {"$row": "team"}}}}}
    ),
    "two deep": same(
        {
            "$exists": {
                "table": "seats",
                "where": {
                    "member": ME,
                    "team": {"$row": "team"},
                    "$not": {"$exists": {"table": "bans", "where": {"team": {"$row": "team"}, "member": ME}}},
                },
            }
        }
    ),
    "old and new": {
        "read": True,
        "create": {"state": {"$in": ["draft", "published"]}},
        "update": {
            "$or": [{"$old": {"state": "draft"}}, {"$new": {"team": {"$eq": {"$old": "team"}}, "price": {"$gt": 0}}}]
        },
        "delete": {"$not": {"state": "published"}},
    },
    "through a reference": same({"$or": [{"link.member": ME}, {"$not": {"link.team": "blue"}}]}),
    "shown to some": {
        **same(True),
        "columns": {"price": {"read": {"$or": [{"owner": ME}, SEATED]}}, "owner": {"read": SIGNED_IN}},
    },
    "closed list": {**same(True), "list": None, "delete": {"$use": "mine"}, "define": {"mine": {"owner": ME}}},
    "narrow list": {**same(True), "list": {"state": {"$ne": "draft"}}},
}
CALLERS = ["public", "guest", "stranger", "owner", "mate", "former"]
# Rules under which routes that share their statements with others are tried as well; in a whole run under all.
BESIDE = (
    RULES if WHOLE else {"own", "of the team", "through a reference", "shown to some", "closed list", "narrow list"}
)
WRITERS = {"public", "owner", "mate"}


class Place(NamedTuple):
    """An app with a table of things, and its callers."""

    app: App
    table: str
    seats: str
    marks: str
    open: str
    world: World
    tokens: dict[str, str | None]
    facts: dict[str, dict[str, Any] | None]

    @property
    def things(self) -> list[Row]:
        return self.world.tables["things"]


@pytest.fixture
async def place(app: App, server: Server) -> Place:
    members = {name: await app.member(name) for name in ("stranger", "owner", "mate", "former")}
    members["guest"] = await app.guest()
    ids = {name: member["member_id"] for name, member in members.items()}
    facts: dict[str, dict[str, Any] | None] = {
        name: {"id": ids[name], "is_guest": name == "guest", "roles": [], "claims": {}} for name in members
    }
    facts["mate"] |= {"roles": ["helper", "other"], "claims": {"org": ORG, "x": None}}
    facts["former"] |= {"claims": {"org": "of no such form"}}
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    for name, one in facts.items():
        await connection.execute(
            "update pilotis.members set roles = $1, claims = $2 where app_id = $3 and member_id = $4",
            *(one["roles"], json.dumps(one["claims"]), app.app_id, ids[name]),
        )
    await connection.close()
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    bans = await app.table({"team": "string", "member": "string"}, title="bans")
    table = await app.table(SCHEMA, title="things")
    async with manager(app) as side:
        assert (await side.post(f"/tables/{table}/unique", json={"columns": ["code"]})).status_code == 201
    marks = await app.table({"thing": {"type": "uuid", "references": {"table": "things", "on_delete": "cascade"}}})
    world = World({"things": [], "seats": [], "bans": []}, frozenset({"org"}), {"link": "seats"})
    tokens: dict[str, str | None] = {name: member["access_token"] for name, member in members.items()}
    tokens["public"] = facts["public"] = None

    async def make(title: str, table_id: str, data: dict[str, Any], creator: str | None = None) -> None:
        made = await app.row(table_id, data, None if creator is None else tokens[creator])
        world.tables[title].append(data | {"id": made["id"], "$creator": creator and ids[creator]})

    for team, name in (("red", "mate"), ("blue", "owner"), ("red", "owner")):
        await make("seats", seats, {"team": team, "member": ids[name]})
    await make("bans", bans, {"team": "red", "member": ids["owner"]})
    await make("bans", bans, {"member": ids["mate"]})
    spot = {"latitude": 1.0, "longitude": 2.0}
    red, blue, own = (seat["id"] for seat in world.tables["seats"])
    things = [
        ({"state": "published", "team": "red", "owner": ids["owner"], "price": 1, "link": red}, "owner"),
        ({"state": "draft", "team": "red", "owner": ids["owner"], "price": 2, "org": ORG, "link": blue}, "owner"),
        ({"state": "draft", "team": "blue", "owner": ids["mate"], "price": 0, "link": own}, "mate"),
        ({"state": "published", "readers": [ids["stranger"], ids["guest"]], "price": 4}, "guest"),
        ({"state": "hidden", "org": ORG, "price": 5}, None),
        ({"team": "blue", "readers": [ids["mate"]]}, "former"),
    ]
    for number, (data, creator) in enumerate(things):
        await make("things", table, {"name": f"thing {number}", "place": spot, "code": f"{number}"} | data, creator)
    for thing in world.tables["things"]:
        await app.row(marks, {"thing": thing["id"]})
    by_state = [{"$match": {"price": {"$gte": {"$param": "least"}}}}, *GROUPS]
    params = {"least": {"type": "number", "default": 0}}
    await save(app, name="by-state", table_id=table, pipeline=GROUPS)
    await save(app, name="all-states", table_id=table, pipeline=by_state, params=params, run_as="app", read=True)
    return Place(app, table, seats, marks, await app.table({"name": "string"}), world, tokens, facts)


async def use(place: Place, rules: dict[str, Any]) -> None:
    async with manager(place.app) as side:
        answer = await side.put(f"/tables/{place.table}/rules", json={"rules": rules})
    assert answer.status_code == 200, answer.text


def outcome(answer: httpx.Response) -> Denied | None:
    if answer.is_success:
        return None
    return Denied(answer.status_code, answer.json()["code"])


async def test_every_route_agrees_with_the_oracle(place: Place):
    async with place.app.client(place.app.secret_key) as side:
        for name, rules in RULES.items():
            await use(place, rules)
            for caller in sample(CALLERS, 0.3, of=name):
                oracle = Oracle(place.world, rules, place.facts[caller])
                async with place.app.client(place.tokens[caller]) as client:
                    try:
                        await reads(place, oracle, client, caller)
                        if name in BESIDE:
                            await beside(place, oracle, client, caller)
                        if caller in WRITERS:
                            await changes(place, oracle, client, caller)
                            await additions(place, oracle, client, side, caller)
                    except AssertionError as error:
                        error.add_note(f"Under the rules {name!r}: {rules}")
                        raise
            everything = (await side.get(rows(place.table))).json()
            assert [row["id"] for row in everything["data"]] == [row["id"] for row in place.things], name


async def reads(place: Place, oracle: Oracle, client: httpx.AsyncClient, caller: str) -> None:
    """Check every route that reads many rows, and the one that reads a single one."""
    table, listed = place.table, oracle.listed(place.things)
    for row in [*place.things, None]:
        answer = await client.get(f"{rows(table)}/{row['id'] if row else uuid4()}")
        assert outcome(answer) == oracle.read(row), (caller, row)
    ratio = {"$addFields": {"ratio": {"$divide": [1, "$price"]}}}
    requests = {
        "page": ("GET", rows(table), None),
        "query": ("POST", f"{rows(table)}/query", {"where": {"price": {"$gt": 0}}, "order_by": "price"}),
        "patterns": ("POST", f"{rows(table)}/query", {"where": {"name": {"$matches": "thing [0-3]"}}}),
        "search": ("POST", "/v1/public/search", {"table_id": table, "query": "thing", "fields": ["name"]}),
        "autocomplete": ("POST", "/v1/public/autocomplete", {"table_id": table, "query": "p", "field": "state"}),
        "geo": (
            "POST",
            "/v1/public/geo",
            {"table_id": table, "field": "place", "near": {"center": {"latitude": 1, "longitude": 2}}},
        ),
        "groups": (
            "POST",
            "/v1/public/aggregate",
            {"table_id": table, "pipeline": GROUPS},
        ),
        "view": ("GET", "/v1/public/views/by-state", None),
        "division": (
            "POST",
            "/v1/public/aggregate",
            {"table_id": table, "pipeline": [ratio, {"$match": {"ratio": {"$gt": 0}}}]},
        ),
    }
    # As the app, a view is the same whatever the rules say.
    shown = await client.post("/v1/public/views/all-states", json={})
    states = [row.get("state") for row in place.things if (row.get("price") or -1) >= 0 or row.get("price") == 0]
    assert {one["_id"]: one["n"] for one in shown.json()["data"]} == {state: states.count(state) for state in states}
    for kind, (method, path, body) in requests.items():
        answer = await client.request(method, path, json=body)
        where = caller, kind, answer.text
        if isinstance(listed, Denied):
            assert outcome(answer) == listed, where
            continue
        if not oracle.names("price") and kind in {"query", "division"}:
            assert outcome(answer) == Denied(403, "COLUMN_NOT_READABLE"), where
            continue
        if kind == "division":
            # A division by zero tells of a row: it may be one that is seen.
            fails = any(row.get("price") == 0 for row in listed)
            assert outcome(answer) == (Denied(400, "CALCULATION_FAILED") if fails else None), where
            continue
        assert answer.status_code == 200, where
        body = answer.json()
        ids = [row["id"] for row in listed]
        if kind == "autocomplete":
            assert body["suggestions"] == (
                ["published"] if any(row.get("state") == "published" for row in listed) else []
            ), where
        elif kind in {"groups", "view"}:
            states = [row.get("state") for row in listed]
            assert {one["_id"]: one["n"] for one in body["data"]} == {state: states.count(state) for state in states}, (
                where
            )
        else:
            if kind == "query":
                ids = [
                    row["id"]
                    for row in sorted((r for r in listed if (r.get("price") or 0) > 0), key=lambda r: r["price"])
                ]
            if kind == "patterns":
                ids = [row["id"] for row in listed if row["name"] < "thing 4"]
            found = [row["id"] for row in body["data"]]
            assert (found if kind in {"page", "query", "patterns"} else sorted(found)) == ids, where
            assert body["total_count"] == len(ids), where
            assert not any("created_by" in row for row in body["data"]), where
            for row in body["data"]:
                shown = next(one for one in listed if one["id"] == row["id"])
                for column in ("price", "owner"):
                    # A column that never had a value is absent from every answer.
                    expected = shown.get(column) if oracle.shows(column, shown) else None
                    assert row["data"].get(column) == expected, (where, column)


async def beside(place: Place, oracle: Oracle, client: httpx.AsyncClient, caller: str) -> None:
    """Check the routes that find a row otherwise, show it beside others, and change it where it is found."""
    table, things, listed = place.table, place.things, oracle.listed(place.things)
    if caller in WRITERS:
        await found_otherwise(place, oracle, client, caller)
    for row in things:
        expected = oracle.read(row)
        answer = await client.get(f"{rows(table)}/by/code/{row['code']}")
        assert outcome(answer) == expected, (caller, row)
    # Rows that others refer to, by their ids alone.
    asked: dict[str, Any] = {"expand": ["thing"], "order_by": "created_at"}
    marks = (await client.post(f"{rows(place.marks)}/query", json=asked)).json()["data"]
    readable = [row["id"] if oracle.read(row) is None else None for row in things]
    assert [(mark["expanded"]["thing"] or {"id": None})["id"] for mark in marks] == readable, caller
    for mark, row in zip(marks, things, strict=True):
        if mark["expanded"]["thing"]:
            assert ("price" in mark["expanded"]["thing"]["data"]) is (oracle.shows("price", row) and "price" in row)
    through = {"where": {"thing.state": {"$ne": "draft"}}}
    found = (await client.post(f"{rows(place.marks)}/query", json=through)).json()
    assert found["total_count"] == sum(oracle.read(row) is None and row.get("state") != "draft" for row in things), (
        caller
    )
    # Lists and numbers of those that refer to a row.
    asked = {"expand": {"t": {"from": "things.link"}}, "counts": {"n": {"from": "things.link"}}}
    answer = await client.post(f"{rows(place.seats)}/query", json=asked)
    walked: list[str] = []
    cursor: str | None = "first"
    while cursor is not None:
        page = await client.get(f"{rows(table)}?limit=2&cursor={cursor}")
        if isinstance(listed, Denied):
            assert outcome(page) == outcome(answer) == listed, (caller, page.text, answer.text)
            return
        walked += [row["id"] for row in page.json()["data"]]
        cursor = page.json()["next_cursor"]
    assert walked == [row["id"] for row in listed], caller
    for seat in answer.json()["data"]:
        ids = [row["id"] for row in listed if row.get("link") == seat["id"]]
        assert [row["id"] for row in seat["expanded"]["t"]] == ids, (caller, seat)
        assert seat["counts"]["n"] == len(ids), (caller, seat)


async def found_otherwise(place: Place, oracle: Oracle, client: httpx.AsyncClient, caller: str) -> None:
    """Check changes of rows by a key, and by a condition; they leave every row as it is."""
    table, things, listed = place.table, place.things, oracle.listed(place.things)
    for row in things:
        expected = oracle.updated(row, {})
        data = {"code": row["code"], "name": row["name"]}
        answer = await client.patch(f"{rows(table)}/by/code/{row['code']}", json={"data": data})
        # The row is looked for as one that is to be read.
        assert outcome(answer) == (oracle.read(row) or expected), (caller, row, answer.text)
        for mode in ("merge", "ignore"):
            answer = await client.post(f"{rows(table)}/upsert", json={"key": "code", "mode": mode, "data": data})
            wanted = expected if mode == "merge" else oracle.read(row)
            hidden = Denied(409, "UNIQUE_VIOLATION")
            assert outcome(answer) == (hidden if wanted == NOT_FOUND else wanted), (caller, mode, row, answer.text)
            assert wanted or answer.json()["created"] is False
    spot = {"latitude": 1.0, "longitude": 2.0}
    change = {"data": {"place": spot}, "where": {"name": {"$startsWith": "thing"}}}
    answer = await client.post(f"{rows(table)}/update-where", json=change)
    wrong = oracle._error("update", *(["list"] if "list" in oracle.rules else []), "read")
    if wrong:
        assert outcome(answer) == wrong, (caller, answer.text)
    elif "$new" not in str(oracle.rules) or answer.is_success:
        assert not isinstance(listed, Denied)
        allowed = [row for row in listed if oracle.updated(row, {}) is None]
        assert answer.json()["updated_count"] == len(allowed), (caller, answer.text)


async def changes(place: Place, oracle: Oracle, client: httpx.AsyncClient, caller: str) -> None:
    """Check updates and deletions; none of them lasts."""
    table, things = place.table, place.things
    same_name = [
        {"type": "update", "table_id": table, "doc_id": row["id"], "data": {"name": row["name"]}} for row in things
    ]
    answer = await client.post("/v1/public/batch", json={"operations": same_name})
    for row, result in zip(things, answer.json()["results"], strict=True):
        expected = oracle.updated(row, {})
        assert (None if result["success"] else result["error"]["code"]) == (expected and expected.code), (caller, row)
    # The last operation fails, so that nothing remains of the first one.
    failing = {"type": "update", "table_id": place.open, "doc_id": str(uuid4()), "data": {"name": "x"}}
    attempts: list[tuple[dict[str, Any], Denied | None]] = []
    for row in things[1:4]:
        given = {"table_id": table, "doc_id": row["id"]}
        attempts.append(({"type": "delete", **given}, oracle.deleted(row)))
        for data in ({"team": "blue", "state": "published"}, {"owner": (place.facts["stranger"] or {})["id"]}):
            attempts.append(({"type": "update", **given, "data": data}, oracle.updated(row, data)))
    for operation, expected in attempts:
        answer = await client.post("/v1/public/transactions", json={"operations": [operation, failing]})
        failed = answer.json()["code"], answer.json()["failed_index"]
        wanted = (expected.code, 0) if expected else ("ROW_NOT_FOUND", 1)
        assert failed == wanted, (caller, operation, answer.text)
    row = things[0]
    expected = oracle.updated(row, {})
    assert (
        outcome(await client.patch(f"{rows(table)}/{row['id']}", json={"data": {"name": row["name"]}})) == expected
    ), caller


async def additions(
    place: Place, oracle: Oracle, client: httpx.AsyncClient, side: httpx.AsyncClient, caller: str
) -> None:
    """Check creations, and deletions of rows that were made for it."""
    table, facts = place.table, place.facts
    creator = (facts[caller] or {}).get("id")
    new = [
        {"name": "new a", "state": "published", "team": "red", "owner": creator or "x", "org": ORG},
        {"name": "new b", "state": "draft", "team": "blue", "owner": (facts["mate"] or {})["id"]},
        {"name": "new c", "state": "odd", "readers": [creator or "x"]},
    ]
    expected = [oracle.created(row | {"$creator": creator}) for row in new]
    for path in (rows(table), f"{rows(table)}/bulk"):
        answer = await client.post(path, json={"data": new})
        if oracle._error("create"):
            assert outcome(answer) == expected[0], caller
        elif all(expected):
            assert outcome(answer) == Denied(400, "NOTHING_CREATED"), caller
        else:
            failed = {one["index"]: one["code"] for one in answer.json().get("failed", [])}
            assert failed == {index: one.code for index, one in enumerate(expected) if one}, caller
    operations = [{"type": "create", "table_id": table, "data": data} for data in new]
    answer = await client.post("/v1/public/batch", json={"operations": operations})
    codes = [None if one["success"] else one["error"]["code"] for one in answer.json()["results"]]
    assert codes == [one and one.code for one in expected], caller
    assert outcome(await client.post(rows(table), json={"data": new[0]})) == expected[0], caller
    counted = (await side.post(f"{rows(table)}/query", json={"where": {"name": {"$startsWith": "new"}}})).json()
    # Three lists, and the first row once more.
    assert counted["total_count"] == sum(3 + (not index) for index, one in enumerate(expected) if one is None), caller
    own = [row["data"] | {"$creator": row["created_by"], "id": row["id"]} for row in counted["data"]]
    left = await side.post(rows(table), json={"data": new})
    own += [row["data"] | {"$creator": None, "id": row["id"]} for row in left.json()["created"]]
    removed = own.pop()
    refused = oracle.deleted(removed)
    assert outcome(await client.delete(f"{rows(table)}/{removed['id']}")) == refused, caller
    if refused:
        own.append(removed)
    found = oracle.deleted_where(own)
    answer = await client.post(f"{rows(table)}/delete-where", json={"where": {"name": {"$startsWith": "new"}}})
    if isinstance(found, Denied):
        assert outcome(answer) == found, caller
    else:
        assert answer.json()["deleted_count"] == len(found), (caller, answer.text)
    await side.post(f"{rows(table)}/delete-where", json={"where": {"name": {"$startsWith": "new"}}})


LEAVES: list[dict[str, Any]] = [
    {"state": "draft"},
    {"owner": ME},
    {"$creator": ME},
    {"$creator": None},
    {"team": {"$in": ["red", "green"]}},
    {"team": {"$nin": ["red"]}},
    {"price": {"$gt": 1}},
    {"price": {"$not": {"$gt": 1}}},
    {"readers": {"$arrayContains": ME}},
    {"org": {"$member": "claims.org"}},
    {"org": {"$ne": {"$member": "claims.org"}}},
    {"team": {"$ne": {"$member": "claims.none"}}},
    {"$member": {"roles": {"$arrayContains": "helper"}}},
    {"$member": {"is_guest": False}},
    {"link.team": "red"},
    {"link.member": {"$ne": ME}},
    {"link.member": {"$isNull": True}},
    {"$member": {"claims.org": {"$ne": ORG}}},
]
INSIDE: list[dict[str, Any]] = [
    {"member": ME},
    {"team": {"$row": "team"}},
    {"team": {"$ne": {"$row": "team"}}},
    {"member": {"$row": "$creator"}},
    {"member": {"$row": "owner"}},
    {"team": {"$not": {"$eq": {"$row": "team"}}}},
    {"team": "red"},
    {"member": {"$member": "claims.none"}},
]


def combined(leaves: st.SearchStrategy[dict[str, Any]], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda several: {"$and": several}),
            st.lists(inner, min_size=1, max_size=3).map(lambda several: {"$or": several}),
            inner.map(lambda one: {"$not": one}),
        ),
        max_leaves=depth,
    )


def exists(table: str) -> st.SearchStrategy[dict[str, Any]]:
    return combined(st.sampled_from(INSIDE), 4).map(lambda where: {"$exists": {"table": table, "where": where}})


CONDITIONS = combined(st.one_of(st.sampled_from(LEAVES), exists("seats"), exists("bans")), 6)


async def test_random_rules_agree_with_the_oracle(place: Place):
    examples = int(os.environ.get("RULE_EXAMPLES", "10"))
    drawn: list[dict[str, Any]] = []

    @settings(max_examples=examples, database=None)
    @given(CONDITIONS)
    def draw(rule: dict[str, Any]) -> None:
        drawn.append(rule)

    draw()
    for rule in drawn:
        if str(rule).count("$exists") > 8:
            continue
        await use(place, same(rule))
        for caller in CALLERS:
            oracle = Oracle(place.world, same(rule), place.facts[caller])
            async with place.app.client(place.tokens[caller]) as client:
                try:
                    answer = await client.get(rows(place.table))
                    listed = oracle.listed(place.things)
                    if isinstance(listed, Denied):
                        assert outcome(answer) == listed, caller
                    else:
                        assert [row["id"] for row in answer.json()["data"]] == [row["id"] for row in listed], caller
                    row = place.things[2]
                    answer = await client.get(f"{rows(place.table)}/{row['id']}")
                    assert outcome(answer) == oracle.read(row), caller
                    answer = await client.patch(
                        f"{rows(place.table)}/{row['id']}", json={"data": {"name": row["name"]}}
                    )
                    assert outcome(answer) == oracle.updated(row, {}), caller
                    new = {"team": "red", "state": "draft"}
                    operations = [
                        {"type": "create", "table_id": place.table, "data": new},
                        {"type": "update", "table_id": place.open, "doc_id": str(uuid4()), "data": {"name": "x"}},
                    ]
                    answer = await client.post("/v1/public/transactions", json={"operations": operations})
                    creator = (place.facts[caller] or {}).get("id")
                    expected = oracle.created(new | {"$creator": creator})
                    assert answer.json()["code"] == (expected.code if expected else "ROW_NOT_FOUND"), caller
                except AssertionError as error:
                    error.add_note(f"Under the rule {rule}")
                    raise
