"""Unique keys over HTTP: no two rows share their values, whoever writes them, and the error says which row has them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.rules.test_rules import OWN, SIGNED_IN, manager, rows, save
from tests.support import App, assert_error

PEOPLE = {
    "email": "string",
    "team": "string",
    "age": "int",
    "slot": "date",
    "secret": {"type": "string", "encrypted": True},
}


async def keyed(app: App, *keys: dict[str, Any], schema: dict[str, Any] | None = None, level: str = "Public") -> str:
    async with app.client() as client:
        body = {
            "title": f"people {id(keys)} {level}",
            "schema": schema or PEOPLE,
            "access_level": level,
            "unique": keys,
        }
        answer = await client.post("/v1/public/tables", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def create(client: httpx.AsyncClient, table: str, **data: Any) -> httpx.Response:
    return await client.post(rows(table), json={"data": data})


def assert_taken(answer: httpx.Response, key: str, existing: str | None) -> None:
    assert_error(answer, 409, "UNIQUE_VIOLATION")
    assert (answer.json()["key"], answer.json().get("existing_id")) == (key, existing)


async def test_sixteen_simultaneous_saves_make_one_profile(app: App):
    table = await keyed(app, {"columns": ["email"], "ignore_case": True})
    async with app.client() as client:
        answers = await asyncio.gather(
            *(create(client, table, email=f"{'ada' if n % 2 else 'ADA'}@x.example") for n in range(16))
        )
        (made,) = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        for answer in answers:
            if answer.status_code != 201:
                assert_taken(answer, "email", made)
        assert answers[-1].status_code in {201, 409}
        listed = (await client.get(rows(table))).json()
        assert listed["total_count"] == len(listed["data"]) == 1
        detail = next(answer for answer in answers if answer.status_code == 409).json()["details"][0]
        assert (detail["field"], detail["code"]) == ("data.email", "UNIQUE_VIOLATION")
        # Others that share the statement are created.
        mixed = await asyncio.gather(*(create(client, table, email=f"{n % 4}@x.example") for n in range(16)))
        assert sum(answer.status_code == 201 for answer in mixed) == 4
        # Rows without the value are outside of the key.
        assert [(await create(client, table, team="x")).status_code for _ in range(2)] == [201, 201]


async def test_every_way_to_write_asks(app: App):
    table = await keyed(app, {"columns": ["team", "age"]}, {"name": "mail", "columns": ["email"]})
    async with app.client() as client:
        first = (await create(client, table, team="a", age=1, email="x")).json()["id"]
        second = (await create(client, table, team="a", age=2, email="y")).json()["id"]
        assert_taken(await create(client, table, team="a", age=1), "team_age", first)
        assert_taken(await client.patch(f"{rows(table)}/{second}", json={"data": {"age": 1}}), "team_age", None)
        assert_taken(
            await client.patch(f"{rows(table)}/{second}", json={"data": {"age": {"$inc": -1}}}), "team_age", None
        )
        assert (await client.patch(f"{rows(table)}/{second}", json={"data": {"age": 2}})).status_code == 200
        data = [{"email": "z"}, {"email": "x"}, {"email": "z"}, {"age": 3}]
        bulk = (await client.post(rows(table), json={"data": data})).json()
        assert (bulk["total"], bulk["success"]) == (4, 2)
        assert [(one["index"], one["code"], one["key"]) for one in bulk["failed"]] == [
            (1, "UNIQUE_VIOLATION", "mail"),
            (2, "UNIQUE_VIOLATION", "mail"),
        ]
        assert bulk["failed"][0]["existing_id"] == first
        taken = {"type": "create", "table_id": table, "data": {"email": "x"}}
        free = {"type": "create", "table_id": table, "data": {"email": "free"}}
        answer = await client.post("/v1/public/transactions", json={"operations": [free, taken]})
        assert_error(answer, 409, "UNIQUE_VIOLATION", failed_index=1)
        assert answer.json()["key"] == "mail"
        batch = (await client.post("/v1/public/batch", json={"operations": [free, taken]})).json()
        assert [one["success"] for one in batch["results"]] == [True, False]
        assert batch["results"][1]["error"]["code"] == "UNIQUE_VIOLATION"
        assert (await client.get(rows(table))).json()["total_count"] == 5


async def test_what_a_rule_hides_is_not_named(app: App):
    table = await keyed(app, {"columns": ["email"]}, level="Creator")
    ada, eve = (await app.member("ada"))["access_token"], (await app.member("eve"))["access_token"]
    async with app.client(ada) as owner, app.client(eve) as other, app.client(app.secret_key) as own_side:
        made = (await create(owner, table, email="x")).json()["id"]
        assert_taken(await create(owner, table, email="x"), "email", made)
        assert_taken(await create(other, table, email="x"), "email", None)
        assert_taken(await create(own_side, table, email="x"), "email", made)
        await save(app, table, {"read": OWN, "create": {**SIGNED_IN, "email": {"$ne": "no"}}})
        assert_error(await create(other, table, email="no"), 403, "RULE_DENIED")
        assert_taken(await create(other, table, email="x"), "email", None)
        many = {"data": [{"email": "no"}, {"email": "x"}, {"email": "ok"}]}
        bulk = (await other.post(rows(table), json=many)).json()
        assert [one["code"] for one in bulk["failed"]] == ["RULE_DENIED", "UNIQUE_VIOLATION"]
        assert [row["data"]["email"] for row in bulk["created"]] == ["ok"]


async def test_one_vote_for_each_member(app: App):
    table = await keyed(app, {"columns": ["$creator", "team"]}, level="AppMember")
    ada, eve = (await app.member("ada"))["access_token"], (await app.member("eve"))["access_token"]
    async with app.client(ada) as one, app.client(eve) as other, app.client(app.secret_key) as nobody:
        votes = await asyncio.gather(*(create(one, table, team="a") for _ in range(8)))
        assert sorted(vote.status_code for vote in votes) == [201] + [409] * 7
        assert (await create(other, table, team="a")).status_code == 201
        assert (await create(one, table, team="b")).status_code == 201
        assert [(await create(nobody, table, team="a")).status_code for _ in range(2)] == [201, 201]


async def test_keys_of_some_rows_of_moments_and_of_encrypted_values(app: App):
    table = await keyed(
        app,
        {"columns": ["slot"], "where": {"team": {"$in": ["booked", "it's"]}}},
        {"columns": ["secret"]},
        {"name": "pair", "columns": ["age", "email"], "nulls": "equal", "where": {"age": {"$isNull": False}}},
    )
    async with app.client() as client:
        slot = {"slot": "2026-01-31T09:00:00Z"}
        assert (await create(client, table, team="booked", **slot)).status_code == 201
        same = await create(client, table, team="it's", slot="2026-01-31T10:00:00+01:00")
        assert_error(same, 409, "UNIQUE_VIOLATION")
        assert (await create(client, table, team="free", **slot)).status_code == 201
        assert (await create(client, table, secret="s")).status_code == 201
        assert_error(await create(client, table, secret="s"), 409, "UNIQUE_VIOLATION")
        assert (await create(client, table, age=1)).status_code == 201
        assert_error(await create(client, table, age=1), 409, "UNIQUE_VIOLATION")
        assert (await create(client, table, age=1, email="x")).status_code == 201
        answer = await create(client, table, email="x" * 1001)
        assert_error(answer, 400, "VALIDATION_FAILED")
        assert answer.json()["details"][0]["code"] == "TOO_LONG_FOR_UNIQUE"


async def test_keys_are_added_shown_and_removed(app: App):
    table = await app.table(PEOPLE)
    async with manager(app) as console, app.client() as client:
        for email in ("x", "x", "y", "x"):
            await create(client, table, email=email)
        path = f"/tables/{table}/unique"
        refused = await console.post(path, json={"columns": ["email"]})
        assert_error(refused, 409, "ROWS_NOT_UNIQUE")
        assert "2 rows have" in refused.json()["message"]
        assert len(refused.json()["details"]) == 1
        assert (await create(client, table, email="x")).status_code == 201
        made = await console.post(path, json={"columns": ["email", "age"], "name": "both"})
        assert made.status_code == 201, made.text
        assert_error(await console.post(path, json={"columns": ["team"], "name": "both"}), 409, "UNIQUE_KEY_EXISTS")
        assert (await console.get(path)).json() == {"unique": [made.json()]}
        shown = (await client.get(f"/v1/public/tables/{table}")).json()
        assert shown["unique"] == [made.json()]
        column = f"/v1/public/tables/{table}/columns/age"
        assert_error(await client.delete(column), 409, "USED_IN_KEY")
        assert_error(await client.patch(column, json={"data_type": "string"}), 409, "USED_IN_KEY")
        assert (await client.patch(f"{column}/rename", json={"name": "years"})).status_code in {200, 404, 405}
        assert_error(await console.delete(f"{path}/none"), 404, "UNIQUE_KEY_NOT_FOUND")
        assert (await console.delete(f"{path}/both")).status_code == 200
        assert (await client.delete(column)).status_code in {200, 404}
        body = {"title": "people", "schema": PEOPLE, "access_level": "Public", "unique": [{"columns": ["team"]}]}
        answer = await client.patch(f"/v1/public/tables/{table}", json=body)
        assert answer.status_code == 200, answer.text
        body["unique"] = [{"columns": ["team"]}, {"columns": ["slot"]}]
        assert (await client.patch(f"/v1/public/tables/{table}", json=body)).status_code == 200
        assert [key["name"] for key in (await console.get(path)).json()["unique"]] == ["team", "slot"]
        del body["unique"]
        assert (await client.patch(f"/v1/public/tables/{table}", json=body)).status_code == 200
        assert len((await console.get(path)).json()["unique"]) == 2


@pytest.mark.parametrize(
    ("key", "field", "code"),
    [
        ({"columns": ["nme"]}, "columns[0]", "UNKNOWN_COLUMN"),
        ({"columns": []}, "columns", None),
        ({"columns": ["team", "team"]}, "columns", "VALIDATION_FAILED"),
        ({"columns": ["tags"]}, "columns[0]", "NOT_FOR_UNIQUE"),
        ({"columns": ["secret"], "ignore_case": True}, "ignore_case", "NOT_FOR_UNIQUE"),
        ({"columns": ["team"], "name": "a b"}, "name", "VALIDATION_FAILED"),
        ({"columns": ["team"], "where": {"age": {"$gt": 1}}}, "where.age.$gt", "VALIDATION_FAILED"),
        ({"columns": ["team"], "where": {"age": "1"}}, "where.age.$eq", "VALIDATION_FAILED"),
        ({"columns": ["team"], "where": {"secret": "x"}}, "where.secret", "NOT_FOR_UNIQUE"),
        ({"columns": ["team"], "nulls": "none"}, "nulls", None),
    ],
)
async def test_a_key_that_is_none(app: App, key: dict[str, Any], field: str, code: str | None):
    table = await app.table(PEOPLE | {"tags": "array"})
    async with manager(app) as console:
        answer = await console.post(f"/tables/{table}/unique", json=key)
        assert answer.status_code == 400, answer.text
        assert answer.json()["details"][0]["field"] == field
        assert code in {None, answer.json()["code"]}
        assert (await console.get(f"/tables/{table}/unique")).json() == {"unique": []}
    async with app.client() as public:
        answer = await public.post(f"/v1/apps/{app.app_id}/tables/{table}/unique", json={"columns": ["team"]})
        assert answer.status_code == 401
