"""Walks through a table with cursors, pages without a total, and rows with some of their columns."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from tests.support import App

SCHEMA = {"name": "string", "number": "number", "day": "date", "more": "object", "done": "boolean"}


async def asked(app: App, table_id: str, token: str | None = None, status: int = 200, **query: Any) -> dict[str, Any]:
    async with app.client(token) as client:
        answer = await client.post(f"/v1/public/tables/{table_id}/data/query", json=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def walked(app: App, table_id: str, **query: Any) -> list[dict[str, Any]]:
    """Return all rows of a walk, and require that each page but the last is full."""
    found, cursor = [], "first"
    while cursor:
        page = await asked(app, table_id, cursor=cursor, **query)
        found += page["data"]
        cursor = page["next_cursor"]
        assert len(page["data"]) == query["limit"] or cursor is None
    return found


async def filled(app: App, rows: list[dict[str, Any]], schema: dict[str, Any] = SCHEMA, **kind: Any) -> str:
    table_id = await app.table(schema, **kind)
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
    assert answer.status_code == 201, answer.text
    return table_id


def some_rows(number: int) -> list[dict[str, Any]]:
    rng = random.Random(7)
    values: dict[str, list[Any]] = {
        "name": ["a", "b", "é", "x" * 499, "x" * 600, "x" * 601, 'quo"te', ""],
        "number": [0, 1, -1, 0.1, 1e-7, 12345678901234567890.5, 2],
        "day": ["2026-01-31", "2026-01-31T12:00:00.123456Z", "1999-12-31T23:59:59+09:00"],
        "more": [{"a": 1}, {"a": "one"}, {"a": None}, {"a": [1, 2]}, {}],
        "done": [True, False],
    }
    return [{column: rng.choice(some) for column, some in values.items() if rng.random() < 0.8} for _ in range(number)]


@pytest.mark.share(0.34)
@pytest.mark.parametrize("order_by", [None, "id", "name", "number", "day", "more.a", "done", "created_at"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
async def test_a_walk_is_the_list(app: App, order_by: str | None, direction: str) -> None:
    table_id = await filled(app, some_rows(60))
    order = {"order_by": order_by, "order_direction": direction}
    whole = (await asked(app, table_id, limit=100, **order))["data"]
    assert len(whole) == 60
    assert await walked(app, table_id, limit=7, **order) == whole
    conditioned = {"where": {"number": {"$gte": 0}}, **order}
    part = (await asked(app, table_id, limit=100, **conditioned))["data"]
    assert 0 < len(part) < 60
    assert await walked(app, table_id, limit=4, **conditioned) == part


async def test_rows_that_stay_are_told_once_while_others_come_and_go(app: App) -> None:
    rng = random.Random(3)
    table_id = await filled(app, [{"number": number % 5} for number in range(40)])
    stay = {row["id"] for row in (await asked(app, table_id, limit=100))["data"]}
    found, cursor, added = [], "first", list[str]()
    while cursor:
        page = await asked(app, table_id, cursor=cursor, order_by="number", limit=3)
        found += [row["id"] for row in page["data"]]
        cursor = page["next_cursor"]
        for _ in range(3):
            added.append((await app.row(table_id, {"number": rng.randrange(5)}))["id"])
        if len(found) > 20:
            async with app.client() as client:
                for row_id in added:
                    await client.delete(f"/v1/public/tables/{table_id}/data/{row_id}")
            added.clear()
    assert sorted(row_id for row_id in found if row_id in stay) == sorted(stay)
    assert len(found) == len(set(found))


async def test_totals(app: App) -> None:
    table_id = await filled(app, [{"number": number} for number in range(5)])
    assert (await asked(app, table_id))["total_count"] == 5
    assert (await asked(app, table_id, count=False))["total_count"] is None
    assert (await asked(app, table_id, cursor="first"))["total_count"] is None
    counted = await asked(app, table_id, cursor="first", count=True, where={"number": {"$lt": 3}}, limit=2)
    assert (counted["total_count"], len(counted["data"]), counted["offset"]) == (3, 2, 0)
    again = await asked(app, table_id, cursor=counted["next_cursor"], count=True, where={"number": {"$lt": 3}})
    assert (again["total_count"], len(again["data"]), again["next_cursor"]) == (3, 1, None)


async def test_the_list_takes_them_in_its_query(app: App) -> None:
    table_id = await filled(app, [{"number": number, "name": "n"} for number in range(5)])
    path = f"/v1/public/tables/{table_id}/data"
    async with app.client() as client:
        page = (await client.get(path, params={"cursor": "first", "limit": 3, "fields": "number"})).json()
        assert [row["data"] for row in page["data"]] == [{"number": 0}, {"number": 1}, {"number": 2}]
        assert page["total_count"] is None
        more = {"cursor": page["next_cursor"], "limit": 3, "fields": "number", "count": "true"}
        last = (await client.get(path, params=more)).json()
        assert ([row["data"]["number"] for row in last["data"]], last["next_cursor"]) == ([3, 4], None)
        assert last["total_count"] == 5
        plain = (await client.get(path, params={"count": "false"})).json()
        assert (plain["total_count"], len(plain["data"]), "next_cursor" in plain) == (None, 5, False)


async def test_fields(app: App) -> None:
    table_id = await filled(app, [{"number": 1, "name": "one", "done": None, "day": "2026-01-31"}])
    whole = (await asked(app, table_id))["data"][0]
    part = (await asked(app, table_id, fields=["done", "name"], where={"number": 1}))["data"][0]
    assert part == {**whole, "data": {"name": "one", "done": None}}
    assert (await asked(app, table_id, fields=[]))["data"][0] == {**whole, "data": {}}
    assert (await asked(app, table_id, fields=["id", "day"]))["data"][0]["data"] == {"day": "2026-01-31"}
    free = await filled(app, [{"a b": 1, "c": None, "d": [1]}], {})
    assert (await asked(app, free, fields=["a b", "c", "x"]))["data"][0]["data"] == {"a b": 1, "c": None}


async def test_fields_that_there_are_not(app: App) -> None:
    table_id = await filled(app, [{"number": 1}])
    wrong = await asked(app, table_id, status=400, fields=["name", "nme"])
    assert (wrong["code"], wrong["details"][0]["field"]) == ("UNKNOWN_COLUMN", "fields[1]")


async def test_fields_of_encrypted_and_of_hidden_columns(app: App) -> None:
    schema = {"name": "string", "secret": {"type": "string", "encrypted": True}}
    table_id = await filled(app, [{"name": "a", "secret": "s"}], schema)
    assert (await asked(app, table_id, fields=["secret"]))["data"][0]["data"] == {"secret": "s"}
    async with app.client(app.secret_key) as client:
        rules = {"list": True, "read": True, "columns": {"secret": {"read": None}}}
        path = f"/v1/apps/{app.app_id}/tables/{table_id}/rules"
        answer = await client.put(path, json={"rules": rules}, headers={"X-Public-Key": ""})
        assert answer.status_code == 200, answer.text
    assert (await asked(app, table_id, status=403, fields=["secret"]))["code"] == "COLUMN_NOT_READABLE"
    assert (await asked(app, table_id, fields=["name"]))["data"][0]["data"] == {"name": "a"}


async def test_a_walk_tells_only_visible_rows(app: App) -> None:
    table_id = await app.table({"name": "string"}, access_level="Creator")
    mine, other = await app.member("ada"), await app.member("bob")
    for number in range(5):
        await app.row(table_id, {"name": f"{number}" * 600}, mine["access_token"])
        await app.row(table_id, {"name": f"{number}"}, other["access_token"])
    token, found, cursor = mine["access_token"], [], "first"
    while cursor:
        page = await asked(app, table_id, token, cursor=cursor, order_by="name", limit=2)
        found += [row["data"]["name"][0] for row in page["data"]]
        previous, cursor = cursor, page["next_cursor"]
    assert found == ["0", "1", "2", "3", "4"]
    # The row at which a cursor of a long value stands is read as the caller sees it.
    code = (await asked(app, table_id, other["access_token"], 400, cursor=previous, order_by="name", limit=2))["code"]
    assert code == "CURSOR_EXPIRED"


async def test_a_long_value_whose_row_is_gone(app: App) -> None:
    table_id = await filled(app, [{"name": letter * 600} for letter in "abc"])
    page = await asked(app, table_id, cursor="first", order_by="name", limit=1)
    async with app.client() as client:
        await client.delete(f"/v1/public/tables/{table_id}/data/{page['data'][0]['id']}")
    wrong = await asked(app, table_id, status=400, cursor=page["next_cursor"], order_by="name", limit=1)
    assert wrong["code"] == "CURSOR_EXPIRED"


@pytest.mark.parametrize("order_by", ["name", [{"column": "done"}, {"column": "name"}]], ids=["one key", "two keys"])
async def test_a_long_value_that_changes_moves_no_walk(app: App, order_by: Any) -> None:
    """The next page would begin where the row is now, and leave out or tell again all that is between."""
    table_id = await filled(app, [{"name": letter * 600, "done": True} for letter in "abcdef"])
    query: dict[str, Any] = {"order_by": order_by, "limit": 2}
    page = await asked(app, table_id, cursor="first", **query)
    path = f"/v1/public/tables/{table_id}/data/{page['data'][-1]['id']}"
    # The beginnings that are equal are longer than what a cursor holds.
    for name, found in (("e" * 600, None), ("b" * 601, None), ("b" * 600, "cd")):
        async with app.client() as client:
            assert (await client.patch(path, json={"data": {"name": name}})).status_code == 200
        answer = await asked(app, table_id, status=200 if found else 400, cursor=page["next_cursor"], **query)
        if found:
            assert "".join(row["data"]["name"][0] for row in answer["data"]) == found
        else:
            assert answer["code"] == "CURSOR_EXPIRED"


async def test_cursors_of_another_request(app: App) -> None:
    table_id = await filled(app, some_rows(10))
    other = await filled(app, some_rows(10))
    query = {"order_by": "number", "limit": 2}
    cursor = (await asked(app, table_id, cursor="first", **query))["next_cursor"]
    assert len((await asked(app, table_id, cursor=cursor, **{**query, "limit": 5}))["data"]) == 5
    raw = base64.urlsafe_b64decode(cursor + "==")
    made_up = base64.urlsafe_b64encode(raw[:26] + b"no number").rstrip(b"=").decode()
    changed: list[dict[str, Any]] = [
        {"order_by": "name"},
        {"order_by": None},
        {"order_direction": "desc"},
        {"where": {"done": True}},
        {"fields": ["name"]},
        {"cursor": cursor[:30]},
        {"cursor": cursor + "="},
        {"cursor": "!" + cursor},
        {"cursor": ""},
        {"cursor": "é"},
        {"cursor": "A" * 10_000},
        {"cursor": base64.urlsafe_b64encode(b"\x02" + raw[1:]).rstrip(b"=").decode()},
        {"cursor": made_up},
    ]
    for change in changed:
        wrong = await asked(app, table_id, status=400, **{**query, "cursor": cursor, **change})
        assert wrong["code"] == "INVALID_CURSOR", change
    assert (await asked(app, other, status=400, cursor=cursor, **query))["code"] == "INVALID_CURSOR"
    for change in ({"offset": 1}, {"limit": 0}):
        wrong = await asked(app, table_id, status=400, **{**query, "cursor": cursor, **change})
        assert (wrong["code"], wrong["details"][0]["field"]) == ("VALIDATION_FAILED", next(iter(change)))


async def test_a_column_that_is_added_does_not_end_a_walk(app: App) -> None:
    table_id = await filled(app, some_rows(10))
    page = await asked(app, table_id, cursor="first", order_by="number", limit=5)
    async with app.client() as client:
        column = {"name": "later", "data_type": "string"}
        answer = await client.post(f"/v1/public/tables/{table_id}/columns", json=column)
        assert answer.status_code == 201, answer.text
    last = await asked(app, table_id, cursor=page["next_cursor"], order_by="number", limit=5)
    assert len({row["id"] for row in page["data"] + last["data"]}) == 10
