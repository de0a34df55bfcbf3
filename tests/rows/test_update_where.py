"""`POST …/data/update-where`: changes of all rows that satisfy a condition, or of none."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support import App

SCHEMA = {"n": "int", "s": "string", "a": "array", "d": "date", "secret": {"type": "string", "encrypted": True}}


async def filled(app: App, number: int, schema: dict[str, Any] | None = None, **kind: Any) -> str:
    table = await app.table(SCHEMA if schema is None else schema, **kind)
    async with app.client() as client:
        rows = [{"n": n, "s": f"row {n}"} for n in range(number)]
        answer = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
    assert answer.status_code == 201, answer.text
    return table


async def update(client: httpx.AsyncClient, table: str, **body: Any) -> Any:
    answer = await client.post(f"/v1/public/tables/{table}/data/update-where", json=body)
    return answer.json()["updated_count"] if answer.status_code == 200 else answer.json()["code"]


async def values(client: httpx.AsyncClient, table: str, **query: Any) -> list[dict[str, Any]]:
    answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"limit": 1000, **query})
    assert answer.status_code == 200, answer.text
    return [row["data"] for row in answer.json()["data"]]


@pytest.mark.parametrize("schema", [SCHEMA, {}], ids=["columns", "free"])
async def test_rows_that_satisfy_the_condition_change(app: App, schema: dict[str, Any]) -> None:
    table = await filled(app, 10, schema)
    async with app.client() as client:
        before = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
        data = {"s": "big", "n": {"$inc": 100}, "a": [1], "d": None}
        assert await update(client, table, where={"n": {"$gte": 6}}, data=data) == 4
        after = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
    assert after[:6] == before[:6]
    for old, new in zip(before[6:], after[6:], strict=True):
        assert new["data"] == {"n": old["data"]["n"] + 100, "s": "big", "a": [1], "d": None}
        assert new["updated_at"] > old["updated_at"]


async def test_bounds(app: App) -> None:
    table = await filled(app, 10)
    async with app.client() as client:
        assert await update(client, table, data={"n": 1}) == "WHERE_REQUIRED"
        assert await update(client, table, data={"n": 1}, where={}) == "WHERE_REQUIRED"
        assert await update(client, table, data={"n": 1}, all=True, max_rows=9) == "TOO_MANY_ROWS"
        assert [row["n"] for row in await values(client, table)] == [*range(10)]
        assert await update(client, table, data={"n": {"$inc": 1}}, all=True, max_rows=10) == 10
        assert [row["n"] for row in await values(client, table)] == [*range(1, 11)]
        assert await update(client, table, data={"n": 1}, where={"n": 77}) == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"data": {"secret": "x"}, "all": True}, "ENCRYPTED_COLUMN_NOT_QUERYABLE"),
        ({"data": {"nn": 1}, "all": True}, "UNKNOWN_COLUMN"),
        ({"data": {"n": "1"}, "all": True}, "VALIDATION_FAILED"),
        ({"data": {"n": {"$inc": 2**63 - 1}}, "all": True}, "CANNOT_INCREMENT"),
        ({"data": {"n": 1}, "where": {"nn": 1}}, "UNKNOWN_COLUMN"),
        ({"data": {"n": 1}, "where": {"s": {"$matches": "("}}}, "INVALID_REGEX"),
        ({"data": {"n": 1}, "all": True, "max_rows": 0}, "VALIDATION_FAILED"),
        ({"data": [1], "all": True}, "VALIDATION_FAILED"),
        ({"all": True}, "VALIDATION_FAILED"),
        ({"data": {"s": "x" * 1_100_000}, "all": True}, "ROW_TOO_LARGE"),
    ],
)
async def test_what_does_not_fit_changes_nothing(app: App, body: dict[str, Any], code: str) -> None:
    table = await filled(app, 3)
    async with app.client() as client:
        before = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
        assert await update(client, table, **body) == code
        assert (await client.get(f"/v1/public/tables/{table}/data")).json()["data"] == before


async def test_one_row_that_grows_too_large_undoes_all(app: App) -> None:
    table = await filled(app, 3)
    async with app.client() as client:
        assert await update(client, table, where={"n": 1}, data={"a": ["x" * 700_000]}) == 1
        assert await update(client, table, all=True, data={"a": {"$push": ["x" * 700_000]}, "n": 9}) == "ROW_TOO_LARGE"
        assert [row["n"] for row in await values(client, table)] == [0, 1, 2]


@pytest.mark.parametrize("columns", [{"s": "string", "t": "string"}, {}], ids=["columns", "free-form"])
async def test_a_row_grows_by_what_is_escaped(app: App, columns: dict[str, str]) -> None:
    """As JSON it is six times as large, which the request's own bytes do not show."""
    table = await app.table(columns)
    await app.row(table, {"s": "\x01" * 100_000})
    async with app.client() as client:
        assert await update(client, table, all=True, data={"t": "\x01" * 50_000}) == 1
        assert await update(client, table, all=True, data={"t": "\x01" * 100_000}) == "ROW_TOO_LARGE"


async def test_rows_that_become_equal_in_a_unique_key(app: App) -> None:
    body = {"title": "keyed", "schema": {"n": "int"}, "access_level": "Public", "unique": [{"columns": ["n"]}]}
    async with app.client() as client:
        answer = await client.post("/v1/public/tables", json=body)
        assert answer.status_code == 201, answer.text
        table = answer.json()["id"]
        for n in range(3):
            await app.row(table, {"n": n})
        assert await update(client, table, all=True, data={"n": 5}) == "UNIQUE_VIOLATION"
        assert [row["n"] for row in await values(client, table)] == [0, 1, 2]
        assert await update(client, table, where={"n": 1}, data={"n": 5}) == 1


async def test_a_member_changes_its_own_rows(app: App) -> None:
    table = await app.table({"n": "int"}, access_level="Creator")
    ada, bob = await app.member("ada"), await app.member("bob")
    for n, who in enumerate([ada, ada, bob]):
        await app.row(table, {"n": n}, who["access_token"])
    async with app.client(ada["access_token"]) as client:
        assert await update(client, table, all=True, data={"n": 9}) == 2
    async with app.client(app.secret_key) as client:
        assert sorted(row["n"] for row in await values(client, table)) == [2, 9, 9]
    async with app.client() as client:
        assert await update(client, table, all=True, data={"n": 9}) == "MEMBER_TOKEN_REQUIRED"


async def test_rules_hold_before_and_afterwards(app: App) -> None:
    table = await app.table({"n": "int", "state": "string", "closed": "string"})
    for n in range(4):
        await app.row(table, {"n": n, "state": "draft" if n % 2 else "done"})
    rules = {
        "list": True,
        "read": True,
        "update": {"state": "draft", "$new": {"state": {"$in": ["draft", "sent"]}}},
        "columns": {"closed": {"update": None}},
    }
    async with app.client(app.secret_key) as client:
        saved = await client.put(f"/v1/apps/{app.app_id}/tables/{table}/rules", json={"rules": rules})
        assert saved.status_code == 200, saved.text
    async with app.client() as client:
        assert await update(client, table, all=True, data={"n": {"$inc": 10}}) == 2
        assert [row["n"] for row in await values(client, table)] == [0, 11, 2, 13]
        assert await update(client, table, all=True, data={"closed": "x"}) == "COLUMN_READ_ONLY"
        assert await update(client, table, all=True, data={"state": "done"}) == "RULE_DENIED"
        assert await update(client, table, where={"n": 11}, data={"state": "sent"}) == "RULE_DENIED"


async def test_two_at_once_lose_nothing(app: App) -> None:
    table = await filled(app, 50)
    async with app.client() as client:
        changes = [
            update(client, table, all=True, data={"n": {"$inc": 1000}})
            if n % 2
            else update(client, table, where={"s": {"$startsWith": "row"}}, data={"n": {"$inc": 1000}})
            for n in range(8)
        ]
        assert await asyncio.gather(*changes) == [50] * 8
        assert [row["n"] for row in await values(client, table)] == [8000 + n for n in range(50)]


async def test_a_rule_compares_each_row_with_itself_before(app: App) -> None:
    table = await filled(app, 5)
    rules = {"list": True, "read": True, "update": {"$new": {"n": {"$gte": {"$old": "n"}}}}}
    async with app.client(app.secret_key) as client:
        saved = await client.put(f"/v1/apps/{app.app_id}/tables/{table}/rules", json={"rules": rules})
        assert saved.status_code == 200, saved.text
    async with app.client() as client:
        assert await update(client, table, all=True, data={"n": {"$inc": 1}}) == 5
        assert await update(client, table, all=True, data={"n": {"$max": 3}}) == 5
        assert await update(client, table, all=True, data={"n": 4}) == "RULE_DENIED"
        assert [row["n"] for row in await values(client, table)] == [3, 3, 3, 4, 5]
