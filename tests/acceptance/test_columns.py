"""Interface: Tables and columns, the routes of columns."""

from typing import Any

import pytest

from tests.support import App, assert_error

TABLES = "/v1/public/tables"
DATA_TYPES = ["string", "int", "number", "bool", "uuid", "date", "object", "array"]
UUID = "018f0000-0000-7000-8000-000000000001"
DEFAULTS = {
    "string": "x",
    "int": 1,
    "number": 1.5,
    "bool": False,
    "uuid": UUID,
    "date": "2020-01-01",
    "object": {"a": [1]},
    "array": [1, {}],
}


async def columns(app: App, table: str) -> list[dict[str, Any]]:
    async with app.client() as client:
        answer = await client.get(f"{TABLES}/{table}/columns")
    assert answer.status_code == 200
    listed: list[dict[str, Any]] = answer.json()["columns"]
    return listed


async def test_columns_are_listed_in_the_order_they_were_added(app: App):
    table = await app.table({"b": "string", "a": {"type": "boolean", "required": True, "default": False}})
    async with app.client() as client:
        body = {"name": "c", "data_type": "bool", "description": "Whether"}
        added = await client.post(f"{TABLES}/{table}/columns", json=body)
        assert added.status_code == 201
        assert added.json()["message"]
        await client.delete(f"{TABLES}/{table}/columns/b")
        await client.post(f"{TABLES}/{table}/columns", json={"name": "b", "data_type": "int"})
    listed = await columns(app, table)
    assert [(column["name"], column["data_type"]) for column in listed] == [("a", "bool"), ("c", "bool"), ("b", "int")]
    assert [column["order"] for column in listed] == [1, 2, 3]
    assert listed[0] == {
        "name": "a",
        "data_type": "bool",
        "is_required": True,
        "default_value": False,
        "description": None,
        "encrypted": False,
        "order": 1,
    }


@pytest.mark.parametrize("data_type", DATA_TYPES)
async def test_a_column_of_each_type_with_a_default(app: App, data_type: str):
    table = await app.table({"name": "string"})
    older = await app.row(table, {"name": "older"})
    async with app.client() as client:
        body = {"name": "new", "data_type": data_type, "is_required": True, "default_value": DEFAULTS[data_type]}
        assert (await client.post(f"{TABLES}/{table}/columns", json=body)).status_code == 201
        schema = (await client.get(f"{TABLES}/{table}")).json()["schema"]
        stored = {"bool": "boolean"}.get(data_type, data_type)
        assert schema["new"] == {"type": stored, "required": True, "default": DEFAULTS[data_type]}
        row = await app.row(table, {})
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"new": DEFAULTS[data_type]}
        # A default is for new rows; what was there stays as it was.
        assert (await client.get(f"{TABLES}/{table}/data/{older['id']}")).json() == older
        where = {"where": {"new": DEFAULTS[data_type]}}
        assert (await client.post(f"{TABLES}/{table}/data/query", json=where)).json()["total_count"] == 1


async def test_a_column_added_to_free_form_rows_takes_what_they_hold(app: App):
    table = await app.table({})
    held, null = await app.row(table, {"a": 1.10, "b": 2}), await app.row(table, {"a": None})
    async with app.client() as client:
        for data_type, status in (("date", 409), ("int", 409), ("number", 201)):
            answer = await client.post(f"{TABLES}/{table}/columns", json={"name": "a", "data_type": data_type})
            assert answer.status_code == status, answer.text
        for row in (held, null):
            assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json() == row
        found = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"a": {"$lt": 2}}})
        assert found.json()["total_count"] == 1


async def test_a_required_column_is_added_over_values(app: App):
    table = await app.table({})
    row = await app.row(table, {"a": 5})
    async with app.client() as client:
        body = {"name": "a", "data_type": "int", "is_required": True}
        answer = await client.post(f"{TABLES}/{table}/columns", json=body)
        assert answer.status_code == 201, answer.text
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"a": 5}


async def test_a_required_column_is_not_added_over_nulls(app: App):
    table = await app.table({})
    row = await app.row(table, {"a": None})
    async with app.client() as client:
        body = {"name": "a", "data_type": "int", "is_required": True}
        refused = assert_error(await client.post(f"{TABLES}/{table}/columns", json=body), 409, "ROWS_DO_NOT_FIT")
        assert refused["details"][0]["field"] == row["id"]
    assert await columns(app, table) == []


async def test_what_a_change_does_not_name_stays(app: App):
    table = await app.table({"a": {"type": "string", "required": True, "default": "1", "description": "One"}})
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"description": "Two"}, {"description": "Two"}),
        ({"is_required": False}, {"required": False}),
        ({"default_value": "2"}, {"default": "2"}),
    ]
    expected: dict[str, Any] = {"type": "string", "required": True, "default": "1", "description": "One"}
    async with app.client() as client:
        for change, effect in changes:
            expected |= effect
            answer = await client.patch(f"{TABLES}/{table}/columns/a", json=change)
            assert answer.status_code == 200
            assert (await client.get(f"{TABLES}/{table}")).json()["schema"] == {"a": expected}
        cleared = {"default_value": None, "description": None}
        assert (await client.patch(f"{TABLES}/{table}/columns/a", json=cleared)).status_code == 200
        schema = (await client.get(f"{TABLES}/{table}")).json()["schema"]
        assert schema == {"a": {"type": "string", "required": False}}


async def test_a_default_that_does_not_fit_the_new_type_is_refused(app: App):
    table = await app.table({"a": {"type": "string", "default": "x"}})
    async with app.client() as client:
        answer = await client.patch(f"{TABLES}/{table}/columns/a", json={"data_type": "int"})
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["code"] == "INVALID_DEFAULT"
        both = {"data_type": "int", "default_value": 1}
        assert (await client.patch(f"{TABLES}/{table}/columns/a", json=both)).status_code == 200
    assert (await app.row(table, {}))["data"] == {"a": 1}


async def test_a_column_with_nulls_does_not_become_required(app: App):
    table = await app.table({"a": "string"})
    row = await app.row(table, {"a": None})
    await app.row(table, {})
    async with app.client() as client:
        change = {"is_required": True}
        refused = await client.patch(f"{TABLES}/{table}/columns/a", json=change)
        assert assert_error(refused, 409, "ROWS_DO_NOT_FIT")["details"][0]["field"] == row["id"]
        await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {"a": "x"}})
        assert (await client.patch(f"{TABLES}/{table}/columns/a", json=change)).status_code == 200
        assert_error(await client.post(f"{TABLES}/{table}/data", json={"data": {}}), 400, "VALIDATION_FAILED")


async def test_a_dropped_column_is_gone_from_rows_and_conditions(app: App):
    table = await app.table({"a": "string", "b": "date"})
    row = await app.row(table, {"a": "x", "b": None})
    async with app.client() as client:
        answer = await client.delete(f"{TABLES}/{table}/columns/b")
        assert answer.status_code == 200
        assert answer.json()["message"]
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"a": "x"}
        query = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"b": None}})
        assert_error(query, 400, "UNKNOWN_COLUMN")
        change = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {"b": None}})
        assert_error(change, 400, "UNKNOWN_COLUMN")
        # A new column of the name knows nothing of the old one's values.
        await client.post(f"{TABLES}/{table}/columns", json={"name": "b", "data_type": "int"})
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"a": "x"}


async def test_a_table_whose_last_column_is_dropped_takes_any_field(app: App):
    table = await app.table({"a": "string"})
    await app.row(table, {"a": "x"})
    async with app.client() as client:
        await client.delete(f"{TABLES}/{table}/columns/a")
        await app.row(table, {"a": 1, "z": [None]})
        rows = (await client.get(f"{TABLES}/{table}/data")).json()["data"]
    assert [row["data"] for row in rows] == [{}, {"a": 1, "z": [None]}]


async def test_a_column_can_be_added_and_dropped_many_times(app: App):
    table = await app.table({"a": "string"})
    async with app.client() as client:
        for _ in range(20):
            added = await client.post(f"{TABLES}/{table}/columns", json={"name": "b", "data_type": "date"})
            assert added.status_code == 201
            assert (await client.delete(f"{TABLES}/{table}/columns/b")).status_code == 200
    assert [column["name"] for column in await columns(app, table)] == ["a"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"data_type": "int"}, "name"),
        ({"name": "b"}, "data_type"),
        ({"name": 1, "data_type": "int"}, "name"),
        ({"name": "b", "data_type": 1}, "data_type"),
        ({"name": "b", "data_type": "text"}, "data_type"),
        ({"name": "b", "data_type": "int", "is_required": 1}, "is_required"),
        ({"name": "b", "data_type": "int", "required": True}, "required"),
        ({"name": "b", "data_type": "int", "order": 1}, "order"),
        ({"name": "b", "data_type": "int", "default_value": "1"}, "default_value"),
        ({"name": "b", "data_type": "int", "default_value": 2**63}, "default_value"),
        ({"name": "b", "data_type": "uuid", "default_value": "x"}, "default_value"),
        ({"name": "b", "data_type": "int", "description": "x" * 2001}, "description"),
    ],
)
async def test_a_bad_column_is_refused(app: App, body: dict[str, Any], field: str):
    table = await app.table({"a": "string"})
    async with app.client() as client:
        answer = await client.post(f"{TABLES}/{table}/columns", json=body)
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == field
    assert [column["name"] for column in await columns(app, table)] == ["a"]


async def test_a_name_that_is_taken_or_unknown(app: App):
    table = await app.table({"é": "string"})
    async with app.client() as client:
        body = {"name": "e\u0301", "data_type": "int"}
        assert_error(await client.post(f"{TABLES}/{table}/columns", json=body), 409, "COLUMN_EXISTS")
        for name in ("b", "%00", "a%22b", ";--", "x" * 10_000, "__id"):
            path = f"{TABLES}/{table}/columns/{name}"
            assert_error(await client.patch(path, json={"is_required": True}), 404, "COLUMN_NOT_FOUND")
            assert_error(await client.delete(path), 404, "COLUMN_NOT_FOUND")
    assert [column["name"] for column in await columns(app, table)] == ["é"]


async def test_changing_columns_answers_with_the_tables_id_and_the_columns_name(app: App):
    table = await app.table({"a": "string"})
    columns = f"/v1/public/tables/{table}/columns"
    async with app.client() as client:
        added = await client.post(columns, json={"name": "b", "data_type": "int"})
        changed = await client.patch(f"{columns}/b", json={"is_required": False})
        deleted = await client.delete(f"{columns}/b")
    assert added.json() == {"message": "Column added.", "id": table, "name": "b"}
    assert changed.json() == {"message": "Column updated.", "id": table, "name": "b"}
    assert deleted.json() == {"message": "Column deleted.", "id": table, "name": "b"}
