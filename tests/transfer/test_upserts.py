"""Imports by a unique key: what is there is changed, and a file imported twice changes nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.console import owner_of
from tests.rows.test_unique_keys import keyed
from tests.rules.test_rules import rows
from tests.support import App, assert_error

SCHEMA = {
    "sku": {"type": "string", "normalize": ["lower"]},
    "stock": {"type": "int", "min": 0, "default": 7},
    "secret": {"type": "string", "encrypted": True},
    "code": "string",
    "seen": {"type": "date", "on_update": {"$now": True}},
}
KEYS = ({"columns": ["sku"], "ignore_case": True}, {"columns": ["code"]})
CSV = {"Content-Type": "text/csv"}


async def send(app: App, table: str, text: str, query: str = "unique_key=sku") -> httpx.Response:
    async with owner_of(app).client(app) as console:
        return await console.post(f"/tables/{table}/import?{query}", content=text, headers=CSV)


def counts(answer: httpx.Response) -> tuple[int, int, int, int]:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["created"], body["updated"], body["ignored"], body["rejected"]


async def listed(app: App, table: str) -> dict[str, dict[str, Any]]:
    async with app.client() as client:
        page = (await client.get(rows(table))).json()
    assert page["total_count"] == len(page["data"]), "counts are exact"
    return {row["data"]["sku"]: row["data"] for row in page["data"]}


async def test_lines_change_what_is_there_and_create_the_rest(app: App):
    table = await keyed(app, *KEYS, schema=SCHEMA)
    await app.row(table, {"sku": "a", "stock": 1, "secret": "old", "code": "x"})
    text = "sku,stock,secret\nA,2,new\nb,,s\nB,5,t\n,1,\nc,-1,\na,-1,\n"
    answer = await send(app, table, text)
    assert counts(answer) == (1, 2, 0, 3)
    failed = [(one["line"], one["code"]) for one in answer.json()["rejections"]]
    assert failed == [(5, "KEY_INCOMPLETE"), (6, "VALIDATION_FAILED"), (7, "VALIDATION_FAILED")]
    found = await listed(app, table)
    assert {sku: (row["stock"], row["secret"]) for sku, row in found.items()} == {"a": (2, "new"), "b": (5, "t")}
    assert found["a"]["code"] == "x"
    assert found["a"]["seen"]
    # The same file once more changes the same rows.
    assert counts(await send(app, table, text)) == (0, 3, 0, 3)
    assert {sku: row["stock"] for sku, row in (await listed(app, table)).items()} == {"a": 2, "b": 5}
    assert counts(await send(app, table, "sku,stock\na,9\nd,9\n", "unique_key=sku&mode=ignore")) == (1, 0, 1, 0)
    assert counts(await send(app, table, "sku\na\n", "unique_key=sku&mode=replace")) == (0, 1, 0, 0)
    found = await listed(app, table)
    assert (found["a"]["stock"], "code" in found["a"], found["d"]["stock"]) == (7, False, 9)


async def test_another_key_refuses_single_lines(app: App):
    table = await keyed(app, *KEYS, schema=SCHEMA)
    for sku in "abc":
        await app.row(table, {"sku": sku, "code": sku.upper()})
    answer = await send(app, table, "sku,code\na,A1\nb,C\nd,B\ne,E\nc,C2\n")
    assert counts(answer) == (1, 2, 0, 2)
    assert [(one["line"], one["code"]) for one in answer.json()["rejections"]] == [
        (3, "UNIQUE_VIOLATION"),
        (4, "UNIQUE_VIOLATION"),
    ]
    codes = {sku: row["code"] for sku, row in (await listed(app, table)).items()}
    assert codes == {"a": "A1", "b": "B", "c": "C2", "e": "E"}


async def test_many_lines_of_few_keys(app: App):
    table = await keyed(app, {"columns": ["sku"]}, schema=SCHEMA)
    lines = "".join(f"k{number % 7},{number}\n" for number in range(1500))
    assert counts(await send(app, table, f"sku,stock\n{lines}")) == (7, 1493, 0, 0)
    assert {row["stock"] for row in (await listed(app, table)).values()} == set(range(1493, 1500))


@pytest.mark.parametrize("query", ["unique_key=nothing", "unique_key=sku&mode=maybe"])
async def test_an_unknown_key_or_mode(app: App, query: str):
    table = await keyed(app, *KEYS, schema=SCHEMA)
    answer = await send(app, table, "sku\na\n", query)
    if "mode" in query:
        assert_error(answer, 400, "VALIDATION_FAILED")
    else:
        assert_error(answer, 400, "UNKNOWN_KEY")
