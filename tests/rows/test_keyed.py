"""A row by the values of a unique key in its path, over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.console import owner_of
from tests.rules.test_rules import OWN, SIGNED_IN, rows, save
from tests.support import App, assert_error

SCHEMA = {
    "slug": "string",
    "lang": "string",
    "n": "int",
    "ratio": "number",
    "done": "boolean",
    "day": "date",
    "ref": "uuid",
    "secret": {"type": "string", "encrypted": True},
}


async def keyed(app: App, *keys: dict[str, Any], schema: dict[str, Any] | None = None) -> str:
    async with app.client() as client:
        body = {"title": f"pages {id(keys)}", "schema": schema or SCHEMA, "access_level": "Public", "unique": keys}
        answer = await client.post("/v1/public/tables", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def by(table: str, key: str, *values: str) -> str:
    return f"{rows(table)}/by/{key}/{'/'.join(quote(value, safe='') for value in values)}"


async def create(client: httpx.AsyncClient, table: str, **data: Any) -> str:
    answer = await client.post(rows(table), json={"data": data})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


@pytest.mark.parametrize(
    ("column", "value", "texts"),
    [
        ("slug", "a/b c?é 漢", ["a/b c?é 漢"]),
        ("n", 12, ["12"]),
        ("ratio", 1.5, ["1.5", "1.50", "15e-1"]),
        ("done", True, ["true"]),
        ("day", "2026-01-31T12:00:00Z", ["2026-01-31T12:00:00Z", "2026-01-31T21:00:00+09:00"]),
        ("ref", "0190a000-0000-7000-8000-00000000aaaa", ["0190A000-0000-7000-8000-00000000AAAA"]),
        ("secret", "hush", ["hush"]),
    ],
)
async def test_a_row_is_found_by_a_value_of_any_type(app: App, column: str, value: Any, texts: list[str]):
    table = await keyed(app, {"columns": [column]})
    async with app.client() as client:
        row_id = await create(client, table, **{column: value})
        await create(client, table, **{"slug" if column != "slug" else "lang": "another"})
        for text in texts:
            answer = await client.get(by(table, column, text))
            assert answer.status_code == 200, answer.text
            assert answer.json() == (await client.get(f"{rows(table)}/{row_id}")).json()
        if column not in {"slug", "secret"}:
            assert_error(await client.get(by(table, column, "no such value")), 400, "VALIDATION_FAILED")


def write(kind: str, table: str, key: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "table_id": table, "doc_id": {"key": key, "value": value}, **more}


@pytest.mark.parametrize("route", ["batch", "transactions"])
async def test_operations_name_rows_by_keys(app: App, route: str):
    own_key = {"columns": ["$creator"]}
    table = await keyed(app, {"columns": ["slug"]}, {"columns": ["lang", "n"], "name": "page"}, own_key)
    member = await app.guest()
    async with app.client(member["access_token"]) as client:

        async def run(*operations: dict[str, Any]) -> httpx.Response:
            return await client.post(f"/v1/public/{route}", json={"operations": [*operations]})

        mine = await create(client, table, slug="a", lang="en", n=1)
        async with app.client() as others:
            other = await create(others, table, slug="b", lang="de", n=2)
        done = await run(
            write("update", table, "slug", "b", data={"n": {"$inc": 1}}),
            write("update", table, "page", ["en", 1], data={"ratio": 1}),
            write("update", table, "creator", [], data={"done": True}),
        )
        assert [one.get("id") for one in done.json()["results"]] == [other, mine, mine], done.text
        assert done.json()["results"][2]["data"]["ratio"] == 1
        stale = await run(write("delete", table, "slug", "a", expected_updated_at="2020-01-01T00:00:00Z"))
        assert "PRECONDITION_FAILED" in stale.text
        # A transaction finds what it has written itself.
        freed = write("delete", table, "slug", "a")
        made = {"type": "create", "table_id": table, "data": {"slug": "c"}}
        both = await run(freed, made, write("update", table, "slug", "c", data={"n": 9}))
        assert both.json()["success_count"] == 3, both.text
        assert [row["data"]["slug"] for row in (await client.get(rows(table))).json()["data"]] == ["b", "c"]
        wrong = [
            (write("update", table, "slug", "none", data={}), "ROW_NOT_FOUND"),
            (write("update", table, "none", "b", data={}), "UNKNOWN_KEY"),
            (write("update", table, "page", "b", data={}), "VALIDATION_FAILED"),
            (write("update", table, "slug", None, data={}), "KEY_INCOMPLETE"),
            (write("update", table, "slug", 5, data={}), "VALIDATION_FAILED"),
            (write("delete", table, "slug", "b", data={}), "VALIDATION_FAILED"),
        ]
        for operation, code in wrong:
            answer = (await run(operation)).json()
            told = answer["results"][0]["error"]["code"] if route == "batch" else answer["code"]
            assert told == code, answer


@pytest.mark.parametrize("route", ["batch", "transactions"])
async def test_guesses_in_operations_are_counted(app: App, route: str):
    table = await keyed(app, {"columns": ["slug"]})
    async with app.client() as client, owner_of(app).client(app) as console:
        await create(client, table, slug="right", n=0)
        await save(app, table, {"read": True, "list": None, "update": True})
        assert (await console.patch("/limits", json={"key_misses_per_minute": 3})).status_code == 200

        async def guess(text: str) -> str:
            operation = write("update", table, "slug", text, data={"n": {"$inc": 1}})
            answer = (await client.post(f"/v1/public/{route}", json={"operations": [operation]})).json()
            if "code" in answer:
                return answer["code"]
            return answer["results"][0].get("error", {}).get("code", "done")

        assert [await guess("right") for _ in range(5)] == ["done"] * 5
        found = [await guess(f"wrong {n}") for n in range(5)]
        assert found == ["ROW_NOT_FOUND"] * 3 + ["RATE_LIMITED"] * 2
        # Beyond the limit what is right is not told either.
        assert await guess("right") == "RATE_LIMITED"


async def test_it_is_read_changed_and_deleted_by_a_key_of_several_columns(app: App):
    table = await keyed(app, {"columns": ["slug", "lang"], "name": "page", "ignore_case": True})
    async with app.client() as client:
        row_id = await create(client, table, slug="Hello", lang="en", n=1)
        await create(client, table, slug="Hello", lang="de", n=2)
        path = by(table, "page", "hello", "EN")
        assert (await client.get(path, params={"fields": "n"})).json()["data"] == {"n": 1}
        changed = await client.patch(path, json={"data": {"n": {"$inc": 1}}})
        assert (changed.json()["id"], changed.json()["data"]["n"]) == (row_id, 2)
        stale = {"data": {"n": 3}, "expected_updated_at": "2020-01-01T00:00:00Z"}
        assert_error(await client.patch(path, json=stale), 409, "PRECONDITION_FAILED")
        assert (await client.delete(path)).json() == {"message": "Row deleted.", "id": row_id}
        for answer in (await client.get(path), await client.patch(path, json={"data": {}}), await client.delete(path)):
            assert_error(answer, 404, "ROW_NOT_FOUND")
        assert_error(await client.get(by(table, "page", "hello")), 400, "VALIDATION_FAILED")
        assert_error(await client.get(by(table, "page", "a", "b", "c")), 400, "VALIDATION_FAILED")
        assert_error(await client.get(by(table, "nothing", "a")), 400, "UNKNOWN_KEY")
        assert_error(await client.get(f"{rows(table)}/by/page/"), 404, "NOT_FOUND")


async def test_a_key_of_creators_is_about_the_caller(app: App):
    table = await keyed(app, {"columns": ["$creator"], "name": "profile"}, schema={"name": "string"})
    ada, eve = [(await app.member(name))["access_token"] for name in ("ada", "eve")]
    async with app.client(ada) as one, app.client(eve) as other, app.client() as public:
        mine = await create(one, table, name="Ada")
        assert (await one.get(by(table, "profile", "me"))).json()["id"] == mine
        assert_error(await other.get(by(table, "profile", "me")), 404, "ROW_NOT_FOUND")
        assert_error(await one.get(by(table, "profile", mine)), 400, "VALIDATION_FAILED")
        assert_error(await public.get(by(table, "profile", "me")), 400, "KEY_INCOMPLETE")


async def test_it_asks_the_rule_for_reading_and_guesses_are_limited(app: App):
    table = await keyed(app, {"columns": ["slug"]}, schema={"slug": "string", "open": "boolean"})
    ada = (await app.member("ada"))["access_token"]
    async with app.client(ada) as owner, app.client() as public, owner_of(app).client(app) as console:
        await create(owner, table, slug="secret-room", open=True)
        await create(owner, table, slug="private", open=False)
        rules = {"list": OWN, "read": {"$or": [{"open": True}, OWN]}, "create": SIGNED_IN, "update": OWN}
        await save(app, table, rules)
        assert_error(await public.get(rows(table)), 401, "MEMBER_TOKEN_REQUIRED")
        assert (await public.get(by(table, "slug", "secret-room"))).status_code == 200
        hidden = assert_error(await public.get(by(table, "slug", "private")), 404, "ROW_NOT_FOUND")
        missing = assert_error(await public.get(by(table, "slug", "nothing")), 404, "ROW_NOT_FOUND")
        assert hidden["message"] == missing["message"]
        assert (await owner.get(by(table, "slug", "private"))).status_code == 200
        answer = await public.patch(by(table, "slug", "secret-room"), json={"data": {"open": False}})
        assert_error(answer, 401, "MEMBER_TOKEN_REQUIRED")
        assert (await console.patch("/limits", json={"key_misses_per_minute": 5})).status_code == 200
        # Two were misses before; those that found the row count for nothing.
        for _ in range(4):
            assert (await public.get(by(table, "slug", "secret-room"))).status_code == 200
        for n in range(3):
            assert_error(await public.get(by(table, "slug", f"guess {n}")), 404, "ROW_NOT_FOUND")
        assert_error(await public.get(by(table, "slug", "guess")), 429, "RATE_LIMITED")
        assert_error(await public.get(by(table, "slug", "secret-room")), 429, "RATE_LIMITED")
        # Who may list the table learns nothing by it.
        for n in range(10):
            assert_error(await owner.get(by(table, "slug", f"guess {n}")), 404, "ROW_NOT_FOUND")
