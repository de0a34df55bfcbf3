"""The control connection: messages arrive, a silent network is noticed, and what is cached is cleared."""

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from pilotis.db import control
from pilotis.db.control import Control
from pilotis.db.pool import Database
from pilotis.db.topics import Topic, publish
from pilotis.kit.errors import UnavailableError
from tests.database_proxy import DatabaseProxy, proxied
from tests.services import address, connected
from tests.support import Server
from tests.waiting import until


@pytest.fixture
async def database(server: Server) -> AsyncIterator[Database]:
    made = Database(address(server), size=2)
    yield made
    await made.close()


@pytest.fixture
async def subject(database: Database) -> AsyncIterator[Control]:
    made = Control(database)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def behind(server: Server) -> AsyncIterator[tuple[DatabaseProxy, Control]]:
    """A control connection by way of a proxy, not started yet."""
    async with proxied(server) as (proxy, arguments):
        made = Control(Database(arguments))
        yield proxy, made
        await made.stop()


async def test_a_silent_connection_is_replaced_and_caches_are_cleared(behind, server: Server, monkeypatch):
    monkeypatch.setattr(control, "_PROBE_SECONDS", 0.1)
    proxy, subject = behind
    heard: list[str] = []
    contact: list[str] = []
    resets: list[int] = []
    subject.subscribe(Topic.APP, heard.append, lambda: resets.append(1))
    subject.watch(lost=lambda: contact.append("lost"), regained=lambda: contact.append("regained"))
    await subject.start()
    assert contact == ["regained"]
    async with connected(server) as other:
        await publish(other, Topic.APP, "one")
        await until(lambda: heard == ["one"])
        proxy.silent = True
        await publish(other, Topic.APP, "lost")
        before = len(resets)
        await until(lambda: contact == ["regained", "lost"])
        assert len(resets) > before
        with pytest.raises(UnavailableError):
            await subject.run("select 1")
        proxy.silent = False
        await until(lambda: contact == ["regained", "lost", "regained"])
        await publish(other, Topic.APP, "again")
        await until(lambda: heard == ["one", "again"])


async def test_a_connection_that_ends_is_opened_again(subject: Control, server: Server):
    heard: list[str] = []
    subject.subscribe(Topic.TABLE, heard.append, lambda: None)
    async with connected(server) as other:
        (row,) = await subject.run("select pg_backend_pid()")
        await other.fetchval("select pg_terminate_backend($1::int, 0)", row[0])
        await until(lambda: not subject.connected)
        await until(lambda: subject.connected)
        await publish(other, Topic.TABLE, "again")
        await until(lambda: heard == ["again"])


async def test_a_cache_message_is_part_of_the_commit(subject: Control, database: Database):
    heard: list[str] = []
    subject.subscribe(Topic.APP, heard.append, lambda: None)
    async with database.transaction() as connection:
        await publish(connection, Topic.APP, "rolled back")
        await connection.execute("rollback; begin")
    async with database.transaction() as connection:
        await publish(connection, Topic.APP, "committed")
        await subject.run("select 1")
        assert heard == []
    await until(lambda: heard == ["committed"])


async def test_wake_ups_are_gathered_into_one_statement(subject: Control, monkeypatch: pytest.MonkeyPatch):
    # The server itself, which hears the same channel, wakes its workers too.
    keys = {str(uuid4()) for _ in range(10)}
    heard: list[str] = []

    def take(key: str) -> None:
        if key in keys:
            heard.append(key)

    subject.subscribe(Topic.WORK, take, lambda: None)
    statements: list[str] = []
    run = subject.run

    async def counted(statement: str, *arguments: object) -> object:
        statements.append(statement)
        return await run(statement, *arguments)

    monkeypatch.setattr(subject, "run", counted)
    for _ in range(10):
        for key in keys:
            subject.publish_soon(Topic.WORK, key)
    await until(lambda: len(heard) == 10)
    assert sorted(heard) == sorted(keys)
    assert sum("pg_notify" in statement for statement in statements) == 1


async def test_a_wake_up_at_once_takes_those_along_that_wait(subject: Control, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control, "GATHER_SECONDS", 3600)
    heard: list[str] = []
    subject.subscribe(Topic.CANCEL, heard.append, lambda: None)
    subject.publish_soon(Topic.CANCEL, "patient")
    subject.publish_soon(Topic.CANCEL, "urgent", at_once=True)
    await until(lambda: sorted(heard) == ["patient", "urgent"])


async def test_a_statement_has_a_deadline_and_the_next_one_works(subject: Control):
    started = time.monotonic()
    with pytest.raises(UnavailableError):
        await subject.run("select pg_sleep(60)", seconds=0.2)
    assert time.monotonic() - started < 30
    await until(lambda: subject.connected)
    (row,) = await subject.run("show synchronous_commit")
    assert row[0] == "off"


async def test_statements_run_one_after_another(subject: Control):
    rows = await asyncio.gather(*(subject.run("select $1::int", number) for number in range(20)))
    assert [row[0][0] for row in rows] == list(range(20))
