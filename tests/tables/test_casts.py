"""Changing a column's type: every pair of types, with values that cast and values that do not."""

import itertools
from decimal import Decimal
from typing import Any

import httpx
import pytest

from pilotis.kit import json
from tests.support import App, assert_error

pytestmark = pytest.mark.share(0.34)

UUID = "018f0000-0000-7000-8000-000000000001"
BIG = "123456789012345678901234567890"

# For each type: what a column of it may hold, and what each value becomes as each other type. A type that is not
# named for a value is one the value does not cast to.
CASES: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "string": [
        ("", {}),
        ("text", {}),
        ("5", {"number": 5, "int": 5}),
        ("-1.50", {"number": Decimal("-1.50")}),
        ("1e2", {"number": 100}),
        ("1e400", {}),
        ("9e308", {}),
        ("1e308", {"number": 10**308}),
        ("1" * 400, {}),
        ("٣", {}),
        ("0x10", {}),
        ("NaN", {}),
        (" 5", {}),
        (str(2**63 - 1), {"number": 2**63 - 1, "int": 2**63 - 1}),
        (str(2**63), {"number": 2**63}),
        (BIG, {"number": int(BIG)}),
        ("true", {"boolean": True}),
        ("True", {}),
        ("t", {}),
        ("2020-01-31", {"date": "2020-01-31"}),
        ("2020-01-31T24:00:00Z", {}),
        ("2020-02-30", {}),
        ("now", {}),
        (UUID, {"uuid": UUID}),
        (UUID.upper(), {"uuid": UUID}),
        (UUID.replace("-", ""), {}),
        ('{"a": [1.10]}', {"object": {"a": [Decimal("1.10")]}}),
        ("[]", {"array": []}),
        ("{", {}),
        ('["\\u0000"]', {}),
        ("[1e100000]", {}),
        ("null", {}),
    ],
    "number": [
        (5, {"string": "5", "int": 5}),
        (Decimal("5.00"), {"string": "5.00", "int": 5}),
        (Decimal("1.10"), {"string": "1.10"}),
        (2**63, {"string": str(2**63)}),
        (Decimal("1e2"), {"string": "100", "int": 100}),
    ],
    "boolean": [(True, {"string": "true"}), (False, {"string": "false"})],
    "date": [("2020-01-31T10:00:00+09:00", {"string": "2020-01-31T10:00:00+09:00"})],
    "object": [({"a": 1}, {"string": '{"a": 1}'}), ({}, {"string": "{}"})],
    "array": [([1, "a"], {"string": '[1, "a"]'}), ([], {"string": "[]"})],
    "uuid": [(UUID, {"string": UUID})],
    "int": [(-7, {"string": "-7", "number": -7}), (2**63 - 1, {"string": str(2**63 - 1), "number": 2**63 - 1})],
}


async def post(client: httpx.AsyncClient, path: str, body: Any) -> httpx.Response:
    return await client.post(path, content=json.encode(body), headers={"Content-Type": "application/json"})


async def rows_of(client: httpx.AsyncClient, table: str) -> dict[str, Any]:
    answer = await client.get(f"/v1/public/tables/{table}/data?limit=100")
    return {item["id"]: item["data"] for item in json.decode(answer.content)["data"]}


@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(CASES, 2)])
async def test_a_cast_keeps_what_fits_and_refuses_what_does_not(app: App, source: str, target: str):
    values = [value for value, _ in CASES[source]]
    fitting = {index: becomes[target] for index, (_, becomes) in enumerate(CASES[source]) if target in becomes}
    table = await app.table({"value": source})
    async with app.client() as client:
        created = await post(client, f"/v1/public/tables/{table}/data/bulk", {"data": [{"value": v} for v in values]})
        ids = [item["id"] for item in created.json()["created"]]
        assert len(ids) == len(values), created.text
        empty, null = await app.row(table, {}), await app.row(table, {"value": None})
        before = await rows_of(client, table)
        column = f"/v1/public/tables/{table}/columns/value"
        misfits = [row_id for index, row_id in enumerate(ids) if index not in fitting]
        if misfits:
            refused = await client.patch(column, json={"data_type": target})
            body = assert_error(refused, 409, "ROWS_DO_NOT_FIT")
            assert body["message"].startswith(f"{len(misfits)} rows have" if len(misfits) > 1 else "1 row has")
            assert [detail["field"] for detail in body["details"]] == misfits[:5]
            assert await rows_of(client, table) == before
            assert await type_of(client, table) == source
            for row_id in misfits:
                await client.delete(f"/v1/public/tables/{table}/data/{row_id}")
        changed = await client.patch(column, json={"data_type": target})
        assert changed.status_code == 200, changed.text
        assert await type_of(client, table) == target
        after = await rows_of(client, table)
        assert after.pop(empty["id"]) == {}
        assert after.pop(null["id"]) == {"value": None}
        assert after == {ids[index]: {"value": value} for index, value in fitting.items()}
        # What was cast is found as what it is now.
        for index, value in fitting.items():
            found = await post(client, f"/v1/public/tables/{table}/data/query", {"where": {"value": value}})
            assert ids[index] in {item["id"] for item in found.json()["data"]}, value


async def type_of(client: httpx.AsyncClient, table: str) -> str:
    answer = await client.get(f"/v1/public/tables/{table}")
    type_: str = answer.json()["schema"]["value"]
    return type_
