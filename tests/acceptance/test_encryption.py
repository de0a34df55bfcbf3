"""Decisions: Encrypted columns."""

import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from pilotis.db.embedded import find_binaries, running_address
from tests.backstage import run_sql
from tests.conftest import first_console_user, new_app
from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE

SECRET = "the-needle-in-the-haystack"
SCHEMA = {
    "name": "string",
    "ssn": {"type": "string", "encrypted": True},
    "amount": {"type": "number", "encrypted": True},
    "born": {"type": "date", "encrypted": True},
    "notes": {"type": "object", "encrypted": True},
    "done": {"type": "boolean", "encrypted": True, "default": False},
    "visits": {"type": "int", "encrypted": True},
    "key": {"type": "uuid", "encrypted": True},
}
KEY = "0190a6c2-1111-7000-8000-00000000000a"
ROW = {
    "name": "Ada",
    "ssn": SECRET,
    "amount": 12.5,
    "born": "1990-01-31T09:00:00+09:00",
    "notes": {"deep": [SECRET, 1.25]},
    "done": True,
    "visits": 100,
    "key": KEY,
}


def data_path(table: str, rest: str = "") -> str:
    return f"/v1/public/tables/{table}/data{rest}"


def physical(app: App, table: str) -> str:
    return f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"


async def found(app: App, table: str, where: dict) -> list[str]:
    async with app.client() as client:
        answer = await client.post(data_path(table, "/query"), json={"where": where, "order_by": "name"})
    assert answer.status_code == 200, answer.text
    return [row["data"]["name"] for row in answer.json()["data"]]


async def test_what_goes_in_comes_out_of_every_route(app: App):
    table = await app.table(SCHEMA)
    made = await app.row(table, ROW)
    assert made["data"] == ROW
    async with app.client() as client:
        assert (await client.get(data_path(table, f"/{made['id']}"))).json() == made
        assert (await client.get(data_path(table))).json()["data"] == [made]
        bulk = (await client.post(data_path(table, "/bulk"), json={"data": [ROW, {"name": "Bob"}]})).json()
        assert [row["data"] for row in bulk["created"]] == [ROW, {"name": "Bob", "done": False}]
        change = {"data": {"ssn": "other", "amount": None}}
        changed = (await client.patch(data_path(table, f"/{made['id']}"), json=change)).json()
        assert changed["data"] == ROW | {"ssn": "other", "amount": None}
        assert (await client.get(data_path(table, f"/{made['id']}"))).json() == changed


async def test_equal_values_are_found_by_a_keyed_hash(app: App):
    table = await app.table(SCHEMA)
    await app.row(table, ROW)
    await app.row(table, {"name": "Bob", "ssn": "b", "amount": 7, "born": "2001-02-03", "notes": {"a": 1}, "visits": 0})
    await app.row(table, {"name": "Cy"})
    cases = [
        ({"ssn": SECRET}, ["Ada"]),
        ({"ssn": {"$ne": SECRET}}, ["Bob", "Cy"]),
        ({"ssn": {"$in": ["b", SECRET]}}, ["Ada", "Bob"]),
        ({"ssn": {"$in": ["b", None]}}, ["Bob", "Cy"]),
        ({"ssn": {"$nin": ["b"]}}, ["Ada", "Cy"]),
        ({"ssn": {"$isNull": True}}, ["Cy"]),
        ({"ssn": {"$isNull": False}}, ["Ada", "Bob"]),
        ({"ssn": None}, ["Cy"]),
        ({"ssn": 5}, []),
        ({"amount": 12.50}, ["Ada"]),
        ({"amount": 7.0}, ["Bob"]),
        ({"amount": "7"}, []),
        ({"born": "1990-01-31T00:00:00Z"}, ["Ada"]),
        ({"notes": {"a": 1}}, ["Bob"]),
        ({"notes": {"a": 1.0}}, ["Bob"]),
        ({"visits": 100.0}, ["Ada"]),
        ({"visits": {"$in": [100]}}, ["Ada"]),
        ({"visits": -0.0}, ["Bob"]),
        ({"key": KEY}, ["Ada"]),
        ({"key": KEY.upper()}, ["Ada"]),
        ({"done": True}, ["Ada"]),
        ({"$not": {"done": False}}, ["Ada"]),
    ]
    for where, expected in cases:
        assert await found(app, table, where) == expected, where


@pytest.mark.advisory("GHSA-72hp-qff8-4pvv")
@pytest.mark.parametrize(
    "where",
    [
        {"ssn": {"$gt": "a"}},
        {"ssn": {"$contains": "a"}},
        {"ssn": {"$startsWith": "a"}},
        {"ssn": {"$matches": "a"}},
        {"ssn": {"$between": ["a", "b"]}},
        {"notes.deep": 1},
        {"notes": {"$arrayContains": 1}},
        {"$or": [{"ssn": {"$lt": "a"}}]},
        {"$not": {"ssn": {"$gte": "a"}}},
        {"ssn": {"$not": {"$gt": "a"}}},
    ],
)
async def test_every_other_use_of_an_encrypted_column_is_refused(app: App, where: dict):
    table = await app.table(SCHEMA)
    async with app.client() as client:
        query = await client.post(data_path(table, "/query"), json={"where": where})
        delete = await client.post(data_path(table, "/delete-where"), json={"where": where})
    assert_error(query, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
    assert_error(delete, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")


async def test_sorting_and_aggregating_by_an_encrypted_column_is_refused(app: App):
    table = await app.table(SCHEMA)
    pipelines = [
        [{"$group": {"_id": "$ssn"}}],
        [{"$group": {"_id": None, "total": {"$sum": "$amount"}}}],
        [{"$match": {"ssn": SECRET}}],
        [{"$sort": {"ssn": 1}}],
        [{"$project": {"ssn": 1}}],
        [{"$addFields": {"copy": {"$concat": ["$ssn", "!"]}}}],
        [{"$unwind": "$notes"}],
    ]
    async with app.client() as client:
        answer = await client.post(data_path(table, "/query"), json={"order_by": "ssn"})
        assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
        for pipeline in pipelines:
            answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
            body = assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
            # Not an advice to send what was sent.
            assert "A pipeline cannot read it" in body["message"]
            assert "$eq" not in body["message"]
        whole = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": []})
    assert whole.status_code == 200


async def test_turning_encryption_on_and_off_keeps_every_value(app: App):
    plain = {name: "string" if name == "name" else value["type"] for name, value in SCHEMA.items() if name != "name"}
    table = await app.table({"name": "string", **plain})
    rows = [await app.row(table, ROW | {"name": f"{number:03}"}) for number in range(3)]
    rows.append(await app.row(table, {"name": "none", "ssn": None}))
    async with app.client() as client:
        for encrypted in (True, False, True):
            for column in plain:
                path = f"/v1/public/tables/{table}/columns/{column}"
                answer = await client.patch(path, json={"encrypted": encrypted})
                assert answer.status_code == 200, answer.text
            assert (await client.get(data_path(table))).json()["data"] == rows
            assert await found(app, table, {"ssn": SECRET}) == ["000", "001", "002"]
            assert await found(app, table, {"born": "1990-01-31"}) == ["000", "001", "002"]
        change = {"data_type": "string"}
        assert (await client.patch(f"/v1/public/tables/{table}/columns/amount", json=change)).status_code == 200
    assert await found(app, table, {"amount": "12.5"}) == ["000", "001", "002"]


async def test_a_value_moved_to_another_row_does_not_open(app: App):
    table = await app.table({"name": "string", "ssn": {"type": "string", "encrypted": True}})
    one = await app.row(table, {"name": "one", "ssn": "mine"})
    two = await app.row(table, {"name": "two", "ssn": "yours"})
    name = physical(app, table)
    move = f"update {name} set __e2 = (select __e2 from {name} where __id = '{one['id']}') where __id = '{two['id']}'"
    await run_sql(app.server, move)
    async with app.client() as client:
        answer = await client.get(data_path(table, f"/{two['id']}"))
        assert (await client.get(data_path(table, f"/{one['id']}"))).status_code == 200
    assert_error(answer, 500, "SEALED_VALUE_DAMAGED")
    await run_sql(app.server, f"delete from {name}")


async def test_an_absorbed_column_is_encrypted(app: App):
    table = await app.table({})
    row = await app.row(table, {"ssn": SECRET, "other": 1})
    async with app.client() as client:
        column = {"name": "ssn", "data_type": "string", "encrypted": True}
        assert (await client.post(f"/v1/public/tables/{table}/columns", json=column)).status_code == 201
        assert (await client.get(data_path(table, f"/{row['id']}"))).json()["data"]["ssn"] == SECRET
    assert SECRET.encode() not in await run_sql(app.server, f"select __e1 from {physical(app, table)}")
    assert SECRET not in await run_sql(app.server, f"select __extra::text from {physical(app, table)}")


@pytest.mark.embedded("it looks through the database's files")
async def test_no_plaintext_is_left_on_disk(tmp_path: Path):
    """Files of the database, the write-ahead log, the logs and a dump hold no plaintext."""
    server = Server(tmp_path / "data").start()
    try:
        app = new_app(server, first_console_user(server))
        table = await app.table(SCHEMA)
        marked = [f"{SECRET}-{number}" for number in range(200)]
        async with app.client() as client:
            rows = [ROW | {"ssn": mark, "notes": {"x": mark}} for mark in marked]
            assert (await client.post(data_path(table), json={"data": rows})).status_code == 201
            found_ = (await client.post(data_path(table, "/query"), json={"where": {"ssn": marked[7]}})).json()
            assert found_["total_count"] == 1
            row = found_["data"][0]["id"]
            changed = await client.patch(data_path(table, f"/{row}"), json={"data": {"ssn": SECRET + "-changed"}})
            assert changed.status_code == 200
        await run_sql(server, "checkpoint")
        dump = _dump(server)
    finally:
        server.stop()
    places = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert any("pg_wal" in path.parts for path in places)
    leaks = [path for path in places if SECRET.encode() in path.read_bytes()]
    assert leaks == []
    assert SECRET not in server.logs()
    assert "ssn" in dump
    assert SECRET not in dump


def _dump(server: Server) -> str:
    address = running_address(server.data_dir / "postgres")
    assert address is not None
    program = find_binaries(None) / "pg_dump"
    host = ["--host", address.host, "--port", str(address.port), "--username", address.user]
    dump = subprocess.run(
        [program, *host, address.database], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return dump.stdout


async def test_a_creates_answer_spells_encrypted_numbers_as_a_read_does(app: App):
    table = await app.table({"amount": {"type": "number", "encrypted": True}})
    async with app.client() as client:
        body = b'{"data":{"amount":1.50e3}}'
        made = await client.post(data_path(table), content=body, headers={"Content-Type": "application/json"})
        read = await client.get(data_path(table, f"/{made.json()['id']}"))
    assert made.content == read.content
