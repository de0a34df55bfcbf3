"""Turning `encrypted` on or off in the background: every value is what it should be before, during and after."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from pilotis.data.rows.types import Query
from pilotis.data.tables import column_migration
from pilotis.data.tables.types import ColumnChange
from pilotis.http.api.principals import OPERATOR, Principal, PublicClient
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, UnavailableError
from pilotis.limits import Limits
from tests.background import paused
from tests.conftest import first_console_user, new_app
from tests.database import connection_to, second_node
from tests.services import Node, stale_node
from tests.support import App, Server, assert_error
from tests.waiting import until
from tests.whole import times

SCHEMA = {"n": "number", "i": "int", "s": "string", "d": "date", "o": "object", "b": "boolean", "u": "uuid"}
NUMBERS = {name: number for number, name in enumerate(SCHEMA, start=1)}
NEEDLE = "the-needle-that-was-plain"


@pytest.fixture
async def node(server: Server) -> AsyncIterator[Node]:
    """A node for which every table is a large one, and that does nothing by itself."""
    async with second_node(server, Limits(column_migration_rows=0)) as node:
        yield node


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    """A connection that keeps the server from rewriting anything by itself."""
    async with connection_to(server) as connection, paused(connection, "columns.migrate"):
        yield connection


class World:
    """A table, and what a node does to it."""

    def __init__(self, app: App, node: Node, connection: asyncpg.Connection, principal: Principal, table: str) -> None:
        self.app = app
        self.node = node
        self.connection = connection
        self.principal = principal
        self.table = table
        self.physical = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"

    async def encrypt(self, name: str, encrypted: bool = True, **more: Any) -> bool:
        assert self.principal.app is not None
        change = ColumnChange(encrypted=encrypted, **more)
        in_background = await self.node.services.tables.change_column(
            self.principal.app, OPERATOR, UUID(self.table), name, change
        )

        async def is_heard() -> bool:
            column = (await self.columns())[name]
            return column["encrypted"] == encrypted or "migrating" in column

        # By the server, another process.
        await until(is_heard)
        return in_background

    async def rewrite(self) -> None:
        await self.node.services.column_migrator.run_once(self.connection)

    async def columns(self) -> dict[str, dict[str, Any]]:
        async with self.app.client() as client:
            answer = await client.get(f"/v1/public/tables/{self.table}/columns")
        return {column["name"]: column for column in answer.json()["columns"]}

    async def stored(self) -> set[str]:
        """The physical columns that hold what users gave."""
        rows = await self.connection.fetch(
            "select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped",
            self.physical,
        )
        own = {"__id", "__creator", "__created_at", "__updated_at", "__extra"}
        return {row["attname"] for row in rows if row["attname"] not in own and not row["attname"].startswith("__v")}

    async def data(self, row_id: str) -> Any:
        async with self.app.client() as client:
            return (await client.get(f"/v1/public/tables/{self.table}/data/{row_id}")).json()["data"]


async def world(app: App, node: Node, connection: asyncpg.Connection, schema: Any) -> World:
    principal = PublicClient(await node.services.apps.by_public_key(app.public_key, None))
    return World(app, node, connection, principal, await app.table(schema))


def encrypted_names(*names: str) -> set[str]:
    return {f"__{kind}{NUMBERS[name]}" for name in names for kind in "eh"}


def plain_names(*names: str) -> set[str]:
    return set(names) | ({f"__t{NUMBERS['d']}"} if "d" in names else set())


def a_value(name: str, chance: random.Random) -> Any:
    number = chance.randrange(10**6)
    values: dict[str, Any] = {
        "n": Decimal(f"{number}.{chance.choice(['10', '1', '123456789012345678901'])}"),
        "i": number,
        "s": f'text {number} é \\ "',
        "d": f"2026-01-{1 + number % 28:02}T10:00:00+09:00",
        "o": {"deep": [number, None, {"x": "y"}]},
        "b": bool(number % 2),
        "u": str(UUID(int=number)),
    }
    return values[name]


class Writer:
    """Writes its own rows, and knows their expected values."""

    def __init__(self, world: World, services: Any, seed: int) -> None:
        self._rows = services.rows
        self._world = world
        self._chance = random.Random(seed)
        self.rows: dict[str, dict[str, Any]] = {}
        self.writes = self.increments = 0

    async def run(self, done: asyncio.Event) -> None:
        acts = [self.create, self.bulk, self.patch, self.patch, self.patch, self.add, self.add, self.delete, self.find]
        while not done.is_set():
            # Repeated schema changes may reject a writer with 503; then nothing was written.
            with suppress(UnavailableError):
                await self._chance.choice(acts)()
                self.writes += 1
            await asyncio.sleep(0.01)

    def _some(self) -> dict[str, Any]:
        names = self._chance.sample(list(SCHEMA), self._chance.randrange(1, len(SCHEMA)))
        return {name: None if self._chance.random() < 0.1 else a_value(name, self._chance) for name in names}

    async def create(self) -> None:
        data = self._some()
        made = json.decode(await self._rows.create(self._world.principal, UUID(self._world.table), raw(data)))
        self.rows[made["id"]] = data

    async def bulk(self, count: int = 3) -> None:
        many = [self._some() for _ in range(count)]
        made = json.decode(await self._rows.create_many(self._world.principal, UUID(self._world.table), raw(many)))
        self.rows |= {row["id"]: data for row, data in zip(made["created"], many, strict=True)}

    async def patch(self) -> None:
        await self._change(self._some(), {})

    async def add(self) -> None:
        # An encrypted number takes no $inc.
        with suppress(BadRequestError):
            await self._change({}, {self._chance.choice("ni"): self._chance.randrange(-5, 100)})
            self.increments += 1

    async def _change(self, given: dict[str, Any], added: dict[str, int]) -> None:
        if not self.rows:
            return
        row_id = self._chance.choice(list(self.rows))
        change = given | {name: {"$inc": amount} for name, amount in added.items()}
        changed = await self._rows.update(self._world.principal, UUID(self._world.table), UUID(row_id), raw(change))
        row = self.rows[row_id]
        row |= given | {name: (row.get(name) or 0) + amount for name, amount in added.items()}
        assert same(json.decode(changed)["data"], row)

    async def delete(self) -> None:
        if len(self.rows) > 50:
            row_id = self._chance.choice(list(self.rows))
            await self._rows.delete(self._world.principal, UUID(self._world.table), UUID(row_id))
            del self.rows[row_id]

    async def find(self) -> None:
        if not self.rows:
            return
        row_id = self._chance.choice(list(self.rows))
        table = UUID(self._world.table)
        read = json.decode(await self._rows.read(self._world.principal, table, UUID(row_id)))
        assert same(read["data"], self.rows[row_id])
        where = {"id": row_id} | {name: value for name, value in self.rows[row_id].items() if name != "o"}
        found = json.decode(await self._rows.query(self._world.principal, table, Query(where=where)))
        assert [row["id"] for row in found["data"]] == [row_id], where


def raw(data: Any) -> msgspec.Raw:
    return msgspec.Raw(json.encode(data))


def same(found: Any, expected: Any) -> bool:
    """Whether the JSON texts are the same, 1.10 and 1.1 being two, whatever the order of fields."""
    order = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
    return order(found) == order(expected)


async def test_writers_on_two_nodes_while_values_are_encrypted_and_decrypted(
    app: App, node: Node, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(column_migration, "BATCH", 100)
    world_ = await world(app, node, connection, SCHEMA)
    async with stale_node(app.server) as stale:
        writers = [Writer(world_, services, seed) for seed, services in enumerate([node.services, stale] * 2)]
        for writer in writers:
            await writer.bulk(200)
        # What has been through it may go through it again.
        for encrypted in (True, False, True, False)[: times(3, whole=4)]:
            await under_way(world_, writers, encrypted)
            assert await world_.stored() == (encrypted_names(*SCHEMA) if encrypted else plain_names(*SCHEMA))
            await agree(world_, writers, encrypted)


async def under_way(world_: World, writers: list[Writer], encrypted: bool) -> None:
    done = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for writer in writers:
            tasks.create_task(writer.run(done))
        for name in SCHEMA:
            assert await world_.encrypt(name, encrypted)
        columns = await world_.columns()
        assert {column["migrating"] for column in columns.values()} == {"encrypting" if encrypted else "decrypting"}
        assert {column["encrypted"] for column in columns.values()} == {not encrypted}
        try:
            # What is in plain still is added to, encrypted or not yet.
            await more(writers, increments=encrypted)
            await world_.rewrite()
            await more(writers)
        finally:
            done.set()
    columns = await world_.columns()
    assert not any("migrating" in column for column in columns.values())
    assert {column["encrypted"] for column in columns.values()} == {encrypted}


async def more(writers: list[Writer], *, increments: bool = False) -> None:
    """Wait until each writer has written something more, and with `increments` one of them has added to a number."""
    writes = [writer.writes for writer in writers]
    added = sum(writer.increments for writer in writers)
    await until(lambda: all(writer.writes > count for writer, count in zip(writers, writes, strict=True)))
    await until(lambda: not increments or sum(writer.increments for writer in writers) > added)


async def agree(world_: World, writers: list[Writer], encrypted: bool) -> None:
    expected = {row_id: data for writer in writers for row_id, data in writer.rows.items()}
    found: dict[str, Any] = {}
    while True:
        query = Query(limit=1000, offset=len(found))
        page = json.decode(await world_.node.services.rows.query(world_.principal, UUID(world_.table), query))
        found |= {row["id"]: row["data"] for row in page["data"]}
        if not page["data"]:
            break
    assert same(found, expected)
    if encrypted:
        left = " or ".join(f"(__e{number} is null) <> (__h{number} is null)" for number in NUMBERS.values())
        assert not await world_.connection.fetchval(f"select count(*) from {world_.physical} where {left}")


async def test_what_is_written_after_it_was_encrypted_is_encrypted_again(
    app: App, node: Node, connection: asyncpg.Connection
):
    world_ = await world(app, node, connection, {"n": "int", "s": "string"})
    kept, changed, emptied, added = [(await app.row(world_.table, {"n": 1, "s": NEEDLE}))["id"] for _ in range(4)]
    assert await world_.encrypt("n")
    assert await world_.encrypt("s")
    for number in (1, 2):
        await node.services.column_migrator._pass(connection, (UUID(app.app_id), UUID(world_.table), number))
    encrypted_rows = f"select count(*) from {world_.physical} where __e1 is not null and __e2 is not null"
    assert await connection.fetchval(encrypted_rows) == 4
    async with app.client() as client:
        rows = f"/v1/public/tables/{world_.table}/data"
        for row_id, data in ((changed, {"s": "b"}), (emptied, {"n": None, "s": None}), (added, {"n": {"$inc": 2}})):
            assert (await client.patch(f"{rows}/{row_id}", json={"data": data})).status_code == 200
    assert await connection.fetchval(encrypted_rows) == 1
    await world_.rewrite()
    assert await world_.data(kept) == {"n": 1, "s": NEEDLE}
    assert await world_.data(changed) == {"n": 1, "s": "b"}
    assert await world_.data(emptied) == {"n": None, "s": None}
    assert await world_.data(added) == {"n": 3, "s": NEEDLE}
    async with app.client() as client:
        found = await client.post(f"{rows}/query", json={"where": {"s": None}})
        assert [row["id"] for row in found.json()["data"]] == [emptied]
        found = await client.post(f"{rows}/query", json={"where": {"n": 3}})
        assert [row["id"] for row in found.json()["data"]] == [added]


@pytest.mark.without_citus("it reads the table's file, which is on another node")
async def test_no_plain_value_is_left_in_the_tables_file(app: App, node: Node, connection: asyncpg.Connection):
    world_ = await world(app, node, connection, {"s": "string"})
    await app.row(world_.table, {"s": NEEDLE})
    in_file = f"select position($1::bytea in pg_read_binary_file(pg_relation_filepath('{world_.physical}'))) > 0"
    await connection.execute("checkpoint")
    assert await connection.fetchval(in_file, NEEDLE.encode())
    assert await world_.encrypt("s")
    await world_.rewrite()
    await connection.execute("checkpoint")
    assert not await connection.fetchval(in_file, NEEDLE.encode())


async def test_a_column_that_is_being_rewritten_takes_no_other_change(
    app: App, node: Node, connection: asyncpg.Connection
):
    world_ = await world(app, node, connection, {"s": "string", "i": "int"})
    row = await app.row(world_.table, {"s": "1", "i": 2})
    path = f"/v1/public/tables/{world_.table}"
    assert await world_.encrypt("s", description="secret")
    assert (await world_.columns())["s"]["description"] == "secret"
    async with app.client() as client:
        for change in ({"encrypted": False}, {"encrypted": True}, {"data_type": "int"}, {"is_required": True}):
            answer = await client.patch(f"{path}/columns/s", json=change)
            assert_error(answer, 409, "COLUMN_BEING_REWRITTEN")
        definition = (await client.get(path)).json()
        same_again = {key: definition[key] for key in ("title", "schema", "access_level")}
        assert (await client.patch(path, json=same_again)).status_code == 200
        same_again["schema"]["s"]["encrypted"] = True
        assert_error(await client.patch(path, json=same_again), 409, "COLUMN_BEING_REWRITTEN")
        # Another column's change only makes for another version.
        assert (await client.patch(f"{path}/columns/i", json={"data_type": "string"})).status_code == 200
    await world_.rewrite()
    assert (await world_.columns())["s"]["encrypted"]
    assert await world_.data(row["id"]) == {"s": "1", "i": "2"}


@pytest.mark.parametrize("encrypted", [True, False])
async def test_dropping_a_column_ends_its_migration(
    app: App, node: Node, connection: asyncpg.Connection, console: dict[str, str], encrypted: bool
):
    world_ = await world(app, node, connection, {"d": {"type": "date", "encrypted": not encrypted}, "i": "int"})
    row = await app.row(world_.table, {"d": "2026-01-31", "i": 1})
    assert await world_.encrypt("d", encrypted)
    key = UUID(app.app_id), UUID(world_.table), 1
    assert await node.services.column_migrator._pass(connection, key) == 1
    async with app.client() as client:
        assert (await client.delete(f"/v1/public/tables/{world_.table}/columns/d")).status_code == 200
    beside = {"__h1"} if not encrypted else {"__t1"}
    assert await world_.stored() == {"i", "__d1", "__n1"} | beside
    await world_.rewrite()
    await node.services.trash.restore_column(world_.principal.app, OPERATOR, UUID(world_.table), 1)
    assert await world_.data(row["id"]) == {"d": "2026-01-31", "i": 1}
    column = (await world_.columns())["d"]
    assert column["encrypted"] == (not encrypted)
    assert "migrating" not in column
    assert await world_.encrypt("d", encrypted)
    await world_.rewrite()

    async def is_heard() -> bool:
        return (await world_.columns())["d"]["encrypted"] == encrypted

    await until(is_heard)
    assert await world_.data(row["id"]) == {"d": "2026-01-31", "i": 1}


async def test_a_table_in_the_trash_waits(app: App, node: Node, connection: asyncpg.Connection):
    world_ = await world(app, node, connection, {"s": "string"})
    row = await app.row(world_.table, {"s": "a"})
    assert await world_.encrypt("s")
    async with app.client() as client:
        assert (await client.delete(f"/v1/public/tables/{world_.table}")).status_code == 200
    await world_.rewrite()
    assert "s" in await world_.stored()
    await node.services.trash.restore_table(world_.principal.app, OPERATOR, UUID(world_.table))
    assert (await world_.columns())["s"]["migrating"] == "encrypting"
    await world_.rewrite()
    assert await world_.stored() == {"__e1", "__h1"}
    assert await world_.data(row["id"]) == {"s": "a"}


async def test_a_value_that_cannot_be_decrypted_holds_up_its_own_column_only(
    app: App, node: Node, connection: asyncpg.Connection
):
    schema = {"s": {"type": "string", "encrypted": True}}
    damaged, whole = [await world(app, node, connection, schema) for _ in range(2)]
    row = await app.row(damaged.table, {"s": "a"})
    await app.row(whole.table, {"s": "a"})
    for world_ in (damaged, whole):
        assert await world_.encrypt("s", encrypted=False)
    await connection.execute(f"update {damaged.physical} set __e1 = __e1 || '\\x00'")
    await damaged.rewrite()
    assert (await damaged.columns())["s"]["migrating"] == "decrypting"
    assert await whole.stored() == {"s"}
    async with app.client() as client:
        path = f"/v1/public/tables/{damaged.table}/data/{row['id']}"
        assert (await client.patch(path, json={"data": {"s": "b"}})).status_code == 200
    await damaged.rewrite()
    assert await damaged.stored() == {"s"}
    assert await damaged.data(row["id"]) == {"s": "b"}


async def test_what_was_encrypted_is_cast_without_waiting_in_plain(
    app: App, node: Node, connection: asyncpg.Connection
):
    world_ = await world(app, node, connection, {"i": {"type": "int", "encrypted": True}})
    row = await app.row(world_.table, {"i": 5})
    assert not await world_.encrypt("i", data_type="string")
    assert await world_.stored() == {"__e1", "__h1"}
    assert await world_.data(row["id"]) == {"i": "5"}


async def test_a_node_killed_in_the_middle_leaves_it_to_the_next(tmp_path: Path):
    server = Server(tmp_path / "data", environment={"PILOTIS_LIMITS_COLUMN_MIGRATION_ROWS": "1000"}).start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table({"s": "string", "i": "int"})
        rows = [{"s": f"{NEEDLE} {number}", "i": number} for number in range(10_000)]
        async with app.client() as client:
            for start in range(0, len(rows), 1000):
                answer = await client.post(
                    f"/v1/public/tables/{table}/data/bulk", json={"data": rows[start : start + 1000]}
                )
                assert answer.status_code == 201, answer.text
        for encrypted, target in ((True, "__e1"), (False, "s")):
            async with app.client() as client:
                answer = await client.patch(f"/v1/public/tables/{table}/columns/s", json={"encrypted": encrypted})
            assert answer.json()["message"] == "Column updated; its values are rewritten in the background."
            filled = await killed_in_the_middle(server, app, table, target)
            assert 0 < filled < len(rows)
            server.start()
            await rewritten(app, table)
            assert sorted(await everything(app, table), key=lambda row: row["i"]) == rows
    finally:
        server.stop()


async def killed_in_the_middle(server: Server, app: App, table: str, target: str) -> int:
    physical = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
    async with connection_to(server) as connection:
        # A row that is locked is passed over, so it does not get to the end before it is killed.
        await connection.execute(f"begin; select from {physical} where i = 9999 for no key update")
        filled: int = await until(lambda: connection.fetchval(f"select count({target}) from {physical}"))
        server.kill()
        connection.terminate()
    return filled


async def rewritten(app: App, table: str) -> None:
    async with app.client() as client:

        async def done() -> bool:
            columns = (await client.get(f"/v1/public/tables/{table}/columns")).json()["columns"]
            return not any("migrating" in column for column in columns)

        await until(done)


async def everything(app: App, table: str) -> list[Any]:
    found: list[Any] = []
    async with app.client() as client:
        while True:
            path = f"/v1/public/tables/{table}/data?limit=1000&offset={len(found)}"
            page = (await client.get(path)).json()["data"]
            if not page:
                return found
            found += [row["data"] for row in page]


async def test_a_stop_leaves_the_rest_of_a_migration_to_the_next_process(
    app: App, node: Node, connection: asyncpg.Connection
):
    world_ = await world(app, node, connection, {"s": "string"})
    row = await app.row(world_.table, {"s": NEEDLE})
    migrator = node.services.column_migrator
    await migrator.stop()
    assert await world_.encrypt("s")
    await migrator.run_once(connection)
    assert "migrating" in (await world_.columns())["s"]
    assert await connection.fetchval(f"select count(*) from {world_.physical} where __e1 is not null") == 0
    migrator._stopping.clear()
    await world_.rewrite()
    assert await world_.data(row["id"]) == {"s": NEEDLE}
