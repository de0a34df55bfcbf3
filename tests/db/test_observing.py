"""Statements are counted by feature, and told slow with their text without values."""

import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from pilotis.db import observing
from pilotis.db.observing import OTHER, ROWS, Statements, feature_of, owners, shape_of
from pilotis.db.pool import Database
from pilotis.db.postgres_state import COUNTED, STATE, read
from pilotis.kit import origin
from pilotis.kit.metrics import Metric
from tests import databases
from tests.support import Server

APP = f"app_{uuid4().hex}"


def test_every_table_has_an_owner():
    assert feature_of("select * from pilotis.jobs j join pilotis.apps a using (app_id)") == owners()["jobs"] == "jobs"
    assert feature_of(f"select pilotis.table_bytes('x') from {APP}.t_1 join pilotis.apps a on true") == ROWS
    assert feature_of("select pilotis.nothing()") == OTHER
    assert feature_of("begin") == OTHER


async def test_statements_are_counted_however_they_are_run(server: Server):
    database = Database(databases.address(server.data_dir), size=2)
    try:
        assert await database.fetchval("select count(*) from pilotis.jobs") >= 0
        async with database.transaction() as connection:
            await connection.execute("select 1 from pilotis.mail_messages")
            await connection.fetch("select $1::int from pilotis.mail_messages", 1)
            await connection.executemany("select $1::int from pilotis.jobs", [(1,), (2,)])
        with pytest.raises(asyncpg.UndefinedColumnError):
            await database.fetch("select nothing from pilotis.jobs")
        before = database.statements.seconds().get(OTHER, 0)
        await database.fetchval("select pg_sleep(0.05)")
    finally:
        await database.close()
    counts = database.statements.counts()
    assert (counts["jobs"], counts["mail"]) == (2, 2)
    assert database.statements.seconds()[OTHER] - before >= 0.05


async def test_a_slow_statement_is_logged_with_its_request_and_without_values(server: Server):
    database = Database(databases.address(server.data_dir), size=2, slow_statement_seconds=0.02)
    token = origin.begin("a-request", "/v1/things/:id")
    try:
        with structlog.testing.capture_logs() as logged:
            await database.fetchval("select pg_sleep(0.03), $1::text, 'secret', 4711", "also secret")
            database.statements.ended("select 'not slow'", 0.019)
    finally:
        origin.end(token)
        await database.close()
    found = [one for one in logged if one["event"] == "slow statement"]
    assert "select ?" not in [one["statement"] for one in found]
    # On a busy machine those of opening a connection may be slow as well.
    (slow,) = [one for one in found if "pg_sleep" in one["statement"]]
    assert slow["ms"] >= 30
    assert (slow["route"], slow["request_id"]) == ("/v1/things/:id", "a-request")
    assert slow["statement"] == "select pg_sleep(?), $1::text, ?, ?"


@given(st.text(st.characters(exclude_characters="'$\x00"), min_size=3))
def test_no_literal_is_in_a_shape(value: str):
    quoted = value.replace("'", "''")
    marked = f"zz{quoted}zz"
    assert marked not in shape_of(f"select * from t where a = '{marked}' and b = $1 and c = $q${marked}$q$")
    assert "$1" in shape_of(f"select '{marked}', $1")


def test_texts_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "_MAX_TEXTS", 10)
    statements = Statements()
    for number in range(100):
        statements.ended(f"select {number} from pilotis.jobs", 0.5)
    assert len(statements._known) <= 10
    assert statements.counts() == {"jobs": 100}
    assert statements.seconds() == {"jobs": 50}
    statements.ended(f"select '{'x' * 10_000}' from pilotis.jobs", 0.5)
    assert max(map(len, statements._known)) < 10_000
    assert statements.counts()["jobs"] == 101


async def test_waits_for_a_connection_are_counted_by_the_kind_of_tenant(server: Server):
    database = Database(databases.address(server.data_dir), size=2)
    app_id = uuid4()
    try:
        async with database.connection(app_id):
            waiting = asyncio.create_task(database.fetchval("select 1", tenant=app_id))
            while not database.state().waiting:  # noqa: ASYNC110 - it is another task's
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)
        await waiting
    finally:
        await database.close()
    numbers: dict[str, Any] = {metric.name: metric.read() for metric in _counters(database.metrics())}
    assert numbers["pilotis_database_pool_waits"] == {("app",): 1}
    assert numbers["pilotis_database_pool_wait_seconds"][("app",)] >= 0.02


def _counters(metrics: list[Metric]) -> list[Any]:
    return [metric for metric in metrics if "pool" in metric.name]


async def test_the_state_of_postgresql_is_one_statement(server: Server):
    database = Database(databases.address(server.data_dir), size=2)
    try:
        state = await read(database)
    finally:
        await database.close()
    assert sum(database.statements.counts().values()) == 1
    # There is no standby.
    assert state.keys() == (STATE.keys() | COUNTED.keys()) - {"replication_lag_bytes"}
    assert state["database_bytes"] > 1_000_000
    assert 0 < state["connections"] < state["max_connections"]
