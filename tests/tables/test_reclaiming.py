"""Adding and dropping columns without end: their places are reclaimed, the trash has bounds, and changes a rate."""

import asyncio
from uuid import UUID

import pytest
from asyncpg import Connection

from pilotis.data.tables import reclaiming
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableBusyError
from pilotis.limits import Limits
from tests.backstage import run_sql
from tests.console import client_of
from tests.database import second_node
from tests.services import connected
from tests.support import App, assert_error
from tests.waiting import until
from tests.whole import times

DROPPED = "select count(*) from pg_attribute where attrelid = $1::regclass and attisdropped"
INDEXES = "select count(*) from pg_index where indrelid = $1::regclass and indisvalid"


def physical(app: App, table: str) -> str:
    return f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"


async def replace_columns(app: App, table: str, count: int, prefix: str) -> None:
    """Replace all columns but the two that hold data."""
    kept = {"text": {"type": "string"}, "secret": {"type": "string", "encrypted": True}}
    schema = kept | {f"{prefix}{number}": {"type": "date"} for number in range(count)}
    async with app.client() as client:
        body = {"title": f"t{table}", "schema": schema, "access_level": "Creator"}
        answer = await client.patch(f"/v1/public/tables/{table}", json=body)
    assert answer.status_code == 200, answer.text


async def filled(app: App) -> tuple[str, str, dict[str, str]]:
    """A table with a row of a member's, that member's token, and the row's data."""
    schema = {"text": {"type": "string"}, "secret": {"type": "string", "encrypted": True}}
    table = await app.table(schema, "Creator", title="first")
    token = (await app.member())["access_token"]
    row = await app.row(table, {"text": "kept", "secret": "hidden"}, token)
    return table, token, row


async def test_columns_are_added_and_dropped_without_end(app: App):
    table, token, row = await filled(app)
    rounds = times(5, whole=12)
    assert (rounds - 1) * 150 > reclaiming.MAX_DROPPED
    for number in range(rounds):
        await replace_columns(app, table, 150, f"r{number}_")
    async with app.client(token) as client:
        read = (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json()
        assert {name: read["data"][name] for name in ("text", "secret")} == {"text": "kept", "secret": "hidden"}
        found = await client.post(f"/v1/public/tables/{table}/data/query", json={"where": {"secret": "hidden"}})
        assert found.json()["total_count"] == 1
    assert await app.row(table, {"text": "new", f"r{rounds - 1}_1": "2026-01-01T00:00:00Z"}, token)
    assert await run_sql(app.server, INDEXES, physical(app, table)) == 2
    audited = "select count(*) from pilotis.audit_log where app_id = $1 and action = 'table.rewrite'"
    assert await run_sql(app.server, audited, UUID(app.app_id)) >= 1


async def test_places_that_pile_up_are_reclaimed_in_the_background(app: App):
    table, token, row = await filled(app)
    await replace_columns(app, table, 150, "a")
    await replace_columns(app, table, 0, "b")
    await replace_columns(app, table, 150, "c")
    await replace_columns(app, table, 0, "d")
    assert await run_sql(app.server, DROPPED, physical(app, table)) > 400
    async with second_node(app.server) as node:
        await until(lambda: node.background.run_now("tables.reclaim"))
    assert await run_sql(app.server, DROPPED, physical(app, table)) == 0
    async with app.client(token) as client:
        read = await client.get(f"/v1/public/tables/{table}/data/{row['id']}")
        assert read.json()["data"]["secret"] == "hidden"
        assert (await client.get(f"/v1/public/tables/{table}/data")).json()["total_count"] == 1


async def test_a_rewritten_table_keeps_its_references(app: App):
    people = await app.table({"n": "int"}, title="people")
    pets = await app.table({"n": "int", "owner": {"type": "uuid", "references": {"table": people}}}, title="pets")
    own = {"name": "parent", "data_type": "uuid", "references": {"table": people, "on_delete": "cascade"}}
    async with app.client() as client:
        assert (await client.post(f"/v1/public/tables/{people}/columns", json=own)).status_code == 201
        ada = (await app.row(people, {"n": 1}))["id"]
        await app.row(pets, {"owner": ada})
        await app.row(people, {"parent": ada})
        async with second_node(app.server) as node:
            for table in (people, pets):
                await node.services.tables.reclaim(UUID(app.app_id), UUID(table))
        foreign = "select count(*) from pg_constraint where contype = 'f' and conrelid = $1::regclass"
        assert [await run_sql(app.server, foreign, physical(app, table)) for table in (people, pets)] == [1, 1]
        path = f"/v1/public/tables/{people}/data/{ada}"
        assert_error(await client.delete(path), 409, "ROW_REFERENCED")
        wrong = {"data": {"owner": str(UUID(int=7))}}
        assert_error(await client.post(f"/v1/public/tables/{pets}/data", json=wrong), 400, "REFERENCE_NOT_FOUND")
        assert (await client.post(f"/v1/public/tables/{pets}/data/delete-where", json={"all": True})).status_code == 200
        assert (await client.delete(path)).status_code == 200
        assert (await client.get(f"/v1/public/tables/{people}/data")).json()["total_count"] == 0


async def test_a_table_is_read_while_it_is_rewritten(app: App, monkeypatch: pytest.MonkeyPatch):
    """Writes wait: none of them is missing in the copy."""
    table, token, row = await filled(app)
    await replace_columns(app, table, 0, "a")
    copied, go_on = asyncio.Event(), asyncio.Event()
    lock_out_all = reclaiming._lock_exclusively

    async def pausing(connection: Connection, schema: TableSchema, *, keep: bool = True) -> None:
        if keep:
            copied.set()
            await go_on.wait()
        await lock_out_all(connection, schema, keep=keep)

    monkeypatch.setattr(reclaiming, "_lock_exclusively", pausing)
    path = f"/v1/public/tables/{table}/data"
    async with second_node(app.server) as node, app.client(token) as client:
        rewriting = asyncio.create_task(node.services.tables.reclaim(UUID(app.app_id), UUID(table)))
        await copied.wait()
        for answer in (await client.get(f"{path}/{row['id']}"), await client.get(path)):
            assert answer.status_code == 200
        waiting = "select count(*) from pg_locks where not granted and relation = $1::regclass"
        write = asyncio.create_task(client.post(path, json={"data": {"text": "later"}}))
        await until(lambda: run_sql(app.server, waiting, physical(app, table)))
        assert not write.done()
        go_on.set()
        await rewriting
        assert (await write).status_code == 201
        listed = (await client.get(path)).json()
    assert [item["data"]["text"] for item in listed["data"]] == ["kept", "later"]
    assert await run_sql(app.server, INDEXES, physical(app, table)) == 2
    names = "select string_agg(c.relname, ' ') from pg_index i join pg_class c on c.oid = i.indexrelid"
    assert "_old_" not in await run_sql(app.server, f"{names} where indrelid = $1::regclass", physical(app, table))


async def test_a_reader_that_does_not_end_puts_rewriting_off(app: App, monkeypatch: pytest.MonkeyPatch):
    table, _, _ = await filled(app)
    monkeypatch.setattr(reclaiming, "_READER_SECONDS", 0.1)
    async with second_node(app.server) as node, connected(app.server) as reader:
        monkeypatch.setattr(node.services.tables, "_retry_seconds", 0.1)
        transaction = reader.transaction()
        await transaction.start()
        await reader.fetch(f"select from {physical(app, table)}")
        with pytest.raises(TableBusyError):
            await node.services.tables.reclaim(UUID(app.app_id), UUID(table))
        await transaction.rollback()
        await node.services.tables.reclaim(UUID(app.app_id), UUID(table))


async def test_the_trash_keeps_the_latest_columns_and_tables(app: App):
    limits = Limits(trash_columns=2, trash_tables=2)
    async with second_node(app.server, limits) as node, client_of(node, **{"X-Public-Key": app.public_key}) as client:
        table = await app.table({name: {"type": "date"} for name in "abcd"})
        for name in "abc":
            assert (await client.delete(f"/v1/public/tables/{table}/columns/{name}")).status_code == 200
        names = "select string_agg(name, '' order by number) from pilotis.columns where table_id = $1"
        assert await run_sql(app.server, f"{names} and dropped_at is not null", UUID(table)) == "bc"
        tables = [await app.table({}) for _ in range(3)]
        for each in tables:
            assert (await client.delete(f"/v1/public/tables/{each}")).status_code == 200
    left = (
        "select array_agg(table_id order by table_id) from pilotis.tables where app_id = $1 and dropped_at is not null"
    )
    assert await run_sql(app.server, left, UUID(app.app_id)) == [UUID(each) for each in tables[1:]]
    assert await run_sql(app.server, "select to_regclass($1)", physical(app, tables[0])) is None


async def test_schema_changes_have_a_rate_and_an_owner_has_one_apart(app: App, other_app: App):
    async with second_node(app.server, Limits(schema_per_minute=3)) as node:

        async def create(of: App, number: int, **more: str) -> int:
            body = {"title": f"rate {number}", "schema": {}, "access_level": "Public"}
            async with client_of(node, **{"X-Public-Key": of.public_key, **more}) as client:
                answer = await client.post("/v1/public/tables", json=body)
            if answer.status_code != 201:
                assert_error(answer, 429, "RATE_LIMITED")
            return answer.status_code

        assert [await create(app, number) for number in range(4)] == [201, 201, 201, 429]
        assert await create(other_app, 0) == 201
        owner = {"Authorization": f"Bearer {app.secret_key}"}
        assert [await create(app, 10 + number, **owner) for number in range(4)] == [201, 201, 201, 429]
