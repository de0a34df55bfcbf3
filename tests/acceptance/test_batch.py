"""Decisions, Tables and rows: batches, whose operations are independent of each other."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.console import set_limits
from tests.support import App, assert_error

BATCH = "/v1/public/batch"
TRANSACTIONS = "/v1/public/transactions"
SCHEMA = {"name": {"type": "string", "required": True}, "n": {"type": "int", "default": 0}}
NOWHERE = "01900000-0000-7000-8000-000000000000"


def create(table: str, data: Any) -> dict[str, Any]:
    return {"type": "create", "table_id": table, "data": data}


def update(table: str, row: Any, data: Any, **more: Any) -> dict[str, Any]:
    return {"type": "update", "table_id": table, "doc_id": row, "data": data, **more}


def delete(table: str, row: Any, **more: Any) -> dict[str, Any]:
    return {"type": "delete", "table_id": table, "doc_id": row, **more}


async def send(app: App, *operations: Any, token: str | None = None, path: str = BATCH) -> httpx.Response:
    async with app.client(token) as client:
        return await client.post(path, json={"operations": operations})


async def rows(app: App, table: str) -> list[dict[str, Any]]:
    async with app.client(app.secret_key) as client:
        page = (await client.get(f"/v1/public/tables/{table}/data?limit=1000")).json()
    assert page["total_count"] == len(page["data"])
    return [row["data"] for row in page["data"]]


def codes(answer: httpx.Response) -> list[str | None]:
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["index"] for result in results] == list(range(len(results)))
    assert all(("error" in result) != result["success"] for result in results)
    done = sum(result["success"] for result in results)
    assert (answer.json()["success_count"], answer.json()["failed_count"]) == (done, len(results) - done)
    return [result.get("error", {}).get("code") for result in results]


async def test_the_results_tell_of_each_operation(app: App):
    table = await app.table(SCHEMA)
    ada, bob = await app.row(table, {"name": "Ada"}), await app.row(table, {"name": "Bob"})
    answer = await send(
        app,
        create(table, {"name": "Cy"}),
        update(table, ada["id"], {"n": {"$inc": 2}}),
        delete(table, bob["id"]),
        create(table, {"n": 1}),
        update(table, bob["id"], {"n": 1}),
        delete(table, NOWHERE.upper()),
    )
    results = answer.json()["results"]
    assert results == [
        {
            "index": 0,
            "type": "create",
            "success": True,
            "id": results[0]["id"],
            "data": {"name": "Cy", "n": 0},
            "updated_at": results[0]["updated_at"],
        },
        {
            "index": 1,
            "type": "update",
            "success": True,
            "id": ada["id"],
            "data": {"name": "Ada", "n": 2},
            "updated_at": results[1]["updated_at"],
        },
        {"index": 2, "type": "delete", "success": True, "id": bob["id"]},
        {"index": 3, "type": "create", "success": False, "error": results[3]["error"]},
        {"index": 4, "type": "update", "success": False, "id": bob["id"], "error": results[4]["error"]},
        {"index": 5, "type": "delete", "success": False, "id": NOWHERE.upper(), "error": results[5]["error"]},
    ]
    assert codes(answer) == [None, None, None, "VALIDATION_FAILED", "ROW_NOT_FOUND", "ROW_NOT_FOUND"]
    assert set(results[3]["error"]) == {"code", "message"}
    assert "name" in results[3]["error"]["message"]
    assert await rows(app, table) == [{"name": "Ada", "n": 2}, {"name": "Cy", "n": 0}]


async def test_operations_run_in_their_order(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada"})
    steps = [update(table, row["id"], {"n": 5}), update(table, row["id"], {"n": {"$inc": 1}})]
    answer = await send(app, *steps, delete(table, row["id"]), update(table, row["id"], {"n": 7}))
    assert codes(answer) == [None, None, None, "ROW_NOT_FOUND"]
    assert [result.get("data", {}).get("n") for result in answer.json()["results"]] == [5, 6, None, None]


async def test_it_answers_200_also_if_all_failed(app: App):
    table = await app.table(SCHEMA)
    answer = await send(app, create(table, {}), delete(table, NOWHERE), create(NOWHERE, {"name": "x"}))
    assert codes(answer) == ["VALIDATION_FAILED", "ROW_NOT_FOUND", "TABLE_NOT_FOUND"]


@pytest.mark.advisory("parse-server#10265")
@pytest.mark.parametrize("path", [BATCH, TRANSACTIONS])
async def test_500_operations_and_no_more(app: App, path: str):
    table = await app.table(SCHEMA)
    answer = await send(app, *[create(table, {"name": str(n)}) for n in range(500)], path=path)
    assert codes(answer) == [None] * 500
    assert [row["name"] for row in await rows(app, table)] == [str(n) for n in range(500)]
    refused = await send(app, *[create(table, {"name": "x"})] * 501, path=path)
    assert assert_error(refused, 400, "VALIDATION_FAILED")["details"][0]["field"] == "operations"
    assert len(await rows(app, table)) == 500


MALFORMED = {
    "no list": ({}, "operations"),
    "an empty list": ({"operations": []}, "operations"),
    "null": ({"operations": None}, "operations"),
    "an object": ({"operations": {}}, "operations"),
    "an unknown field": ({"operations": [], "atomic": True}, None),
}


@pytest.mark.parametrize("path", [BATCH, TRANSACTIONS])
@pytest.mark.parametrize(("body", "field"), MALFORMED.values(), ids=MALFORMED)
async def test_a_request_that_is_no_list_of_operations_is_refused_whole(
    app: App, path: str, body: dict[str, Any], field: str | None
):
    async with app.client() as client:
        answer = await client.post(path, json=body)
    details = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
    if field:
        assert details[0]["field"] == field


ILL_FORMED = {
    "create without data": ({"type": "create"}, "VALIDATION_FAILED"),
    "create with null": ({"type": "create", "data": None}, "VALIDATION_FAILED"),
    "create with a list": ({"type": "create", "data": [{"name": "x"}]}, "VALIDATION_FAILED"),
    "create with a number": ({"type": "create", "data": 1}, "VALIDATION_FAILED"),
    "create with an id": ({"type": "create", "data": {"name": "x"}, "doc_id": NOWHERE}, "VALIDATION_FAILED"),
    "create with a moment": (
        {"type": "create", "data": {"name": "x"}, "expected_updated_at": "2026-01-01T00:00:00Z"},
        "VALIDATION_FAILED",
    ),
    "create with an increment": ({"type": "create", "data": {"name": "x", "n": {"$inc": 1}}}, "VALIDATION_FAILED"),
    "update without data": ({"type": "update", "doc_id": "ROW"}, "VALIDATION_FAILED"),
    "update without an id": ({"type": "update", "data": {"n": 1}}, "VALIDATION_FAILED"),
    "update of no id": ({"type": "update", "data": {"n": 1}, "doc_id": "x"}, "VALIDATION_FAILED"),
    "update of an unknown column": ({"type": "update", "data": {"m": 1}, "doc_id": "ROW"}, "UNKNOWN_COLUMN"),
    "update to a wrong type": ({"type": "update", "data": {"n": "1"}, "doc_id": "ROW"}, "VALIDATION_FAILED"),
    "delete without an id": ({"type": "delete"}, "VALIDATION_FAILED"),
    "delete with data": ({"type": "delete", "doc_id": "ROW", "data": {}}, "VALIDATION_FAILED"),
    "delete at no moment": (
        {"type": "delete", "doc_id": "ROW", "expected_updated_at": "yesterday"},
        "VALIDATION_FAILED",
    ),
    "delete of a reference to nothing": ({"type": "delete", "doc_id": {"$ref": 0}}, "INVALID_REFERENCE"),
}


@pytest.mark.share(0.34)
@pytest.mark.parametrize(("operation", "code"), ILL_FORMED.values(), ids=ILL_FORMED)
async def test_an_ill_formed_operation_fails_by_itself(app: App, operation: dict[str, Any], code: str):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada"})
    operation = {"table_id": table, **operation}
    if operation.get("doc_id") == "ROW":
        operation["doc_id"] = row["id"]
    around = update(table, row["id"], {"n": {"$inc": 1}})
    assert codes(await send(app, operation, around)) == [code, None]
    answer = await send(app, around, operation, path=TRANSACTIONS)
    assert_error(answer, 400, code, failed_index=1)
    assert await rows(app, table) == [{"name": "Ada", "n": 1}]


NOT_OPERATIONS: dict[str, tuple[Any, str]] = {
    "no object": (1, ""),
    "an unknown field": ({"type": "delete", "table_id": NOWHERE, "upsert": 1}, ".upsert"),
    "an unknown type": ({"type": "replace", "table_id": NOWHERE}, ".type"),
    "no type": ({"table_id": NOWHERE}, ".type"),
    "no table": ({"type": "create", "data": {}}, ".table_id"),
    "no id of a table": ({"type": "create", "table_id": "t"}, ".table_id"),
    "a number for a row": ({"type": "delete", "table_id": NOWHERE, "doc_id": 1}, ".doc_id"),
    "a moment that is no text": (
        {"type": "delete", "table_id": NOWHERE, "doc_id": NOWHERE, "expected_updated_at": 1},
        ".expected_updated_at",
    ),
}


@pytest.mark.parametrize(("operation", "field"), NOT_OPERATIONS.values(), ids=NOT_OPERATIONS)
async def test_an_unknown_operation_fails_by_itself_and_by_its_index(app: App, operation: Any, field: str):
    table = await app.table(SCHEMA)
    around = create(table, {"name": "Ada"})
    answer = await send(app, around, operation, around)
    assert codes(answer) == [None, "VALIDATION_FAILED", None]
    failed = answer.json()["results"][1]
    assert failed["type"] == (operation.get("type", "") if isinstance(operation, dict) else "")
    answer = await send(app, around, operation, path=TRANSACTIONS)
    body = assert_error(answer, 400, "VALIDATION_FAILED", failed_index=1)
    assert body["details"][0]["field"] == f"operations[1]{field}"
    assert failed["error"]["message"] == body["message"]
    assert await rows(app, table) == [{"name": "Ada", "n": 0}] * 2


@pytest.mark.parametrize("path", [BATCH, TRANSACTIONS])
async def test_results_carry_the_rows_moment_of_change(app: App, path: str):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada"})
    answer = await send(
        app, create(table, {"name": "Bob"}), update(table, row["id"], {"n": 1}), delete(table, row["id"]), path=path
    )
    made, changed, gone = answer.json()["results"]
    async with app.client() as client:
        stored = (await client.get(f"/v1/public/tables/{table}/data/{made['id']}")).json()
    assert made["updated_at"] == stored["updated_at"]
    assert changed["updated_at"] > row["updated_at"]
    assert "updated_at" not in gone


@pytest.mark.parametrize("path", [BATCH, TRANSACTIONS])
async def test_more_operations_than_the_rate_limit_are_refused_for_good(app: App, path: str):
    table = await app.table(SCHEMA)
    await set_limits(app, data_per_minute=5)
    refused = await send(app, *[create(table, {"name": "x"})] * 6, path=path)
    assert "at most 5" in assert_error(refused, 400, "TOO_MANY_OPERATIONS")["message"]
    async with app.client() as client:
        refused = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": [{"name": "x"}] * 6})
    assert_error(refused, 400, "TOO_MANY_OPERATIONS")


async def test_null_stands_for_what_is_not_sent(app: App):
    table = await app.table(SCHEMA)
    first = create(table, {"name": "Ada"}) | {"doc_id": None, "expected_updated_at": None}
    made = (await send(app, first)).json()["results"][0]
    assert made["success"]
    answer = await send(app, delete(table, made["id"], data=None, expected_updated_at=None))
    assert codes(answer) == [None]


async def test_references_are_for_transactions_only(app: App):
    table = await app.table({"of": "uuid"})
    answer = await send(app, create(table, {}), create(table, {"of": {"$ref": 0}}), delete(table, {"$ref": 0}))
    assert codes(answer) == [None, "VALIDATION_FAILED", "INVALID_REFERENCE"]


async def test_a_precondition_fails_one_operation(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {"name": "Ada"})
    known = {"expected_updated_at": row["updated_at"]}
    change = update(table, row["id"], {"n": {"$inc": 1}}, **known)
    assert codes(await send(app, change, change, delete(table, row["id"], **known))) == [
        None,
        "PRECONDITION_FAILED",
        "PRECONDITION_FAILED",
    ]
    assert await rows(app, table) == [{"name": "Ada", "n": 1}]


@pytest.mark.parametrize("level", ["AppMember", "Creator"])
async def test_access_levels_hold_for_each_operation(app: App, level: str):
    open_, closed = await app.table({"n": "int"}), await app.table({"n": "int"}, level)
    ada, bob = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    row = await app.row(closed, {"n": 1}, ada)
    mixed = [
        create(open_, {"n": 1}),
        create(closed, {"n": 2}),
        update(closed, row["id"], {"n": 3}),
        update(closed, row["id"], {"n": 3}, expected_updated_at="2020-01-01T00:00:00Z"),
        delete(closed, row["id"]),
    ]
    assert codes(await send(app, *mixed)) == [None, *["MEMBER_TOKEN_REQUIRED"] * 4]
    foreign = ["ROW_NOT_FOUND"] * 3 if level == "Creator" else [None, "PRECONDITION_FAILED", None]
    assert codes(await send(app, *mixed, token=bob)) == [None, None, *foreign]
    mine = await app.row(closed, {"n": 1}, ada)
    for token in (ada, app.secret_key):
        assert codes(await send(app, update(closed, mine["id"], {"n": 9}), token=token)) == [None]


async def test_another_apps_tables_are_not_there(app: App, other_app: App):
    table, foreign = await app.table({"n": "int"}), await other_app.table({"n": "int"})
    row = await other_app.row(foreign, {"n": 1})
    operations = [create(foreign, {"n": 1}), update(foreign, row["id"], {"n": 2}), delete(foreign, row["id"])]
    answer = await send(app, *operations, update(table, row["id"], {"n": 2}), token=app.secret_key)
    assert codes(answer) == [*["TABLE_NOT_FOUND"] * 3, "ROW_NOT_FOUND"]
    assert await rows(other_app, foreign) == [{"n": 1}]


async def test_rows_too_large_and_texts_that_cannot_be_stored(app: App):
    table = await app.table({})
    answer = await send(app, create(table, {"s": "x" * 2**20}), create(table, {"s": "ok"}))
    assert codes(answer) == ["ROW_TOO_LARGE", None]
    assert_error(await send(app, create(table, {"s": "\0"})), 400, "VALIDATION_FAILED")


async def test_an_answer_has_a_size(app: App):
    """500 small changes of large rows would be an answer of half a gigabyte."""
    table = await app.table({})
    row = await app.row(table, {"text": "x" * 1_000_000, "n": 0})
    changes = [update(table, row["id"], {"n": {"$inc": 1}})] * 70
    told = codes(await send(app, *changes))
    done = told.index("RESULT_TOO_LARGE")
    assert 30 < done < 35
    assert told == [None] * done + ["RESULT_TOO_LARGE"] * (70 - done)
    assert_error(await send(app, *changes, path=TRANSACTIONS), 400, "RESULT_TOO_LARGE", failed_index=done)
    assert [kept["n"] for kept in await rows(app, table)] == [done]


@pytest.mark.advisory("GHSA-775h-3xrc-c228")
@pytest.mark.parametrize("path", [BATCH, TRANSACTIONS])
async def test_each_operation_counts_for_the_apps_limit(app: App, path: str):
    table = await app.table(SCHEMA)
    await set_limits(app, data_per_minute=10)
    three = [create(table, {"name": "x"})] * 3
    answer = await send(app, *three, path=path)
    assert answer.headers.get_list("RateLimit-Remaining") == ["7"]
    assert (await send(app, *three, *three, path=path)).headers["RateLimit-Remaining"] == "1"
    refused = await send(app, *three, path=path)
    assert_error(refused, 429, "RATE_LIMITED")
    assert refused.headers.get_list("RateLimit-Remaining") == ["0"]
    assert int(refused.headers["Retry-After"]) in range(1, 61)
    await set_limits(app, data_per_minute=None)
    assert len(await rows(app, table)) == 9


@pytest.mark.parametrize("rest", ["", "/bulk"])
async def test_each_row_of_a_bulk_create_counts(app: App, rest: str):
    path = f"/v1/public/tables/{await app.table(SCHEMA)}/data{rest}"
    await set_limits(app, data_per_minute=5)
    async with app.client() as client:
        first = await client.post(path, json={"data": [{"name": "x"}, {}, {"name": "y"}]})
        assert (first.status_code, first.headers["RateLimit-Remaining"]) == (201, "2")
        assert_error(await client.post(path, json={"data": [{"name": "x"}] * 3}), 429, "RATE_LIMITED")


async def test_one_row_counts_once(app: App):
    path = f"/v1/public/tables/{await app.table(SCHEMA)}/data"
    await set_limits(app, data_per_minute=5)
    async with app.client() as client:
        for left in ("4", "3"):
            answer = await client.post(path, json={"data": {"name": "x"}})
            assert answer.headers["RateLimit-Remaining"] == left


async def test_without_a_limit_nothing_is_counted(app: App):
    table = await app.table(SCHEMA)
    answer = await send(app, create(table, {"name": str(uuid4())}))
    assert not [name for name in answer.headers if name.startswith("ratelimit")]
