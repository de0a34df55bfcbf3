"""A page of a log reads what it shows, however long the log is and whatever it is asked for."""

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from pilotis.db import migrations
from pilotis.events import store as event_store
from pilotis.functions import execution_store as call_store
from pilotis.webhooks import log_store
from pilotis.webhooks.types import LogQuery
from pilotis.workflows import execution_store
from tests.services import address
from tests.support import Server

ROWS = 20_000
BLOCKS = 80
"""How many blocks of 8 kB a page of 20 may read: far fewer than a log of 20,000 entries has."""
APP, TARGET, OTHER = uuid4(), uuid4(), uuid4()
_numbers = itertools.count(1)

# Ids in the order of time, as UUIDv7 are: one a second, up to now.
_SERIES = """
    select at,
        (lpad(to_hex(extract(epoch from at)::bigint * 1000), 12, '0') || '7000800000000000' || lpad(to_hex(n), 4, '0'))
            ::uuid as id
    from generate_series(1, $2::integer) n, lateral (select now() - make_interval(secs => $2 - n) as at) t
"""
FILLS = {
    "events": f"""
        insert into pilotis.events (app_id, event_id, type, actor_kind, data, created_at, dispatched_at)
        select $1, id, 'row.created', 'system', '{{}}', at, at from ({_SERIES}) s
    """,
    "deliveries": f"""
        insert into pilotis.deliveries (app_id, delivery_id, target_id, event_app_id, event_id, event_type, state,
            created_at, finished_at)
        select $1, id, '{TARGET}', $1, id, 'row.created', 'succeeded', at, at from ({_SERIES}) s
    """,
    "function_executions": f"""
        insert into pilotis.function_executions (app_id, function_id, execution_id, version, status, trigger,
            caller_type, duration, queue_ms, load_ms, cpu_ms, log_lines, log_dropped, started_at, finished_at)
        select $1, '{TARGET}', id, '1', 'success', 'http', 'member', 1, 0, 0, 0, 0, 0, at, at from ({_SERIES}) s
    """,
    "workflow_executions": f"""
        insert into pilotis.workflow_executions (app_id, execution_id, workflow_id, version, status, trigger,
            trigger_type, input, timeout_seconds, created_at, finished_at)
        select $1, id, '{TARGET}', 1, 'completed', '{{}}', 'manual', '{{}}', 1, at, at from ({_SERIES}) s
    """,
}


class Explaining:
    """Passes statements on, and counts the blocks that PostgreSQL reads for them."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.blocks = 0

    async def _explain(self, statement: str, arguments: tuple[Any, ...]) -> None:
        text = await self._connection.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments)
        plan = json.loads(text)[0]["Plan"]
        # A total counts at most 10,000 entries of an index, and is no part of what is bounded here.
        self.blocks += _blocks(plan) - sum(map(_blocks, _totals(plan)))

    async def fetch(self, statement: str, *arguments: Any, **_: Any) -> list[asyncpg.Record]:
        await self._explain(statement, arguments)
        return await self._connection.fetch(statement, *arguments)

    @asynccontextmanager
    async def connection(self, *_: Any, **__: Any) -> AsyncIterator["Explaining"]:
        yield self


def _blocks(plan: dict[str, Any]) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def _totals(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in plan.get("Plans", []):
        yield from [part] if part["Node Type"] == "Aggregate" else _totals(part)


@pytest.fixture(scope="module")
async def filled(server: Server) -> AsyncIterator[asyncpg.Connection]:
    """A database of its own with a long log of each kind."""
    name = f"logs_{next(_numbers)}"
    maintenance = await asyncpg.connect(**address(server))
    await maintenance.execute(f"create database {name}")
    connection = await asyncpg.connect(**{**address(server), "database": name})
    await migrations.migrate(connection)
    await connection.execute("set session_replication_role = replica")  # without apps, functions and workflows
    for table, statement in FILLS.items():
        await connection.execute(statement, APP, ROWS)
        await connection.execute(f"vacuum analyze pilotis.{table}")
    yield connection
    await connection.close()
    await maintenance.execute(f"drop database {name} with (force)")
    await maintenance.close()


NOW = datetime.now(UTC)
LONG_AGO = (NOW - timedelta(seconds=ROWS * 0.6), NOW - timedelta(seconds=ROWS * 0.6 - 10))
BEFORE_ALL = (NOW - timedelta(days=20), NOW - timedelta(days=19))


def _log(**asked: Any) -> LogQuery:
    return LogQuery(**asked)


def deliveries(target: UUID = TARGET, **asked: Any) -> Any:
    return lambda found: log_store.page(found, APP, target, _log(**asked), 20)


def events(type_: str | None = None, since: datetime | None = None) -> Any:
    return lambda found: event_store.page(found, APP, type_, since, None, 20)


def calls(target: UUID = TARGET, *asked: Any) -> Any:
    status, version, since, until = asked or (None,) * 4
    return lambda found: call_store.page(found, APP, target, status, version, since, until, 20, 0)


def runs(target: UUID = TARGET, *asked: Any) -> Any:
    return lambda found: execution_store.page(found, APP, target, asked or (None,) * 4, 20, 0)


TABLES = {"deliveries", "events", "calls", "runs"}
PAGES = {
    "deliveries": deliveries(),
    "deliveries of a quiet webhook": deliveries(OTHER),
    "deliveries failed": deliveries(status="failed"),
    "deliveries pending": deliveries(status="pending"),
    "deliveries of a type": deliveries(event_type="row.deleted"),
    "deliveries of an event": deliveries(event_id=uuid4()),
    "deliveries of ten seconds": deliveries(since=LONG_AGO[0], until=LONG_AGO[1]),
    "deliveries before all": deliveries(since=BEFORE_ALL[0], until=BEFORE_ALL[1]),
    "events": events(),
    "events of a type": events("row.deleted"),
    "events since": events("row.deleted", LONG_AGO[0]),
    "calls": calls(),
    "calls of a quiet function": calls(OTHER),
    "calls with errors": calls(TARGET, "error", None, None, None),
    "calls of a version": calls(TARGET, None, "2", None, None),
    "calls of ten seconds": calls(TARGET, None, None, *LONG_AGO),
    "runs": runs(),
    "runs of a quiet workflow": runs(OTHER),
    "runs of ten seconds": runs(TARGET, None, None, *LONG_AGO),
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_of_a_long_log_reads_a_few_blocks(filled: asyncpg.Connection, name: str):
    found = Explaining(filled)
    for _ in range(7):  # from the sixth on, PostgreSQL may use a plan for all arguments
        found.blocks = 0
        page = await PAGES[name](found)
    rows = page[0] if isinstance(page, tuple) else page
    assert len(rows) == (20 if name in TABLES else 10 if "ten seconds" in name else 0)
    assert found.blocks <= BLOCKS
