"""Pages of searches by words and by place: ranked or sorted, by offset and by cursor."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import pytest

from tests.rules.test_rules import save
from tests.support import App, assert_error

SCHEMA = {"text": "string", "n": "int", "kind": "string", "place": "object", "secret": "string"}
SEARCH = {"query": "word"}
GEO = {"field": "place", "near": {"center": {"latitude": 10, "longitude": 10}}}
ORDERS: list[Any] = [
    None,
    "n",
    [{"column": "kind", "direction": "desc", "ignore_case": True}, {"column": "n"}],
    [{"column": "created_at", "direction": "desc"}],
    [{"column": "id", "direction": "desc"}],
    "secret",
]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(23):
        place = {"latitude": 10 + number % 5, "longitude": 10}
        row = {"text": "word " * (1 + number % 4) + str(number), "n": number % 3, "kind": "aAbB"[number % 4]}
        row |= {"place": place, "secret": "x" * 600 + str(number % 6)}
        if number % 7 == 0:
            del row["n"], row["secret"]
        found.append(row)
    return found


async def ask(client: httpx.AsyncClient, kind: str, table: str, **asked: Any) -> httpx.Response:
    return await client.post(
        f"/v1/public/{kind}", json={"table_id": table, **(SEARCH if kind == "search" else GEO), **asked}
    )


@pytest.mark.parametrize("kind", ["search", "geo"])
async def test_pages_joined_are_the_whole(app: App, rows: list[dict[str, Any]], kind: str):
    table = await app.table(SCHEMA)
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table}/data", json={"data": [*rows, {"text": "other"}]})
        where = {"n": {"$ne": 1}}
        for order, asked in itertools.product(ORDERS, ({}, {"where": where})):
            given = {} if order is None else {"order_by": order}
            whole = (await ask(client, kind, table, limit=100, **given, **asked)).json()
            ids = [row["id"] for row in whole["data"]]
            assert whole["total_count"] == len(ids) == len(set(ids)) > 10
            if order is not None:
                listed = await client.post(
                    f"/v1/public/tables/{table}/data/query",
                    json={
                        "limit": 100,
                        **given,
                        "where": {"$and": [asked.get("where", {}), {"kind": {"$isNull": False}}]},
                    },
                )
                assert [row["id"] for row in listed.json()["data"]] == ids
            by_offset = [
                row["id"]
                for offset in range(0, len(ids), 5)
                for row in (await ask(client, kind, table, limit=5, offset=offset, **given, **asked)).json()["data"]
            ]
            assert by_offset == ids
            walked, cursor = list[str](), "first"
            while cursor is not None:
                page = (await ask(client, kind, table, limit=5, cursor=cursor, **given, **asked)).json()
                assert page["total_count"] is None
                walked += [row["id"] for row in page["data"]]
                assert len(page["data"]) == 5 or page["next_cursor"] is None
                cursor = page["next_cursor"]
            assert walked == ids


@pytest.mark.parametrize("kind", ["search", "geo"])
async def test_a_sorted_walk_tells_each_row_once_while_others_come_and_go(
    app: App, rows: list[dict[str, Any]], kind: str
):
    table = await app.table(SCHEMA)
    data = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        made = (await client.post(data, json={"data": rows})).json()["created"]
        told, cursor, page = list[str](), "first", 0
        while cursor is not None:
            answer = (await ask(client, kind, table, limit=4, cursor=cursor, order_by="n")).json()
            told += [row["id"] for row in answer["data"]]
            cursor, page = answer["next_cursor"], page + 1
            if page == 2:
                assert (await client.delete(f"{data}/{told[-1]}")).status_code == 200
                assert (await client.post(data, json={"data": rows[1] | {"n": -5}})).status_code == 201
        assert sorted(told) == sorted(row["id"] for row in made)
        # The value of the row at which the walk stands is too long for the cursor, so it is read again.
        long = {"limit": 4, "order_by": "secret"}
        first = (await ask(client, kind, table, cursor="first", **long)).json()
        assert (await client.delete(f"{data}/{first['data'][-1]['id']}")).status_code == 200
        assert_error(await ask(client, kind, table, cursor=first["next_cursor"], **long), 400, "CURSOR_EXPIRED")


@pytest.mark.parametrize("kind", ["search", "geo"])
async def test_cursors_of_something_else(app: App, rows: list[dict[str, Any]], kind: str):
    table, other = await app.table(SCHEMA), await app.table(SCHEMA)
    async with app.client() as client:
        for one in (table, other):
            await client.post(f"/v1/public/tables/{one}/data", json={"data": rows})
        for given in ({}, {"order_by": "n"}, {"order_by": "created_at"}):
            page = (await ask(client, kind, table, limit=4, cursor="first", count=True, **given)).json()
            assert page["total_count"] == len(rows)
            cursor = page["next_cursor"]
            assert (await ask(client, kind, table, limit=7, cursor=cursor, **given)).status_code == 200
            wrong: list[dict[str, Any]] = [
                {"where": {"n": 1}},
                {"order_by": "kind"},
                # Within the id. Behind it are values, and the beginning of a moment's text may be a moment as well.
                {"cursor": cursor[:30]},
                {"cursor": cursor + "A"},
                {"cursor": "A" * 10_000},
                {"cursor": ""},
            ]
            for change in wrong:
                answer = await ask(client, kind, table, **({"cursor": cursor} | given | change))
                assert_error(answer, 400, "INVALID_CURSOR")
            assert_error(await ask(client, kind, other, cursor=cursor, **given), 400, "INVALID_CURSOR")
        for wrong_page in ({"offset": 1}, {"limit": 0}):
            assert_error(await ask(client, kind, table, cursor="first", **wrong_page), 400, "VALIDATION_FAILED")
        assert_error(await ask(client, kind, table, order_direction="desc"), 400, "VALIDATION_FAILED")
        assert (await ask(client, kind, table, count=False)).json()["total_count"] is None


async def test_an_order_shows_no_hidden_rows_and_columns(app: App, rows: list[dict[str, Any]]):
    table = await app.table(SCHEMA)
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table}/data", json={"data": rows})
        await save(app, table, {"read": {"n": 0}, "columns": {"secret": {"read": None}}})
        for kind in ("search", "geo"):
            found = (await ask(client, kind, table, order_by="kind", limit=100)).json()
            assert {row["data"]["n"] for row in found["data"]} == {0}
            assert found["total_count"] == len(found["data"])
            assert not any("secret" in row["data"] for row in found["data"])
            assert (await ask(client, kind, table, order_by="secret")).status_code in {400, 403}
        shown = (await ask(client, "geo", table, fields=["n"], limit=1)).json()["data"][0]
        assert shown["data"] == {"n": 0}
        assert_error(await ask(client, "geo", table, fields=["nothing"]), 400, "UNKNOWN_COLUMN")
        assert (await ask(client, "geo", table, fields=["secret"])).status_code in {400, 403}
