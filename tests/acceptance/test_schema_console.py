"""Console: a column is renamed, and a change of the schema is previewed."""

import pytest

from tests.console import owner_of
from tests.support import App, assert_error


async def test_a_renamed_column_keeps_its_values_nulls_and_options(app: App):
    table = await app.table(
        {"day": {"type": "date", "required": False}, "note": "string", "code": {"type": "string", "encrypted": True}}
    )
    row = await app.row(table, {"day": "2026-01-31", "note": None, "code": "x"})
    names = {"day": "date", "note": "ctid", "code": "secret"}
    async with owner_of(app).client(app) as console, app.client() as client:
        for old, new in names.items():
            renamed = await console.post(f"/tables/{table}/columns/{old}/rename", json={"name": new})
            assert renamed.json() == {"message": "Column renamed.", "id": table, "name": new}
        read = await client.get(f"/v1/public/tables/{table}/data/{row['id']}")
        assert read.json()["data"] == {"date": "2026-01-31", "ctid": None, "secret": "x"}
        where = {"where": {"$and": [{"date": {"$gt": "2026-01-01"}}, {"secret": "x"}, {"ctid": None}]}}
        found = await client.post(f"/v1/public/tables/{table}/data/query", json=where)
        assert found.json()["total_count"] == 1
        refused = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"day": "2026-01-31"}})
        assert_error(refused, 400, "UNKNOWN_COLUMN")
        schema = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
        assert schema == {
            "date": {"type": "date", "required": False},
            "ctid": "string",
            "secret": {"type": "string", "encrypted": True},
        }
        log = (await console.get("/audit-log", params={"action": "column.rename"})).json()["data"]
        assert [(entry["details"]["column"], entry["details"]["name"]) for entry in reversed(log)] == list(
            names.items()
        )


async def test_a_renamed_column_can_be_dropped_restored_and_renamed_back(app: App):
    table = await app.table({"a": "string", "b": "int"})
    row = await app.row(table, {"a": "kept", "b": None})
    async with owner_of(app).client(app) as console, app.client() as client:
        for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
            assert (await console.post(f"/tables/{table}/columns/{old}/rename", json={"name": new})).is_success
        assert (await client.delete(f"/v1/public/tables/{table}/columns/b")).is_success
        (dropped,) = (await console.get("/trash")).json()["columns"]
        assert (await console.post(f"/trash/tables/{table}/columns/{dropped['number']}/restore")).is_success
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()["data"] == {
            "b": "kept",
            "a": None,
        }


@pytest.mark.parametrize(
    ("old", "new", "status", "code"),
    [
        ("a", "b", 409, "COLUMN_EXISTS"),
        ("a", "a", 409, "COLUMN_EXISTS"),
        ("a", "id", 400, "INVALID_COLUMN_NAME"),
        ("a", 'x" text; drop table y', 400, "INVALID_COLUMN_NAME"),
        ("c", "d", 404, "COLUMN_NOT_FOUND"),
        ("a", "older", 409, "ROWS_DO_NOT_FIT"),
    ],
)
async def test_a_column_cannot_be_renamed_to(app: App, old: str, new: str, status: int, code: str):
    table = await app.table({})
    await app.row(table, {"older": 1})
    async with owner_of(app).client(app) as console, app.client() as client:
        for name in ("a", "b"):
            body = {"name": name, "data_type": "string"}
            assert (await client.post(f"/v1/public/tables/{table}/columns", json=body)).is_success
        assert_error(await console.post(f"/tables/{table}/columns/{old}/rename", json={"name": new}), status, code)
        assert set((await client.get(f"/v1/public/tables/{table}")).json()["schema"]) == {"a", "b"}


async def test_a_preview_says_what_a_change_would_do_and_changes_nothing(app: App):
    table = await app.table(
        {"same": "string", "price": "string", "old": "int", "code": {"type": "string", "encrypted": True}}
    )
    good = await app.row(table, {"price": "12.50", "old": 1, "code": "1"})
    bad = await app.row(table, {"price": "a lot", "old": None, "code": "2"})
    await app.row(table, {})
    wanted = {
        "same": {"type": "string", "required": False},
        "price": "number",
        "code": {"type": "int", "encrypted": True},
        "new": "string",
    }
    async with owner_of(app).client(app) as console, app.client() as client:
        body = {"title": "renamed", "schema": wanted, "access_level": "Public"}
        preview = await console.post(f"/tables/{table}/schema-preview", json=body)
        assert preview.status_code == 200, preview.text
        assert preview.json()["locks"] == "brief"
        changes = {change["name"]: change for change in preview.json()["changes"]}
        assert set(changes) == {"old", "new", "code", "price"}
        assert changes["old"] == {
            "kind": "dropped",
            "name": "old",
            "from": "int",
            "to": None,
            "rows": 1,
            "rows_that_do_not_fit": 0,
            "samples": [],
        }
        assert changes["new"]["kind"] == "added"
        assert changes["code"]["rows_that_do_not_fit"] is None
        price = changes["price"]
        assert (price["from"], price["to"], price["rows"], price["rows_that_do_not_fit"]) == ("string", "number", 2, 1)
        assert price["samples"] == [
            {"row_id": bad["id"], "before": "a lot", "after": None, "message": "This is not a valid number."},
            {"row_id": good["id"], "before": "12.50", "after": "12.50", "message": None},
        ]
        schema = (await client.get(f"/v1/public/tables/{table}")).json()["schema"]
        assert set(schema) == {"same", "price", "old", "code"}


async def test_a_preview_counts_nulls_that_cannot_be_required_and_free_values_that_do_not_fit(app: App):
    free = await app.table({})
    odd = await app.row(free, {"size": "large"})
    table = await app.table({"name": "string"})
    nothing = await app.row(table, {"name": None})
    async with owner_of(app).client(app) as console:
        for target, column, row, name in (
            (free, "int", odd, "size"),
            (table, {"type": "string", "required": True}, nothing, "name"),
        ):
            body = {"title": "t", "schema": {name: column}, "access_level": "Public"}
            (change,) = (await console.post(f"/tables/{target}/schema-preview", json=body)).json()["changes"]
            assert change["rows_that_do_not_fit"] == 1
            assert [sample["row_id"] for sample in change["samples"]] == [row["id"]]


async def test_a_preview_of_an_invalid_schema_is_an_error(app: App):
    table = await app.table({"name": "string"})
    body = {"title": "t", "schema": {"name": "text"}, "access_level": "Public"}
    async with owner_of(app).client(app) as console:
        assert_error(await console.post(f"/tables/{table}/schema-preview", json=body), 400, "VALIDATION_FAILED")
