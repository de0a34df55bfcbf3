"""Interface: Tables and columns, the routes of tables."""

import re
from typing import Any
from uuid import UUID

import pytest

from tests.console import owner_of
from tests.services import stale_node
from tests.support import App, assert_error
from tests.waiting import until

TABLES = "/v1/public/tables"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOWHERE = "018f0000-0000-7000-8000-000000000000"
TYPES = ["string", "number", "boolean", "date", "object", "array", "uuid", "int"]

BAD_NAMES = [
    *['a"b', "a'b", "a->>'b", ";--", "a b", "a.b", "a-b", "$a", "1a", "", " a", "a\n", "\u200b", "😀", "a\u0000"],
    *["__a", "__proto__", "__id", "id", "created_at", "updated_at", "x" * 64, "é" * 32, "x" * 10_000],
]
GOOD_NAMES = ["a", "A", "_", "_1", "é" * 31, "한국어", "ελ", "नाम", "ctid", "xmin", "select", "item", "constructor"]


def definition(schema: Any, title: str = "things", access_level: Any = "Public") -> dict[str, Any]:
    return {"title": title, "schema": schema, "access_level": access_level}


async def test_a_new_table_is_read_back_as_it_was_defined(app: App):
    schema = {
        **{f"{type_}_": type_ for type_ in TYPES},
        "name": {"type": "string", "required": True, "default": "x", "description": "Whose"},
        "flag": {"type": "bool", "required": False},
    }
    async with app.client() as client:
        made = await client.post(TABLES, json=definition(schema, "주문", "AppMember"))
        assert made.status_code == 201
        assert made.json()["message"]
        tables = (await client.get(TABLES)).json()
        table = tables["tables"][0]
        assert (await client.get(f"{TABLES}/{table['id']}")).json() == table
    assert len(tables["tables"]) == 1
    assert set(tables) == {"tables"}
    assert TIME.fullmatch(table.pop("create_time"))
    assert TIME.fullmatch(table.pop("update_time"))
    assert table == {
        "id": made.json()["id"],
        "app_id": app.app_id,
        "title": "주문",
        "schema": schema | {"flag": {"type": "boolean", "required": False}},
        "is_active": True,
        "access_level": "AppMember",
    }


async def test_patch_replaces_title_schema_and_access_level(app: App):
    table = await app.table({"a": "string", "b": "string", "c": {"type": "int", "required": True}}, title="old")
    async with app.client() as client:
        row = (await client.post(f"{TABLES}/{table}/data", json={"data": {"a": "x", "b": "7", "c": 1}})).json()
        answer = await client.patch(
            f"{TABLES}/{table}", json=definition({"b": "int", "c": "int", "d": "date"}, "new", "AppMember")
        )
        assert answer.status_code == 200
        assert answer.json()["message"]
        read = (await client.get(f"{TABLES}/{table}")).json()
        assert (read["title"], read["access_level"]) == ("new", "AppMember")
        assert read["schema"] == {"b": "int", "c": "int", "d": "date"}
        assert read["update_time"] > read["create_time"]
    async with app.client(app.secret_key) as client:
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"b": 7, "c": 1}


async def test_patch_changes_nothing_where_rows_do_not_fit(app: App):
    table = await app.table({"a": "string", "b": "string"}, title="old")
    rows = [await app.row(table, {"a": str(number), "b": "no number"}) for number in range(7)]
    async with app.client() as client:
        before = (await client.get(f"{TABLES}/{table}")).json()
        body = assert_error(
            await client.patch(f"{TABLES}/{table}", json=definition({"a": "int", "b": "int"}, "new")),
            409,
            "ROWS_DO_NOT_FIT",
        )
        assert "7 rows" in body["message"]
        assert [detail["field"] for detail in body["details"]] == [row["id"] for row in rows[:5]]
        assert (await client.get(f"{TABLES}/{table}")).json() == before
        assert (await client.get(f"{TABLES}/{table}/data/{rows[0]['id']}")).json() == rows[0]


async def test_a_free_form_table_given_a_schema_keeps_its_rows(app: App):
    table = await app.table({}, title="things")
    row = await app.row(table, {"a": 1, "b": [1], "c": None, "other": "kept"})
    async with app.client() as client:
        schema = {"a": "int", "b": "array", "c": "string", "d": "string"}
        assert (await client.patch(f"{TABLES}/{table}", json=definition(schema))).status_code == 200
        read = (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()
        assert read["data"] == row["data"]
        found = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"a": {"$gt": 0}}})
        assert found.json()["total_count"] == 1
        unknown = await client.post(f"{TABLES}/{table}/data", json={"data": {"other": 1}})
        assert_error(unknown, 400, "UNKNOWN_COLUMN")


async def test_a_dropped_table_is_gone(app: App):
    table = await app.table({"a": "string"}, title="things")
    row = await app.row(table, {"a": "x"})
    async with app.client() as client:
        answer = await client.delete(f"{TABLES}/{table}")
        assert answer.status_code == 200
        assert answer.json()["message"]
        assert answer.json()["id"] == table
        assert (await client.get(TABLES)).json() == {"tables": []}
        for path in ("", "/columns", "/data", f"/data/{row['id']}"):
            assert_error(await client.get(f"{TABLES}/{table}{path}"), 404, "TABLE_NOT_FOUND")
        assert_error(await client.post(f"{TABLES}/{table}/data", json={"data": {}}), 404, "TABLE_NOT_FOUND")
        assert_error(await client.delete(f"{TABLES}/{table}"), 404, "TABLE_NOT_FOUND")
    assert await app.table({}, title="things")


async def test_titles_are_unique_among_the_tables_of_an_app(app: App, other_app: App):
    first = await app.table({}, title="things")
    await app.table({}, title="other")
    await other_app.table({}, title="things")
    async with app.client() as client:
        assert_error(await client.post(TABLES, json=definition({})), 409, "TABLE_TITLE_TAKEN")
        renamed = await client.patch(f"{TABLES}/{first}", json=definition({}, "other"))
        assert_error(renamed, 409, "TABLE_TITLE_TAKEN")
        assert (await client.get(f"{TABLES}/{first}")).json()["title"] == "things"


@pytest.mark.parametrize("missing", ["title", "schema", "access_level"])
async def test_title_schema_and_access_level_are_required(app: App, missing: str):
    table = await app.table({})
    body = definition({})
    del body[missing]
    async with app.client() as client:
        for answer in (await client.post(TABLES, json=body), await client.patch(f"{TABLES}/{table}", json=body)):
            assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == missing


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (definition([]), "schema"),
        (definition("string"), "schema"),
        (definition({}, ""), "title"),
        (definition({}, "x" * 256), "title"),
        (definition({}, 5), "title"),
        (definition({}, access_level="public"), "access_level"),
        (definition({}, access_level=None), "access_level"),
        (definition({}) | {"id": NOWHERE}, "id"),
        (definition({}) | {"is_active": False}, "is_active"),
        (definition({"a": "text"}), "schema.a.type"),
        (definition({"a": 1}), "schema.a"),
        (definition({"a": {}}), "schema.a.type"),
        (definition({"a": {"type": "int", "order": 1}}), "schema.a.order"),
        (definition({"a": {"type": "int", "is_required": True}}), "schema.a.is_required"),
        (definition({"a": {"type": "int", "required": "yes"}}), "schema.a.required"),
        (definition({"a": {"type": "int", "description": "x" * 2001}}), "schema.a.description"),
        (definition({"a": {"type": "int", "default": "1"}}), "schema.a.default"),
        (definition({"a": {"type": "date", "default": "soon"}}), "schema.a.default"),
        (definition({f"a{number}": "int" for number in range(201)}), "schema"),
        (definition({"\u00e9": "int", "e\u0301": "int"}), "schema"),
    ],
)
async def test_a_bad_definition_is_refused(app: App, body: dict[str, Any], field: str):
    async with app.client() as client:
        answer = await client.post(TABLES, json=body)
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == field
        assert (await client.get(TABLES)).json() == {"tables": []}


@pytest.mark.share(0.34)
@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
async def test_a_bad_column_name_is_refused(app: App, name: str):
    table = await app.table({})
    code = "VALIDATION_FAILED" if "\0" in name or len(name) > 255 else "INVALID_COLUMN_NAME"
    async with app.client() as client:
        added = await client.post(f"{TABLES}/{table}/columns", json={"name": name, "data_type": "int"})
        assert_error(added, 400, code)
        made = await client.post(TABLES, json=definition({name: "int"}))
        assert_error(made, 400, "VALIDATION_FAILED" if "\0" in name else "INVALID_COLUMN_NAME")
        assert len((await client.get(TABLES)).json()["tables"]) == 1


async def test_any_other_name_is_a_column_like_any_other(app: App):
    table = await app.table(dict.fromkeys(GOOD_NAMES, "string"))
    rows = [await app.row(table, dict.fromkeys(GOOD_NAMES, value)) for value in ("b", "a", "c")]
    async with app.client() as client:
        for name in GOOD_NAMES:
            query = {"where": {name: {"$gte": "a"}}, "order_by": name}
            found = await client.post(f"{TABLES}/{table}/data/query", json=query)
            assert [item["data"][name] for item in found.json()["data"]] == ["a", "b", "c"], name
            changed = await client.patch(f"{TABLES}/{table}/data/{rows[0]['id']}", json={"data": {name: "b2"}})
            assert changed.json()["data"][name] == "b2", name
        read = await client.get(f"{TABLES}/{table}/data/{rows[0]['id']}")
        assert read.json()["data"] == dict.fromkeys(GOOD_NAMES, "b2")


async def test_names_that_look_alike_are_different_columns(app: App):
    table = await app.table({"a": "int", "\u0430": "int", "A": "int"})
    row = await app.row(table, {"a": 1, "\u0430": 2, "A": 3})
    async with app.client() as client:
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == row["data"]
        found = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"\u0430": 2, "A": 3}})
        assert found.json()["total_count"] == 1


async def test_200_columns_work(app: App):
    schema = {f"c{number}": TYPES[number % 8] for number in range(200)}
    table = await app.table(schema)
    values = {
        "string": "x" * 100,
        "number": 1.25,
        "boolean": True,
        "date": "2020-01-01",
        "object": {"a": 1},
        "array": [1],
        "uuid": NOWHERE,
        "int": 7,
    }
    full = {name: values[type_] for name, type_ in schema.items()}
    row = await app.row(table, full)
    await app.row(table, {})
    async with app.client() as client:
        page = (await client.get(f"{TABLES}/{table}/data")).json()
        assert [item["data"] for item in page["data"]] == [full, {}]
        changed = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": dict.fromkeys(full)})
        assert changed.json()["data"] == dict.fromkeys(full)
        restored = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": full})
        assert restored.json()["data"] == full
        added = await client.post(f"{TABLES}/{table}/columns", json={"name": "more", "data_type": "int"})
        assert assert_error(added, 400, "VALIDATION_FAILED")["details"][0]["code"] == "TOO_MANY_COLUMNS"


async def test_another_apps_tables_are_not_there(app: App, other_app: App):
    table = await app.table({"a": "string"})
    row = await app.row(table, {"a": "x"})
    async with other_app.client() as client:
        assert (await client.get(TABLES)).json() == {"tables": []}
        requests: list[tuple[str, str, Any]] = [
            ("GET", "", None),
            ("PATCH", "", definition({})),
            ("DELETE", "", None),
            ("GET", "/columns", None),
            ("POST", "/columns", {"name": "b", "data_type": "int"}),
            ("PATCH", "/columns/a", {"is_required": True}),
            ("DELETE", "/columns/a", None),
            ("GET", "/data", None),
            ("POST", "/data", {"data": {}}),
            ("POST", "/data/bulk", {"data": [{}]}),
            ("POST", "/data/query", {}),
            ("POST", "/data/delete-where", {"all": True}),
            ("GET", f"/data/{row['id']}", None),
            ("PATCH", f"/data/{row['id']}", {"data": {}}),
            ("DELETE", f"/data/{row['id']}", None),
        ]
        for method, path, body in requests:
            answer = await client.request(method, f"{TABLES}/{table}{path}", json=body)
            assert_error(answer, 404, "TABLE_NOT_FOUND")
    async with app.client() as client:
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json() == row


@pytest.mark.parametrize("table_id", ["1", "x' or 1=1", "%00", "a" * 10_000, NOWHERE.replace("-", "")])
async def test_an_id_that_is_no_uuid_is_400(app: App, table_id: str):
    async with app.client() as client:
        assert_error(await client.get(f"{TABLES}/{table_id}"), 400, "INVALID_ID")


async def test_tables_need_the_public_key(app: App):
    async with app.client() as client:
        del client.headers["X-Public-Key"]
        assert_error(await client.get(TABLES), 401, "PUBLIC_KEY_REQUIRED")
        assert_error(await client.post(TABLES, json=definition({})), 401, "PUBLIC_KEY_REQUIRED")


async def lock_schema(app: App) -> None:
    async with stale_node(app.server) as node, node.database.transaction() as connection:
        app_id = UUID(app.app_id)
        await connection.execute("update pilotis.apps set schema_locked = true where app_id = $1", app_id)
        await node.apps.announce(connection, app_id)


@pytest.mark.advisory("CVE-2025-48757")
async def test_a_locked_schema_is_changed_with_a_secret_key_or_by_a_console_user_only(app: App):
    table = await app.table({"a": "int"}, title="t")
    member = (await app.member())["access_token"]
    await lock_schema(app)
    changes: list[tuple[str, str, Any, int]] = [
        ("POST", "", definition({}, "new"), 201),
        ("POST", f"/{table}/columns", {"name": "b", "data_type": "int"}, 201),
        ("PATCH", f"/{table}/columns/b", {"data_type": "string"}, 200),
        ("DELETE", f"/{table}/columns/b", None, 200),
        ("PATCH", f"/{table}", definition({"a": "string"}, "t"), 200),
        ("DELETE", f"/{table}", None, 200),
    ]
    async with app.client() as client:

        async def heard() -> bool:
            return (await client.post(TABLES, json=definition({}, "old"))).status_code == 403

        await until(heard)
    for token in (None, member):
        async with app.client(token) as client:
            for method, path, body, _ in changes:
                assert_error(await client.request(method, TABLES + path, json=body), 403, "SCHEMA_LOCKED")
            assert (await client.get(f"{TABLES}/{table}")).json()["schema"] == {"a": "int"}
            assert (await client.post(f"{TABLES}/{table}/data", json={"data": {"a": 1}})).status_code == 201
    for number, (method, path, body, status) in enumerate(changes):
        async with app.client(app.secret_key if number % 2 else app.console["access_token"]) as client:
            answer = await client.request(method, TABLES + path, json=body)
            assert answer.status_code == status, answer.text


async def test_a_webhook_does_not_change_when_a_table_was_changed(app: App):
    table = await app.table({"a": "int"})
    async with app.client() as client:
        before = (await client.get(f"{TABLES}/{table}")).json()
        async with owner_of(app).client(app) as console:
            body = {"name": "rows", "url": "http://localhost:9/hooks", "event_types": ["row.*"]}
            assert (await console.post("/webhooks", json=body)).status_code == 201
        assert (await client.get(f"{TABLES}/{table}")).json() == before
        assert (await client.patch(f"{TABLES}/{table}", json=definition({"a": "int"}, "new"))).status_code == 200
        assert (await client.get(f"{TABLES}/{table}")).json()["update_time"] > before["update_time"]
