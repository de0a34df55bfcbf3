"""`$min`, `$max`, `$push`, `$addToSet`, `$pull`, `$merge`: changes that depend on the value there is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rows.test_increments import Change, by_batch, by_patch, by_transaction
from tests.support import App

pytestmark = pytest.mark.share(0.34)

SCHEMA = {
    "i": "int",
    "x": "number",
    "s": "string",
    "d": "date",
    "a": "array",
    "o": "object",
    "b": "boolean",
    "sealed": {"type": "array", "encrypted": True},
}
BEGUN = {"i": 5, "x": 1.5, "s": "m", "d": "2026-06-01T12:00:00+02:00", "a": [1, {"k": 1}, "x"]}
LATER, EARLIER = "2026-06-01T10:00:00.001Z", "2026-06-01T11:59:59+02:00"


@pytest.fixture(params=[by_patch, by_batch, by_transaction], ids=["patch", "batch", "transaction"])
def change(request: pytest.FixtureRequest) -> Change:
    return request.param


@pytest.mark.parametrize(
    ("column", "operator", "operand", "after"),
    [
        ("i", "$min", 4, 4),
        ("i", "$min", 6, 5),
        ("i", "$max", 6, 6),
        ("x", "$max", 1.25, 1.5),
        ("x", "$min", 1.25, 1.25),
        ("s", "$min", "Z", "Z"),
        ("s", "$max", "é", "é"),
        ("s", "$max", "a", "m"),
        ("d", "$max", LATER, LATER),
        ("d", "$max", EARLIER, BEGUN["d"]),
        ("d", "$min", EARLIER, EARLIER),
        ("a", "$push", [1, [2]], [1, {"k": 1}, "x", 1, [2]]),
        ("a", "$push", [], [1, {"k": 1}, "x"]),
        ("a", "$addToSet", [1.0, 2, 2, {"k": 1}, {"k": 1, "l": 2}], [1, {"k": 1}, "x", 2, {"k": 1, "l": 2}]),
        ("a", "$pull", [1, {"k": 1}, "y"], ["x"]),
        ("a", "$pull", [{}], [1, {"k": 1}, "x"]),
    ],
)
async def test_a_value_after_an_operator(
    app: App, change: Change, column: str, operator: str, operand: Any, after: Any
) -> None:
    for schema in (SCHEMA, {}):
        if not schema and column == "d":
            continue  # Without a column it is a text.
        table = await app.table(schema)
        row = await app.row(table, BEGUN)
        async with app.client() as client:
            data, error = await change(
                client, table, row["id"], {column: {operator: operand}, "s2" if not schema else "o": {}}
            )
        assert error is None
        assert data == {**BEGUN, ("s2" if not schema else "o"): {}, column: after}


async def test_what_is_absent(app: App, change: Change) -> None:
    operators = {"i": {"$min": 7}, "x": {"$max": 0.5}, "s": {"$max": "a"}, "d": {"$min": LATER}, "a": {"$push": [1]}}
    after = {"i": 7, "x": 0.5, "s": "a", "d": LATER, "a": [1]}
    table = await app.table(SCHEMA)
    async with app.client() as client:
        for begun in ({}, dict.fromkeys(after)):
            row = await app.row(table, begun)
            assert await change(client, table, row["id"], operators) == (after, None)
        query = {"where": {"d": {"$gt": EARLIER}, "a": [1]}}
        found = (await client.post(f"/v1/public/tables/{table}/data/query", json=query)).json()
        assert found["total_count"] == 2
        free = await app.table({})
        row = await app.row(free, {"n": None, "t": "text"})
        for name, operator, operand in [
            ("n", "$min", 1),
            ("no", "$push", [1]),
            ("t", "$max", 1),
            ("t", "$pull", ["t"]),
        ]:
            assert await change(client, free, row["id"], {name: {operator: operand}}) == (None, "CANNOT_CHANGE")


@pytest.mark.parametrize(
    "data",
    [
        {"b": {"$max": True}},
        {"a": {"$min": [1]}},
        {"i": {"$min": "1"}},
        {"i": {"$min": 2**63}},
        {"i": {"$max": None}},
        {"i": {"$max": 1.5}},
        {"s": {"$max": 1}},
        {"d": {"$max": "yesterday"}},
        {"a": {"$push": 1}},
        {"a": {"$push": {"0": 1}}},
        {"i": {"$push": [1]}},
        {"i": {"$min": 1, "$max": 2}},
        {"sealed": {"$push": [1]}},
        {"s": {"$max": "\0"}},
    ],
)
async def test_operands_that_do_not_fit(app: App, data: dict[str, Any]) -> None:
    table = await app.table(SCHEMA)
    row = await app.row(table, BEGUN)
    async with app.client() as client:
        answer = await client.patch(f"/v1/public/tables/{table}/data/{row['id']}", json={"data": data})
        assert answer.status_code == 400, answer.text
        assert next(iter(data)) in answer.text or "U+0000" in answer.text
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json() == row


async def test_an_object_is_an_ordinary_value_where_objects_are(app: App) -> None:
    table = await app.table(SCHEMA)
    row = await app.row(table, {"o": {"a": 1}})
    async with app.client() as client:
        data, _ = await by_patch(client, table, row["id"], {"o": {"$push": [1]}})
    assert data == {"o": {"$push": [1]}}


@pytest.mark.parametrize(
    ("stored", "patch", "after"),
    [
        # The cases of RFC 7396, appendix A, that are objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1, None]}, {"a": [1, None]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": {"$merge": {"b": None}}}, {"a": {"$merge": {}}}),
    ],
)
async def test_objects_are_merged(app: App, change: Change, stored: Any, patch: Any, after: Any) -> None:
    for schema in (SCHEMA, {}):
        table = await app.table(schema)
        row = await app.row(table, {"o": stored})
        async with app.client() as client:
            assert await change(client, table, row["id"], {"o": {"$merge": patch}}) == ({"o": after}, None)


async def test_what_a_merge_does_to_what_is_no_object(app: App) -> None:
    table = await app.table(SCHEMA | {"hidden": {"type": "object", "encrypted": True}})
    async with app.client() as client:
        for begun in ({}, {"o": None}):
            row = await app.row(table, begun)
            assert await by_patch(client, table, row["id"], {"o": {"$merge": {"a": 1}}}) == ({"o": {"a": 1}}, None)
        path = f"/v1/public/tables/{table}/data/{row['id']}"
        for data in (
            {"o": {"$merge": [1]}},
            {"o": {"$merge": None}},
            {"a": {"$merge": {}}},
            {"hidden": {"$merge": {}}},
        ):
            answer = await client.patch(path, json={"data": data})
            assert answer.status_code == 400, answer.text
        whole = {"o": {"$merge": {"a": 1}, "b": 2}}
        assert (await client.patch(path, json={"data": whole})).json()["data"] == whole
        where = {"where": {"id": row["id"]}, "data": {"o": {"$merge": {"b": None, "c": 3}}}}
        assert (await client.post(f"/v1/public/tables/{table}/data/update-where", json=where)).status_code == 200
        assert (await client.get(path)).json()["data"] == {"o": {"$merge": {"a": 1}, "c": 3}}
        free = await app.table({})
        row = await app.row(free, {"n": 1})
        for name in ("n", "none"):
            merged = await by_patch(client, free, row["id"], {name: {"$merge": {}}})
            assert merged == (None, "CANNOT_CHANGE")


async def test_sixteen_at_once_lose_nothing(app: App) -> None:
    table = await app.table(SCHEMA)
    row = await app.row(table, {"a": []})
    async with app.client() as client:
        tasks = [by_patch(client, table, row["id"], {"a": {"$addToSet": [n % 8]}, "i": {"$max": n}}) for n in range(16)]
        assert all(error is None for _, error in await asyncio.gather(*tasks))
        after = (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()["data"]
    assert (sorted(after["a"]), after["i"]) == ([*range(8)], 15)


async def test_an_array_that_grows_too_large(app: App) -> None:
    table = await app.table({"a": "array"})
    row = await app.row(table, {"a": ["x" * 700_000]})
    async with app.client() as client:
        _, error = await by_patch(client, table, row["id"], {"a": {"$push": ["x" * 700_000]}})
        assert error == "ROW_TOO_LARGE"
        many = [*range(100_000)]
        answer = await client.patch(f"/v1/public/tables/{table}/data/{row['id']}", json={"data": {"a": many}})
        assert answer.status_code == 200
        data, _ = await by_patch(client, table, row["id"], {"a": {"$addToSet": [*many, -1]}})
        assert data is not None
        assert data["a"] == [*many, -1]
        data, _ = await by_patch(client, table, row["id"], {"a": {"$pull": many}})
    assert data == {"a": [-1]}


async def test_a_search_finds_what_an_operator_set(app: App) -> None:
    table = await app.table({"s": "string"})
    row = await app.row(table, {"s": "aardvark"})
    async with app.client() as client:
        search = {"table_id": table, "query": "zebra", "fields": ["s"]}
        await client.post("/v1/public/search", json=search)
        await by_patch(client, table, row["id"], {"s": {"$max": "zebra"}})
        assert (await client.post("/v1/public/search", json=search)).json()["total_count"] == 1
