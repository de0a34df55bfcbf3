"""Upserts in batches and transactions, and changes and deletions by a condition in transactions."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.rows.test_unique_keys import keyed
from tests.rules.test_rules import rows, save
from tests.support import App, assert_error

SCHEMA = {"sku": "string", "stock": {"type": "int", "min": 0}, "shelf": "string"}
BY_SKU = {"columns": ["sku"]}


async def run(client: httpx.AsyncClient, *operations: dict[str, Any], kind: str = "transactions") -> httpx.Response:
    return await client.post(f"/v1/public/{kind}", json={"operations": operations})


def put(table: str, sku: str, **data: Any) -> dict[str, Any]:
    return {"type": "upsert", "table_id": table, "key": "sku", "data": {"sku": sku} | data}


async def stocks(client: httpx.AsyncClient, table: str) -> dict[str, Any]:
    listed = (await client.get(rows(table))).json()
    assert listed["total_count"] == len(listed["data"]), "counts are exact"
    return {row["data"]["sku"]: row["data"].get("stock") for row in listed["data"]}


@pytest.mark.parametrize("kind", ["batch", "transactions"])
async def test_upserts_among_other_operations(app: App, kind: str):
    table = await keyed(app, BY_SKU, schema=SCHEMA)
    async with app.client() as client:
        done = await run(client, put(table, "a", stock=1), put(table, "a", stock={"$inc": 2}), kind=kind)
        assert done.status_code == 200, done.text
        first, second = done.json()["results"]
        assert (first["created"], second["created"], first["id"]) == (True, False, second["id"])
        assert second["data"] == {"sku": "a", "stock": 3}
        ignored = await run(client, put(table, "a", stock=9) | {"mode": "ignore"}, kind=kind)
        assert ignored.json()["results"][0]["data"] == {"sku": "a", "stock": 3}
        replaced = await run(client, put(table, "a", shelf="x") | {"mode": "replace"}, kind=kind)
        assert replaced.json()["results"][0]["data"] == {"sku": "a", "shelf": "x"}
        assert await stocks(client, table) == {"a": None}


async def test_a_transaction_writes_by_conditions(app: App):
    table = await keyed(app, BY_SKU, schema=SCHEMA)
    async with app.client() as client:
        for sku, stock in {"a": 1, "b": 2, "c": 3}.items():
            await app.row(table, {"sku": sku, "stock": stock, "shelf": "x"})
        done = await run(
            client,
            {"type": "create", "table_id": table, "data": {"sku": "d", "stock": 0}},
            {"type": "update-where", "table_id": table, "where": {"stock": {"$lt": 3}}, "data": {"stock": {"$inc": 5}}},
            {"type": "delete-where", "table_id": table, "where": {"shelf": "x", "sku": {"$matches": "^[bc]$"}}},
            put(table, "e", stock=1),
        )
        assert done.status_code == 200, done.text
        _, changed, deleted, made = done.json()["results"]
        assert changed == {"index": 1, "type": "update-where", "success": True, "updated_count": 3}
        assert deleted == {"index": 2, "type": "delete-where", "success": True, "deleted_count": 2}
        assert made["created"] is True
        assert await stocks(client, table) == {"a": 6, "d": 5, "e": 1}
        # All or nothing, whichever operation fails.
        everything = {"type": "delete-where", "table_id": table, "all": True}
        failing = [
            ({"type": "update-where", "table_id": table, "all": True, "data": {"stock": -1}}, 400, "VALIDATION_FAILED"),
            (
                {"type": "update-where", "table_id": table, "all": True, "data": {"sku": "f"}},
                409,
                "UNIQUE_VIOLATION",
            ),
            (
                {"type": "update-where", "table_id": table, "all": True, "data": {"stock": {"$inc": -2}}},
                400,
                "VALIDATION_FAILED",
            ),
            (
                {"type": "update-where", "table_id": table, "all": True, "data": {}, "max_rows": 2},
                400,
                "TOO_MANY_ROWS",
            ),
            ({"type": "update-where", "table_id": table, "data": {"stock": 1}}, 400, "WHERE_REQUIRED"),
            ({"type": "delete-where", "table_id": table, "where": {"sku": {"$matches": "("}}}, 400, "INVALID_REGEX"),
            (put(table, "z", stock=-1), 400, "VALIDATION_FAILED"),
            ({"type": "upsert", "table_id": table, "key": "sku", "data": {"stock": 1}}, 400, "KEY_INCOMPLETE"),
            (put(table, "z") | {"key": "other"}, 400, "UNKNOWN_KEY"),
        ]
        for operation, status, code in failing:
            assert_error(await run(client, operation, everything), status, code, failed_index=0)
            if operation["type"] != "delete-where":
                assert_error(await run(client, put(table, "q"), operation), status, code, failed_index=1)
            assert await stocks(client, table) == {"a": 6, "d": 5, "e": 1}


async def test_what_an_operation_does_not_take(app: App):
    table = await keyed(app, BY_SKU, schema=SCHEMA)
    wrong = [
        ({"type": "upsert", "data": {"sku": "a"}}, "key"),
        ({"type": "upsert", "key": "sku"}, "data"),
        ({"type": "create", "data": {}, "key": "sku"}, "key"),
        ({"type": "create", "data": {}, "where": {}}, "where"),
        ({"type": "delete-where", "all": True, "data": {}}, "data"),
        ({"type": "delete-where", "all": True, "max_rows": 1}, "max_rows"),
        ({"type": "update-where", "all": True, "data": {}, "doc_id": "x"}, "doc_id"),
    ]
    async with app.client() as client:
        for operation, field in wrong:
            answer = await run(client, {"table_id": table} | operation)
            body = assert_error(answer, 400, "VALIDATION_FAILED", failed_index=0)
            assert body["details"][0]["field"] == f"operations[0].{field}"
        for kind in ("update-where", "delete-where"):
            more = {"data": {"stock": 1}} if kind == "update-where" else {}
            done = await run(client, {"type": kind, "table_id": table, "all": True} | more, kind="batch")
            assert done.json()["results"][0]["error"]["code"] == "VALIDATION_FAILED"


async def test_the_rules_hold_in_each_operation(app: App):
    table = await keyed(app, BY_SKU, schema=SCHEMA)
    for sku, shelf in {"a": "mine", "b": "other"}.items():
        await app.row(table, {"sku": sku, "shelf": shelf})
    mine = {"shelf": "mine"}
    await save(app, table, {"read": mine, "create": mine, "update": mine, "delete": mine})
    async with app.client() as client, app.client(app.secret_key) as own_side:
        hidden = assert_error(await run(client, put(table, "b", stock=1)), 409, "UNIQUE_VIOLATION", failed_index=0)
        assert "existing_id" not in hidden
        assert_error(await run(client, put(table, "c", shelf="other")), 403, "RULE_DENIED", failed_index=0)
        done = await run(client, {"type": "update-where", "table_id": table, "all": True, "data": {"stock": 7}})
        assert done.json()["results"][0]["updated_count"] == 1
        moved = {"type": "update-where", "table_id": table, "all": True, "data": {"shelf": "other"}}
        assert_error(await run(client, moved), 403, "RULE_DENIED", failed_index=0)
        done = await run(client, {"type": "delete-where", "table_id": table, "all": True})
        assert done.json()["results"][0]["deleted_count"] == 1
        assert await stocks(own_side, table) == {"b": None}


async def test_transactions_that_want_one_key_make_one_row(app: App):
    table = await keyed(app, BY_SKU, schema=SCHEMA)
    count = {"type": "update-where", "table_id": table, "where": {"sku": "total"}, "data": {"stock": {"$inc": 1}}}
    await app.row(table, {"sku": "total", "stock": 0})
    async with app.client() as client:
        answers = await asyncio.gather(
            *(run(client, put(table, "a", shelf=str(at)), count) for at in range(12)), return_exceptions=False
        )
        done = [answer for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} <= {200, 409}
        assert [answer.json()["results"][0]["created"] for answer in done].count(True) == 1
        assert await stocks(client, table) == {"total": len(done), "a": None}
        assert len(done) > 6, [answer.text for answer in answers]
