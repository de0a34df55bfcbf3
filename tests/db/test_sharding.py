"""What Citus needs of Pilotis: the service's tables on the coordinator, each app's on one node, plain updates of rows.

On a database without Citus the first test stands in for the cluster: it looks at the functions that updates call.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest

from pilotis.data.rows.operations import RowNotFoundError, plan_update
from pilotis.data.rows.types import DeleteWhere
from pilotis.data.tables import ddl
from pilotis.db import sharding
from pilotis.http.api.principals import AppUser, Role, UserInfo
from tests import commands, databases
from tests.backstage import run_sql
from tests.database import connection_to
from tests.events.listening import target
from tests.services import CLIENT, stale_node
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until

SCHEMA = {
    "name": "string",
    "age": "int",
    "score": "number",
    "active": "bool",
    "joined": "date",
    "tags": "array",
    "place": "object",
    "secret": {"type": "string", "encrypted": True},
}
CHANGES = {
    "values": {
        "name": "Ada",
        "age": 36,
        "score": 0.5,
        "active": True,
        "joined": "1815-12-10",
        "tags": [1],
        "place": {"x": 1},
        "secret": "hidden",
    },
    "nulls": {"name": None, "age": None, "tags": None},
    "increments": {"age": {"$inc": 1}, "score": {"$inc": 0.25}},
    "operators": {
        "age": {"$max": 40},
        "joined": {"$max": "1815-12-10"},
        "tags": {"$push": [2]},
        "place": {"$merge": {"y": 2}},
    },
}
# These two are evaluated once, or on what was sent, and never on the row that is changed.
HARMLESS = {"now", "json_to_record"}


async def mutable_functions(connection, update: str, types: str) -> set[str]:
    """The names of the functions in a statement that are not immutable, as PostgreSQL reads it.

    Among them are those that read a type from its text.
    """
    await connection.execute(f"create function pg_temp.read({types}) returns void begin atomic {update}; end")
    tree = await connection.fetchval("select prosqlbody::text from pg_proc where proname = 'read'")
    called = [int(oid) for oid in re.findall(r":(?:op)?funcid (\d+)", tree)]
    assert called
    read = [int(oid) for oid in re.findall(r":resulttype (\d+) :resultcollid", tree)]
    found = await connection.fetch(
        """
        select proname from pg_proc where provolatile <> 'i'
        and (oid = any($1::oid[]) or oid in (select typinput from pg_type where oid = any($2::oid[])))
        """,
        called,
        read,
    )
    return {row["proname"] for row in found}


@pytest.mark.parametrize("given", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("free_form", [False, True], ids=["columns", "free-form"])
async def test_an_update_lets_only_immutable_functions_see_the_row(app: App, given, free_form):
    if free_form:
        given = {name: value for name, value in given.items() if name != "secret"}
    edited = {"edited": {"type": "date", "on_update": {"$now": True}}}
    table_id = await app.table({} if free_form else SCHEMA | edited)
    async with stale_node(app.server) as services, connection_to(app.server) as connection:
        principal = AppUser(
            await services.apps.by_id(UUID(app.app_id)), UserInfo(UUID(int=0), "owner@example.com", None), Role.OWNER
        )
        table = await services.prepared_tables.current(principal.app, UUID(table_id))
        data = msgspec.Raw(msgspec.json.encode(given))
        moment = "2024-01-01T00:00:00Z"
        plan = plan_update(principal, table, principal.app.limits, UUID(int=1), data, moment)
        update = re.search(r"update .* returning t\.\*", plan.sql, re.DOTALL)[0]
        types = ["uuid", "json", "text[]", "jsonb", "integer"]
        types += [re.search(rf"\${number}::(\w+)", plan.sql)[1] for number in range(6, len(plan.arguments) + 1)]
        async with connection.transaction():
            assert await mutable_functions(connection, update, ", ".join(types)) <= HARMLESS
            await connection.execute("drop function pg_temp.read")


async def test_renaming_a_column_lets_only_immutable_functions_see_the_rows(app: App):
    table_id = await app.table(SCHEMA)
    async with stale_node(app.server) as services, connection_to(app.server) as connection, connection.transaction():
        table = await services.tables.current(UUID(app.app_id), UUID(table_id))
        column = table.by_name["name"]
        *_, update = ddl.rename_column(table, column, msgspec.structs.replace(column, name="called"))
        assert await mutable_functions(connection, update, "") == set()
        await connection.execute("drop function pg_temp.read")


async def test_on_several_nodes_row_counts_are_statements_of_their_own(app: App):
    """One that inserts into the counts what another part of it returns would involve every node, and fail with any."""
    table_id = await app.table({"n": "int"})
    async with stale_node(app.server) as services, connection_to(app.server) as connection:
        services.database.is_sharded = True
        info = await services.apps.by_id(UUID(app.app_id))
        caller = AppUser(info, UserInfo(UUID(int=0), "owner@example.com", None), Role.OWNER)
        table = await services.prepared_tables.current(info, UUID(table_id))
        assert table.schema.counts not in table.statements.insert + table.statements.delete("true")
        rows = services.rows
        made = [await rows.create(caller, table.schema.table_id, msgspec.Raw(b'{"n":%d}' % n)) for n in range(3)]
        await rows.create_many(caller, table.schema.table_id, msgspec.Raw(b'[{"n":3},{"n":4},{"n":5},{"n":6}]'))
        await rows.delete(caller, table.schema.table_id, UUID(msgspec.json.decode(made[0])["id"]))
        with pytest.raises(RowNotFoundError):
            await rows.delete(caller, table.schema.table_id, UUID(int=1))
        assert await rows.delete_where(caller, table.schema.table_id, DeleteWhere(where={"n": {"$gte": 5}})) == 2
        assert await rows.delete_where(caller, table.schema.table_id, DeleteWhere(where={"n": 99})) == 0
        create = {"type": "create", "table_id": table_id, "data": {"n": 7}}
        delete = {"type": "delete", "table_id": table_id, "doc_id": msgspec.json.decode(made[1])["id"]}
        sent = [msgspec.Raw(msgspec.json.encode(one)) for one in (create, create, delete)]
        await services.batches.transaction(caller, CLIENT, sent)
        stored = await connection.fetchval(table.statements.row_count())
        assert stored == await connection.fetchval(f"select count(*) from {table.schema.physical}") == 5


async def test_on_several_nodes_a_single_new_row_is_stored_as_many_are(app: App):
    table_id = await app.table(SCHEMA)
    async with stale_node(app.server) as services, connection_to(app.server) as connection:
        services.database.is_sharded = True
        info = await services.apps.by_id(UUID(app.app_id))
        caller = AppUser(info, UserInfo(UUID(int=0), "owner@example.com", None), Role.OWNER)
        schema = await services.tables.current(info.app_id, UUID(table_id))
        secret = schema.by_name["secret"].physical.strip('"')
        stored = f"select distinct to_jsonb(t) - $1::text[] from {schema.physical} t"
        for data in (CHANGES["values"], CHANGES["nulls"] | {"tags": [None], "place": {}}, {"name": "a'\\\"\u00e9"}, {}):
            text = msgspec.json.encode(data)
            await services.rows.create(caller, schema.table_id, msgspec.Raw(text))
            await services.rows.create_many(caller, schema.table_id, msgspec.Raw(b"[%b,%b]" % (text, text)))
            assert len(await connection.fetch(stored, ["__id", "__created_at", "__updated_at", secret])) == 1
            await connection.execute(f"delete from {schema.physical}")


@pytest.mark.parametrize("write", ["delete", "update", "update of the row before"])
async def test_on_several_nodes_a_write_reads_its_table_even_where_no_row_can_be_meant(app: App, write):
    """Citus finds the table's node by what PostgreSQL is about to read."""
    table_id = await app.table(SCHEMA)
    async with stale_node(app.server) as services, connection_to(app.server) as connection:
        services.database.is_sharded = True
        info = await services.apps.by_id(UUID(app.app_id))
        statements = (await services.prepared_tables.current(info, UUID(table_id))).statements
        assert statements.apart
        sql, given = statements.delete("false"), []
        if write != "delete":
            sql = statements.update([], "false", [], reads_before=write == "update of the row before")
            given = [UUID(int=1), "{}", [], "{}", 100]
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain {sql}", *given))
        assert re.search(rf"Scan .*t_{UUID(table_id).hex}", plan), plan


async def test_a_condition_that_never_holds_changes_nothing(app: App):
    never = [{"$or": []}, {"n": {"$in": []}}, {"$not": {}}]
    rules = {"read": True, "update": never[1], "delete": never[1]}
    table_id = await app.table({"n": "int"})
    row = await app.row(table_id, {"n": 1})
    path = f"/v1/public/tables/{table_id}/data"
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}") as own:
        saved = await own.put(f"/tables/{table_id}/rules", json={"rules": rules})
        assert saved.status_code == 200, saved.text
    async with app.client() as client, app.client(app.secret_key) as whole:
        assert_error(await client.patch(f"{path}/{row['id']}", json={"data": {"n": 2}}), 403, "RULE_DENIED")
        assert_error(await client.delete(f"{path}/{row['id']}"), 403, "RULE_DENIED")
        for sender in (client, whole):
            for where in never:
                changed = await sender.post(f"{path}/update-where", json={"where": where, "data": {"n": 2}})
                assert changed.json() == {"updated_count": 0}
                deleted = await sender.post(f"{path}/delete-where", json={"where": where})
                assert deleted.json() == {"deleted_count": 0}
        assert (await client.get(f"{path}/{row['id']}")).json()["data"] == {"n": 1}


@pytest.mark.without_citus("it gives a constraint the name that one has on another node")
async def test_a_deletion_round_a_circle_finds_the_constraint_of_a_shard(app: App):
    parent = {"type": "uuid", "references": {"table": "circle", "on_delete": "cascade"}}
    table_id = await app.table({"parent": parent}, title="circle")
    first = await app.row(table_id, {})
    last = await app.row(table_id, {"parent": first["id"]})
    path = f"/v1/public/tables/{table_id}/data"
    name = f"r_{UUID(table_id).hex}_1"
    table = f"app_{UUID(app.app_id).hex}.t_{UUID(table_id).hex}"
    await run_sql(app.server, f"alter table {table} rename constraint {name} to {name}_102008")
    async with app.client() as client:
        changed = await client.patch(f"{path}/{first['id']}", json={"data": {"parent": last["id"]}})
        assert changed.status_code == 200, changed.text
        assert (await client.delete(f"{path}/{first['id']}")).status_code == 200
        assert (await client.get(path)).json()["total_count"] == 0


async def test_the_check_above_finds_a_function_that_is_not_immutable(app: App):
    async with connection_to(app.server) as connection, connection.transaction():
        update = "update pilotis.apps set name = to_json(name)::text, updated_at = updated_at + interval '1 hour'"
        assert await mutable_functions(connection, update, "") == {"to_json", "timestamptz_pl_interval"}
        await connection.execute("drop function pg_temp.read")
        update = "update pilotis.apps set updated_at = greatest(updated_at, name::timestamptz)"
        assert await mutable_functions(connection, update, "") == {"timestamptz_in"}
        await connection.execute("drop function pg_temp.read")


@pytest.mark.parametrize(("distribute", "expected"), [(True, "on"), (False, "off")])
async def test_the_setting_holds_for_one_transaction_and_only_with_citus(app: App, distribute, expected):
    setting = "select current_setting('citus.enable_schema_based_sharding', true)"
    async with connection_to(app.server) as connection:
        before = await connection.fetchval(setting)
        async with connection.transaction():
            await sharding.distribute_new_schemas(connection, distribute)
            assert await connection.fetchval(setting) == (expected if databases.have_citus() else before)
        assert await connection.fetchval(setting) == before


@pytest.mark.with_citus
async def test_on_citus_an_apps_schema_is_distributed_and_the_services_is_not(app: App):
    await app.row(await app.table(SCHEMA), CHANGES["values"])
    distributed = "select count(*) from pg_dist_schema where schemaid = $1::text::regnamespace"
    assert await run_sql(app.server, distributed, f"app_{UUID(app.app_id).hex}") == 1
    assert await run_sql(app.server, distributed, "pilotis") == 0
    local = "select count(*) from pg_dist_partition where logicalrelid::text like 'pilotis.%'"
    assert await run_sql(app.server, local) == 0


@pytest.mark.with_citus
async def test_on_citus_the_sessions_on_other_nodes_have_the_parameters_that_searches_need(app: App):
    async with connection_to(app.server) as connection:
        assert await sharding.lost_nodes(connection) == []
        assert await sharding.wrong_on_nodes(connection) == []
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter role current_user in database {name} reset jit")
        assert await sharding.wrong_on_nodes(connection) == ["jit"]
        await sharding.configure_nodes(connection)
        assert await sharding.wrong_on_nodes(connection) == []


async def test_without_citus_no_role_is_changed(app: App):
    async with connection_to(app.server) as connection:
        await sharding.configure_nodes(connection)
        assert await sharding.wrong_on_nodes(connection) == []
        changed = await connection.fetchval(
            "select count(*) from pg_db_role_setting join pg_database on oid = setdatabase "
            "where datname = current_database()"
        )
        assert changed == databases.have_citus()


@pytest.mark.with_citus
async def test_on_citus_an_app_is_moved_to_another_node_while_it_is_used(app: App):
    table_id = await app.table(SCHEMA)
    row = await app.row(table_id, CHANGES["values"])
    schema = f"app_{UUID(app.app_id).hex}"
    at = "select min(nodeport) from citus_shards where table_name::text like $1 || '.%'"
    before = await run_sql(app.server, at, schema)
    other = "select nodeport from pg_dist_node where shouldhaveshards and nodeport <> $1 limit 1"
    after = await run_sql(app.server, other, before)
    mode = [] if await run_sql(app.server, "show wal_level") == "logical" else ["--block-writes"]
    done = await commands.run_beside(
        "app", "move", app.app_id, "--to", f"localhost:{after}", *mode, "--json", *app.server.place
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "app_id": app.app_id,
        "node": f"localhost:{after}",
        "before": f"localhost:{before}",
    }
    assert await run_sql(app.server, at, schema) == after
    path = f"/v1/public/tables/{table_id}/data/{row['id']}"
    async with app.client() as client:
        changed = await client.patch(path, json={"data": {"age": {"$inc": 1}}})
        assert changed.status_code == 200, changed.text
        assert (await client.get(path)).json()["data"] == row["data"] | {"age": 37}


@pytest.mark.with_citus
async def test_on_citus_an_app_is_moved_from_the_coordinator_and_to_no_unknown_node(app: App):
    await app.table(SCHEMA)
    schema = f"app_{UUID(app.app_id).hex}"
    await run_sql(app.server, "select citus_schema_undistribute($1::text::regnamespace)", schema)
    to = await run_sql(app.server, "select nodeport from pg_dist_node where shouldhaveshards limit 1")
    arguments = ["app", "move", app.app_id, "--block-writes", *app.server.place, "--to"]
    refused = await commands.run_beside(*arguments, "elsewhere")
    assert refused.returncode == 2
    assert f"localhost:{to}" in refused.stderr, "the nodes are named"
    moved = await commands.run_beside(*arguments, f"localhost:{to}")
    assert moved.stdout == f"The app was on the coordinator and is on localhost:{to}.\n", moved.stderr
    again = await commands.run_beside(*arguments, f"localhost:{to}")
    assert again.stdout == f"The app is on localhost:{to} already.\n"


@pytest.mark.without_citus("it is about a database that has no other node")
async def test_without_citus_no_app_is_moved(app: App):
    refused = await commands.run_beside("app", "move", app.app_id, "--to", "worker-2", *app.server.place)
    assert refused.returncode == 1
    assert "has no Citus" in refused.stderr


@asynccontextmanager
async def other_node_lost(server: Server, app: App) -> AsyncIterator[None]:
    """Within the block nobody listens where the coordinator expects the nodes that do not have the app's rows."""
    at = "select min(nodeport) from citus_shards where table_name::text like $1 || '.%'"
    own = await run_sql(server, at, f"app_{UUID(app.app_id).hex}")
    moved = "update pg_dist_node set nodeport = nodeport {} 30000 where shouldhaveshards and nodeport <> $1"
    await run_sql(server, moved.format("+"), own)
    try:
        yield
    finally:
        await run_sql(server, moved.format("-"), own)


@pytest.mark.with_citus
async def test_on_citus_every_write_works_while_another_node_is_lost(app: App, console: dict[str, str]):
    """With events and rules as well; and a new app, which every node has to know of, waits for all of them."""
    titles = {
        "plain": None,
        "ruled": {
            "read": True,
            "create": {"n": {"$gte": 0}},
            "update": {"$new": {"n": {"$gt": {"$old": "n"}}}},
            "delete": True,
        },
    }
    tables = [await app.table({"n": "int"}, title=title) for title in titles]
    async with app.client() as client:
        unique = [{"name": "n", "columns": ["n"]}]
        body = {"title": "keyed", "schema": {"n": "int"}, "access_level": "Public", "unique": unique}
        keyed = (await client.post("/v1/public/tables", json=body)).json()["id"]
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}") as own:
        for table_id, rules in zip(tables, titles.values(), strict=True):
            if rules:
                saved = await own.put(f"/tables/{table_id}/rules", json={"rules": rules})
                assert saved.status_code == 200, saved.text
    async with stale_node(app.server) as services, app.client() as client:
        for armed in (False, True):
            if armed:
                await services.events.listen(target(app))
            async with other_node_lost(app.server, app):
                for table_id in tables:
                    await _write(client, table_id)
                await _write_by_key(client, keyed, int(armed))
                headers = {"Authorization": f"Bearer {console['access_token']}"}
                new = await client.post("/v1/apps", json={"name": "new"}, headers=headers)
                assert_error(new, 503, "UNAVAILABLE")
        schema = f"app_{UUID(app.app_id).hex}"
        for table_id in tables:
            stored = f"select count(*) from {schema}.t_{UUID(table_id).hex}"
            counted = f"select sum(rows)::bigint from {schema}.__row_counts where table_id = $1"
            assert await run_sql(app.server, stored) == 4
            assert await run_sql(app.server, counted, UUID(table_id)) == 4
        # Each either waits to be dispatched, or has been.
        told = "select type from pilotis.events where app_id = $1"
        types = (
            f"select string_agg(type, ' ' order by type) from ({told} union all select type from {schema}.__events) e"
        )
        expected = " ".join(["row.created"] * 13 + ["row.deleted"] * 8 + ["row.updated"] * 11)

        async def are_told() -> bool:
            return await run_sql(app.server, types, UUID(app.app_id)) == expected

        await until(are_told)


async def _write(client: httpx.AsyncClient, table_id: str) -> None:
    """Write to a table in every way; two rows stay."""
    path = f"/v1/public/tables/{table_id}/data"

    async def done(method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    row = await done("POST", path, {"data": {"n": 1}})
    await done("POST", f"{path}/bulk", {"data": [{"n": 5}, {"n": 6}, {"n": 7}]})
    await done("PATCH", f"{path}/{row['id']}", {"data": {"n": 2}})
    await done("DELETE", f"{path}/{row['id']}")
    assert (await done("POST", f"{path}/delete-where", {"where": {"n": {"$in": [6, 7]}}}))["deleted_count"] == 2
    change = {"where": {"n": 5}, "data": {"n": {"$max": 10}}}
    assert (await done("POST", f"{path}/update-where", change))["updated_count"] == 1
    await done("POST", f"{path}/update-where", {"where": {"n": 10}, "data": {"n": 11}, "max_rows": 1})
    create = {"type": "create", "table_id": table_id, "data": {"n": 8}}
    made = (await done("POST", "/v1/public/transactions", {"operations": [create, create]}))["results"]
    changes = [{"type": "update", "table_id": table_id, "doc_id": one["id"], "data": {"n": 9}} for one in made]
    delete = {"type": "delete", "table_id": table_id, "doc_id": made[0]["id"]}
    await done("POST", "/v1/public/transactions", {"operations": [*changes, delete]})


async def _write_by_key(client: httpx.AsyncClient, table_id: str, number: int) -> None:
    """Create a row by its unique key, and change it by that; then walk through the table."""
    path = f"/v1/public/tables/{table_id}/data"
    upsert = {"key": "n", "data": {"n": number}}
    assert [(await client.post(f"{path}/upsert", json=upsert)).status_code for _ in range(2)] == [201, 200]
    assert_error(await client.post(path, json={"data": {"n": number}}), 409, "UNIQUE_VIOLATION")
    found, cursor = [], "first"
    while cursor:
        page = (await client.post(f"{path}/query", json={"order_by": "n", "limit": 1, "cursor": cursor})).json()
        found += [row["data"]["n"] for row in page["data"]]
        cursor = page["next_cursor"]
    assert found == [*range(number + 1)]
