"""No write lands under a schema version that is no longer current, and no change waits for ever for a busy table."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest

from pilotis.data.query.geo.types import GeoRequest
from pilotis.data.query.search.types import AutocompleteRequest, AutocompleteResult, SearchRequest
from pilotis.data.rows.types import DeleteWhere, Page, Query
from pilotis.data.rules.visibility import MemberTokenRequiredError
from pilotis.data.tables.service import TableBusyError, TableNotFoundError, Tables
from pilotis.data.tables.types import NewColumn
from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.transfer.formats import Format
from pilotis.data.transfer.service import FirstRejections, from_offset
from pilotis.data.transfer.types import ImportOptions
from pilotis.data.where.places import Coordinates, Near
from pilotis.http.api.principals import OPERATOR, Principal, PublicClient
from pilotis.kit import json
from pilotis.kit.errors import PilotisError, UnavailableError, ValidationError
from tests.console import client_of, owner_of, second_node
from tests.services import CLIENT, Services, connected, stale_node
from tests.support import App, assert_error
from tests.waiting import until

TABLES = "/v1/public/tables"
SCHEMA = {"a": "string", "b": "string"}


class StaleNode:
    """A node that knows the table as it was, and writes to it all the same."""

    def __init__(self, services: Services, principal: Principal, table: str) -> None:
        self._rows = services.rows
        self.principal = principal
        self.table = UUID(table)

    async def create(self, data: Any) -> Any:
        made = await self._rows.create(self.principal, self.table, raw(data))
        return json.decode(made)["data"]

    async def bulk(self, data: Any) -> Any:
        made = await self._rows.create_many(self.principal, self.table, raw([data]))
        return json.decode(made)["created"][0]["data"]

    async def update(self, row_id: str, data: Any) -> Any:
        changed = await self._rows.update(self.principal, self.table, UUID(row_id), raw(data))
        return json.decode(changed)["data"]

    async def delete(self, row_id: str) -> None:
        await self._rows.delete(self.principal, self.table, UUID(row_id))

    async def delete_where(self, where: Any) -> int:
        return await self._rows.delete_where(self.principal, self.table, DeleteWhere(where))

    async def total(self) -> int:
        page = await self._rows.page(self.principal, self.table, Page(limit=0))
        total: int = json.decode(page)["total_count"]
        return total


def raw(data: Any) -> msgspec.Raw:
    return msgspec.Raw(json.encode(data))


@pytest.fixture
async def services(app: App) -> AsyncIterator[Services]:
    async with stale_node(app.server) as services:
        yield services


async def stale(services: Services, app: App, table: str) -> StaleNode:
    """Return a node whose caches hold the table's present schema, and will hold it when that is the past."""
    node = StaleNode(services, PublicClient(await services.apps.by_public_key(app.public_key, None)), table)
    await node.total()
    return node


async def change(app: App, method: str, path: str, body: Any = None) -> None:
    async with app.client() as client:
        answer = await client.request(method, f"{TABLES}/{path}", json=body)
    assert answer.status_code in {200, 201}, answer.text


CHANGES: dict[str, tuple[str, str, Any]] = {
    "column dropped": ("DELETE", "/columns/a", None),
    "type changed": ("PATCH", "/columns/a", {"data_type": "int"}),
    "column required": ("PATCH", "/columns/b", {"is_required": True}),
    "required column added": ("POST", "/columns", {"name": "c", "data_type": "int", "is_required": True}),
    "default changed": ("PATCH", "/columns/b", {"default_value": "d"}),
    "closed": ("PATCH", "", {"title": "t", "schema": SCHEMA, "access_level": "Creator"}),
    "opened to any field": ("PATCH", "", {"title": "t", "schema": {}, "access_level": "Public"}),
    "dropped": ("DELETE", "", None),
}
A = {"a": "1"}
# What a stale node's writes come to after each change: an error, or what is stored.
Outcome = type[PilotisError] | dict[str, Any] | int | None
CREATES: dict[str, Outcome] = {
    "column dropped": UnknownColumnError,
    "type changed": ValidationError,
    "column required": ValidationError,
    "required column added": ValidationError,
    "default changed": {"a": "1", "b": "d"},
    "closed": MemberTokenRequiredError,
    "opened to any field": {"a": "1"},
    "dropped": TableNotFoundError,
}
UPDATES = CREATES | {"column required": A, "required column added": A, "default changed": A}
DELETES_WHERE = CREATES | {
    "type changed": 0,
    "column required": 1,
    "required column added": 1,
    "default changed": 1,
    "opened to any field": 0,
}
DELETES: dict[str, Outcome] = {
    **dict.fromkeys(CHANGES, None),
    "closed": MemberTokenRequiredError,
    "dropped": TableNotFoundError,
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_write_compiled_for_an_old_schema_is_judged_by_the_new_one(app: App, services: Services, name: str):
    writes: list[tuple[Outcome, Callable[[StaleNode, str], Awaitable[Any]]]] = [
        (CREATES[name], lambda node, row: node.create(A)),
        (CREATES[name], lambda node, row: node.bulk(A)),
        (UPDATES[name], lambda node, row: node.update(row, A)),
        (DELETES_WHERE[name], lambda node, row: node.delete_where(A)),
        (DELETES[name], lambda node, row: node.delete(row)),
    ]
    for number, (outcome, write) in enumerate(writes):
        table = await app.table(SCHEMA, title="t")
        row = await app.row(table, A)
        node = await stale(services, app, table)
        method, path, body = CHANGES[name]
        await change(app, method, table + path, body)
        if isinstance(outcome, type):
            with pytest.raises(PilotisError) as raised:
                await write(node, row["id"])
            error = raised.value
            assert isinstance(error, outcome) or error.code == "NOTHING_CREATED", (number, error)
        else:
            assert await write(node, row["id"]) == outcome, number
        if name != "dropped":
            await change(app, "DELETE", table)


READS: dict[str, Callable[[Services, Principal, UUID, UUID], Awaitable[bytes | AutocompleteResult]]] = {
    "read": lambda node, who, table, row: node.rows.read(who, table, row),
    "page": lambda node, who, table, row: node.rows.page(who, table, Page()),
    "total": lambda node, who, table, row: node.rows.page(who, table, Page(limit=0)),
    "query": lambda node, who, table, row: node.rows.query(who, table, Query({"id": {"$isNull": False}})),
    "aggregate": lambda node, who, table, row: node.aggregation.run(who, str(table), [{"$group": {"_id": "$place.x"}}]),
    "count": lambda node, who, table, row: node.aggregation.run(who, str(table), [{"$count": "n"}]),
    "search": lambda node, who, table, row: node.search.search(who, SearchRequest(str(table), "ada", ["name"])),
    "autocomplete": lambda node, who, table, row: node.search.autocomplete(
        who, AutocompleteRequest(str(table), "a", "name")
    ),
    "geo": lambda node, who, table, row: node.geo.search(who, GeoRequest(str(table), "place", Near(Coordinates(0, 0)))),
}


@pytest.mark.parametrize("name", READS)
async def test_a_node_that_has_not_heard_reads_by_the_new_schema(app: App, services: Services, name: str):
    schema = {"n": "int", "name": "string", "place": "object"}
    table = await app.table(schema, title="t")
    row = await app.row(table, {"n": 5, "name": "Ada", "place": {"latitude": 1, "longitude": 1}})
    await stale(services, app, table)
    who = PublicClient(await services.apps.by_public_key(app.public_key, None))

    async def read() -> Any:
        answer = await READS[name](services, who, UUID(table), UUID(row["id"]))
        return json.decode(answer) if isinstance(answer, bytes) else answer

    await read()
    # A node that took the text for a number would show it without quotes, which is no JSON.
    await change(app, "PATCH", f"{table}/columns/n", {"data_type": "string"})
    await read()
    await change(app, "PATCH", table, {"title": "t", "schema": schema | {"n": "string"}, "access_level": "Creator"})
    with pytest.raises(MemberTokenRequiredError):
        await read()


NEW = {"a": "1", "c": 2}
ALLOWED: dict[str, tuple[tuple[str, str, Any], Any]] = {
    "column added": (("POST", "/columns", {"name": "c", "data_type": "int"}), NEW),
    "type changed": (("PATCH", "/columns/n", {"data_type": "string"}), {"n": "many"}),
    "opened": (("PATCH", "", {"title": "t", "schema": {**SCHEMA, "n": "int"}, "access_level": "Public"}), A),
}


@pytest.mark.parametrize("name", ALLOWED)
async def test_a_node_that_has_not_heard_rejects_nothing_that_the_new_schema_allows(
    app: App, services: Services, name: str
):
    (method, path, body), data = ALLOWED[name]
    column = next(reversed(data))

    async def transaction(node: StaleNode) -> Any:
        operation = {"type": "create", "table_id": str(node.table), "data": data}
        await services.batches.transaction(node.principal, CLIENT, [raw(operation)])
        return data

    async def find(node: StaleNode) -> Any:
        found = await services.rows.query(node.principal, node.table, Query({column: {"$isNull": False}}))
        assert json.decode(found)["data"] == []
        return data

    for act in (lambda node: node.create(data), lambda node: node.bulk(data), transaction, find):
        table = await app.table({**SCHEMA, "n": "int"}, "Creator" if name == "opened" else "Public", title="t")
        known = await services.apps.by_public_key(app.public_key, None)
        node = StaleNode(services, PublicClient(known), table)
        await services.prepared_tables.current(known, UUID(table))
        await change(app, method, table + path, body)
        assert await act(node) == data
        await change(app, "DELETE", table)


async def test_an_import_into_a_table_that_has_just_been_ended_for_good(app: App, services: Services):
    table = await app.table(SCHEMA, title="t")
    await stale(services, app, table)
    await change(app, "DELETE", table)
    async with owner_of(app).client(app) as console:
        assert (await console.delete(f"/trash/tables/{table}")).status_code == 200
    info = await services.apps.by_public_key(app.public_key, None)
    lines = from_offset(one_chunk(b'{"a": "1"}'))
    options = ImportOptions(format=Format.JSONL)
    with pytest.raises(TableNotFoundError):
        await services.transfer.import_(info, OPERATOR, UUID(table), lines, options, FirstRejections())


async def one_chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_writers_and_schema_changes_at_once(app: App, services: Services):
    """Rows are neither lost nor duplicated, no request gets a 500, and no write bypasses a rule in effect."""
    table = await app.table({"n": "int"}, title="t")
    node = await stale(services, app, table)
    made: set[int] = set()
    refused = 0
    rule: int | None = None  # which change's rule, that `must` is required, is in force for sure
    done = False

    async def write(node: StaleNode, numbers: range) -> None:
        nonlocal refused
        for number in numbers:
            if done:
                return
            before = rule
            try:
                await node.create({"n": number})
                made.add(number)
                assert before is None or before != rule, "a row without the required field"
            except ValidationError:
                refused += 1
                await asyncio.sleep(0.001)
            except UnavailableError:
                # Repeated changes may reject a writer with 503; then nothing was written.
                continue

    async def change_schema() -> None:
        nonlocal rule, done
        try:
            for number in range(15):
                await change(app, "POST", f"{table}/columns", {"name": "must", "data_type": "int", "is_required": True})
                rule, before = number, refused
                await until(lambda: refused > before)  # noqa: B023 - called at once
                rule = None
                await change(app, "DELETE", f"{table}/columns/must")
                before = len(made)
                await until(lambda: len(made) > before)  # noqa: B023 - called at once
        finally:
            done = True

    await services.control.start()
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(change_schema())
            for start in range(4):
                tasks.create_task(write(node, range(start, 10**9, 4)))
    finally:
        await services.control.stop()
    assert made
    assert refused
    async with connected(app.server) as connection:
        physical = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
        stored = [record["n"] for record in await connection.fetch(f"select n from {physical}")]
    assert sorted(stored) == sorted(made)
    assert await node.total() == len(made)


async def test_a_change_waits_for_a_long_reader_without_stopping_others(app: App):
    table = await app.table({"a": "string"})
    row = await app.row(table, {"a": "1"})
    async with connected(app.server) as connection, app.client() as client:
        reading = connection.transaction()
        await reading.start()
        await connection.fetch(f"select * from app_{UUID(app.app_id).hex}.t_{UUID(table).hex}")
        changing = asyncio.create_task(client.patch(f"{TABLES}/{table}/columns/a", json={"data_type": "int"}))
        reads, end = 0, time.monotonic() + 1.5
        # One that had to wait for the change, as that does for the long reader, would be refused at last.
        while reads < 3 or time.monotonic() < end:
            assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).status_code == 200
            reads += 1
        assert not changing.done()
        await reading.rollback()
        assert (await changing).status_code == 200
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"a": 1}


async def test_a_change_of_a_table_that_stays_busy_is_given_up(app: App, services: Services):
    table = await app.table({"a": "string"})
    impatient = Tables(services.database, services.control, services.encryption, services.events, retry_seconds=0.5)
    known = await services.apps.by_public_key(app.public_key, None)
    async with connected(app.server) as connection, connection.transaction():
        await connection.fetch(f"select * from app_{UUID(app.app_id).hex}.t_{UUID(table).hex}")
        with pytest.raises(TableBusyError) as raised:
            await impatient.add_column(known, OPERATOR, UUID(table), NewColumn("b", "int"))
    assert (raised.value.status, raised.value.code) == (503, "TABLE_BUSY")
    assert "b" not in (await impatient.read(known, UUID(table))).schema


async def test_changes_of_one_table_at_once_all_take_effect(app: App):
    table = await app.table({"a": "string"})
    async with app.client() as client:
        answers = await asyncio.gather(
            *(
                client.post(f"{TABLES}/{table}/columns", json={"name": f"b{number}", "data_type": "int"})
                for number in range(6)
            )
        )
        assert [answer.status_code for answer in answers] == [201] * 6
        schema = (await client.get(f"{TABLES}/{table}")).json()["schema"]
    assert sorted(schema) == ["a", *(f"b{number}" for number in range(6))]


async def test_one_column_added_twice_at_once_is_added_once(app: App):
    table = await app.table({"a": "string"})
    async with app.client() as client:
        body = {"name": "b", "data_type": "int"}
        answers = await asyncio.gather(*(client.post(f"{TABLES}/{table}/columns", json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert_error(next(answer for answer in answers if answer.status_code == 409), 409, "COLUMN_EXISTS")


async def test_a_write_that_meets_a_locked_table_is_503(app: App):
    table = await app.table({"a": "string"})
    key = {"X-Public-Key": app.public_key}
    async with (
        second_node(app.server, statement_seconds=2.0) as node,
        client_of(node, **key) as client,
        connected(app.server) as connection,
        connection.transaction(),
    ):
        await connection.execute(f"lock table app_{UUID(app.app_id).hex}.t_{UUID(table).hex}")
        answer = await client.post(f"{TABLES}/{table}/data", json={"data": {}})
        assert_error(answer, 503, "UNAVAILABLE")
        assert answer.headers["retry-after"]


async def test_a_table_whose_columns_are_used_up_is_rewritten(app: App):
    table = await app.table({"a": "string"})
    async with connected(app.server) as connection:
        physical = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
        for start in range(0, 1590, 530):
            names = [f"x{number}" for number in range(start, start + 530)]
            await connection.execute(f"alter table {physical} {', '.join(f'add {name} int' for name in names)}")
            await connection.execute(f"alter table {physical} {', '.join(f'drop {name}' for name in names)}")
    async with app.client() as client:
        row = (await client.post(f"{TABLES}/{table}/data", json={"data": {"a": "kept"}})).json()
        for number in range(12):
            added = await client.post(f"{TABLES}/{table}/columns", json={"name": f"b{number}", "data_type": "int"})
            assert added.status_code == 201, added.text
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == {"a": "kept"}
    async with connected(app.server) as connection:
        dropped = "select count(*) from pg_attribute where attrelid = $1::regclass and attisdropped"
        assert await connection.fetchval(dropped, physical) < 1590


async def test_a_node_that_has_not_heard_of_a_reference_keeps_it(app: App, services: Services) -> None:
    parents = await app.table({"n": "int"}, title="parents")
    children = await app.table({"parent": "uuid", "n": "int"}, title="children")
    ada, eve = [(await app.row(parents, {"n": n}))["id"] for n in range(2)]
    child = (await app.row(children, {"parent": ada}))["id"]
    old_parents, old_children = await stale(services, app, parents), await stale(services, app, children)
    reference = {"references": {"table": parents, "on_delete": "restrict"}}
    await change(app, "PATCH", f"{children}/columns/parent", reference)
    nobody = {"parent": str(UUID(int=7))}
    for write in (old_children.create, old_children.bulk, lambda data: old_children.update(child, data)):
        with pytest.raises(PilotisError) as raised:
            await write(nobody)
        assert raised.value.code in {"REFERENCE_NOT_FOUND", "NOTHING_CREATED"}
        services.tables.forget_app(UUID(app.app_id))
        await old_children.total()
    with pytest.raises(PilotisError) as raised:
        await old_parents.delete(ada)
    assert raised.value.code == "ROW_REFERENCED"
    # What a deletion takes along has changed since the node has read the schema.
    await old_parents.total()
    reference["references"]["on_delete"] = "cascade"
    await change(app, "PATCH", f"{children}/columns/parent", reference)
    await old_parents.delete(ada)
    assert (await old_parents.total(), await old_children.total()) == (1, 0)
    await app.row(children, {"parent": eve})
    await old_parents.total()
    await change(app, "PATCH", f"{children}/columns/parent", {"references": None})
    await old_parents.delete(eve)
    assert (await old_parents.total(), await old_children.total()) == (0, 1)
