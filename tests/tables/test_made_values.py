"""Values that the server makes: of new rows, of changed ones, and the normal form of texts, by each way of writing."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.console import owner_of
from tests.rows.test_unique_keys import keyed
from tests.rules.test_rules import rows, save
from tests.support import App, assert_error

SCHEMA = {
    "name": "string",
    "made": {"type": "date", "default": {"$now": True}},
    "seen": {"type": "date", "default": {"$now": True}, "on_update": {"$now": True}},
    "code": {"type": "uuid", "default": {"$uuid": True}},
    "owner": {"type": "string", "default": {"$member": "id"}},
    "editor": {"type": "string", "on_update": {"$member": "id"}},
    "nick": {"type": "string", "default": {"$member": "nickname"}, "encrypted": True},
}


async def signed_in(app: App, nickname: str) -> tuple[str, str]:
    """Sign a member up; return its id and token."""
    member = await app.member(f"m{uuid4().hex[:8]}")
    async with app.client(member["access_token"]) as client:
        answer = await client.patch("/v1/public/app-members/me", json={"nickname": nickname})
        assert answer.status_code == 200, answer.text
    return member["member_id"], member["access_token"]


async def test_each_way_of_creating_makes_the_values(app: App):
    table = await keyed(app, {"columns": ["name"]}, schema=SCHEMA)
    member_id, token = await signed_in(app, "Ada")
    async with app.client(token) as client:

        async def done(kind: str, path: str) -> dict[str, Any]:
            operation = {"type": "create", "table_id": table, "data": {"name": kind}}
            (result,) = (await client.post(path, json={"operations": [operation]})).json()["results"]
            return (await client.get(f"{rows(table)}/{result['id']}")).json() | {"answered": result["data"]}

        single = (await client.post(rows(table), json={"data": {"name": "single"}})).json()
        (many,) = (await client.post(rows(table), json={"data": [{"name": "many"}]})).json()["created"]
        upsert = await client.post(f"{rows(table)}/upsert", json={"key": "name", "data": {"name": "upsert"}})
        batch, together = await done("batch", "/v1/public/batch"), await done("tx", "/v1/public/transactions")
        for made in (single, many, upsert.json(), batch, together):
            read = (await client.get(f"{rows(table)}/{made['id']}")).json()
            assert made["data"] == read["data"] == made.get("answered", read["data"])
            assert list(made["data"]) == ["name", "made", "seen", "code", "owner", "nick"]
            assert read["data"]["made"] == read["data"]["seen"] == read["created_at"] == made["created_at"]
            assert UUID(read["data"]["code"]).version == 4
            assert (read["data"]["owner"], read["data"]["nick"]) == (member_id, "Ada")
            found = await client.post(f"{rows(table)}/query", json={"where": {"made": read["created_at"]}})
            assert [row["id"] for row in found.json()["data"]] == [made["id"]], "the moment is that of the text"
        codes = {row["data"]["code"] for row in (await client.get(rows(table))).json()["data"]}
        assert len(codes) == 5
        # What is given stays, null too.
        given = {"name": "given", "made": "2026-01-31", "seen": None, "owner": "x", "code": None, "nick": None}
        assert (await client.post(rows(table), json={"data": given})).json()["data"] == given
    # Nobody is signed in: nothing is made of the member.
    other = await app.row(table, {"name": "other"})
    assert list(other["data"]) == ["name", "made", "seen", "code"]
    async with owner_of(app).client(app) as console:
        lines = f'{{"name": "imported", "__creator": "{member_id}"}}\n'
        answer = await console.post(
            f"/tables/{table}/import?own_fields=true",
            content=lines,
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.json()["created"] == 1, answer.text
    async with app.client() as client:
        found = await client.post(f"{rows(table)}/query", json={"where": {"name": "imported"}})
        (imported,) = found.json()["data"]
        assert (imported["data"]["owner"], imported["data"]["made"]) == (member_id, imported["created_at"])


async def test_each_way_of_changing_makes_them_again(app: App):
    table = await keyed(app, {"columns": ["name"]}, schema=SCHEMA)
    member_id, token = await signed_in(app, "Ada")
    row = await app.row(table, {"name": "a"})
    path = f"{rows(table)}/{row['id']}"
    async with app.client(token) as client, app.client(app.secret_key) as own_side:

        async def changed(answer: Any) -> dict[str, Any]:
            assert answer.status_code in {200, 201}, answer.text
            return (await client.get(path)).json()

        now = await changed(await client.patch(path, json={"data": {"name": "a"}}))
        assert now["data"]["seen"] == now["updated_at"] > row["updated_at"]
        assert (now["data"]["made"], now["data"]["editor"]) == (row["data"]["made"], member_id)
        # The app keeps who was last, and what is named stays as it is named.
        now = await changed(await own_side.patch(path, json={"data": {"seen": None}}))
        assert (now["data"]["seen"], now["data"]["editor"]) == (None, member_id)
        now = await changed(await client.patch(path, json={"data": {"editor": "x", "seen": {"$max": "2020-01-01"}}}))
        assert (now["data"]["seen"], now["data"]["editor"]) == ("2020-01-01", "x")
        where = {"where": {"name": "a"}, "data": {}}
        now = await changed(await client.post(f"{rows(table)}/update-where", json=where))
        assert (now["data"]["seen"], now["data"]["editor"]) == (now["updated_at"], member_id)
        upsert = {"key": "name", "data": {"name": "a"}}
        for mode in ("merge", "replace"):
            await changed(await own_side.patch(path, json={"data": {"seen": "2020-01-01", "editor": "x"}}))
            now = await changed(await client.post(f"{rows(table)}/upsert", json=upsert | {"mode": mode}))
            assert (now["data"]["seen"], now["data"]["editor"]) == (now["updated_at"], member_id)
        assert now["data"]["made"] == now["updated_at"], "a replaced row has its defaults"
        operation = {"type": "update", "table_id": table, "doc_id": row["id"], "data": {"name": "b"}}
        now = await changed(await client.post("/v1/public/transactions", json={"operations": [operation]}))
        assert now["data"]["seen"] == now["updated_at"]
    # The client cannot write what rules leave to the server.
    closed = {"create": None, "update": None}
    await save(app, table, {"read": True, "update": True, "columns": {"editor": closed, "seen": closed}})
    async with app.client(token) as client, app.client(app.secret_key) as own_side:
        assert_error(await client.patch(path, json={"data": {"editor": "me"}}), 403, "COLUMN_READ_ONLY")
        await own_side.patch(path, json={"data": {"editor": "x"}})
        now = (await client.patch(path, json={"data": {"name": "c"}})).json()
        assert (now["data"]["editor"], now["data"]["seen"]) == (member_id, now["updated_at"])


async def test_a_member_is_required(app: App):
    table = await app.table({"owner": {"type": "string", "required": True, "default": {"$member": "id"}}})
    _, token = await signed_in(app, "Ada")
    async with app.client() as client, app.client(token) as member:
        assert (await member.post(rows(table), json={"data": {}})).status_code == 201
        error = assert_error(await client.post(rows(table), json={"data": {}}), 400, "VALIDATION_FAILED")
        assert (error["details"][0]["field"], error["details"][0]["code"]) == ("data.owner", "REQUIRED")
        assert (await client.post(rows(table), json={"data": {"owner": "x"}})).status_code == 201


async def test_texts_are_normalized_before_checks_and_keys(app: App):
    schema = {
        "mail": {"type": "string", "normalize": ["trim", "lower"], "format": "email", "max_length": 9},
        "n": "int",
    }
    table = await keyed(app, {"columns": ["mail"]}, schema=schema)
    row = await app.row(table, {"mail": "  ADA@x.EXA "})
    assert row["data"]["mail"] == "ada@x.exa"
    async with app.client() as client:
        taken = await client.post(rows(table), json={"data": {"mail": "Ada@X.exa"}})
        assert_error(taken, 409, "UNIQUE_VIOLATION")
        assert (await client.get(f"{rows(table)}/by/mail/ADA@x.exa")).json()["id"] == row["id"]
        body = {"key": "mail", "data": {"mail": " ADA@X.EXA", "n": 1}}
        assert (await client.post(f"{rows(table)}/upsert", json=body)).json()["id"] == row["id"]
        now = await client.patch(f"{rows(table)}/{row['id']}", json={"data": {"mail": {"$max": " B@X.EXA "}}})
        assert now.json()["data"]["mail"] == "b@x.exa"
        error = assert_error(await client.post(rows(table), json={"data": {"mail": "   "}}), 400, "VALIDATION_FAILED")
        assert error["details"][0]["code"] == "BAD_FORMAT"
        # The options are told, changed, and come back from the trash.
        column = f"/v1/public/tables/{table}/columns/mail"
        assert (await client.patch(column, json={"normalize": ["lower"]})).status_code == 200
        shown = (await client.get(f"/v1/public/tables/{table}/columns")).json()["columns"][0]
        assert shown["normalize"] == ["lower"]
        assert (await client.patch(column, json={"normalize": None})).status_code == 200
        shown = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]["mail"]
        assert "normalize" not in shown
    async with app.client() as client, owner_of(app).client(app) as console:
        new = {"name": "at", "data_type": "date", "default_value": {"$now": True}, "on_update": {"$now": True}}
        assert (await client.post(f"/v1/public/tables/{table}/columns", json=new)).status_code == 201
        assert (await client.delete(f"/v1/public/tables/{table}/columns/at")).status_code == 200
        assert (await console.post(f"/trash/tables/{table}/columns/3/restore")).status_code == 200
        shown = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]["at"]
        assert shown == {"type": "date", "default": {"$now": True}, "on_update": {"$now": True}}


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"type": "date", "default": {"$now": False}}, "default"),
        ({"type": "date", "default": {"$uuid": True}}, "default"),
        ({"type": "string", "default": {"$member": "login_id"}}, "default"),
        ({"type": "date", "default": {"$now": True}, "encrypted": True}, "default"),
        ({"type": "date", "on_update": {"$now": True}, "encrypted": True}, "on_update"),
        ({"type": "uuid", "on_update": {"$uuid": True}}, "on_update"),
        ({"type": "string", "on_update": {"$member": "nickname"}}, "on_update"),
        ({"type": "string", "on_update": "x"}, "on_update"),
        ({"type": "int", "normalize": ["trim"]}, "normalize"),
        ({"type": "string", "normalize": ["upper"]}, "normalize[0]"),
    ],
)
async def test_what_cannot_be_made(app: App, definition: dict[str, Any], field: str):
    async with app.client() as client:
        body = {"title": f"x {uuid4()}", "schema": {"x": definition}, "access_level": "Public"}
        (detail,) = assert_error(await client.post("/v1/public/tables", json=body), 400, "VALIDATION_FAILED")["details"]
        assert detail["field"] == f"schema.x.{field}"
    # Of a type whose values are objects, an object is itself.
    table = await app.table({"x": {"type": "object", "default": {"$now": True}}})
    assert (await app.row(table, {}))["data"] == {"x": {"$now": True}}
