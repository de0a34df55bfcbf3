"""The route that shows a table's indexes, and a server killed in the middle of building one."""

import asyncio
import uuid
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from pilotis.db.embedded import EmbeddedPostgres
from tests import databases, forked
from tests.backstage import bearer, run_sql
from tests.conftest import PASSWORD, new_app
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until

ROWS = 60_000
QUERY = {"where": {"city": "city 7"}, "order_by": "score", "order_direction": "desc"}
INVALID = "select indexrelid::regclass::text from pg_index where not indisvalid"


@pytest.fixture
def eager(tmp_path):
    """A separate server, which builds indexes even for the small tables of these tests."""
    server = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_INDEX_ROWS": str(ROWS // 2)}).start()
    body = {"email": "first@example.com", "password": PASSWORD, "token": server.setup_token}
    console = httpx.post(f"{server.url}/v1/auth/signup", json=body, verify=False).json()
    yield new_app(server, console)
    server.stop()
    server.assert_no_failure()


async def fill(app: App) -> str:
    table_id = await app.table({"city": "string", "score": "int", "note": "string"})
    async with app.client() as client:
        for start in range(0, ROWS, 1000):
            rows = [
                {"city": f"city {number % 100}", "score": number * 7919 % ROWS, "note": "n" * 200}
                for number in range(start, start + 1000)
            ]
            answer = await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
            assert answer.status_code == 201, answer.text
    return table_id


async def ask(app: App, table_id: str, times: int = 20):
    async with app.client() as client:
        for _ in range(times):
            answer = await client.post(f"/v1/public/tables/{table_id}/data/query", json=QUERY)
            assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(app: App, table_id: str):
    async with plain_client(app.server.url, **bearer(app.console["access_token"])) as client:
        answer = await client.get(f"/v1/apps/{app.app_id}/tables/{table_id}/indexes")
    assert answer.status_code == 200, answer.text
    return answer.json()


@asynccontextmanager
async def old_snapshot(server):
    """A transaction that began before: building CONCURRENTLY waits for it, at its end."""
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    await connection.execute("begin isolation level repeatable read")
    await connection.fetch("select count(*) from pilotis.migrations")
    try:
        yield connection
    finally:
        connection.terminate()


async def left_behind(server):
    """What there is of invalid indexes before any server has a chance to clear them away."""
    postgres = EmbeddedPostgres(server.data_dir / "postgres")
    try:
        postgres.start()
        return await run_sql(server, INVALID)
    finally:
        postgres.stop()


@pytest.mark.embedded("PostgreSQL is to end with the server")
async def test_a_killed_server_clears_its_half_built_index_away_and_builds_it(eager):
    server, table_id = eager.server, await fill(eager)

    async def half_built():
        # Only what is slow is noted, and on a quiet machine not each of these is.
        await ask(eager, table_id, 3)
        return await run_sql(server, INVALID)

    # The snapshot is older than the first query, after which a fast machine would have built the index already.
    async with old_snapshot(server) as snapshot:
        before = await ask(eager, table_id)
        name = await until(half_built)
        (index,) = (await listed(eager, table_id))["indexes"]
        assert (index["state"], f"{name}".rpartition(".")[2]) == ("building", index["name"])
        server.kill()
        # PostgreSQL ends a moment later. Without the snapshot the build would be done before that.
        await until(snapshot.is_closed)
    assert await left_behind(server) == name
    server.start()

    async def ready():
        indexes = (await listed(eager, table_id))["indexes"]
        return [index for index in indexes if index["state"] == "ready"]

    (index,) = await until(ready)
    assert f"{name}".endswith(index["name"])
    assert await run_sql(server, INVALID) is None
    assert await ask(eager, table_id, 1) == before
    assert index["columns"] == ["city", "score"]
    assert index["uses"] == [
        {"column": "city", "kind": "equality"},
        {"column": "score", "kind": "sort_descending"},
    ]
    assert index["method"] == "btree"
    assert index["error"] is None
    assert index["size_bytes"] > 100_000
    assert "slow queries with equality on city and sort descending on score" in index["reason"]
    assert index["created_at"].endswith("Z")

    async def used():
        await ask(eager, table_id, 1)
        (index,) = await ready()
        return index["last_used_at"]

    assert (await until(used)).endswith("Z")
    told = await asyncio.to_thread(forked.run, "pilotis", "doctor", *server.place)
    assert "1 indexes are ready" in told.stdout, told


async def test_slow_queries_are_shown_before_anything_is_built(app):
    table_id = await app.table({"city": "string"})
    async with app.client() as client:
        where = {"city": {"$matches": "(a|b)c"}}
        rows = [{"city": "a" * 3000}] * 1000
        await client.post(f"/v1/public/tables/{table_id}/data/bulk", json={"data": rows})
        for _ in range(3):
            await client.post(f"/v1/public/tables/{table_id}/data/query", json={"where": where})

    async def noted():
        return (await listed(app, table_id))["noted"]

    (use,) = await until(noted)
    assert use["uses"] == [{"column": "city", "kind": "trigram"}]
    assert 1 <= use["count"] <= 3
    assert use["total_ms"] > 2


async def test_only_console_users_of_the_app_see_its_indexes(app, other_app, console):
    table_id, foreign = await app.table({"a": "int"}), await other_app.table({"a": "int"})
    assert await listed(app, table_id) == {"indexes": [], "noted": []}
    path = f"/v1/apps/{app.app_id}/tables/{table_id}/indexes"
    async with app.client() as client:
        assert_error(await client.get(path), 401, "TOKEN_REQUIRED")
    async with app.client((await app.member())["access_token"]) as client:
        assert_error(await client.get(path), 401, "INVALID_TOKEN")
    async with plain_client(app.server.url, **bearer(console["access_token"])) as client:
        for other in (foreign, str(uuid.uuid4())):
            answer = await client.get(f"/v1/apps/{app.app_id}/tables/{other}/indexes")
            assert_error(answer, 404, "TABLE_NOT_FOUND")
        answer = await client.get(f"/v1/apps/{uuid.uuid4()}/tables/{table_id}/indexes")
        assert answer.status_code == 404
