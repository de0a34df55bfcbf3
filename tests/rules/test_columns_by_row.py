"""Columns that a caller sees in some rows: on every route that answers rows, and named on none."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.rules.test_paths import made, refers
from tests.rules.test_rules import listed, manager, rows, save
from tests.support import App, assert_error

ME: dict[str, Any] = {"$member": "id"}
SEATED = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": ME}}}
SCHEMA = {
    "name": "string",
    "team": "string",
    "phone": "string",
    "code": {"type": "string", "encrypted": True},
    "pay": "number",
    "place": "object",
    "boss": refers("people"),
    "note": "string",
    "tags": {"type": "array", "default": ["new"]},
}
# Of one's own row, and of those of one's team; pay is never shown.
RULES = {
    "read": True,
    "create": {"$member": {}},
    "update": {"$or": [{"$creator": ME}, SEATED]},
    "columns": {
        "phone": {"read": {"$or": [{"$creator": ME}, {"$use": "team"}]}},
        "code": {"read": {"$creator": ME}, "update": {"$member": {"is_guest": False}}},
        "pay": {"read": None},
        "tags": {"read": {"$creator": ME}},
    },
    "define": {"team": SEATED},
}


class People:
    """A table of people, two of whom belong to teams."""

    def __init__(self, app: App, table: str, clients: dict[str, httpx.AsyncClient], ids: dict[str, str]) -> None:
        self.app = app
        self.table = table
        self.clients = clients
        self.ids = ids


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row["data"][name] for name in ("phone", "code", "pay") if name in row["data"]}


@pytest.fixture
async def people(app: App) -> Any:
    async with app.client(app.secret_key) as side:
        seats = await app.table({"team": "string", "member": "string"}, title="seats")
        table_id = await app.table({"name": "string"}, title="people")
        changed = await side.patch(
            f"/v1/public/tables/{table_id}", json={"title": "people", "schema": SCHEMA, "access_level": "Public"}
        )
        assert changed.status_code == 200, changed.text
        await save(app, table_id, RULES)
        ada, eve = await app.member("ada"), await app.member("eve")
        await made(side, seats, team="red", member=eve["member_id"])
        async with (
            app.client(ada["access_token"]) as own,
            app.client(eve["access_token"]) as mate,
            app.client() as nobody,
        ):
            clients = {"ada": own, "eve": mate, "nobody": nobody, "side": side}
            ids: dict[str, str] = {}
            spot = {"latitude": 1.0, "longitude": 2.0}
            for name, team in (("ada", "red"), ("ada", "blue"), ("eve", "blue")):
                row = {
                    "name": f"{name} {team}",
                    "team": team,
                    "phone": f"{name} {team} 1",
                    "code": "c",
                    "pay": 1,
                    "note": "all",
                    "place": spot,
                    "boss": ids.get("ada red"),
                }
                answer = await clients[name].post(rows(table_id), json={"data": row})
                assert answer.status_code == 201, answer.text
                assert shown(answer.json()) == {"phone": f"{name} {team} 1", "code": "c"}
                ids[f"{name} {team}"] = answer.json()["id"]
            yield People(app, table_id, clients, ids)


SEEN = {
    "ada": {"ada red": ["phone", "code"], "ada blue": ["phone", "code"], "eve blue": []},
    "eve": {"ada red": ["phone"], "ada blue": [], "eve blue": ["phone", "code"]},
    "nobody": {"ada red": [], "ada blue": [], "eve blue": []},
    "side": {name: ["phone", "code", "pay"] for name in ("ada red", "ada blue", "eve blue")},
}


COLUMNS = {
    caller: sorted({column for columns in found.values() for column in columns}) for caller, found in SEEN.items()
}


def assert_seen(found: list[dict[str, Any]], caller: str, where: Any) -> None:
    assert {row["data"]["name"] for row in found} == set(SEEN[caller]), where
    for row in found:
        name = row["data"]["name"]
        assert list(shown(row)) == SEEN[caller][name], (where, caller, row)
        assert shown(row).get("phone", f"{name} 1") == f"{name} 1"
        assert shown(row).get("code", "c") == "c", "It is decrypted."


async def test_every_route_that_answers_rows_shows_them_where_the_rule_holds(people: People):
    table, path = people.table, rows(people.table)
    for caller, client in people.clients.items():

        async def ask(method: str, url: str, body: Any = None, client: httpx.AsyncClient = client) -> Any:
            answer = await client.request(method, url, json=body)
            assert answer.status_code in {200, 201}, (url, answer.text)
            return answer.json()

        for name, row_id in people.ids.items():
            one = await ask("GET", f"{path}/{row_id}")
            assert list(shown(one)) == SEEN[caller][name], caller
            assert shown(await ask("GET", f"{path}/{row_id}?expand=boss")) == shown(one)
        near = {"center": {"latitude": 1, "longitude": 2}}
        lists = {
            "page": ("GET", path, None),
            "ordered": ("POST", f"{path}/query", {"order_by": "name", "limit": 3}),
            "query": ("POST", f"{path}/query", {"where": {"name": {"$contains": " "}}, "count": False}),
            "walk": ("GET", f"{path}?cursor=first", None),
            "fields": ("POST", f"{path}/query", {"fields": ["name", *COLUMNS[caller]]}),
            "beside": ("POST", f"{path}/query", {"expand": ["boss"]}),
            "search": ("POST", "/v1/public/search", {"table_id": table, "query": "all", "fields": ["note"]}),
            "geo": ("POST", "/v1/public/geo", {"table_id": table, "field": "place", "near": near}),
        }
        for kind, request in lists.items():
            assert_seen((await ask(*request))["data"], caller, kind)
        beside = (await ask("POST", f"{path}/query", {"expand": ["boss"], "where": {"name": "eve blue"}}))["data"][0]
        assert list(shown(beside["expanded"]["boss"])) == SEEN[caller]["ada red"]
        staff = {"expand": {"staff": {"from": "people.boss"}}, "where": {"name": "ada red"}}
        below = (await ask("POST", f"{path}/query", staff))["data"][0]["expanded"]["staff"]
        assert [list(shown(row)) for row in below] == [SEEN[caller][name] for name in ("ada blue", "eve blue")]
        documents = await ask("POST", "/v1/public/aggregate", {"table_id": table, "pipeline": []})
        assert ("phone" in str(documents)) is (caller == "side"), "A pipeline cannot name it, nor group by it."
    # At this offset a page's rows are looked up by their ids.
    await people.clients["side"].post(path, json={"data": [{"name": "more", "team": "red", "phone": "p"}] * 120})
    far = await people.clients["eve"].post(f"{path}/query", json={"offset": 110, "limit": 5})
    assert [shown(row) for row in far.json()["data"]] == [{"phone": "p"}] * 5


async def test_no_route_lets_it_be_named(people: People):
    table, path, eve = people.table, rows(people.table), people.clients["eve"]
    for body in (
        {"where": {"phone": "x"}},
        {"order_by": "phone"},
        {"order_by": [{"column": "code"}]},
        {"where": {"$or": [{"phone": {"$startsWith": "a"}}]}},
        {"fields": ["name", "pay"]},
        {"where": {"boss.phone": "x"}},
        {"expand": {"boss": {"fields": ["pay"]}}},
        {"expand": {"s": {"from": "people.boss", "where": {"phone": "x"}}}},
    ):
        assert_error(await eve.post(f"{path}/query", json=body), 403, "COLUMN_NOT_READABLE")
    change = {"data": {"team": "red"}, "where": {"phone": "x"}}
    assert_error(await eve.post(f"{path}/update-where", json=change), 403, "COLUMN_NOT_READABLE")
    named = {
        "search": {"query": "x", "fields": ["phone"]},
        "autocomplete": {"query": "x", "field": "phone"},
        "geo": {"field": "place", "near": {"center": {"latitude": 1, "longitude": 2}}, "where": {"phone": "x"}},
        "aggregate": {"pipeline": [{"$match": {"name": "x"}}, {"$group": {"_id": "$phone"}}]},
    }
    for route, body in named.items():
        answer = await eve.post(f"/v1/public/{route}", json={"table_id": table, **body})
        assert_error(answer, 403, "COLUMN_NOT_READABLE")
    own = f"{path}/{people.ids['eve blue']}"
    assert_error(await eve.patch(own, json={"data": {"phone": {"$min": "x"}}}), 403, "COLUMN_NOT_READABLE")
    # A search in all columns does not look there either.
    found = await eve.post("/v1/public/search", json={"table_id": table, "query": "1"})
    assert found.json()["total_count"] == 0


async def test_what_is_written_answers_what_the_row_shows_afterwards(people: People):
    table, path, clients = people.table, rows(people.table), people.clients
    eve, own = clients["eve"], f"{path}/{people.ids['eve blue']}"
    assert shown((await eve.patch(own, json={"data": {"name": "x", "phone": None}})).json()) == {
        "phone": None,
        "code": "c",
    }
    assert shown((await eve.get(own)).json()) == {"phone": None, "code": "c"}
    assert shown((await clients["ada"].get(own)).json()) == {}, "Nor that it is null."
    # Who may change a row sees what the row shows then.
    red = f"{path}/{people.ids['ada red']}"
    assert shown((await eve.patch(red, json={"data": {"name": "y"}})).json()) == {"phone": "ada red 1"}
    several = await clients["ada"].post(
        path, json={"data": [{"name": "a", "phone": "1", "pay": 2}, {"name": "b", "code": "2"}]}
    )
    assert [shown(row) for row in several.json()["created"]] == [{"phone": "1"}, {"code": "2"}]
    create = {"type": "create", "table_id": table, "data": {"name": "c", "phone": "3", "code": "4", "pay": 5}}
    update = {"type": "update", "table_id": table, "doc_id": people.ids["eve blue"], "data": {"phone": "5"}}
    for route in ("batch", "transactions"):
        done = (await eve.post(f"/v1/public/{route}", json={"operations": [create, create, update]})).json()["results"]
        assert [shown(one) for one in done] == [{"phone": "3", "code": "4"}] * 2 + [{"phone": "5", "code": "c"}]
    new_id = "01a21d90-fe8d-7c94-907e-6e5272ef9a60"
    for mode, phone in (("merge", "6"), ("merge", "7"), ("ignore", "7"), ("replace", "7")):
        given = {"key": "id", "mode": mode, "data": {"id": new_id, "name": "u", "phone": phone}}
        answer = await eve.post(f"{path}/upsert", json=given)
        assert shown(answer.json()).get("phone") == phone, (mode, answer.text)
    # A replacement keeps what its caller cannot name, also where it is seen.
    assert shown((await eve.get(f"{path}/{new_id}")).json())["phone"] == "7"
    await save(people.app, table, {**RULES, "create": True, "columns": {"phone": {"read": {"team": "red"}}}})
    nobody = clients["nobody"]
    for team, expected in (("red", {"phone": "8"}), ("blue", {})):
        answer = await nobody.post(path, json={"data": {"name": "d", "team": team, "phone": "8"}})
        assert {name: value for name, value in shown(answer.json()).items() if value is not None} == expected


async def test_a_row_is_not_found_by_a_key_that_its_caller_cannot_name(people: People):
    key = {"columns": ["phone"], "name": "phone"}
    async with manager(people.app) as client:
        answer = await client.post(f"/tables/{people.table}/unique", json=key)
    assert answer.status_code == 201, answer.text
    path = f"{rows(people.table)}/by/phone/eve blue 1"
    assert_error(await people.clients["eve"].get(path), 403, "COLUMN_NOT_READABLE")
    assert (await people.clients["side"].get(path)).status_code == 200


async def test_trying_tells_which_columns_a_row_shows(people: People):
    async def columns(caller: Any, **given: Any) -> list[str]:
        async with manager(people.app) as client:
            body = {"action": "read", "as": caller, **given}
            answer = await client.post(f"/tables/{people.table}/rules/test", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["visible_columns"]

    member = {"id": str(uuid4())}
    assert await columns(member) == ["name", "team", "place", "boss", "note"]
    assert await columns(member, row_id=people.ids["ada red"]) == ["name", "team", "place", "boss", "note"]
    draft = {**RULES, "columns": {"phone": {"read": {"team": "red"}}, "pay": {"read": None}}}
    seen = await columns(member, row_id=people.ids["ada red"], rules=draft)
    assert seen == ["name", "team", "phone", "code", "place", "boss", "note", "tags"]
    assert await listed(people.clients["nobody"], people.table) == ["ada red", "ada blue", "eve blue"]
