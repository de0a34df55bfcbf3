"""Upserts over HTTP: by unique keys and by ids, in each mode, one and many, under rules, and at once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from pilotis.kit.ids import uuid7_text
from tests.rows.test_unique_keys import keyed
from tests.rules.test_rules import OWN, SIGNED_IN, rows, save
from tests.support import App, assert_error

SCHEMA = {
    "email": "string",
    "name": "string",
    "visits": {"type": "int", "default": 1},
    "secret": {"type": "string", "encrypted": True},
    "note": "string",
}
BY_EMAIL = {"columns": ["email"], "ignore_case": True}


async def upsert(client: httpx.AsyncClient, table: str, data: Any, **asked: Any) -> httpx.Response:
    return await client.post(f"{rows(table)}/upsert", json={"key": "email", "data": data} | asked)


async def test_a_row_is_created_and_then_changed(app: App):
    table = await keyed(app, BY_EMAIL, schema=SCHEMA)
    async with app.client() as client:
        made = await upsert(client, table, {"email": "Ada@x", "name": "Ada", "secret": "s"})
        assert made.status_code == 201, made.text
        row = made.json()
        assert row["created"] is True
        assert row["data"] == {"email": "Ada@x", "name": "Ada", "visits": 1, "secret": "s"}
        merged = await upsert(client, table, {"email": "ada@X", "visits": {"$inc": 2}, "note": "n"})
        assert merged.status_code == 200, merged.text
        assert (merged.json()["created"], merged.json()["id"]) == (False, row["id"])
        assert merged.json()["data"] == {"email": "ada@X", "name": "Ada", "visits": 3, "secret": "s", "note": "n"}
        ignored = await upsert(client, table, {"email": "ADA@x", "name": "no"}, mode="ignore")
        assert ignored.json() == merged.json()
        replaced = await upsert(client, table, {"email": "ada@x", "name": None}, mode="replace")
        assert replaced.json()["data"] == {"email": "ada@x", "visits": 1, "name": None}
        read = (await client.get(f"{rows(table)}/{row['id']}")).json()
        assert read == {k: v for k, v in replaced.json().items() if k != "created"}
        assert (await client.get(rows(table))).json()["total_count"] == 1


async def test_sixteen_at_once_write_one_row_and_lose_nothing(app: App):
    table = await keyed(app, BY_EMAIL, schema=SCHEMA)
    async with app.client() as client:
        data = {"email": "a@x", "visits": {"$inc": 1}}
        first = await asyncio.gather(*(upsert(client, table, {"email": "a@x", "visits": 0}) for _ in range(16)))
        assert sorted(answer.status_code for answer in first) == [200] * 15 + [201]
        await asyncio.gather(*(upsert(client, table, data) for _ in range(16)))
        listed = (await client.get(rows(table))).json()
        assert [row["data"]["visits"] for row in listed["data"]] == [16]
        assert listed["total_count"] == 1


async def test_many(app: App):
    table = await keyed(app, BY_EMAIL, {"columns": ["name"]}, schema=SCHEMA)
    async with app.client() as client:
        assert (await upsert(client, table, {"email": "a", "name": "A"})).status_code == 201
        data = [
            {"email": "a", "note": "changed"},
            {"email": "b", "name": "B"},
            {"email": "B", "name": "again"},
            {"name": "C"},
            {"email": "d", "name": "A"},
            {"email": "e", "visits": "many"},
        ]
        answer = await upsert(client, table, data)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert [(row["index"], row["created"]) for row in body["rows"]] == [(0, False), (1, True)]
        assert (body["total"], body["created_count"], body["updated_count"], body["ignored_count"]) == (6, 1, 1, 0)
        assert [(one["index"], one["code"]) for one in body["failed"]] == [
            (2, "DUPLICATE_IN_REQUEST"),
            (3, "KEY_INCOMPLETE"),
            (4, "UNIQUE_VIOLATION"),
            (5, "VALIDATION_FAILED"),
        ]
        assert body["failed"][2]["key"] == "name"
        assert (await client.get(rows(table))).json()["total_count"] == 2
        nothing = await upsert(client, table, [{"name": "x"}])
        assert_error(nothing, 400, "NOTHING_WRITTEN")
        assert nothing.json()["details"][0]["field"] == "data[0].email"
        assert_error(await upsert(client, table, {"email": "x"}, key="none"), 400, "UNKNOWN_KEY")
        assert_error(await upsert(client, table, {"email": None}), 400, "KEY_INCOMPLETE")


async def test_by_an_id_that_the_client_made(app: App):
    table = await app.table({})
    row_id = uuid7_text()
    async with app.client() as client:
        made = await upsert(client, table, {"id": row_id, "a": 1}, key="id")
        assert (made.status_code, made.json()["id"], made.json()["data"]) == (201, row_id, {"a": 1})
        again = await upsert(client, table, {"id": row_id.upper(), "b": 2}, key="id")
        assert (again.status_code, again.json()["data"]) == (200, {"a": 1, "b": 2})
        for wrong in ("x", 5, "0f0e8a5c-5d5e-4a5b-9c5d-5e5f6a7b8c9d", "7fffffff-ffff-7000-8000-000000000000"):
            answer = await upsert(client, table, {"id": wrong}, key="id")
            assert_error(answer, 400, "INVALID_ID")
        assert_error(await upsert(client, table, {"a": 1}, key="id"), 400, "KEY_INCOMPLETE")
        assert_error(await upsert(client, table, {"id": row_id}, key="id", mode="replace"), 400, "VALIDATION_FAILED")


async def test_under_rules(app: App):
    table = await keyed(app, BY_EMAIL, schema=SCHEMA)
    rules = {"read": OWN, "create": {**SIGNED_IN, "name": {"$ne": "no"}}, "update": OWN}
    await save(app, table, rules | {"columns": {"note": {"read": None, "update": None, "create": None}}})
    ada, eve = (await app.member("ada"))["access_token"], (await app.member("eve"))["access_token"]
    async with (
        app.client(ada) as owner,
        app.client(eve) as other,
        app.client(app.secret_key) as own_side,
        app.client() as nobody,
    ):
        made = (await upsert(owner, table, {"email": "x", "name": "Ada"})).json()
        assert (await upsert(own_side, table, {"email": "x", "note": "kept"})).status_code == 200
        for mode in ("merge", "replace", "ignore"):
            answer = await upsert(other, table, {"email": "x", "name": "Eve"}, mode=mode)
            assert_error(answer, 409, "UNIQUE_VIOLATION")
            assert (answer.json()["key"], "existing_id" in answer.json()) == ("email", False)
        assert_error(await upsert(other, table, {"email": "y", "name": "no"}), 403, "RULE_DENIED")
        assert_error(await upsert(owner, table, {"email": "x", "note": "mine"}), 403, "COLUMN_READ_ONLY")
        assert_error(await upsert(nobody, table, {"email": "z"}), 401, "MEMBER_TOKEN_REQUIRED")
        # What the caller may neither read nor write stays.
        replaced = await upsert(owner, table, {"email": "x"}, mode="replace")
        assert replaced.json()["data"] == {"email": "x", "visits": 1}
        whole = (await own_side.get(f"{rows(table)}/{made['id']}")).json()
        assert whole["data"] == {"email": "x", "visits": 1, "note": "kept"}


@pytest.mark.parametrize("level", ["AppMember"])
async def test_one_profile_for_each_member(app: App, level: str):
    table = await keyed(app, {"columns": ["$creator"]}, schema=SCHEMA, level=level)
    ada = (await app.member("ada"))["access_token"]
    async with app.client(ada) as client, app.client(app.secret_key) as own_side:
        answers = await asyncio.gather(*(upsert(client, table, {"name": f"n{n}"}, key="creator") for n in range(16)))
        assert {answer.status_code for answer in answers} == {200, 201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert_error(await upsert(own_side, table, {"name": "x"}, key="creator"), 400, "KEY_INCOMPLETE")
