"""Searches, completions and places among the rows that satisfy a condition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rows.test_cursors import filled
from tests.support import App, assert_error

SCHEMA = {
    "name": "string",
    "seats": "int",
    "open": "date",
    "tags": "array",
    "more": "object",
    "place": "object",
    "secret": {"type": "string", "encrypted": True},
}
ROWS: list[dict[str, Any]] = [
    {
        "name": f"{'red' if number % 2 else 'blue'} teahouse {number}",
        "seats": number,
        "open": f"2026-01-{number + 1:02}",
        "tags": ["roof"] if number % 3 == 0 else [],
        "more": {"floor": number % 4},
        "place": {"latitude": 48.0 + number / 1000, "longitude": 16.0},
        "secret": f"s{number % 2}",
    }
    for number in range(12)
]
CONDITIONS: list[tuple[dict[str, Any], set[int]]] = [
    ({"seats": {"$gte": 9}}, {9, 10, 11}),
    ({"$or": [{"seats": 2}, {"more.floor": 3}]}, {2, 3, 7, 11}),
    ({"tags": {"$arrayContains": "roof"}, "open": {"$lt": "2026-01-07"}}, {0, 3}),
    ({"$not": {"name": {"$startsWith": "red"}}, "seats": {"$in": [1, 2, 3, 4]}}, {2, 4}),
    ({"secret": "s1", "seats": {"$lt": 4}}, {1, 3}),
    ({"name": {"$matches": "house 1[01]$"}}, {10, 11}),
    ({"seats": {"$gt": 100}}, set()),
    ({}, set(range(12))),
]
NEAR = {"near": {"center": {"latitude": 48.0, "longitude": 16.0}}}
BODIES: dict[str, dict[str, Any]] = {
    "search": {"query": "teahouse", "fields": ["name"]},
    "geo": {"field": "place", **NEAR},
    "autocomplete": {"query": "red tea", "field": "name"},
}


async def sent(app: App, route: str, table: str, token: str | None = None, **body: Any) -> Any:
    async with app.client(token) as client:
        return await client.post(f"/v1/public/{route}", json={"table_id": table, **body})


async def found(app: App, route: str, table: str, token: str | None = None, **body: Any) -> set[int]:
    answer = await sent(app, route, table, token, **body)
    assert answer.status_code == 200, answer.text
    seats = {row["data"]["seats"] for row in answer.json()["data"]}
    assert answer.json()["total_count"] == len(seats)
    return seats


@pytest.fixture
async def table(app: App) -> str:
    return await filled(app, ROWS, SCHEMA)


@pytest.mark.parametrize(("where", "expected"), CONDITIONS)
async def test_rows_satisfy_the_condition_as_well(
    app: App, table: str, where: dict[str, Any], expected: set[int]
) -> None:
    everything = {"limit": 100, "where": where}
    assert await found(app, "search", table, query="teahouse", fields=["name"], **everything) == expected
    assert await found(app, "search", table, query="red -blue", **everything) == {n for n in expected if n % 2}
    # A letter is wrong, then two words are merely similar.
    assert await found(app, "search", table, query="teahousr", **everything) == expected
    assert await found(app, "search", table, query="tehouses", **everything) == expected
    assert await found(app, "geo", table, field="place", **NEAR, **everything) == expected
    within = {"within": {"center": NEAR["near"]["center"], "radius": 700}}  # up to the seventh
    assert await found(app, "geo", table, field="place", **within, **everything) == {n for n in expected if n < 7}
    for query in ("red tea", "tea red"):
        answer = await sent(app, "autocomplete", table, query=query, field="name", **everything)
        suggested = {int(text.rpartition(" ")[2]) for text in answer.json()["suggestions"]}
        assert suggested == {number for number in expected if number % 2}


@pytest.mark.parametrize("route", BODIES)
async def test_only_what_the_caller_sees(app: App, route: str) -> None:
    table = await app.table(SCHEMA, "Creator")
    mine, other = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    for number in (1, 3, 5):
        await app.row(table, ROWS[number], mine)
        await app.row(table, ROWS[number + 6], other)
    where = {"$or": [{"seats": {"$gte": 3}}, {"name": {"$matches": "."}}]}
    for token, numbers in ((mine, {1, 3, 5}), (other, {7, 9, 11})):
        answer = (await sent(app, route, table, token, **BODIES[route], where=where)).json()
        if route == "autocomplete":
            assert {int(text.rpartition(" ")[2]) for text in answer["suggestions"]} == numbers
        else:
            assert {row["data"]["seats"] for row in answer["data"]} == numbers
            assert answer["total_count"] == 3
    own = await sent(app, route, table, mine, **BODIES[route], where={"$creator": {"$ne": None}})
    assert own.status_code == 200, own.text


@pytest.mark.parametrize("route", BODIES)
async def test_the_condition_tells_nothing_of_a_hidden_column(app: App, table: str, route: str) -> None:
    async with app.client(app.secret_key) as client:
        rules = {"list": True, "read": True, "columns": {"seats": {"read": None}}}
        path = f"/v1/apps/{app.app_id}/tables/{table}/rules"
        answer = await client.put(path, json={"rules": rules}, headers={"X-Public-Key": ""})
        assert answer.status_code == 200, answer.text
    refused = await sent(app, route, table, **BODIES[route], where={"seats": 1})
    assert_error(refused, 403, "COLUMN_NOT_READABLE")


@pytest.mark.share(0.34)
@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    ("where", "code", "field"),
    [
        ({"seat": 1}, "UNKNOWN_COLUMN", "where.seat"),
        ({"seats": {"gt": 1}}, "INVALID_OPERATOR", "where.seats.gt"),
        ({"secret": {"$gt": "a"}}, "ENCRYPTED_COLUMN_NOT_QUERYABLE", "where.secret.$gt"),
        ({"name": {"$matches": "("}, "seats": -1}, "INVALID_REGEX", None),
        ({"$and": [{"seats": 1}] * 200}, "WHERE_TOO_COMPLEX", None),
        ([], "VALIDATION_FAILED", "where"),
    ],
)
async def test_conditions_that_are_none(
    app: App, table: str, route: str, where: Any, code: str, field: str | None
) -> None:
    body = assert_error(await sent(app, route, table, **BODIES[route], where=where), 400, code)
    if field:
        assert [detail["field"] for detail in body["details"]] == [field]
    # Words that say nothing do not hide a mistake.
    if route != "geo" and code != "INVALID_REGEX":
        assert_error(await sent(app, route, table, **{**BODIES[route], "query": " "}, where=where), 400, code)
