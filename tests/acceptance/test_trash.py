"""Console: the trash of tables and columns."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.backstage import run_sql
from tests.database import connection_to
from tests.services import stale_node
from tests.support import App, Server, assert_error

TYPES = {
    "text": "string",
    "number": "number",
    "yes": "boolean",
    "day": "date",
    "thing": "object",
    "list": "array",
    "key": "uuid",
    "count": {"type": "int", "default": 7, "description": "How many."},
}
FULL = {
    "text": "é 'quoted' \"twice\"",
    "number": 1.10,
    "yes": False,
    "day": "2026-01-31T12:00:00+09:00",
    "thing": {"a": [1, None]},
    "list": [1, "two", None],
    "key": "0198c0de-0000-7000-8000-000000000000",
    "count": 2**53 + 1,
}


@pytest.fixture
async def trash(app: App) -> AsyncIterator[httpx.AsyncClient]:
    """A console client at the app."""
    async with httpx.AsyncClient(
        base_url=f"{app.server.url}/v1/apps/{app.app_id}",
        headers={"Authorization": f"Bearer {app.console['access_token']}"},
    ) as client:
        yield client


async def drop(app: App, path: str) -> None:
    async with app.client() as client:
        answer = await client.delete(f"/v1/public/tables/{path}")
    assert answer.status_code == 200, answer.text


async def rows(app: App, table: str, **query: Any) -> list[dict[str, Any]]:
    """Return the rows' data, as text where exactness counts."""
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data/query", json=query)
    assert answer.status_code == 200, answer.text
    return [row["data"] for row in answer.json()["data"]]


async def listed(app: App, table: str) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.get(f"/v1/public/tables/{table}/data")).json()


async def schema(app: App, table: str) -> dict[str, Any]:
    async with app.client() as client:
        return (await client.get(f"/v1/public/tables/{table}")).json()["schema"]


async def number_of(trash: httpx.AsyncClient, name: str) -> int:
    columns = (await trash.get("/trash")).json()["columns"]
    return next(column["number"] for column in columns if column["name"] == name)


async def actions(app: App) -> list[str]:
    async with connection_to(app.server) as connection:
        query = "select action from pilotis.audit_log where app_id = $1 and actor_id = $2 order by entry_id"
        return [row["action"] for row in await connection.fetch(query, app.app_id, app.console["user_id"])]


@pytest.mark.advisory("CVE-2025-48757")
async def test_a_dropped_table_comes_back_whole(app: App, trash: httpx.AsyncClient):
    table = await app.table(TYPES, title="Everything")
    await app.row(table, FULL)
    await app.row(table, {"text": None, "day": None, "count": None})
    before = await listed(app, table), await schema(app, table)
    await drop(app, table)
    async with app.client() as client:
        assert_error(await client.get(f"/v1/public/tables/{table}"), 404, "TABLE_NOT_FOUND")
    contents = (await trash.get("/trash")).json()
    [item] = contents["tables"]
    assert (item["table_id"], item["title"], item["rows"]) == (table, "Everything", 2)
    dropped, until = (datetime.fromisoformat(item[name]) for name in ("dropped_at", "restorable_until"))
    assert until - dropped == timedelta(days=7)
    answer = await trash.post(f"/trash/tables/{table}/restore")
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"message": "Table restored.", "id": table}
    after = await listed(app, table), await schema(app, table)
    assert [item["data"] for item in after[0]["data"]] == [item["data"] for item in before[0]["data"]]
    assert (after[0]["total_count"], after[1]) == (2, before[1])
    assert list(after[1]) == list(TYPES)
    await app.row(table, {"text": "new"})
    assert (await listed(app, table))["total_count"] == 3
    assert (await trash.get("/trash")).json() == {"tables": [], "columns": []}
    assert "table.restore" in await actions(app)


async def test_a_restored_table_needs_its_title(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "string"}, title="Taken")
    await drop(app, table)
    other = await app.table({"b": "string"}, title="Taken")
    assert_error(await trash.post(f"/trash/tables/{table}/restore"), 409, "TABLE_TITLE_TAKEN")
    await drop(app, other)
    assert (await trash.post(f"/trash/tables/{table}/restore")).status_code == 200
    assert_error(await trash.post(f"/trash/tables/{other}/restore"), 409, "TABLE_TITLE_TAKEN")


async def test_a_dropped_column_of_any_type_comes_back_whole(app: App, trash: httpx.AsyncClient):
    table = await app.table(TYPES)
    for data in (FULL, dict.fromkeys(TYPES), {}, {name: FULL[name] for name in list(TYPES)[::2]}):
        await app.row(table, data)
    before, schema_before = (await listed(app, table))["data"], await schema(app, table)
    for number, name in enumerate(TYPES, start=1):
        await drop(app, f"{table}/columns/{name}")
        assert all(name not in row["data"] for row in (await listed(app, table))["data"])
        [item] = (await trash.get("/trash")).json()["columns"]
        assert (item["table_id"], item["name"], item["number"]) == (table, name, number)
        assert item["data_type"] == ("bool" if name == "yes" else schema_type(name))
        new = await app.row(table, {})
        answer = await trash.post(f"/trash/tables/{table}/columns/{number}/restore")
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"message": "Column restored.", "id": table, "number": number, "name": name}
        *after, last = (await listed(app, table))["data"]
        assert [(row["data"], list(row["data"])) for row in after] == [
            (row["data"], list(row["data"])) for row in before
        ]
        assert name not in last["data"]
        assert list((await schema(app, table)).items()) == list(schema_before.items())
        async with app.client() as client:
            await client.delete(f"/v1/public/tables/{table}/data/{new['id']}")
    assert (await actions(app)).count("column.restore") == len(TYPES)


def schema_type(name: str) -> str:
    definition = TYPES[name]
    return definition if isinstance(definition, str) else definition["type"]


async def test_a_restored_date_is_compared_by_its_moment(app: App, trash: httpx.AsyncClient):
    table = await app.table({"day": "date", "n": "int"})
    await app.row(table, {"day": "2026-01-31T23:00:00-05:00", "n": 1})
    await app.row(table, {"day": "2026-02-01T01:00:00Z", "n": 2})
    await drop(app, f"{table}/columns/day")
    await trash.post(f"/trash/tables/{table}/columns/1/restore")
    assert [row["n"] for row in await rows(app, table, order_by="day")] == [2, 1]
    assert [row["n"] for row in await rows(app, table, where={"day": {"$gt": "2026-02-01T02:00:00Z"}})] == [1]
    await app.row(table, {"day": "2026-03-01", "n": 3})
    assert [row["n"] for row in await rows(app, table, order_by="day")] == [2, 1, 3]


async def test_a_restored_column_needs_its_name(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "string", "b": "string"})
    await app.row(table, {"a": "old"})
    await drop(app, f"{table}/columns/a")
    async with app.client() as client:
        await client.post(f"/v1/public/tables/{table}/columns", json={"name": "a", "data_type": "int"})
    await app.row(table, {"a": 5})
    assert_error(await trash.post(f"/trash/tables/{table}/columns/1/restore"), 409, "COLUMN_EXISTS")
    assert await rows(app, table) == [{}, {"a": 5}]
    await drop(app, f"{table}/columns/a")
    assert (await trash.post(f"/trash/tables/{table}/columns/1/restore")).status_code == 200
    assert await rows(app, table) == [{"a": "old"}, {}]
    assert_error(await trash.post(f"/trash/tables/{table}/columns/3/restore"), 409, "COLUMN_EXISTS")


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_free_form_rows_were_given_meanwhile_stays(app: App, trash: httpx.AsyncClient, encrypted: bool):
    table = await app.table({"day": {"type": "date", "encrypted": encrypted}})
    made = [(await app.row(table, data))["id"] for data in ({"day": "2026-01-01"},) * 3 + ({"day": None},) * 2]
    await drop(app, f"{table}/columns/day")
    async with app.client() as client:
        for row, data in ((made[1], {"day": "2026-02-02"}), (made[2], {"day": None}), (made[3], {"day": "2026-03-03"})):
            answer = await client.patch(f"/v1/public/tables/{table}/data/{row}", json={"data": data})
            assert answer.status_code == 200, answer.text
    await app.row(table, {"day": "2026-04-04", "other": 1})
    await app.row(table, {"other": 2})
    assert (await trash.post(f"/trash/tables/{table}/columns/1/restore")).status_code == 200
    assert await rows(app, table) == [
        {"day": "2026-01-01"},
        {"day": "2026-02-02"},
        {"day": None},
        {"day": "2026-03-03"},
        {"day": None},
        {"day": "2026-04-04", "other": 1},
        {"other": 2},
    ]
    if encrypted:
        assert len(await rows(app, table, where={"day": "2026-03-03"})) == 1
        assert len(await rows(app, table, where={"day": "2026-01-01"})) == 1
        return
    late = await rows(app, table, where={"day": {"$gte": "2026-02-01"}}, order_by="day", order_direction="desc")
    assert [row["day"] for row in late] == ["2026-04-04", "2026-03-03", "2026-02-02"]
    assert len(await rows(app, table, where={"day": {"$isNull": True}})) == 3
    async with app.client() as client:
        raw = (await client.get(f"/v1/public/tables/{table}/data/{made[2]}")).text
    assert raw.count('"day"') == 1


@pytest.mark.parametrize("misfit", ["one", None])
async def test_what_does_not_fit_a_restored_column_keeps_it_in_the_trash(
    app: App, trash: httpx.AsyncClient, misfit: str | None
):
    table = await app.table({"n": {"type": "int", "required": True}})
    await app.row(table, {"n": 1})
    await drop(app, f"{table}/columns/n")
    await app.row(table, {"n": misfit})
    assert_error(await trash.post(f"/trash/tables/{table}/columns/1/restore"), 409, "ROWS_DO_NOT_FIT")
    assert await rows(app, table) == [{}, {"n": misfit}]
    assert await number_of(trash, "n") == 1


async def test_columns_come_back_in_their_old_order(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "int", "b": "int", "c": "int"})
    await drop(app, f"{table}/columns/a")
    await drop(app, f"{table}/columns/b")
    assert [column["name"] for column in (await trash.get("/trash")).json()["columns"]] == ["b", "a"]
    await trash.post(f"/trash/tables/{table}/columns/1/restore")
    await trash.post(f"/trash/tables/{table}/columns/2/restore")
    async with app.client() as client:
        columns = (await client.get(f"/v1/public/tables/{table}/columns")).json()["columns"]
    assert [(column["name"], column["order"]) for column in columns] == [("a", 1), ("b", 2), ("c", 3)]


async def test_a_tables_trashed_columns_go_and_come_with_it(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "string", "b": "string"})
    await app.row(table, {"a": "x"})
    await drop(app, f"{table}/columns/a")
    await drop(app, table)
    contents = (await trash.get("/trash")).json()
    assert (len(contents["tables"]), contents["columns"]) == (1, [])
    assert_error(await trash.post(f"/trash/tables/{table}/columns/1/restore"), 404, "TABLE_NOT_FOUND")
    await trash.post(f"/trash/tables/{table}/restore")
    await trash.post(f"/trash/tables/{table}/columns/1/restore")
    assert await rows(app, table) == [{"a": "x"}]


async def test_a_column_that_replacing_the_schema_dropped_comes_back(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "string", "b": "string"}, title="Replaced")
    await app.row(table, {"a": "x", "b": "y"})
    async with app.client() as client:
        body = {"title": "Replaced", "schema": {"b": "string"}, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{table}", json=body)).status_code == 200
    await trash.post(f"/trash/tables/{table}/columns/{await number_of(trash, 'a')}/restore")
    assert await rows(app, table) == [{"a": "x", "b": "y"}]


async def test_one_thing_is_ended_for_good(app: App, trash: httpx.AsyncClient):
    kept = await app.table({"a": "date", "b": "string"})
    gone = await app.table({"a": "string"})
    await app.row(gone, {"a": "x"})
    await drop(app, f"{kept}/columns/a")
    await drop(app, gone)
    assert (await trash.delete(f"/trash/tables/{kept}/columns/1")).json()["name"] == "a"
    assert (await trash.delete(f"/trash/tables/{gone}")).json()["id"] == gone
    assert (await trash.get("/trash")).json() == {"tables": [], "columns": []}
    assert_error(await trash.post(f"/trash/tables/{gone}/restore"), 404, "TABLE_NOT_FOUND")
    assert_error(await trash.delete(f"/trash/tables/{gone}"), 404, "TABLE_NOT_FOUND")
    assert_error(await trash.post(f"/trash/tables/{kept}/columns/1/restore"), 404, "COLUMN_NOT_FOUND")
    async with connection_to(app.server) as connection:
        names = "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped"
        schema_name = f"app_{app.app_id.replace('-', '')}"
        columns = {row["attname"] for row in await connection.fetch(names, f"{schema_name}.t_{kept.replace('-', '')}")}
        assert columns & {"a", "__d1", "__n1", "__t1"} == set()
        assert await connection.fetchval("select to_regclass($1)", f"{schema_name}.t_{gone.replace('-', '')}") is None
    await app.row(kept, {"b": "still works"})
    assert {"column.purge", "table.purge"} <= set(await actions(app))


async def test_the_trash_is_emptied(app: App, other_app: App, trash: httpx.AsyncClient):
    first, second = await app.table({"a": "int", "b": "int"}), await app.table({"a": "int"})
    strange = await other_app.table({"a": "int"})
    await drop(app, f"{first}/columns/a")
    await drop(app, second)
    await drop(other_app, strange)
    assert (await trash.delete("/trash")).json() == {"message": "Trash emptied.", "tables": 1, "columns": 1}
    assert (await trash.delete("/trash")).json() == {"message": "Trash emptied.", "tables": 0, "columns": 0}
    assert (await trash.get("/trash")).json() == {"tables": [], "columns": []}
    async with connection_to(app.server) as connection:
        query = "select count(*) from pilotis.tables where app_id = $1 and dropped_at is not null"
        assert await connection.fetchval(query, other_app.app_id) == 1


async def test_living_things_and_nonsense_are_not_in_the_trash(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "int"})
    assert_error(await trash.post(f"/trash/tables/{table}/restore"), 404, "TABLE_NOT_FOUND")
    assert_error(await trash.delete(f"/trash/tables/{table}"), 404, "TABLE_NOT_FOUND")
    for number in ("1", "99", "-1", "x", "1e3", "²", "9" * 400, "%00"):
        assert_error(await trash.post(f"/trash/tables/{table}/columns/{number}/restore"), 404, "COLUMN_NOT_FOUND")
        assert_error(await trash.delete(f"/trash/tables/{table}/columns/{number}"), 404, "COLUMN_NOT_FOUND")
    assert_error(await trash.post("/trash/tables/x/restore"), 400, "INVALID_ID")
    assert await schema(app, table) == {"a": "int"}


async def test_another_apps_trash_is_out_of_reach(app: App, other_app: App, trash: httpx.AsyncClient):
    table = await other_app.table({"a": "int"})
    await drop(other_app, table)
    assert (await trash.get("/trash")).json()["tables"] == []
    assert_error(await trash.post(f"/trash/tables/{table}/restore"), 404, "TABLE_NOT_FOUND")
    assert_error(await trash.delete(f"/trash/tables/{table}"), 404, "TABLE_NOT_FOUND")


async def test_a_viewer_only_looks(app: App, trash: httpx.AsyncClient):
    table = await app.table({"a": "int"})
    await drop(app, table)
    async with connection_to(app.server) as connection:
        await connection.execute("update pilotis.app_users set role = 'viewer' where app_id = $1", app.app_id)
    assert len((await trash.get("/trash")).json()["tables"]) == 1
    assert_error(await trash.post(f"/trash/tables/{table}/restore"), 403, "ROLE_REQUIRED")
    assert_error(await trash.delete(f"/trash/tables/{table}"), 403, "ROLE_REQUIRED")
    assert_error(await trash.delete("/trash"), 403, "ROLE_REQUIRED")


async def test_an_app_that_is_purged_meanwhile_has_an_empty_trash(app: App, server: Server):
    async with stale_node(server) as node:
        known = await node.apps.by_public_key(app.public_key, None)
        await run_sql(server, f"drop schema app_{UUID(app.app_id).hex} cascade")
        assert (await node.trash.contents(known)).tables == []
