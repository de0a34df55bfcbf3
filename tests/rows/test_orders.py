"""Orders by several columns, in lists and in walks with cursors."""

from __future__ import annotations

import base64
import random
from typing import Any
from uuid import UUID

import pytest

from pilotis.data.rows import cursors
from pilotis.data.rows.cursors import Cursor, Long, Sorted
from tests.rows.test_cursors import asked, filled, walked
from tests.support import App, assert_error

SCHEMA = {"name": "string", "number": "number", "day": "date", "more": "object", "secret": "string"}


def some_rows(number: int) -> list[dict[str, Any]]:
    rng = random.Random(11)
    values: dict[str, list[Any]] = {
        "name": ["a", "b", "c" * 600, "d" * 700],
        "number": [1, 0.5, -2],
        "day": ["2026-01-31T00:00:00.000000Z", "1999-12-31T00:00:00.000000Z"],
    }
    return [{column: rng.choice(some) for column, some in values.items() if rng.random() < 0.7} for _ in range(number)]


def in_order(rows: list[dict[str, Any]], order: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the rows as they are to come: absent values last, equal ones by id."""
    rows = sorted(rows, key=lambda row: row["id"])
    for key in reversed(order):
        there = [row for row in rows if row["data"].get(key["column"]) is not None]
        absent = [row for row in rows if row["data"].get(key["column"]) is None]
        backwards = key.get("direction") == "desc"
        # Equal rows keep their order, backwards too.
        rows = sorted(there, key=lambda row: row["data"][key["column"]], reverse=backwards) + absent
    return [row["id"] for row in rows]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


@pytest.fixture
async def table(app: App) -> str:
    return await filled(app, some_rows(70), SCHEMA)


@pytest.mark.parametrize("directions", ["asc asc", "asc desc", "desc asc", "desc desc desc", "desc asc asc"])
async def test_rows_with_equal_values_are_sorted_by_the_next_column(app: App, table: str, directions: str) -> None:
    columns = ["number", "name", "day"]
    order = [{"column": c, "direction": d} for c, d in zip(columns, directions.split(), strict=False)]
    whole = (await asked(app, table, limit=100, order_by=order))["data"]
    assert ids(whole) == in_order(whole, order)
    assert ids(await walked(app, table, limit=4, order_by=order)) == ids(whole)
    condition = {"number": {"$ne": 1}}
    part = (await asked(app, table, limit=100, order_by=order, where=condition))["data"]
    assert 0 < len(part) < len(whole)
    assert ids(await walked(app, table, limit=3, order_by=order, where=condition)) == in_order(part, order)


async def test_ids_decide_where_they_are_named_last(app: App, table: str) -> None:
    order = [{"column": "number"}, {"column": "id", "direction": "desc"}]
    whole = (await asked(app, table, limit=100, order_by=order))["data"]
    assert ids(whole) == [
        row["id"]
        for number in (-2, 0.5, 1, None)
        for row in sorted(whole, key=lambda row: row["id"], reverse=True)
        if row["data"].get("number") == number
    ]
    assert ids(await walked(app, table, limit=6, order_by=order)) == ids(whole)
    backwards = {"order_by": "id", "order_direction": "desc"}
    by_id = (await asked(app, table, limit=100, order_by=[{"column": "id", "direction": "desc"}]))["data"]
    assert ids(by_id) == ids((await asked(app, table, limit=100, **backwards))["data"])


async def test_one_column_in_a_list_is_the_column(app: App, table: str) -> None:
    alone = await asked(app, table, limit=100, order_by="name", order_direction="desc")
    listed = await asked(app, table, limit=100, order_by=[{"column": "name", "direction": "desc"}])
    assert listed["data"] == alone["data"]
    first = await asked(app, table, limit=5, cursor="first", order_by="number")
    # Both are one order, so a cursor of one goes on in the other.
    following = await asked(app, table, limit=5, cursor=first["next_cursor"], order_by=[{"column": "number"}])
    assert not set(ids(first["data"])) & set(ids(following["data"]))


async def test_the_case_of_letters_is_ignored_if_asked(app: App) -> None:
    names = ["b", "A", "a", "B", "É", "é"]
    table = await filled(app, [{"name": name, "number": at} for at, name in enumerate(names)], SCHEMA)
    order = [{"column": "name", "ignore_case": True}, {"column": "number", "direction": "desc"}]
    found = (await asked(app, table, order_by=order))["data"]
    assert [row["data"]["name"] for row in found] == ["a", "A", "B", "b", "é", "É"]
    assert await walked(app, table, limit=1, order_by=order) == found
    other = [{"column": "name"}, {"column": "number", "direction": "desc"}]
    cursor = (await asked(app, table, order_by=order, cursor="first", limit=1))["next_cursor"]
    assert (await asked(app, table, status=400, order_by=other, cursor=cursor, limit=1))["code"] == "INVALID_CURSOR"


async def test_a_long_value_whose_row_is_gone(app: App) -> None:
    table = await filled(app, [{"number": 1, "name": letter * 600} for letter in "abc"], SCHEMA)
    order = [{"column": "number"}, {"column": "name"}]
    page = await asked(app, table, cursor="first", order_by=order, limit=1)
    async with app.client() as client:
        await client.delete(f"/v1/public/tables/{table}/data/{page['data'][0]['id']}")
    wrong = await asked(app, table, status=400, cursor=page["next_cursor"], order_by=order, limit=1)
    assert wrong["code"] == "CURSOR_EXPIRED"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"order_by": []}, "order_by"),
        ({"order_by": [{"column": name} for name in ("name", "number", "day", "id")]}, "order_by"),
        ({"order_by": [{"column": "name"}, {"column": "name", "direction": "desc"}]}, "order_by[1].column"),
        ({"order_by": [{"column": "name"}], "order_direction": "desc"}, "order_direction"),
        ({"order_by": [{"column": "id"}, {"column": "name"}]}, "order_by[0].column"),
        ({"order_by": [{"column": "more"}]}, "order_by[0].column"),
        ({"order_by": [{"column": "more.a", "ignore_case": True}]}, "order_by[0].column"),
        ({"order_by": [{"column": "number", "ignore_case": True}]}, "order_by[0].column"),
        ({"order_by": [{"column": "name", "direction": "up"}]}, "order_by[0].direction"),
        ({"order_by": [{"column": "name", "nulls": "first"}]}, "order_by[0].nulls"),
        ({"order_by": [{}]}, "order_by[0].column"),
        ({"order_by": {"column": "name"}}, "order_by"),
        ({"order_by": ["name"]}, "order_by[0]"),
    ],
)
async def test_orders_that_are_none(app: App, table: str, query: dict[str, Any], field: str) -> None:
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data/query", json=query)
    body = assert_error(answer, 400, "VALIDATION_FAILED")
    assert [detail["field"] for detail in body["details"]] == [field]


async def test_a_name_in_another_form_is_the_same_column(app: App) -> None:
    table = await filled(app, [{"é": "a"}], {"é": "string"})
    wrong = await asked(app, table, status=400, order_by=[{"column": "é"}, {"column": "e\u0301"}])
    assert wrong["details"][0]["field"] == "order_by[1].column"


def test_a_cursor_of_one_sort_key_keeps_its_form() -> None:
    """Nodes of the version before read it, and theirs are read."""
    bound_to, row_id = b"8 bytes.", UUID("0198a000-0000-7000-8000-000000000001")
    forms: dict[tuple[cursors.SortValue, ...], bytes] = {
        (): b"\0" + row_id.bytes,
        ("12.50",): b"\1" + row_id.bytes + b"12.50",
        (Sorted.NULL,): b"\2" + row_id.bytes,
        (Long("0123456789abcdef"),): b"\3" + row_id.bytes + b"0123456789abcdef",
    }
    for values, form in forms.items():
        text = base64.urlsafe_b64encode(b"\1" + bound_to + form).rstrip(b"=").decode()
        assert cursors.encode(bound_to, Cursor(row_id, values)) == text
        assert cursors.decode(bound_to, text, len(values)) == Cursor(row_id, values)


async def test_a_column_that_there_is_not(app: App, table: str) -> None:
    wrong = await asked(app, table, status=400, order_by=[{"column": "name"}, {"column": "nmae"}])
    assert (wrong["code"], wrong["details"][0]["field"]) == ("UNKNOWN_COLUMN", "order_by[1].column")


async def test_the_order_of_an_encrypted_or_hidden_column_tells_nothing(app: App) -> None:
    schema = {"name": "string", "secret": {"type": "string", "encrypted": True}, "hidden": "string"}
    table = await filled(app, [{"name": "a", "secret": "s", "hidden": "h"}], schema)
    order = [{"column": "name"}, {"column": "secret"}]
    assert (await asked(app, table, status=400, order_by=order))["code"] == "ENCRYPTED_COLUMN_NOT_QUERYABLE"
    async with app.client(app.secret_key) as client:
        rules = {"list": True, "read": True, "columns": {"hidden": {"read": None}}}
        path = f"/v1/apps/{app.app_id}/tables/{table}/rules"
        answer = await client.put(path, json={"rules": rules}, headers={"X-Public-Key": ""})
        assert answer.status_code == 200, answer.text
    refused = await asked(app, table, status=403, order_by=[{"column": "name"}, {"column": "hidden"}])
    assert refused["code"] == "COLUMN_NOT_READABLE"
