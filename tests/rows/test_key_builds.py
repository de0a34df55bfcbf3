"""Unique keys of large tables, built in the background: ready, failed, interrupted; and keys as options of columns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.background import paused
from tests.conftest import first_console_user, new_app
from tests.database import connection_to, second_node
from tests.rules.test_rules import manager, rows
from tests.services import Node
from tests.support import App, Server, assert_error
from tests.waiting import until


@pytest.fixture(scope="module")
def large_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for which every table with a row is a large one."""
    environment = {"PILOTIS_LIMITS_COLUMN_MIGRATION_ROWS": "0"}
    running = Server(tmp_path_factory.mktemp("large") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def large(large_tables: Server) -> App:
    return new_app(large_tables, first_console_user(large_tables))


@pytest.fixture
async def connection(large_tables: Server) -> AsyncIterator[asyncpg.Connection]:
    """A connection that keeps the server from building anything by itself."""
    async with connection_to(large_tables) as connection, paused(connection, "unique_keys.build"):
        yield connection


@pytest.fixture
async def node(large_tables: Server) -> AsyncIterator[Node]:
    async with second_node(large_tables) as node:
        yield node


async def make(app: App, table: str, status: int = 202, **key: Any) -> dict[str, Any]:
    async with manager(app) as client:
        answer = await client.post(f"/tables/{table}/unique", json={"columns": ["name"]} | key)
    assert answer.status_code == status, answer.text
    return answer.json()


async def shown(app: App, table: str) -> list[dict[str, Any]]:
    async with manager(app) as client:
        return (await client.get(f"/tables/{table}/unique")).json()["unique"]


async def settled(app: App, table: str, number: int = 1) -> list[dict[str, Any]]:
    """The keys, once none is being built."""

    async def done() -> list[dict[str, Any]] | None:
        keys = await shown(app, table)
        return keys if len(keys) == number and not any(key.get("state") == "building" for key in keys) else None

    return await until(done)


async def test_a_key_is_built_while_rows_are_written(large: App):
    table = await large.table({"name": "string", "n": "int"})
    async with large.client() as client:
        await client.post(rows(table), json={"data": [{"name": f"a{number}"} for number in range(900)]})
        made, *written = await asyncio.gather(
            make(large, table),
            *(client.post(rows(table), json={"data": {"name": f"b{number % 10}"}}) for number in range(10)),
        )
        assert made["state"] == "building"
        assert {answer.status_code for answer in written} == {201}
        (key,) = await settled(large, table)
        assert key == {"name": "name", "columns": ["name"], "ignore_case": False, "nulls": "distinct", "where": None}
        taken = await client.post(rows(table), json={"data": {"name": "a1"}})
        assert assert_error(taken, 409, "UNIQUE_VIOLATION")["key"] == "name"
        assert (await client.get(f"{rows(table)}/by/name/b1")).status_code == 200


async def test_rows_that_are_not_unique_are_told_and_tried_again(large: App):
    table = await large.table({"name": "string"})
    ids = sorted([(await large.row(table, {"name": name}))["id"] for name in ("x", "x", "y")][:2])
    await make(large, table)
    (key,) = await settled(large, table)
    assert (key["state"], key["rows"], key["pairs"]) == ("failed", 1, [ids])
    async with large.client() as client:
        # It is not enforced, and no key to look rows up by.
        again = await client.post(rows(table), json={"data": {"name": "y"}})
        assert again.status_code == 201
        assert_error(await client.get(f"{rows(table)}/by/name/y"), 409, "UNIQUE_KEY_NOT_READY")
        upsert = {"key": "name", "data": {"name": "y"}}
        assert_error(await client.post(f"{rows(table)}/upsert", json=upsert), 409, "UNIQUE_KEY_NOT_READY")
        for row_id in (ids[0], again.json()["id"]):
            await client.delete(f"{rows(table)}/{row_id}")
        # The column belongs to it until it is removed, or built by another request.
        assert_error(await client.delete(f"/v1/public/tables/{table}/columns/name"), 409, "USED_IN_KEY")
        await make(large, table)
        (key,) = await settled(large, table)
        assert "state" not in key
        assert_error(await client.post(rows(table), json={"data": {"name": "y"}}), 409, "UNIQUE_VIOLATION")


async def test_a_build_that_dies_with_its_node_is_done_again(
    large: App, node: Node, connection: asyncpg.Connection, large_tables: Server
):
    table = await large.table({"name": "string"})
    await large.row(table, {"name": "x"})
    physical = f"app_{UUID(large.app_id).hex}.t_{UUID(table).hex}"
    await make(large, table)
    builder = node.services.key_builder
    index = f"app_{UUID(large.app_id).hex}.u_{UUID(table).hex}_1"

    async def is_valid() -> bool | None:
        return await connection.fetchval("select indisvalid from pg_index where indexrelid = to_regclass($1)", index)

    async with connection_to(large_tables) as reader, connection_to(large_tables) as builds:
        async with reader.transaction(isolation="repeatable_read"):
            # The build waits for everybody who may read older rows.
            await reader.execute(f"select from {physical}")
            building = asyncio.create_task(builder.run_once(builds))
            await until(lambda: is_there(connection, index))
            await connection.execute("select pg_terminate_backend($1::int)", builds.get_server_pid())
            await asyncio.wait([building])
            assert builds.is_closed()
        assert await is_valid() is False
        assert (await shown(large, table))[0]["state"] == "building"
    async with connection_to(large_tables) as builds:
        await builder.run_once(builds)
    assert await is_valid() is True
    assert "state" not in (await shown(large, table))[0]


async def is_there(connection: asyncpg.Connection, index: str) -> bool:
    return bool(await connection.fetchval("select to_regclass($1) is not null", index))


@pytest.mark.without_citus("who reads on the coordinator does not delay a build on another node")
async def test_a_server_killed_in_the_middle_leaves_the_key_to_the_next(tmp_path: Path):
    server = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_COLUMN_MIGRATION_ROWS": "0"}).start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table({"name": "string"})
        await app.row(table, {"name": "x"})
        schema = f"app_{UUID(app.app_id).hex}"
        async with connection_to(server) as reader:
            # The build waits for everybody who may read older rows.
            await reader.execute("begin isolation level repeatable read; select")
            await make(app, table)
            async with connection_to(server) as connection:
                await until(lambda: is_there(connection, f"{schema}.u_{UUID(table).hex}_1"))
            server.kill()
            reader.terminate()
        server.start()
        (key,) = await settled(app, table)
        assert "state" not in key
        async with app.client() as client:
            assert_error(await client.post(rows(table), json={"data": {"name": "x"}}), 409, "UNIQUE_VIOLATION")
            assert (await client.post(rows(table), json={"data": {"name": "y"}})).status_code == 201
            assert (await client.get(rows(table))).json()["total_count"] == 2
        async with connection_to(server) as connection:
            unfinished = "select count(*) from pg_index where not indisvalid"
            assert await connection.fetchval(unfinished) == 0
    finally:
        server.stop()


async def test_a_key_can_be_removed_while_it_waits(large: App, node: Node, connection: asyncpg.Connection):
    table = await large.table({"name": "string"})
    await large.row(table, {"name": "x"})
    await make(large, table)
    async with manager(large) as client:
        assert (await client.delete(f"/tables/{table}/unique/name")).status_code == 200
    await make(large, table, name="other")
    await node.services.key_builder.run_once(connection)
    (key,) = await shown(large, table)
    assert (key["name"], key.get("state")) == ("other", None)


async def test_a_column_asks_for_a_key_of_its_own(app: App):
    title = f"options of columns {id(app)}"
    async with app.client() as client:
        schema = {"mail": {"type": "string", "unique": True}, "n": "int", "tag": "string"}
        body = {"title": title, "access_level": "Public", "schema": schema, "unique": [{"columns": ["n", "tag"]}]}
        table = (await client.post("/v1/public/tables", json=body)).json()["id"]
        path = f"/v1/public/tables/{table}"

        async def names() -> list[str]:
            return [key["name"] for key in (await client.get(path)).json()["unique"]]

        assert await names() == ["n_tag", "mail"]
        # What is absent or false takes none away, and what is there is not made twice.
        for unique in (None, False, True):
            whole = body | {"schema": schema | {"mail": {"type": "string", "unique": unique}}}
            del whole["unique"]
            assert (await client.patch(path, json=whole)).status_code == 200
            assert (await client.patch(f"{path}/columns/mail", json={"unique": unique})).status_code == 200
            assert await names() == ["n_tag", "mail"]
        # With the list, a key stays that the list or a column names.
        assert (await client.patch(path, json=body | {"unique": []})).status_code == 200
        assert await names() == ["mail"]
        new = {"name": "slug", "data_type": "string", "unique": True}
        assert (await client.post(f"{path}/columns", json=new)).status_code == 201
        assert (await client.patch(f"{path}/columns/n", json={"unique": True})).status_code == 200
        assert await names() == ["mail", "slug", "n"]
        await app.row(table, {"tag": "x"})
        await app.row(table, {"tag": "x"})
        answer = await client.patch(f"{path}/columns/tag", json={"unique": True})
        assert_error(answer, 409, "ROWS_NOT_UNIQUE")
        new = {"name": "o", "data_type": "object", "unique": True}
        body = assert_error(await client.post(f"{path}/columns", json=new), 400, "NOT_FOR_UNIQUE")
        assert body["details"][0]["field"] == "unique.columns[0]"
