"""The stored row count says what count(*) says: at every moment, under concurrent writers, after any crash."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotis.data.rows import counts
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.rows.query import compile_query
from pilotis.data.rows.statements import Statements
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Query
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.store import delete_counts
from pilotis.db.pool import Database
from pilotis.http.api.principals import AppUser, Role, UserInfo
from pilotis.kit.ids import uuid7_text
from pilotis.limits import Limits
from tests.conftest import PASSWORD, new_app
from tests.database import connect, connection_to, second_node
from tests.services import stale_node
from tests.support import App, Server
from tests.waiting import PATIENCE, until
from tests.whole import times

EVERY_SLOT: list[int] = []  # that is, none is spared


class Table:
    """A table of an app with the statements that Pilotis itself runs on it."""

    def __init__(self, app: App, schema: TableSchema) -> None:
        self.app = app
        self.schema = schema
        self.statements = Statements(schema)
        self.path = f"/v1/public/tables/{schema.table_id}/data"

    @classmethod
    async def make(cls, app: App) -> "Table":
        table_id = await app.table({"n": "int"})
        async with second_node(app.server) as node:
            return cls(app, await node.services.tables.current(UUID(app.app_id), UUID(table_id)))

    async def insert(self, connection: asyncpg.Connection, *numbers: int) -> None:
        records = [{"__id": uuid7_text(), "n": number} for number in numbers]
        await connection.fetchval(self.statements.insert, json.dumps(records))

    async def counted(self, connection: asyncpg.Connection) -> tuple[int, int]:
        """Return what the row_count and what count(*) says, of the same snapshot."""
        query = f"select ({self.statements.row_count()}), (select count(*) from {self.schema.physical})"
        return tuple(await connection.fetchrow(query))

    async def slots(self, connection: asyncpg.Connection) -> dict[int, int]:
        query = f"select slot, rows from {self.schema.counts} where table_id = $1"
        return {row["slot"]: row["rows"] for row in await connection.fetch(query, self.schema.table_id)}

    async def total_count(self) -> int:
        async with self.app.client() as client:
            answer = await client.get(self.path, params={"limit": 0})
        assert answer.status_code == 200, answer.text
        return answer.json()["total_count"]

    async def check(self) -> int:
        """Compare `total_count` with count(*), once nobody writes, and return it.

        A server that goes on may still run what clients have asked for that are gone.
        """
        async with connection_to(self.app.server) as connection:

            async def agreed() -> tuple[int] | None:
                row_count, rows = await self.counted(connection)
                assert row_count == rows
                return (rows,) if await self.total_count() == rows else None

            (rows,) = await until(agreed, 10)
            return int(rows)


@pytest.fixture
async def table(app: App) -> Table:
    return await Table.make(app)


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    async with connection_to(server) as made:
        yield made


@asynccontextmanager
async def in_background(*jobs: Callable[[], Any]) -> AsyncIterator[None]:
    """Run jobs again and again, side by side, meanwhile; an exception in one of them is raised at the end."""
    going = True

    async def repeat(job: Callable[[], Any]) -> None:
        while going:
            await job()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(repeat(job)) for job in jobs]
    try:
        yield
    finally:
        going = False
        await asyncio.gather(*tasks)


@asynccontextmanager
async def folding_and_checking(table: Table) -> AsyncIterator[None]:
    """Meanwhile fold all the time, slots in use too, and compare the row count with count(*) all the time."""
    app_id = table.schema.app_id
    async with (
        connection_to(table.app.server) as first,
        connection_to(table.app.server) as second,
        connection_to(table.app.server) as third,
    ):

        async def check() -> None:
            row_count, rows = await table.counted(third)
            assert row_count == rows

        async with in_background(
            lambda: counts.fold(first, app_id, EVERY_SLOT), lambda: counts.fold(second, app_id), check
        ):
            yield


# What one writer does, step by step: over HTTP, or in transactions of its own.
_STEPS = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 9)),
    st.tuples(st.just("bulk"), st.lists(st.integers(0, 9), min_size=1, max_size=20)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("delete-where"), st.integers(0, 9)),
    st.tuples(st.just("delete-all"), st.none()),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("refused"), st.none()),
    st.tuples(st.just("commit"), st.lists(st.integers(0, 9), max_size=5)),
    st.tuples(st.just("roll back"), st.lists(st.integers(0, 9), max_size=5)),
    st.tuples(st.just("new backend"), st.none()),
)
_SCRIPTS = st.lists(st.lists(_STEPS, min_size=4, max_size=12), min_size=2, max_size=5)


class Writer:
    """Follows a script on a table."""

    def __init__(self, table: Table, client: httpx.AsyncClient, connection: asyncpg.Connection) -> None:
        self.table = table
        self.client = client
        self.connection = connection
        self.made: list[str] = []

    async def follow(self, script: list[tuple[str, Any]]) -> None:
        for step, value in script:
            await getattr(self, "_" + step.replace(" ", "_").replace("-", "_"))(value)

    async def _post(self, path: str, body: dict[str, Any], status: int) -> dict[str, Any]:
        answer = await self.client.post(self.table.path + path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def _insert(self, number: int) -> None:
        self.made.append((await self._post("", {"data": {"n": number}}, 201))["id"])

    async def _bulk(self, numbers: list[int]) -> None:
        await self._post("/bulk", {"data": [*({"n": number} for number in numbers), {"n": "wrong"}]}, 201)

    async def _delete(self, _: None) -> None:
        if self.made:
            answer = await self.client.delete(f"{self.table.path}/{self.made.pop()}")
            assert answer.status_code in {200, 404}, answer.text

    async def _delete_where(self, number: int) -> None:
        await self._post("/delete-where", {"where": {"n": number}}, 200)

    async def _delete_all(self, _: None) -> None:
        await self._post("/delete-where", {"all": True}, 200)

    async def _update(self, number: int) -> None:
        if self.made:
            answer = await self.client.patch(f"{self.table.path}/{self.made[-1]}", json={"data": {"n": number}})
            assert answer.status_code in {200, 404}, answer.text

    async def _refused(self, _: None) -> None:
        await self._post("", {"data": {"n": "wrong"}}, 400)

    async def _commit(self, numbers: list[int]) -> None:
        async with self.connection.transaction():
            await self._write(numbers)

    async def _roll_back(self, numbers: list[int]) -> None:
        transaction = self.connection.transaction()
        await transaction.start()
        await self._write(numbers)
        await transaction.rollback()

    async def _write(self, numbers: list[int]) -> None:
        await self.table.insert(self.connection, *numbers)
        with suppress(asyncpg.DivisionByZeroError):
            async with self.connection.transaction():
                await self.table.insert(self.connection, 1, 2, 3)
                await self.connection.execute("select 1 / 0")
        for number in numbers[:1]:
            # At most one row, or two transactions could wait for each other's rows.
            await self.connection.fetchval(
                self.table.statements.delete(
                    "__id in (" + _ANY_FREE_ROW.format(self.table.schema.physical, number) + ")"
                )
            )

    async def _new_backend(self, _: None) -> None:
        await self.connection.close()
        self.connection = await connect(self.table.app.server)


_ANY_FREE_ROW = "select __id from {0} where n = {1} limit 1 for update skip locked"


@settings(max_examples=times(5, whole=20), deadline=None, suppress_health_check=list(HealthCheck))
@given(scripts=_SCRIPTS)
async def test_the_row_count_is_exact_whatever_writers_do_at_once(
    server: Server, console: dict[str, str], scripts: Any
):
    table = await Table.make(new_app(server, console))
    async with table.app.client() as client, folding_and_checking(table):
        writers = [Writer(table, client, await connect(server)) for _ in scripts]
        await asyncio.gather(*(writer.follow(script) for writer, script in zip(writers, scripts, strict=True)))
        for writer in writers:
            await writer.connection.close()
    rows = await table.check()
    async with connection_to(server) as connection:
        await counts.fold(connection, table.schema.app_id, EVERY_SLOT)
        assert await table.slots(connection) in ({0: rows}, {} if rows == 0 else None)


class Bystander:
    """Writes at random until the server is gone; knows which rows it was promised."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.kept: set[str] = set()
        self.unsure: set[str] = set()

    async def write(self) -> None:
        with suppress(httpx.HTTPError):
            async with self.table.app.client() as client:
                while True:
                    await self._step(client)

    async def _step(self, client: httpx.AsyncClient) -> None:
        chance = random.random()
        if chance < 0.3 and self.kept:
            row = self.kept.pop()
            self.unsure.add(row)
            answer = await client.delete(f"{self.table.path}/{row}")
            if answer.status_code == 200:
                self.unsure.discard(row)
            return
        numbers = [{"n": 1}] * random.randint(1, 30)
        body = {"data": numbers if chance < 0.6 else numbers[0]}
        answer = await client.post(self.table.path, json=body)
        if answer.status_code == 201:
            made = answer.json()
            self.kept.update(row["id"] for row in made.get("created", [made]))


@pytest.fixture
def own_app(tmp_path: Path) -> Iterator[App]:
    """An app on a server that may be killed."""
    server = Server(tmp_path / "data").start()
    try:
        body = {"email": "first@example.com", "password": PASSWORD, "token": server.setup_token}
        console = httpx.post(f"{server.url}/v1/auth/signup", json=body).json()
        yield new_app(server, console)
    finally:
        if server.process.poll() is None:
            server.stop()
    server.assert_no_failure()


async def crash(table: Table, kill: Callable[[], Any]) -> list[Bystander]:
    """Have ten clients write and the row count be folded, and kill something in the middle."""
    bystanders = [Bystander(table) for _ in range(10)]
    tasks = [asyncio.create_task(bystander.write()) for bystander in bystanders]
    connection = await connect(table.app.server)
    folds = 0

    async def much_was_written() -> bool:
        nonlocal folds
        await counts.fold(connection, table.schema.app_id, EVERY_SLOT)
        folds += 1
        return folds >= 40 and sum(len(bystander.kept) for bystander in bystanders) > 300

    await until(much_was_written)
    killed = kill()
    if asyncio.iscoroutine(killed):
        await killed
    connection.terminate()
    await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return bystanders


async def check_promises(table: Table, bystanders: list[Bystander]) -> None:
    assert await table.check() > 100
    async with connection_to(table.app.server) as connection:
        there = {str(row["__id"]) for row in await connection.fetch(f"select __id from {table.schema.physical}")}
    for bystander in bystanders:
        assert bystander.kept - there == set()


async def test_the_row_count_is_exact_after_kill_9_of_the_server(own_app: App):
    table = await Table.make(own_app)
    server = own_app.server
    for _ in range(times(1, whole=2)):
        bystanders = await crash(table, server.kill)
        server.start()
        await check_promises(table, bystanders)
    async with connection_to(server) as connection:

        async def only_living_backends_have_slots() -> bool:
            await counts.fold(connection, table.schema.app_id)
            living = {row["pid"] for row in await connection.fetch("select pid from pg_stat_activity")}
            return set(await table.slots(connection)) <= living | {0}

        await until(only_living_backends_have_slots)
    await table.check()


@pytest.mark.embedded("it kills a process of PostgreSQL, which ends the connections of all others")
async def test_the_row_count_is_exact_after_kill_9_of_a_postgresql_backend(own_app: App):
    table = await Table.make(own_app)
    server = own_app.server

    async def kill() -> None:
        connection = await connect(server)
        try:
            writing = f"%{table.schema.physical}%"
            query = "select pid from pg_stat_activity where pid <> pg_backend_pid() and query like $1"
            pid = await connection.fetchval(query, writing)
            assert pid
            os.kill(pid, signal.SIGKILL)
        finally:
            connection.terminate()

    bystanders = await crash(table, kill)
    async with asyncio.timeout(PATIENCE), own_app.client() as client:
        while (await client.get(table.path)).status_code != 200:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)
    await check_promises(table, bystanders)


async def test_inserts_and_deletes_never_wait_for_one_another(table: Table, connection: asyncpg.Connection):
    row = await table.app.row(str(table.schema.table_id), {"n": 0})
    transaction = connection.transaction()
    await transaction.start()
    await table.insert(connection, 1, 2, 3)
    await connection.fetchval(table.statements.delete("n = 1"))
    async with asyncio.timeout(PATIENCE), table.app.client() as client:
        for _ in range(20):
            made = await client.post(table.path, json={"data": {"n": 5}})
            assert made.status_code == 201, made.text
        bulk = await client.post(table.path, json={"data": [{"n": 6}] * 10})
        assert bulk.json()["success"] == 10
        assert (await client.delete(f"{table.path}/{row['id']}")).status_code == 200
        deleted = await client.post(f"{table.path}/delete-where", json={"where": {"n": 6}})
        assert deleted.json() == {"deleted_count": 10}
        assert await table.total_count() == 20
    assert await table.counted(connection) == (22, 22)
    await transaction.rollback()
    assert await table.check() == 20


async def test_folding_waits_for_no_writer_and_no_writer_for_it(table: Table, connection: asyncpg.Connection):
    async with connection_to(table.app.server) as folder, connection_to(table.app.server) as other:
        own = await connection.fetchval("select pg_backend_pid()")
        await table.insert(connection, 0)
        await table.insert(other, 1)
        transaction = connection.transaction()
        await transaction.start()
        await table.insert(connection, 1, 2, 3)
        async with asyncio.timeout(PATIENCE):
            # The slot that is being written to is passed over.
            await counts.fold(folder, table.schema.app_id, EVERY_SLOT)
            assert await table.slots(folder) == {0: 1, own: 1}
            await table.insert(other, 2)
            # Another folder waits for none that is at it already, nor does a writer.
            async with folder.transaction():
                await counts.fold(folder, table.schema.app_id, EVERY_SLOT)
                assert await table.slots(folder) == {0: 2, own: 1}
                async with connection_to(table.app.server) as newcomer:
                    await table.insert(newcomer, 5)
                await counts.fold(other, table.schema.app_id, EVERY_SLOT)
                await table.insert(connection, 4)
                await transaction.commit()
        assert await table.check() == 8
        await counts.fold(folder, table.schema.app_id, EVERY_SLOT)
        assert await table.slots(folder) == {0: 8}
    assert await table.check() == 8


async def test_only_slots_of_ended_backends_are_folded(table: Table, connection: asyncpg.Connection):
    for number in range(3):
        async with connection_to(table.app.server) as brief:
            await table.insert(brief, number)
    await table.insert(connection, 3)
    own = await connection.fetchval("select pg_backend_pid()")
    assert sum((await table.slots(connection)).values()) == 4

    async def folded() -> bool:
        # A backend takes a moment to be gone after its connection is.
        await counts.fold(connection, table.schema.app_id)
        return len(await table.slots(connection)) == 2

    await until(folded)
    assert await table.slots(connection) == {0: 3, own: 1}
    assert await table.check() == 4


async def test_folding_passes_over_an_app_that_is_gone(connection: asyncpg.Connection):
    await counts.fold(connection, UUID(int=1))


async def test_a_purge_waits_for_a_fold_that_may_insert_what_it_deletes(table: Table, connection: asyncpg.Connection):
    await table.insert(connection, 1)
    async with connection_to(table.app.server) as folder, connection_to(table.app.server) as purger:
        async with folder.transaction():
            await counts.fold(folder, table.schema.app_id, EVERY_SLOT)
            deleting = asyncio.create_task(delete_counts(purger, table.schema))
            pid = purger.get_server_pid()
            waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = $1"
            await until(lambda: connection.fetchval(waits, pid))
        await deleting
    assert await table.slots(connection) == {}


async def ended(connection: asyncpg.Connection, table: Table) -> None:
    """Give a table the slots of two backends that have ended."""
    insert = f"insert into {table.schema.counts} (table_id, slot, rows) values ($1, -1, 5), ($1, -2, -5)"
    await connection.execute(insert, table.schema.table_id)


async def test_a_process_folds_the_counts_of_the_apps_that_it_writes_to(
    app: App, other_app: App, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(counts, "FOLD_SECONDS", 0.05)
    written, left = await Table.make(app), await Table.make(other_app)
    async with stale_node(app.server) as services:
        folding = services.features.get(RowsFeature).counts
        principal = AppUser(
            await services.apps.by_id(UUID(app.app_id)), UserInfo(UUID(int=0), "owner@example.com", None), Role.OWNER
        )
        for number in range(2):
            for table in (written, left):
                await ended(connection, table)
            made = await services.rows.create(principal, written.schema.table_id, msgspec.Raw(b'{"n":%d}' % number))

            async def folded() -> bool:
                return not {-1, -2} & (await written.slots(connection)).keys()

            await until(folded)
            assert {-1, -2} <= (await left.slots(connection)).keys(), "nothing was written there"
            await connection.execute(f"delete from {left.schema.counts}")
        # A delete is a write, too, and what a lost database left undone is done with the next one.
        await folding.stop()
        await ended(connection, written)
        row_id = UUID(json.loads(made)["id"])
        await services.rows.delete(principal, written.schema.table_id, row_id)
        monkeypatch.setattr(services.database, "_direct_arguments", {"host": "/nowhere"})
        await folding.fold()
        assert {-1, -2} <= (await written.slots(connection)).keys()
        monkeypatch.undo()
        await folding.fold()
        assert await folded()
        await folding.stop()
    assert await written.check() == 1


@pytest.mark.without_citus("the plan is that of another node")
async def test_the_total_costs_the_same_whatever_the_size(table: Table, connection: asyncpg.Connection):
    prepared = PreparedTable(table.schema, Database({}), None)
    page = compile_query(prepared, Query(), everything(prepared.schema, Action.LIST), Limits())
    await table.insert(connection, *range(100))
    small = await explain(connection, page.sql, *page.arguments)
    for start in range(0, 30_000, 5000):
        await table.insert(connection, *range(start, start + 5000))
    await connection.execute(f"analyze {table.schema.physical}")
    large = await explain(connection, page.sql, *page.arguments)
    assert buffers(large) < buffers(small) + 40
    name = f"t_{table.schema.table_id.hex}"
    scanned = [node for node in nodes(large) if node.get("Relation Name") == name]
    assert [(node["Node Type"], node["Actual Rows"]) for node in scanned] == [("Index Scan", 20)]
    counted = compile_query(
        prepared, Query(where={"n": {"$gte": 0}}), everything(prepared.schema, Action.LIST), Limits()
    )
    # The same list with a condition has to count, which shows that the measure measures.
    assert buffers(await explain(connection, counted.sql, *counted.arguments)) > buffers(large) + 100


async def explain(connection: asyncpg.Connection, sql: str, *arguments: Any) -> dict[str, Any]:
    text = await connection.fetchval(f"explain (analyze, buffers, format json) {sql}", *arguments)
    return json.loads(text)[0]["Plan"]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", []) for node in nodes(part))]


def buffers(plan: dict[str, Any]) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
