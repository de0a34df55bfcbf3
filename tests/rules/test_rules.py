"""Rules over HTTP: who may list, read, create, change and delete which rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import msgspec

import pilotis
from pilotis.data.rules.document import Related, stored
from pilotis.data.rules.fold import Caller, fold
from pilotis.data.rules.service import _fits
from pilotis.data.tables.schema import AccessLevel, Column, ColumnType, TableSchema
from pilotis.http.api.principals import MemberInfo
from pilotis.limits import Limits
from tests import databases
from tests.console import owner_of
from tests.support import App, assert_error, plain_client
from tests.waiting import until

EDITOR = {"$member": {"roles": {"$arrayContains": "editor"}}}
OWN = {"$creator": {"$member": "id"}}
SIGNED_IN: dict[str, Any] = {"$member": {}}


def manager(app: App) -> httpx.AsyncClient:
    """The app's own side, on the console's routes."""
    return plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}")


async def ruled(app: App, schema: dict[str, Any], rules: dict[str, Any], title: str | None = None) -> str:
    table_id = await app.table(schema, title=title)
    await save(app, table_id, rules)
    return table_id


async def save(app: App, table_id: str, rules: dict[str, Any] | None) -> dict[str, Any]:
    async with manager(app) as client:
        answer = await client.put(f"/tables/{table_id}/rules", json={"rules": rules})
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows(table_id: str) -> str:
    return f"/v1/public/tables/{table_id}/data"


async def listed(client: httpx.AsyncClient, table_id: str, field: str = "name") -> list[Any]:
    answer = await client.get(rows(table_id))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["total_count"] == len(body["data"])
    found = (await client.post(f"{rows(table_id)}/query", json={})).json()
    assert found["data"] == body["data"]
    return [row["data"].get(field) for row in body["data"]]


async def test_everybody_reads_what_is_published_and_its_author_everything(app: App):
    rules = {
        "read": {"$or": [{"state": "published"}, OWN]},
        "create": SIGNED_IN,
        "update": OWN,
        "delete": OWN,
    }
    table = await ruled(app, {"name": "string", "state": "string"}, rules)
    ada, eve = (await app.member("ada"))["access_token"], (await app.member("eve"))["access_token"]
    public = await app.row(table, {"name": "public", "state": "published"}, ada)
    draft = await app.row(table, {"name": "draft", "state": "draft"}, ada)
    async with app.client() as nobody, app.client(ada) as author, app.client(eve) as other:
        assert await listed(nobody, table) == ["public"]
        assert await listed(author, table) == ["public", "draft"]
        assert await listed(other, table) == ["public"]
        path = f"{rows(table)}/{draft['id']}"
        assert (await author.get(path)).json()["data"]["name"] == "draft"
        for client in (nobody, other):
            assert_error(await client.get(path), 404, "ROW_NOT_FOUND")
        changed = {"data": {"name": "x"}}
        assert_error(await other.patch(path, json=changed), 404, "ROW_NOT_FOUND")
        seen = f"{rows(table)}/{public['id']}"
        assert_error(await other.patch(seen, json=changed), 403, "RULE_DENIED")
        assert_error(await other.delete(seen), 403, "RULE_DENIED")
        assert_error(await nobody.patch(seen, json=changed), 401, "MEMBER_TOKEN_REQUIRED")
        assert_error(await nobody.post(rows(table), json=changed), 401, "MEMBER_TOKEN_REQUIRED")
        assert (await author.patch(path, json=changed)).json()["data"]["name"] == "x"
        assert (await author.delete(path)).status_code == 200
    async with app.client(app.secret_key) as own_side:
        assert await listed(own_side, table) == ["public"]


async def test_team_members_see_the_rows_of_their_teams(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    of_team = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": {"$member": "id"}}}}
    rules = {"read": of_team, "create": of_team, "update": of_team, "delete": of_team}
    table = await ruled(app, {"name": "string", "team": "string"}, rules)
    ada, eve = await app.member("ada"), await app.member("eve")
    async with app.client(app.secret_key) as own_side:
        seat = {"data": {"team": "red", "member": ada["member_id"]}}
        seated = (await own_side.post(rows(seats), json=seat)).json()["id"]
        teams = [{"name": "r", "team": "red"}, {"name": "b", "team": "blue"}, {"name": "none"}]
        made = (await own_side.post(rows(table), json={"data": teams})).json()["created"]
        async with app.client(ada["access_token"]) as member, app.client(eve["access_token"]) as stranger:
            assert await listed(member, table) == ["r"]
            assert await listed(stranger, table) == []
            pipeline = {"table_id": table, "pipeline": [{"$group": {"_id": None, "n": {"$count": {}}}}]}
            counted = await member.post("/v1/public/aggregate", json=pipeline)
            assert [one["n"] for one in counted.json()["data"]] == [1]
            # A row cannot be given to another team, nor created there.
            red = f"{rows(table)}/{made[0]['id']}"
            denied = assert_error(await member.patch(red, json={"data": {"team": "blue"}}), 403, "RULE_DENIED")
            assert denied["details"][0]["code"] == "NEW_ROW"
            new = {"data": {"name": "x", "team": "blue"}}
            denied = assert_error(await member.post(rows(table), json=new), 403, "RULE_DENIED")
            assert denied["details"][0]["code"] == "NEW_ROW"
            bulk = {"data": [{"name": "x", "team": "blue"}, {"name": "mine", "team": "red"}, {"team": 5}]}
            several = await member.post(rows(table), json=bulk)
            assert [row["data"]["name"] for row in several.json()["created"]] == ["mine"]
            assert next((one["index"], one["code"]) for one in several.json()["failed"]) == (0, "RULE_DENIED")
            assert await listed(member, table) == ["r", "mine"]
            found = await member.post("/v1/public/search", json={"table_id": table, "query": "r", "fields": ["name"]})
            assert found.json()["total_count"] == 1
            # Withdrawn, and gone with the next request.
            await own_side.delete(f"{rows(seats)}/{seated}")
            assert await listed(member, table) == []
            assert_error(await member.get(red), 404, "ROW_NOT_FOUND")


async def test_an_update_rule_compares_the_row_before_and_after(app: App):
    rules = {
        "read": True,
        "create": True,
        "update": {
            "$or": [
                {"$old": {"state": "draft"}},
                {"$new": {"price": {"$eq": {"$old": "price"}}, "state": "sold"}},
            ]
        },
    }
    table = await ruled(app, {"name": "string", "price": "number", "state": "string"}, rules)
    async with app.client() as client:

        async def made(state: str) -> str:
            row = {"data": {"name": "n", "price": 1, "state": state}}
            return f"{rows(table)}/{(await client.post(rows(table), json=row)).json()['id']}"

        draft, offered = await made("draft"), await made("offered")
        assert (await client.patch(draft, json={"data": {"price": 2}})).status_code == 200
        assert_error(await client.patch(offered, json={"data": {"price": 2}}), 403, "RULE_DENIED")
        assert_error(await client.patch(offered, json={"data": {"price": 2, "state": "sold"}}), 403, "RULE_DENIED")
        assert (await client.patch(offered, json={"data": {"state": "sold"}})).status_code == 200
        assert_error(await client.delete(draft), 403, "RULE_DENIED")
        # A bare condition holds afterwards too, beside one that is about the row afterwards alone.
        await save(app, table, rules | {"update": {"name": "n", "$new": {"price": {"$gt": 0}}}})
        assert_error(await client.patch(draft, json={"data": {"name": "m"}}), 403, "RULE_DENIED")
        assert_error(await client.patch(draft, json={"data": {"price": 0}}), 403, "RULE_DENIED")
        assert (await client.patch(draft, json={"data": {"price": 3}})).status_code == 200


async def test_columns_are_hidden_and_closed(app: App):
    rules = {
        "read": True,
        "create": True,
        "update": True,
        "columns": {"salary": {"read": EDITOR}, "owner": {"update": None}},
    }
    table = await ruled(app, {"name": "string", "salary": "number", "owner": "string"}, rules)
    async with app.client() as client, app.client(app.secret_key) as own_side:
        made = await client.post(rows(table), json={"data": {"name": "n", "salary": 5, "owner": "o"}})
        assert made.json()["data"] == {"name": "n", "owner": "o"}
        path = f"{rows(table)}/{made.json()['id']}"
        for answer in (await client.get(path), await client.patch(path, json={"data": {"salary": None}})):
            assert answer.json()["data"] == {"name": "n", "owner": "o"}
        assert_error(await client.patch(path, json={"data": {"owner": "x"}}), 403, "COLUMN_READ_ONLY")
        named = {"owner": {"update": {"$use": "editor"}}, "salary": {"read": {"$use": "editor"}}}
        await save(app, table, rules | {"columns": named, "define": {"editor": EDITOR}})
        assert_error(await client.patch(path, json={"data": {"owner": "x"}}), 403, "COLUMN_READ_ONLY")
        ada = await app.member()
        async with manager(app) as side:
            await side.patch(f"/members/{ada['member_id']}", json={"roles": ["editor"]})
        async with app.client(ada["access_token"]) as editor:
            changed = await editor.patch(path, json={"data": {"owner": "o"}})
            assert changed.json()["data"] == {"name": "n", "salary": None, "owner": "o"}
        for body in ({"where": {"salary": {"$gt": 1}}}, {"order_by": "salary"}):
            assert_error(await client.post(f"{rows(table)}/query", json=body), 403, "COLUMN_NOT_READABLE")
        assert await listed(client, table, "salary") == [None]
        documents = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": []})
        assert "salary" not in documents.text
        assert (await own_side.get(path)).json()["data"] == {"name": "n", "salary": None, "owner": "o"}


async def test_rules_name_columns_by_what_they_are(app: App):
    table = await ruled(app, {"name": "string", "team": "string"}, {"read": {"team": "red"}, "create": True})
    other = await ruled(app, {"x": "string"}, {"read": {"$exists": {"table": table, "where": {"team": {"$row": "x"}}}}})
    async with app.client() as client, app.client(app.secret_key) as own_side, manager(app) as side:
        await own_side.post(rows(table), json={"data": {"name": "a", "team": "red"}})
        path = f"/v1/public/tables/{table}"
        assert_error(await client.delete(f"{path}/columns/name"), 403, "SCHEMA_LOCKED")
        assert_error(await client.delete(path), 403, "SCHEMA_LOCKED")
        async with owner_of(app).client(app) as console:
            renamed = await console.post(f"/tables/{table}/columns/team/rename", json={"name": "group"})
        assert renamed.status_code == 200, renamed.text
        assert (await side.get(f"/tables/{table}/rules")).json()["rules"]["read"] == {"group": "red"}
        assert await listed(client, table) == ["a"]
        assert_error(await own_side.delete(f"{path}/columns/group"), 409, "USED_IN_RULE")
        assert_error(await own_side.delete(path), 409, "USED_IN_RULE")
        await save(app, other, None)
        assert (await own_side.delete(path)).status_code == 200


async def test_a_transaction_creates_a_team_and_its_first_document(app: App):
    seats = await ruled(
        app,
        {"team": "uuid", "member": "string"},
        {"create": {"member": {"$member": "id"}}, "read": {"member": {"$member": "id"}}},
        title="seats",
    )
    seated = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, "member": {"$member": "id"}}}}
    documents = await ruled(app, {"team": "uuid", "name": "string"}, {"read": seated, "create": seated})
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as client:
        team = "00000000-0000-7000-8000-000000000001"
        create = [
            {"type": "create", "table_id": seats, "data": {"team": team, "member": ada["member_id"]}},
            {"type": "create", "table_id": documents, "data": {"team": team, "name": "first"}},
        ]
        done = await client.post("/v1/public/transactions", json={"operations": create})
        assert done.status_code == 200, done.text
        assert await listed(client, documents) == ["first"]
        foreign = [{"type": "create", "table_id": seats, "data": {"team": team, "member": "eve"}}]
        failed = await client.post("/v1/public/transactions", json={"operations": foreign})
        assert_error(failed, 403, "RULE_DENIED", failed_index=0)


async def test_wrong_rules_name_their_place(app: App):
    table = await app.table({"name": "string", "count": "int", "at": "date"})
    cases = [
        ({"read": {}}, "RULE_EMPTY", "rules.read"),
        ({"read": False}, "INVALID_RULE", "rules.read"),
        ({"read": {"nme": 1}}, "UNKNOWN_COLUMN", "rules.read.nme"),
        ({"read": {"$exists": {"table": "none", "where": {}}}}, "UNKNOWN_TABLE", "rules.read.$exists.table"),
        ({"read": {"name": {"$matches": "x"}}}, "INVALID_OPERATOR", "rules.read.name.$matches"),
        ({"read": {"count": {"$contains": "x"}}}, "INVALID_OPERATOR", "rules.read.count.$contains"),
        ({"read": {"name": {"$row": "name"}}}, "INVALID_OPERAND", "rules.read.name"),
        ({"read": {"$old": {"name": "x"}}}, "INVALID_OPERAND", "rules.read.$old"),
        ({"read": {"count": {"$member": "id"}}}, "OPERAND_TYPE", "rules.read.count"),
        ({"read": {"name": {"$now": 5}}}, "OPERAND_TYPE", "rules.read.name"),
        ({"read": {"$member": {"custom_data.a": 1}}}, "MEMBER_WRITES_THIS", "rules.read.$member.custom_data.a"),
        ({"read": {"$use": "team"}}, "INVALID_OPERAND", "rules.read.$use"),
        ({"columns": {"name": {"update": {"count": 1}}}}, "COLUMN_RULE_NEEDS_ROW", "rules.columns.name.update.count"),
        (
            {"columns": {"name": {"update": {"$use": "few"}}}, "define": {"few": {"count": 1}}},
            "COLUMN_RULE_NEEDS_ROW",
            "rules.columns.name.update.$use.count",
        ),
        ({"columns": {"name": {"read": {"$new": {"count": 1}}}}}, "INVALID_OPERAND", "rules.columns.name.read.$new"),
        ({"read": {"at": {"$gt": {"$now": 10**12}}}}, "INVALID_OPERAND", "rules.read.at.$gt"),
        ({"read": {"$creator": {"$gt": "x"}}}, "INVALID_OPERATOR", "rules.read.$creator.$gt"),
        ({"read": {"name": "x" * 9000}}, "RULE_TOO_COMPLEX", "rules.read"),
    ]
    inside = [
        ({"count": {"$row": "$creator"}}, "OPERAND_TYPE", "count"),
        ({"$creator": {"$row": "count"}}, "OPERAND_TYPE", "$creator"),
        ({"name": {"$nin": {"$row": "name"}}}, "INVALID_OPERAND", "name"),
        ({"name": {"$in": {"$row": "name"}}}, "OPERAND_TYPE", "name"),
        ({"name": {"$startsWith": {"$row": "name"}}}, "INVALID_OPERAND", "name"),
        ({"name": {"$ieq": {"$row": "name"}}}, "INVALID_OPERAND", "name"),
        ({"$use": "some"}, "INVALID_OPERAND", "$use"),
    ]
    for where, code, name in inside:
        exists = {"$exists": {"table": table, "where": where}}
        cases.append(({"read": exists, "define": {"some": {"name": "x"}}}, code, f"rules.read.$exists.where.{name}"))
    async with manager(app) as client:
        for rules, code, place in cases:
            answer = await client.put(f"/tables/{table}/rules", json={"rules": rules})
            error = assert_error(answer, 400, code)
            assert error["details"][0]["field"] == place, error
        assert (await client.get(f"/tables/{table}/rules")).json()["rules"] is None


async def test_what_only_a_condition_finds_must_be_listed(app: App):
    rules = {"list": None, "read": True, "create": True, "update": True, "delete": True}
    table = await ruled(app, {"name": "string"}, rules)
    async with app.client() as client:
        path = f"{rows(table)}/{(await client.post(rows(table), json={'data': {'name': 'a'}})).json()['id']}"
        # The number of deleted rows would tell how many there are, and which values they have.
        for body in ({"all": True}, {"where": {"name": "a"}}):
            assert_error(await client.post(f"{rows(table)}/delete-where", json=body), 403, "RULE_DENIED")
            change = {**body, "data": {"name": "a"}}
            assert_error(await client.post(f"{rows(table)}/update-where", json=change), 403, "RULE_DENIED")
        assert (await client.delete(path)).status_code == 200


async def test_what_may_not_be_read_is_neither_changed_nor_deleted(app: App):
    rules = {"read": OWN, "create": None, "update": True, "delete": True}
    table = await ruled(app, {"name": "string", "code": "string"}, rules)
    ada = await app.member("ada")
    async with app.client(app.secret_key) as side, app.client(ada["access_token"]) as member, manager(app) as console:
        assert (await console.post(f"/tables/{table}/unique", json={"columns": ["code"]})).status_code == 201
        hidden = (await side.post(rows(table), json={"data": {"name": "a", "code": "1"}})).json()["id"]
        change: dict[str, Any] = {"data": {"name": "x"}}
        assert_error(await member.patch(f"{rows(table)}/{hidden}", json=change), 404, "ROW_NOT_FOUND")
        assert_error(await member.delete(f"{rows(table)}/{hidden}"), 404, "ROW_NOT_FOUND")
        everything = {**change, "all": True}
        assert (await member.post(f"{rows(table)}/update-where", json=everything)).json()["updated_count"] == 0
        assert (await member.post(f"{rows(table)}/delete-where", json={"all": True})).json()["deleted_count"] == 0
        upsert = {"key": "code", "data": {"name": "x", "code": "1"}}
        assert_error(await member.post(f"{rows(table)}/upsert", json=upsert), 409, "UNIQUE_VIOLATION")
        # Who may not create rows still changes one by its key.
        await save(app, table, rules | {"read": True})
        answer = await member.post(f"{rows(table)}/upsert", json=upsert)
        assert (answer.status_code, answer.json()["data"]["name"]) == (200, "x"), answer.text
        new = {"key": "code", "data": {"name": "y", "code": "2"}}
        assert_error(await member.post(f"{rows(table)}/upsert", json=new), 403, "RULE_DENIED")


async def test_a_change_tells_nothing_of_a_hidden_column(app: App):
    rules = {"read": True, "create": True, "update": True, "columns": {"salary": {"read": None}}}
    table = await ruled(app, {"name": "string", "salary": "int"}, rules)
    async with app.client() as client:
        made = await client.post(rows(table), json={"data": {"salary": 5}})
        path = f"{rows(table)}/{made.json()['id']}"
        # It would fail if the sum is out of range, and so tell the number step by step.
        for amount in (2**63 - 1, 1):
            change = {"data": {"salary": {"$inc": amount}}}
            assert_error(await client.patch(path, json=change), 403, "COLUMN_NOT_READABLE")
        operations = [{"type": "update", "table_id": table, "doc_id": made.json()["id"], **change}]
        answer = await client.post("/v1/public/transactions", json={"operations": operations})
        assert_error(answer, 403, "COLUMN_NOT_READABLE", failed_index=0)
        assert (await client.patch(path, json={"data": {"salary": 7}})).status_code == 200
    async with app.client(app.secret_key) as own_side:
        assert (await own_side.patch(path, json={"data": {"salary": {"$inc": 1}}})).json()["data"] == {"salary": 8}


async def test_rules_compare_encrypted_columns_on_every_route(app: App):
    schema = {"name": "string", "owner": {"type": "string", "encrypted": True}}
    mine = {"owner": {"$member": "id"}}
    table = await ruled(app, schema, dict.fromkeys(("read", "create", "update", "delete"), mine))
    ada = await app.member("ada")
    async with app.client(ada["access_token"]) as member, app.client(app.secret_key) as own_side:
        for owner in (ada["member_id"], "other"):
            await own_side.post(rows(table), json={"data": {"name": "seen", "owner": owner}})
        made = await member.post(rows(table), json={"data": {"name": "mine", "owner": ada["member_id"]}})
        assert made.status_code == 201, made.text
        path = f"{rows(table)}/{made.json()['id']}"
        assert await listed(member, table) == ["seen", "mine"]
        assert (await member.get(path)).json()["data"]["owner"] == ada["member_id"]
        assert (await member.patch(path, json={"data": {"name": "x"}})).json()["data"]["name"] == "x"
        assert_error(await member.patch(path, json={"data": {"owner": "other"}}), 403, "RULE_DENIED")
        search = await member.post("/v1/public/search", json={"table_id": table, "query": "seen", "fields": ["name"]})
        assert search.json()["total_count"] == 1
        completed = {"table_id": table, "query": "s", "field": "name"}
        assert (await member.post("/v1/public/autocomplete", json=completed)).json()["suggestions"] == ["seen"]
        pipeline = {"table_id": table, "pipeline": [{"$count": "n"}]}
        assert (await member.post("/v1/public/aggregate", json=pipeline)).json()["data"] == [{"n": 2}]
        assert (await member.delete(path)).status_code == 200


async def test_values_inside_json_that_are_null_equal_nothing(app: App):
    notes = await app.table({"at": "object", "member": "string"}, title="notes")
    linked = {"$exists": {"table": "notes", "where": {"at.team": {"$row": "at.team"}, "member": {"$ne": "x"}}}}
    table = await ruled(app, {"name": "string", "at": "object"}, {"read": linked})
    async with app.client() as client, app.client(app.secret_key) as own_side:
        await own_side.post(rows(notes), json={"data": [{"at": {"team": None}}, {"at": {"team": "red"}}]})
        teams: list[Any] = [{"team": None}, {"team": "red"}, {}]
        data = [{"name": f"{at.get('team', 'absent')}", "at": at} for at in teams]
        await own_side.post(rows(table), json={"data": data})
        assert await listed(client, table) == ["red"]


async def test_a_negated_rule_about_the_row_before_names_no_column_twice(app: App):
    rules = {"read": True, "create": True, "update": {"$not": {"$old": {"at": {"$gt": "2030-01-01T00:00:00Z"}}}}}
    table = await ruled(app, {"at": "date"}, rules)
    async with app.client() as client:
        for at, status in (("2026-01-01T00:00:00Z", 200), ("2040-01-01T00:00:00Z", 403)):
            made = await client.post(rows(table), json={"data": {"at": at}})
            change = {"data": {"at": "2041-01-01T00:00:00Z"}}
            assert (await client.patch(f"{rows(table)}/{made.json()['id']}", json=change)).status_code == status


def folded(rule: Any, claims: dict[str, Any]) -> Any:
    columns = (Column(1, "meta", ColumnType.OBJECT), Column(2, "team", ColumnType.STRING))
    table = TableSchema(uuid4(), uuid4(), "t", AccessLevel.PUBLIC, 1, columns)
    member = MemberInfo("ada", uuid4(), is_guest=False, claims=claims)
    return fold(stored({"read": rule}, table, Related.of([table]), Limits())["read"], Caller.of(member), table, {})


def test_a_claim_is_never_read_as_operators_nor_as_null():
    claim = {"$member": "claims.x"}
    for value in ({"$ne": "x"}, {"$row": "#1"}, {"$isNull": True}):
        assert folded({"meta": claim}, {"x": value}) is False
    assert folded({"meta.a": {"$startsWith": claim}}, {"x": 5}) is False
    assert folded({"meta.a": {"$gt": claim}}, {"x": [1]}) is False
    assert folded({"meta.a": {"$in": claim}}, {"x": [None, 1]}) == {"#1.a": {"$in": [1]}}
    assert folded({"$not": {"$exists": {"table": "t", "where": {"team": claim}}}}, {"x": "red"}) is False


STATEMENT = re.compile(r"\b(?:from|update|into|join)\s+$")
ROW_STATEMENTS = {
    "insert",
    "update_many",
    "page_of_walk",
    "insert_if",
    "select",
    "select_many",
    "page",
    "pages",
    "count",
    "row_count",
    "update",
    "delete",
}
DOORS = {"and_condition", "and_readable", "and_visible", "within", "_condition", "insert_if"}
# Functions whose statements name no rule themselves, and why that is right.
WITHOUT_DOOR = {
    "rows.service.Rows.forget_creator": "Of all rows of a member that is deleted; it shows none.",
    "query.aggregate.lookup.LookupCompiler._document": "It shows the rows that `_one` and `_listed` have asked for.",
    "rows.statements.Statements._anchor": "It reads no row; the write around it asks.",
    "rows.statements.Statements.defer": "It reads no row: it names constraints where the table is.",
    "rows.statements.Statements._insert": "`insert` is for callers who may create every row; `insert_if` judges each.",
    "rows.statements.Statements.insert_one": "Only on Citus, for a caller who may create every row, or was judged.",
    "rows.statements.Statements.select_many": "Only `PreparedTable.read` runs it, for callers who see every row.",
    "rows.statements.Statements.taken": "Unique keys count hidden rows; `Rows` names only those that one may read.",
    "rows.statements.Statements.lock": "An upsert then reads or changes the row as its caller may.",
    "rows.statements.Statements.with_key": "As `lock`.",
    "rows.statements.Statements.with_key_of_each": "For an import, by the app's own side.",
    "rows.bulk.upserts.Upserts._change_of": "An import, by the app's own side.",
    "rows.statements.Statements.has_key": "`KeyedRows` asks for what the caller may read beside it.",
    "rows.statements.Statements.lock_all": "It shows nothing; then each operation asks for its own row.",
    "rows.statements.Statements._rows": "Its condition is its callers'.",
    "rows.statements.Statements.pages": "Only for callers who see every row; `_rows` is what it shows.",
    "rows.statements.Statements.count": "Its condition is its callers'.",
    "rows.statements.Statements.update": "Its condition is its callers'.",
    "rows.statements.Statements.update_many": "Its condition is its callers'.",
    "rows.statements.Statements.page_of_walk": "Its conditions are its callers'.",
    "rows.statements.Statements.few_first": "Its condition is its callers'.",
    "rows.statements.Statements.delete": "Its condition is its callers'.",
    "rows.cascades.Cascade.run": "Its condition is its caller's.",
    "rows.cascades.Cascade._referring": "A cascade is the app's: no rule applies to it.",
    "rows.cascades.cut": "As `_referring`.",
    "rows.cascades._values": "As `_referring`.",
    "rows.departures._some": "What a deleted member takes along is the app's: no rule applies to it.",
    "rows.cascades.Cascade._delete": "As `_referring`.",
    "rows.related.Related.of_rows": "Rows that a search has found, for a caller who sees them.",
    "rows.related._Compilation._list": "Its condition is that of `_found`, and of `_one` for the far rows.",
    "rows.related._Compilation._counted": "Its condition is that of `_found`.",
    "rows.where_writes.DeleteMany.alone": "Its condition is that of `plan_delete_where`.",
    "rows.where_writes.DeleteMany.within": "Its condition is that of `plan_delete_where`.",
    "rows.service.Rows._count": "For those whom the rules of the table do not concern.",
    "rows.rule_tests.RuleTests._try": "The row before a change that is only tried.",
    "rows.query._statement": "Its condition is `compile_query`'s.",
    "rows.query._walk": "Its condition is `compile_query`'s.",
    "rows.query._total": "Its condition is `compile_query`'s.",
    "rows.table.PreparedTable._inserted": "The caller may create every row.",
    "rows.table.PreparedTable._insert_within": "Only on Citus, for rows that the caller may create.",
    "rows.table.PreparedTable._read_pages": "Only `begin_page` comes here, for tables that are open to all.",
    "rows.table.PreparedTable._read": "For callers who see every row, and for tables that are open to all.",
    "rows.bulk.service._begin": "An import, by the app's own side.",
    "query.pages.sorted_rows": "Its condition is its callers'.",
    "query.geo.compiler._all_points": "Only where no condition limits what the caller sees.",
}


def functions_with_statements() -> Iterator[tuple[str, bool]]:
    """Each function of `data/rows` and `data/query` that makes a statement on rows, and whether it names a door."""
    data = Path(pilotis.__file__).parent / "data"
    for path in [*(data / "rows").rglob("*.py"), *(data / "query").rglob("*.py")]:
        module = ".".join(path.relative_to(data).with_suffix("").parts)
        for node in ast.parse(path.read_text("utf-8")).body:
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            prefix = f"{module}.{node.name}" if isinstance(node, ast.ClassDef) else module
            for one in members:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(makes_statement, ast.walk(one))):
                    inside = list(ast.walk(one))
                    names = {part.id for part in inside if isinstance(part, ast.Name)}
                    names |= {part.attr for part in inside if isinstance(part, ast.Attribute)}
                    names |= {part.arg for part in inside if isinstance(part, ast.arg)}
                    yield f"{prefix}.{one.name}", bool(names & DOORS)


def makes_statement(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        pairs = zip(node.values, node.values[1:], strict=False)
        return any(
            isinstance(text, ast.Constant)
            and STATEMENT.search(str(text.value))
            and isinstance(value, ast.FormattedValue)
            and ast.unparse(value.value).endswith("physical")
            for text, value in pairs
        )
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("of_table"):
        # The source of a pipeline.
        return True
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ROW_STATEMENTS
        and "statements" in ast.unparse(node.value).rpartition(".")[2]
    )


def test_every_statement_on_rows_asks_what_the_caller_may_see():
    found = dict(functions_with_statements())
    assert len(found) > 20
    assert [name for name, asks in found.items() if not asks and name not in WITHOUT_DOOR] == []
    assert [name for name in WITHOUT_DOOR if name not in found] == [], "These make no statements any more."


async def findings(app: App) -> set[tuple[str, str, str]]:
    async with owner_of(app).client(app) as console:
        answer = await console.get("/exposure")
    assert answer.status_code == 200, answer.text
    return {(one["severity"], one["code"], one["message"]) for one in answer.json()["findings"]}


async def test_exposure_tells_what_rules_leave_open(app: App):
    mine = {"member": {"$member": "id"}}
    seats = await ruled(app, {"team": "string", "member": "string"}, {"read": mine, "create": mine}, title="seats")
    of_team = {"$exists": {"table": "seats", "where": {"team": {"$row": "team"}, **mine}}}
    await ruled(app, {"team": "string"}, {"read": of_team, "create": of_team}, title="plans")
    await ruled(app, {"x": "string"}, {"read": {"x": "y"}, "update": True, "delete": SIGNED_IN}, title="wall")
    notes = await ruled(
        app, {"owner": "string"}, {"read": {"owner": {"$member": "id"}}, "create": SIGNED_IN}, title="notes"
    )
    promotion = (
        "high",
        "SELF_PROMOTION",
        "Table seats: anyone who signs up can create its rows, which give rights in table plans.",
    )
    free = "Table notes: rules ask whether owner is the member, and a member can create rows with any owner."
    found = await findings(app)
    assert promotion in found
    assert ("medium", "NO_CREATOR_BOUND", free) in found
    assert ("high", "TABLE", "Table wall: by its rules the public key alone can change some rows.") in found
    assert ("low", "TABLE", "Table wall: by its rules the public key alone can read some rows.") in found
    assert ("none", "TABLE", "Table plans: its rules give nothing to the public key alone.") in found
    assert not any("(Public)" in message for _, _, message in found)
    # Bound: by an invitation in another table, by who creates the row, and by a column that members do not set.
    await app.table({"team": "string", "member": "string"}, title="invitations")
    invited = {"$exists": {"table": "invitations", "where": {"team": {"$row": "team"}, **mine}}}
    await save(app, seats, {"read": mine, "create": {**mine, **invited}})
    await save(app, notes, {"read": {"owner": {"$member": "id"}}, "create": {"owner": {"$member": "id"}}})
    found = await findings(app)
    assert promotion not in found
    assert not any(code == "NO_CREATOR_BOUND" for _, code, _ in found)
    # The invitations are a table that anybody may write, and so are the rights in the seats.
    assert any(code == "SELF_PROMOTION" and "Table invitations" in message for _, code, message in found)
    await save(
        app, notes, {"read": {"owner": {"$member": "id"}}, "create": SIGNED_IN, "columns": {"owner": {"create": None}}}
    )
    assert not any(code == "NO_CREATOR_BOUND" for _, code, _ in await findings(app))
    named = {"columns": {"owner": {"create": {"$use": "editor"}}}, "define": {"editor": EDITOR}}
    await save(app, notes, {"read": {"owner": {"$member": "id"}}, "create": SIGNED_IN, **named})
    assert not any(code == "NO_CREATOR_BOUND" for _, code, _ in await findings(app))


async def test_what_rules_look_for_gets_indexes_before_anybody_waits(app: App):
    seats = await app.table({"team": "string", "member": "string"}, title="seats")
    where = {"team": {"$row": "team"}, "member": {"$member": "id"}}
    table = await app.table({"team": "string", "state": "string"})
    async with app.client() as client:
        many = {"data": [{"team": f"t{number}"} for number in range(1000)]}
        for _ in range(10):
            assert (await client.post(rows(seats), json=many)).status_code == 201
    rules = {"read": {"$or": [{"state": "published"}, {"$exists": {"table": "seats", "where": where}}]}}
    await save(app, table, rules)

    async def found(of: str) -> tuple[set[tuple[str, ...]], set[tuple[str, str]]]:
        """The indexes that are ready, and what still waits for one, or for more rows."""
        async with owner_of(app).client(app) as console:
            answer = (await console.get(f"/tables/{of}/indexes")).json()
        ready = {tuple(one["columns"]) for one in answer["indexes"] if one["state"] == "ready"}
        return ready, {(use["column"], use["kind"]) for one in answer["noted"] for use in one["uses"]}

    async def is_served() -> bool:
        (of_seats, _), (_, waiting) = [await found(one) for one in (seats, table)]
        return ("member", "team") in of_seats and {("state", "equality"), ("team", "in")} <= waiting

    await until(is_served)


async def test_exposure_tells_which_rules_no_index_serves(app: App):
    big = await app.table({"team": "string", "state": "string", "at": "object"}, title="big")
    small = await app.table({"member": "string"}, title="small")
    async with app.client() as client:
        for _ in range(10):
            new = {"data": [{"team": "t"}] * 1000}
            assert (await client.post(rows(big), json=new)).status_code == 201
    member = {"member": {"$member": "id"}}

    async def slow() -> set[str]:
        return {message.partition(",")[2] for _, code, message in await findings(app) if code == "SLOW_RULE"}

    reads = " so that a list reads all rows of big. Compare a column for equality."
    for read, expected in (
        ({"$or": [{"state": {"$ne": "x"}}, {"$creator": {"$member": "id"}}]}, {reads}),
        ({"at.team": "x"}, {reads}),
        ({"$exists": {"table": "small", "where": {**member, "member": {"$ne": {"$row": "team"}}}}}, {reads}),
        (
            {"$or": [{"$member": {"roles": {"$arrayContains": "x"}}}, {"id": "01a21d90-fe8d-7c94-907e-6e5272ef9a60"}]},
            set(),
        ),
        ({"$exists": {"table": "small", "where": member}}, set()),
    ):
        await save(app, big, {"read": read})
        assert await slow() == expected, read
    await save(app, big, {"read": {"team": "x"}})
    await save(app, small, {"read": {"$exists": {"table": "big", "where": {"team": {"$row": "member"}, "state": "x"}}}})
    # Until the indexes are there.
    assert await slow() <= {reads}

    async def is_served() -> bool:
        return await slow() == set()

    await until(is_served)


async def test_exposure_tells_under_which_rules_statements_take_long(app: App):
    table = await app.table({"name": "string"}, title="notes")
    other = await app.table({"name": "string"}, title="open")
    rule = {"$or": [{"$creator": {"$member": "id"}}, {"name": "x"}]}
    await save(app, table, {"read": rule, "create": rule, "update": rule, "delete": rule})
    ada = await app.member("ada")
    database = await asyncpg.connect(**databases.address(app.server.data_dir))

    async def counted() -> dict[str, int]:
        sql = "select table_id, buckets from pilotis.rule_durations where app_id = $1"
        return {str(row["table_id"]): sum(row["buckets"]) for row in await database.fetch(sql, app.app_id)}

    async def slow() -> list[str]:
        return [message for _, code, message in await findings(app) if code == "SLOW_RULE"]

    async with app.client(ada["access_token"]) as client, app.client(app.secret_key) as side:
        # Whom the rules do not limit is not counted, and neither is a table without rules.
        for path in (rows(table), rows(other)):
            assert (await side.post(path, json={"data": {"name": "x"}})).status_code == 201
            assert (await side.get(path)).status_code == 200
        assert (await client.get(rows(other))).status_code == 200
        new = (await client.post(rows(table), json={"data": {"name": "y"}})).json()
        one = f"{rows(table)}/{new['id']}"
        assert (await client.get(one)).status_code == 200
        assert (await client.get(f"{one}?fields=name")).status_code == 200
        assert (await client.get(rows(table))).json()["total_count"] == 2
        found = await client.post("/v1/public/search", json={"table_id": table, "query": "y"})
        assert found.json()["total_count"] == 1
        assert (await client.patch(one, json={"data": {"name": "z"}})).status_code == 200
        assert (await client.delete(one)).status_code == 200

    async def is_written() -> bool:
        return sum((await counted()).values()) >= 7

    await until(is_written)
    assert await counted() == {table: 7}
    assert await slow() == []
    for change, is_slow in (
        # Of 400 statements 21 took 100 to 250 ms, of 400 others 19.
        ("buckets = array[379, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0]", True),
        ("buckets = array[381, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0]", False),
        ("buckets = array[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20]", True),
        ("starts_at = now() - interval '25 hours'", False),
    ):
        await database.execute(f"update pilotis.rule_durations set {change} where app_id = $1", app.app_id)
        said = await slow()
        assert len(said) == is_slow, change
        assert all(one.startswith("Table notes: in the last day one in twenty statements under") for one in said)
    await database.close()


async def test_a_rule_that_asks_whether_there_is_none_yet_is_warned_of(app: App):
    none_yet = {"$not": {"$exists": {"table": "votes", "where": {"poll": {"$row": "poll"}}}}}
    table = await app.table({"poll": "string"}, title="votes")
    saved = await save(app, table, {"create": none_yet})
    assert [(one["code"], one["place"]) for one in saved["warnings"]] == [("RACY_RULE", "rules.create.$not.$exists")]


def test_rules_that_were_saved_under_a_higher_limit_still_fit():
    table = TableSchema(uuid4(), uuid4(), "t", AccessLevel.PUBLIC, 1, (Column(1, "name", ColumnType.STRING),))
    related = Related.of([table])
    long = {"read": {"name": {"$in": ["x" * 100] * 200}}}
    ruled = msgspec.structs.replace(table, rules=stored(long, table, related, Limits(rule_bytes=100_000)))
    assert _fits(ruled, related)
