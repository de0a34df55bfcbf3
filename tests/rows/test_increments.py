"""`{"$inc": n}`: adding to numbers, in PATCH, batches and transactions alike."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.data.tables import values
from pilotis.data.tables.schema import Column, ColumnType
from pilotis.data.tables.values import RowDecoder
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError
from tests.support import App

pytestmark = pytest.mark.share(0.34)

SCHEMA = {
    "i": "int",
    "x": "number",
    "s": "string",
    "o": "object",
    "a": "array",
    "b": "bool",
    "must": {"type": "int", "required": True},
    "sealed": {"type": "int", "encrypted": True},
}
LARGEST = 2**63 - 1

Change = Callable[[httpx.AsyncClient, str, str, dict[str, Any]], Awaitable[tuple[dict[str, Any] | None, str | None]]]
"""Changes a row; returns its data, or the code of the error."""


async def _post(client: httpx.AsyncClient, method: str, path: str, body: Any) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    answer = await client.request(method, path, content=json.encode(body), headers=headers)
    return answer.status_code, json.decode(answer.content)


async def by_patch(client: httpx.AsyncClient, table: str, row: str, data: dict[str, Any]):
    status, body = await _post(client, "PATCH", f"/v1/public/tables/{table}/data/{row}", {"data": data})
    return (body["data"], None) if status == 200 else (None, body["code"])


async def by_batch(client: httpx.AsyncClient, table: str, row: str, data: dict[str, Any]):
    operation = {"type": "update", "table_id": table, "doc_id": row, "data": data}
    _, body = await _post(client, "POST", "/v1/public/batch", {"operations": [operation]})
    result = body["results"][0]
    return (result["data"], None) if result["success"] else (None, result["error"]["code"])


async def by_transaction(client: httpx.AsyncClient, table: str, row: str, data: dict[str, Any]):
    operation = {"type": "update", "table_id": table, "doc_id": row, "data": data}
    status, body = await _post(client, "POST", "/v1/public/transactions", {"operations": [operation]})
    return (body["results"][0]["data"], None) if status == 200 else (None, body["code"])


@pytest.fixture(params=[by_patch, by_batch, by_transaction], ids=["patch", "batch", "transaction"])
def change(request: pytest.FixtureRequest) -> Change:
    return request.param


async def changed(app: App, change: Change, schema: dict[str, Any], before: dict[str, Any], data: dict[str, Any]):
    """Make a row, change it, and check that what was answered is what is stored."""
    table = await app.table(schema)
    async with app.client() as client:
        _, row = await _post(client, "POST", f"/v1/public/tables/{table}/data", {"data": before})
        after, code = await change(client, table, row["id"], data)
        _, stored = await _post(client, "GET", f"/v1/public/tables/{table}/data/{row['id']}", None)
    assert stored["data"] == (row["data"] if after is None else after)
    return code if after is None else after


def inc(amount: Any) -> dict[str, Any]:
    return {"$inc": amount}


SUMS = {
    "int": ({"i": 1}, {"i": inc(2)}, {"i": 3}),
    "negative": ({"i": 1}, {"i": inc(-2)}, {"i": -1}),
    "zero": ({"i": 1}, {"i": inc(0)}, {"i": 1}),
    "null": ({"i": None}, {"i": inc(2)}, {"i": 2}),
    "absent": ({}, {"i": inc(2)}, {"i": 2}),
    "largest": ({"i": LARGEST - 1}, {"i": inc(1)}, {"i": LARGEST}),
    "smallest": ({"i": -LARGEST}, {"i": inc(-1)}, {"i": -(2**63)}),
    "exact fraction": ({"x": Decimal("0.1")}, {"x": inc(Decimal("0.2"))}, {"x": Decimal("0.3")}),
    "int on number": ({"x": Decimal("0.5")}, {"x": inc(1)}, {"x": Decimal("1.5")}),
    "huge and tiny": ({"x": 10**300}, {"x": inc(Decimal("1e-10"))}, {"x": Decimal(f"1{'0' * 300}.0000000001")}),
    "null number": ({"x": None}, {"x": inc(Decimal("-1.5"))}, {"x": Decimal("-1.5")}),
    "beside others": ({"i": 1, "s": "a"}, {"i": inc(1), "s": "b", "x": None}, {"i": 2, "s": "b", "x": None}),
    "two": ({"i": 1, "x": 2}, {"i": inc(1), "x": inc(1)}, {"i": 2, "x": 3}),
    # Not in place of a column's number, it is a member like others.
    "in an object": ({"o": {"n": 1}}, {"o": {"n": inc(1)}}, {"o": {"n": inc(1)}}),
    "as an object": ({}, {"o": inc(1)}, {"o": inc(1)}),
}


@pytest.mark.parametrize(("before", "data", "after"), SUMS.values(), ids=SUMS)
async def test_it_adds(app: App, change: Change, before: Any, data: Any, after: Any):
    assert await changed(app, change, SCHEMA, {"must": 1} | before, data) == {"must": 1} | before | after


FREE = {
    "number": ({"n": 1}, {"n": inc(2)}, {"n": 3}),
    "fraction": ({"n": Decimal("0.1")}, {"n": inc(Decimal("0.2"))}, {"n": Decimal("0.3")}),
    "absent": ({}, {"n": inc(2)}, {"n": 2}),
    "null": ({"n": None}, {"n": inc(2)}, {"n": 2}),
    "a name to quote": ({'it\'s "x"': 1}, {'it\'s "x"': inc(1)}, {'it\'s "x"': 2}),
    "beside others": ({"n": 1, "m": [1]}, {"n": inc(1), "m": [2], "k": "new"}, {"n": 2, "m": [2], "k": "new"}),
    "nested": ({"o": {"n": 1}}, {"o": {"n": inc(1)}}, {"o": {"n": inc(1)}}),
}


@pytest.mark.parametrize(("before", "data", "after"), FREE.values(), ids=FREE)
async def test_it_adds_in_a_table_of_any_fields(app: App, change: Change, before: Any, data: Any, after: Any):
    assert await changed(app, change, {}, before, data) == after


REFUSED = {
    "string": ({}, {"s": inc(1)}, "VALIDATION_FAILED"),
    "bool": ({}, {"b": inc(1)}, "VALIDATION_FAILED"),
    "array": ({}, {"a": inc(1)}, "VALIDATION_FAILED"),
    "encrypted": ({"sealed": 1}, {"sealed": inc(1)}, "VALIDATION_FAILED"),
    "unknown": ({}, {"nothing": inc(1)}, "UNKNOWN_COLUMN"),
    "fraction on int": ({"i": 1}, {"i": inc(Decimal("0.5"))}, "VALIDATION_FAILED"),
    "whole fraction on int": ({"i": 1}, {"i": inc(Decimal("1.0"))}, "VALIDATION_FAILED"),
    "text": ({"i": 1}, {"i": inc("1")}, "VALIDATION_FAILED"),
    "boolean": ({"i": 1}, {"i": inc(True)}, "VALIDATION_FAILED"),
    "null": ({"i": 1}, {"i": inc(None)}, "VALIDATION_FAILED"),
    "list": ({"i": 1}, {"i": inc([1])}, "VALIDATION_FAILED"),
    "another operator too": ({"i": 1}, {"i": {"$inc": 1, "$set": 2}}, "VALIDATION_FAILED"),
    "unknown operator": ({"i": 1}, {"i": {"$mul": 2}}, "VALIDATION_FAILED"),
    "over the largest": ({"i": LARGEST}, {"i": inc(1)}, "CANNOT_INCREMENT"),
    "under the smallest": ({"i": -(2**63)}, {"i": inc(-1)}, "CANNOT_INCREMENT"),
    "beyond any int": ({"i": 1}, {"i": inc(10**300)}, "CANNOT_INCREMENT"),
    "beyond doubles": ({"x": 10**308}, {"x": inc(10**308)}, "CANNOT_INCREMENT"),
    "beyond any number": ({"x": 1}, {"x": inc(10**400)}, "VALIDATION_FAILED"),
    "good and bad": ({"i": 1, "x": 1}, {"x": inc(1), "i": inc(LARGEST)}, "CANNOT_INCREMENT"),
}


@pytest.mark.parametrize(("before", "data", "code"), REFUSED.values(), ids=REFUSED)
async def test_it_refuses(app: App, change: Change, before: Any, data: Any, code: str):
    assert await changed(app, change, SCHEMA, {"must": 1} | before, data) == code


FREE_REFUSED = {
    "text": ({"n": "1"}, {"n": inc(1)}, "CANNOT_INCREMENT"),
    "boolean": ({"n": True}, {"n": inc(1)}, "CANNOT_INCREMENT"),
    "list": ({"n": [1]}, {"n": inc(1)}, "CANNOT_INCREMENT"),
    "object": ({"n": {"m": 1}}, {"n": inc(1)}, "CANNOT_INCREMENT"),
    "beyond doubles": ({"n": 10**308}, {"n": inc(10**308)}, "CANNOT_INCREMENT"),
    "no number": ({"n": 1}, {"n": inc("1")}, "VALIDATION_FAILED"),
}


@pytest.mark.parametrize(("before", "data", "code"), FREE_REFUSED.values(), ids=FREE_REFUSED)
async def test_it_refuses_in_a_table_of_any_fields(app: App, change: Change, before: Any, data: Any, code: str):
    assert await changed(app, change, {}, before, data) == code


async def test_a_required_number_stays_one(app: App, change: Change):
    assert await changed(app, change, SCHEMA, {"must": 1}, {"must": inc(1)}) == {"must": 2}


@given(st.integers(-(2**70), 2**70) | st.decimals(-1000, 1000, allow_nan=False, places=3))
def test_what_is_added_is_exact_or_refused(amount: int | Decimal):
    """Pure: an amount comes out of the decoder as it went in; an int column takes whole numbers alone."""
    for type_ in (ColumnType.INT, ColumnType.NUMBER):
        decoder = RowDecoder([Column(name="n", type=type_, number=1)], partial=True)
        text = json.encode({"n": {"$inc": amount}}).replace(b"$", b"\\u0024")
        if type_ is ColumnType.INT and isinstance(amount, Decimal):
            with pytest.raises(BadRequestError):
                decoder.decode_change(text)
        else:
            assert decoder.decode_change(text).changes == {"n": values.Change("$inc", amount)}
