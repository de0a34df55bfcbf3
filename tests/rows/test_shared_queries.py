"""Queries that arrive together and differ in their values alone: they share statements, and nobody notices."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from asyncpg import Record
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pilotis.data.rows import shared_queries, shared_reads
from pilotis.data.rows.shared_queries import CompiledQuery, SharedQueries
from pilotis.data.rows.types import Query
from pilotis.data.where.access_patterns import AccessPatterns
from pilotis.http.api.principals import Principal, PublicClient
from pilotis.kit import json
from pilotis.kit.errors import UnavailableError
from tests.conftest import new_app
from tests.rows import where_model
from tests.rows.values import SCHEMA, TYPED_FIELDS, typed_rows, wheres
from tests.services import Services, address, stale_node
from tests.support import App, Server
from tests.whole import times

PROFILE = settings(max_examples=times(15, whole=100), deadline=None, phases=[Phase.reuse, Phase.generate, Phase.shrink])
CITIES = [f"city {number}" for number in range(40)]


@pytest.fixture
async def services(app: App) -> AsyncIterator[Services]:
    async with stale_node(app.server) as services:
        yield services


class Caller:
    """Asks for rows of a table, and counts the statements that this takes."""

    def __init__(self, services: Services, principal: Principal, table: str) -> None:
        self._services, self._principal, self._table = services, principal, UUID(table)

    async def asks(self, query: Query) -> Any:
        answer = json.decode(await self._services.rows.query(self._principal, self._table, query))
        return answer["total_count"], [item["data"] for item in answer["data"]]

    def statements(self) -> int:
        return sum(self._services.database.statements.counts().values())


@pytest.fixture
async def caller(services: Services, app: App) -> Caller:
    table = await app.table({"city": "string", "age": "int"}, access_level="Public")
    rows = [{"city": city, "age": age} for city in CITIES for age in range(3)]
    async with app.client() as client:
        assert (await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})).status_code == 201
    return Caller(services, PublicClient(await services.apps.by_public_key(app.public_key, None)), table)


def in_city(city: str, **asked: Any) -> Query:
    return Query(where={"city": city, "age": {"$gte": 1}}, order_by="age", order_direction="desc", **asked)


async def test_they_share_statements(caller: Caller):
    expected = [(2, [{"city": city, "age": 2}, {"city": city, "age": 1}]) for city in CITIES]
    await caller.asks(in_city("none"))
    before = caller.statements()
    assert await asyncio.gather(*(caller.asks(in_city(city)) for city in CITIES)) == expected
    assert caller.statements() - before <= 2 + len(CITIES) / 4


async def test_limits_and_offsets_are_each_callers_own(caller: Caller):
    ages = [2] * 40 + [1] * 40
    everything = Query(where={"age": {"$gte": 1}}, order_by="age", order_direction="desc")
    asked = [(limit, offset) for limit in (3, 4, 7) for offset in (2, 36, 77, 90)]

    async def ages_of(limit: int, offset: int) -> Any:
        query = Query(where=everything.where, order_by="age", order_direction="desc", limit=limit, offset=offset)
        total, rows = await caller.asks(query)
        return total, [row["age"] for row in rows]

    await ages_of(6, 8)
    before = caller.statements()
    found = await asyncio.gather(*(ages_of(*one) for one in asked))
    assert found == [(80, ages[offset : offset + limit]) for limit, offset in asked]
    assert caller.statements() - before < len(asked)


@pytest.fixture(scope="module")
def typed(server: Server, console: dict[str, str]) -> tuple[App, str]:
    app = new_app(server, console)
    with httpx.Client(base_url=server.url, headers={"X-Public-Key": app.public_key}) as client:
        table = {"title": "typed", "schema": SCHEMA, "access_level": "Public"}
        return app, client.post("/v1/public/tables", json=table).json()["id"]


@PROFILE
@given(rows=st.lists(typed_rows, max_size=6), conditions=st.lists(wheres(TYPED_FIELDS), min_size=1, max_size=4))
def test_any_conditions_choose_the_rows_that_they_choose_alone(
    typed: tuple[App, str], rows: list[Any], conditions: list[Any]
):
    app, table = typed
    path = f"/v1/public/tables/{table}/data"
    # A limit that is not usual is a value of the statement.
    limits = (2, 3, 4, 6, 7, 8)

    async def ask() -> None:
        async with app.client() as client:

            async def post(where: str, body: Any) -> Any:
                headers = {"Content-Type": "application/json"}
                answer = await client.post(f"{path}{where}", content=json.encode(body), headers=headers)
                assert answer.status_code < 300, answer.text
                return json.decode(answer.content)

            await post("/delete-where", {"all": True})
            if rows:
                await post("/bulk", {"data": rows})
            items = (await post("/query", {}))["data"]
            for where in conditions:
                await post("/query", {"where": where, "limit": 9})
            asked = [(where, limit) for where in conditions for limit in limits]
            found = await asyncio.gather(*(post("/query", {"where": where, "limit": limit}) for where, limit in asked))
            for (where, limit), answer in zip(asked, found, strict=True):
                expected = [item["id"] for item in items if where_model.matches(item, where, SCHEMA)]
                assert [item["id"] for item in answer["data"]] == expected[:limit], where
                assert (answer["total_count"], answer["limit"]) == (len(expected), limit)

    asyncio.run(ask())


class Runner:
    """Runs statements on connections of its own; `sent` are those that it was given."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self.sent: list[str] = []
        self.took: list[float] = []
        self.has_room = True
        self.queries = SharedQueries(self._fetch, lambda _, seconds: self.took.append(seconds))

    async def _fetch(self, sql: str, values: Sequence[Any], _: AccessPatterns | None) -> tuple[list[Record], float]:
        self.sent.append(sql)
        if not self.has_room:
            raise UnavailableError
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with self._pool.acquire() as connection:
            return await connection.fetch(sql, *values), loop.time() - started

    async def run(self, sql: str, *values: Any, places: tuple[str, ...]) -> Any:
        return await self.queries.run(CompiledQuery(sql, list(values), [], AccessPatterns(), places))


@pytest.fixture
async def runner(server: Server) -> AsyncIterator[Runner]:
    async with asyncpg.create_pool(**address(server), min_size=2, max_size=4) as pool:
        yield Runner(pool)


DIVIDED = "select 12 / $1::bigint, 'data'"
SLEEPING = "select $1::text, pg_sleep($2::bigint / 1000.0)::text"


async def test_an_error_is_that_of_its_caller_alone(runner: Runner):
    async def divided(number: int) -> Any:
        return await runner.run(DIVIDED, number, places=("$1::bigint",))

    assert await divided(3) == (4, "data")
    answers = await asyncio.gather(*map(divided, (1, 2, 0, 4, 6, 0, 12)), return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, tuple)] == [(n, "data") for n in (12, 6, 3, 2, 1)]
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [asyncpg.DivisionByZeroError] * 2
    # Whoever asks next is not bothered with it.
    before = len(runner.sent)
    assert await asyncio.gather(*map(divided, (1, 2, 3, 4, 6))) == [(n, "data") for n in (12, 6, 4, 3, 2)]
    assert runner.sent[before:] == [DIVIDED] * 5


async def test_without_a_connection_nobody_asks_twice(runner: Runner):
    """Where the database is overloaded, sixteen callers must not wait where one did."""
    sql, places = "select $1::text, 'overloaded'", ("$1::text",)
    assert await runner.run(sql, "first", places=places) == ("first", "overloaded")
    runner.has_room = False
    asked = (runner.run(sql, str(number), places=places) for number in range(12))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [UnavailableError] * 12
    assert len(runner.sent) <= 3
    runner.has_room = True
    assert await runner.run(sql, "last", places=places) == ("last", "overloaded")


async def test_slow_statements_run_beside_each_other(runner: Runner):
    async def sleep(name: str, milliseconds: int) -> Any:
        return await runner.run(SLEEPING, name, milliseconds, places=("$1::text", "$2::bigint"))

    names = list("abcdef")
    assert await asyncio.gather(*(sleep(name, 100) for name in names)) == [(name, "") for name in names]
    assert runner.sent == [SLEEPING] * 6
    # One that was quick and is slow for some values: those who wait for these ask alone before long.
    await sleep("quick", 0)
    loop = asyncio.get_running_loop()
    began = loop.time()
    slow = []
    for name in "xy":
        slow.append(asyncio.create_task(sleep(name, 3000)))
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*(sleep(name, 0) for name in names)) == [(name, "") for name in names]
    assert loop.time() - began < 2
    assert await asyncio.gather(*slow) == [("x", ""), ("y", "")]


async def test_answers_that_are_large_together_are_asked_for_alone(runner: Runner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_queries, "_MAX_BYTES", 50)
    sql, places = "select $1::text, 'data'", ("$1::text",)
    for _ in range(2):
        assert await runner.run(sql, "first", places=places) == ("first", "data")
        await asyncio.gather(*(runner.run(sql, "a" * 20, places=places) for _ in range(8)))
    assert runner.sent[-8:] == [sql] * 8
    assert len(runner.sent) < 18


async def test_those_who_leave_do_not_take_the_answer_from_the_others(runner: Runner):
    async def echo(text: str) -> Any:
        return await runner.run("select $1::text, 'data' as said", text, places=("$1::text",))

    await echo("first")
    tasks = [asyncio.create_task(echo(str(number))) for number in range(12)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[1::2] == [(str(number), "data") for number in range(1, 12, 2)]
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])


@pytest.mark.parametrize(
    ("sql", "places"),
    [
        ("select 'a$1'", ("$1::text",)),
        ("select $1::text, '$1::text'", ("$1::text",)),
        ("select $1::text, 'it''s $1::text'", ("$1::text",)),
        ("select $1::double precision", ("$1::double precision",)),
        ("select $1::text, $2::text", ("$1::text",)),
        ("select $1", ("$1::text",)),
        ("select 1", ()),
    ],
)
def test_what_only_looks_like_a_value_is_none(sql: str, places: tuple[str, ...]):
    assert shared_reads.shared_query(sql, places) is None
