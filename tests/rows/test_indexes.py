"""Automatic indexes: which access patterns are recorded, which indexes are built and used, and failures."""

import asyncio
import secrets
import uuid
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from pilotis.data.indexes import service, store
from pilotis.data.indexes.definitions import field_name
from pilotis.data.query.aggregate.pipeline import compile_pipeline
from pilotis.data.rows.batches import Operation
from pilotis.data.rows.query import compile_query
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Query, SortKey
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.tables.schema import AccessLevel, TableSchema, numbered, parse_schema
from pilotis.data.tables.types import ColumnChange, NewColumn, TableDefinition
from pilotis.data.where.access_patterns import columns_of, decode, encode
from pilotis.db.pool import Database
from pilotis.http.api.principals import OPERATOR
from pilotis.kit import json
from pilotis.limits import Limits
from pilotis.security.encryption.cipher import Cipher
from tests.background import worker
from tests.rows.index_world import ROWS, SCHEMA, World, with_limits
from tests.services import CLIENT
from tests.waiting import PATIENCE, until
from tests.whole import sample


def test_a_field_is_shown_as_requests_name_it():
    assert field_name(PURE, "6.street.name") == "place.street.name"
    assert field_name(PURE, "6") == "place"
    assert field_name(PURE, "extra.a.b") == "a.b"
    assert columns_of(decode("text:6.street.name,equality:1")) == ["6", "1"]


@asynccontextmanager
async def old_snapshot(world):
    """A transaction that began before: building CONCURRENTLY waits for it, at its end."""
    connection = await world.services.database.dedicated(name="test", statement_seconds=0)
    await connection.execute("begin isolation level repeatable read")
    await connection.fetch("select count(*) from pilotis.migrations")
    try:
        yield
    finally:
        await connection.close()


async def unfinished(world):
    """Tell whether PostgreSQL has an index of the table that is not valid yet."""
    return await world.sql(
        "select exists (select from pg_index where indrelid = $1::regclass and not indisvalid)",
        (await world.table()).schema.physical,
    )


PURE = TableSchema(
    uuid.uuid4(), uuid.uuid4(), "people", AccessLevel.PUBLIC, 1, tuple(numbered(parse_schema(SCHEMA, Limits()), 1))
)

NOTED = [
    ({"where": {"city": "x"}}, ["equality:1"]),
    ({"where": {"city": "x"}, "order_by": "score"}, ["equality:1,sort:3"]),
    (
        {"where": {"city": "x"}, "order_by": "score", "order_direction": "desc"},
        ["equality:1,sort_descending:3"],
    ),
    ({"where": {"age": 3, "city": "x"}, "order_by": "city"}, ["equality:1,equality:2"]),
    ({"where": {"age": {"$gt": 3, "$lt": 5}}}, ["range:2"]),
    ({"where": {"city": "x", "age": {"$gt": 3}}, "order_by": "score"}, ["equality:1,sort:3", "equality:1,range:2"]),
    ({"where": {"age": {"$in": [1, 2]}}}, ["in:2"]),
    ({"where": {"joined": {"$gte": "2024-01-01"}}, "order_by": "joined"}, ["sort:4"]),
    ({"order_by": "created_at", "order_direction": "desc"}, ["sort_descending:created_at"]),
    ({"where": {"city": {"$startsWith": "x"}}}, ["range:1"]),
    ({"where": {"city": {"$contains": "x"}}}, ["trigram:1"]),
    ({"where": {"city": {"$matches": "x"}}}, ["trigram:1"]),
    ({"where": {"city": {"$ieq": "x"}}}, ["caseless:1"]),
    ({"where": {"city": {"$istartsWith": "x"}}}, ["caseless:1"]),
    ({"where": {"city": {"$icontains": "x"}}}, ["caseless_trigram:1"]),
    ({"order_by": [SortKey("city", ignore_case=True)]}, ["caseless:1"]),
    ({"where": {"tags": {"$arrayContains": "x"}}}, ["containment:5"]),
    ({"where": {"place.street.name": "x"}}, ["containment:6"]),
    ({"where": {"secret": "x"}}, ["equality:7"]),
    ({"where": {"$or": [{"city": "x"}, {"age": 3}]}, "order_by": "score"}, ["sort:3", "equality:1", "equality:2"]),
    ({"where": {"$and": [{"city": "x"}, {"age": 3}]}}, ["equality:1,equality:2"]),
    ({"where": {"city": {"$ne": "x"}, "age": {"$nin": [3]}}}, []),
    ({"where": {"$not": {"$or": [{"city": "x"}]}, "score": {"$not": {"$gt": 3}}}}, []),
    ({"where": {"id": str(uuid.uuid4())}, "order_by": "id"}, []),
    (
        {"where": {"city": "x"}, "order_by": [SortKey("score"), SortKey("joined", "desc")]},
        ["equality:1,sort:3,sort_descending:4"],
    ),
    # A column with one value does not sort; an index of those before the first that none serves is of use.
    ({"where": {"city": "x"}, "order_by": [SortKey("city"), SortKey("score")]}, ["equality:1,sort:3"]),
    ({"order_by": [SortKey("score"), SortKey("city", ignore_case=True), SortKey("age")]}, ["sort:3"]),
    ({}, []),
]


@pytest.mark.parametrize(("query", "expected"), NOTED)
def test_a_query_tells_what_it_reads_by(query, expected):
    prepared = PreparedTable(PURE, Database({}), Cipher(uuid.uuid4(), secrets.token_bytes(32)))
    compiled = compile_query(prepared, Query(**query), everything(prepared.schema, Action.LIST), Limits())
    assert [encode(use) for use in compiled.access.patterns()] == expected


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ([{"$match": {"city": "x"}}, {"$sort": {"score": 1}}], ["equality:1,sort_nulls_first:3"]),
        ([{"$match": {"city": "x"}}, {"$match": {"age": 1}}], ["equality:1,equality:2"]),
        ([{"$sort": {"score": -1}}, {"$limit": 3}, {"$sort": {"age": 1}}], ["sort_descending:3"]),
        ([{"$group": {"_id": "$city"}}, {"$match": {"_id": "x"}}], []),
        ([{"$limit": 5}, {"$match": {"city": "x"}}], []),
        ([{"$addFields": {"city": "y"}}, {"$match": {"city": "x"}}], []),
    ],
)
def test_a_pipeline_tells_what_it_reads_by(pipeline, expected):
    compiled = compile_pipeline(PURE, pipeline, everything(PURE, Action.LIST), Limits())
    assert [encode(use) for use in compiled.access.patterns()] == expected


BUILT = [
    ({"where": {"city": "city 7"}, "order_by": "score", "order_direction": "desc"}, ["city", "score"], "btree"),
    ({"where": {"city": "city 7"}, "order_by": "joined"}, ["city", "joined"], "btree"),
    ({"order_by": "score", "order_direction": "desc"}, ["score"], "btree"),
    ({"order_by": "created_at", "order_direction": "desc"}, ["created_at"], "btree"),
    ({"order_by": [SortKey("age"), SortKey("score", "desc")]}, ["age", "score"], "btree"),
    ({"where": {"score": {"$between": [5, 9]}}}, ["score"], "btree"),
    ({"where": {"joined": {"$lt": "2024-01-01T00:01:00Z"}}}, ["joined"], "btree"),
    ({"where": {"city": {"$startsWith": "city 29"}}}, ["city"], "btree"),
    ({"where": {"city": {"$contains": "y 299"}}}, ["city"], "gin"),
    ({"where": {"city": {"$endsWith": "ty 299"}}}, ["city"], "gin"),
    ({"where": {"city": {"$matches": "^city 299$"}}}, ["city"], "gin"),
    ({"where": {"city": {"$ieq": "CITY 7"}}}, ["city"], "btree"),
    ({"where": {"city": {"$istartsWith": "City 29"}}}, ["city"], "btree"),
    ({"where": {"city": {"$icontains": "Y 299"}}}, ["city"], "gin"),
    ({"order_by": [SortKey("city", ignore_case=True)]}, ["city"], "btree"),
    ({"where": {"tags": {"$arrayContains": "tag 7"}}}, ["tags"], "gin"),
    ({"where": {"tags": {"$arrayContainsAny": ["tag 7", "tag 9"]}}}, ["tags"], "gin"),
    ({"where": {"place.street.name": "street 7"}}, ["place"], "gin"),
    ({"where": {"secret": "secret 7"}}, ["secret"], "btree"),
    ({"where": {"$or": [{"city": "city 7"}, {"city": "city 9"}]}}, ["city"], "btree"),
]


@pytest.mark.parametrize(("query", "columns", "method"), sample(BUILT, 0.4))
async def test_an_index_appears_and_serves_the_query(world, query, columns, method):
    before = await world.query(limit=1000, **query)
    await world.run_once()
    (index,) = await world.ready()
    assert (index.columns, index.method) == (columns, method)
    assert index.reason.startswith("3 slow queries with ")
    assert index.name in await world.explain(**query)
    assert await world.query(limit=1000, **query) == before
    assert before["total_count"] > 0


async def test_an_index_that_is_there_is_not_built_again(world):
    query = {"where": {"age": 5}, "order_by": "score"}
    await world.query(**query)
    await world.run_once()
    (first,) = await world.ready()
    await world.query(**query)
    await world.run_once()
    (second,) = await world.ready()
    # PostgreSQL reports its use a moment later.
    assert second == msgspec.structs.replace(first, last_used_at=second.last_used_at)


async def test_orders_by_several_columns_get_three_indexes(world):
    for directions in (("asc", "asc"), ("asc", "desc"), ("desc", "asc"), ("desc", "desc")):
        await world.query(order_by=[SortKey("age", directions[0]), SortKey("score", directions[1])])
        await world.run_once()
    assert len(await world.ready()) == 3
    await world.query(order_by="age")
    await world.run_once()
    assert len(await world.ready()) == 4


async def test_a_comparison_is_content_with_an_index_in_the_other_direction(world):
    await world.query(order_by="score", order_direction="desc")
    await world.run_once()
    await world.query(where={"score": {"$gt": 2990}})
    await world.run_once()
    (index,) = await world.ready()
    assert index.name in await world.explain(where={"score": {"$gt": 2990}})


async def test_seldom_queries_and_small_tables_ask_for_nothing(world):
    await world.query(times=2, where={"city": "city 7"})
    await world.run_once()
    assert await world.indexes() == []
    await world.query(where={"city": "city 7"})
    await world.run_once(with_limits(world, index_rows=ROWS + 1))
    assert await world.indexes() == []
    noted = await world.services.indexes.of_table(world.app, world.table_id)
    assert [(use.uses[0].column, use.count) for use in noted.noted] == [("city", 5)]


async def test_quick_statements_are_not_noted(world):
    world.services.index_uses.slow_seconds = 60
    await world.query(where={"city": "city 7"})
    await world.services.index_uses.flush()
    assert await store.uses(world.services.database, world.app.app_id, world.table_id) == []


async def test_a_column_that_is_unique_in_fact_is_not_made_unique(world):
    await world.query(where={"score": 77})
    await world.run_once()
    assert len(await world.ready()) == 1
    await world.services.rows.create(world.principal, world.table_id, msgspec.Raw(b'{"score": 77}'))
    assert (await world.query(1, where={"score": 77}))["total_count"] == 2


@pytest.mark.parametrize("limits", [{"indexes": 1}, {"table_indexes": 1}])
async def test_the_number_of_indexes_is_bounded_and_the_costliest_wins(world, limits):
    await world.query(times=3, order_by="age")
    await world.query(times=30, order_by="score")
    await world.run_once(with_limits(world, **limits))
    assert [index.columns for index in await world.ready()] == [["score"]]


async def test_an_index_beyond_the_budget_in_bytes_is_not_kept(world):
    await world.query(order_by="score")
    await world.run_once(with_limits(world, index_percent=0))
    assert await world.indexes() == []
    # Nothing is foretold of the size of such an index: it is looked at when it is there.
    await world.query(where={"city": {"$contains": "299"}})
    await world.run_once(with_limits(world, index_percent=1))
    (index,) = await world.indexes()
    assert (index.state, index.error) == ("failed", "The table's indexes together would be too large.")
    assert await world.physical() == set()


async def test_what_nobody_used_for_weeks_is_dropped_and_not_built_again_at_once(world):
    await world.query(order_by="score")
    await world.query(order_by="age")
    await world.run_once()
    await world.sql(
        "update pilotis.indexes set idle = '29 days' where table_id = $1 and use = 'sort:3'", world.table_id
    )
    await world.run_once()
    states = {tuple(index.columns): index.state for index in await world.indexes()}
    assert states == {("score",): "dropped", ("age",): "ready"}
    assert len(await world.physical()) == 1
    await world.query(order_by="score")
    await world.run_once()
    assert len(await world.physical()) == 1


async def test_use_is_seen_and_ends_idleness(world, monkeypatch):
    monkeypatch.setattr(service, "OBSERVE_SECONDS", 0.0)
    await world.query(order_by="score", order_direction="desc")
    await world.run_once()
    assert (await world.ready())[0].last_used_at is None
    await world.sql("update pilotis.indexes set idle = '20 days' where table_id = $1", world.table_id)
    await world.query(order_by="score", order_direction="desc")

    async def used():
        await world.run_once()
        return await world.sql("select idle = '0' from pilotis.indexes where table_id = $1", world.table_id)

    await until(used)
    assert (await world.ready())[0].last_used_at is not None


async def test_two_nodes_never_build_at_once_and_writers_never_wait(world):
    await world.query(order_by="score")
    await world.services.index_uses.flush()
    async with old_snapshot(world):
        building = asyncio.create_task(world.run_once())
        await until(lambda: unfinished(world))
        assert [index.state for index in await world.indexes()] == ["building"]
        assert await worker(with_limits(world), "indexes.maintain").run_now("indexes.maintain") is False
        async with asyncio.timeout(PATIENCE):
            await world.services.rows.create(world.principal, world.table_id, row_data(score=4001))
            await world.query(1, where={"score": 4001})
        assert not building.done()
    await building
    assert len(await world.ready()) == 1
    assert (await world.query(1, where={"score": 4001}))["total_count"] == 1


async def test_a_build_that_ended_half_way_is_cleared_away_and_begun_again(world):
    await world.query(order_by="score")
    await world.services.index_uses.flush()
    async with old_snapshot(world):
        building = asyncio.create_task(world.run_once())
        await until(lambda: unfinished(world))
        building.cancel()
        await asyncio.gather(building, return_exceptions=True)
        await world.sql(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'pilotis indexes'"
        )
    assert await unfinished(world)
    await world.run_once()
    assert not await unfinished(world)
    (index,) = await world.ready()
    assert await world.physical() == {index.name}
    assert index.name in await world.explain(order_by="score")


async def test_a_build_that_ended_unnoticed_is_ready(world):
    await world.query(order_by="score")
    await world.run_once()
    await world.sql("update pilotis.indexes set state = 'building' where table_id = $1", world.table_id)
    await world.run_once()
    assert len(await world.ready()) == 1


async def test_a_schema_change_does_not_wait_for_a_build(world):
    await world.query(order_by="score")
    await world.services.index_uses.flush()
    async with old_snapshot(world):
        building = asyncio.create_task(world.run_once())
        await until(lambda: unfinished(world))
        async with asyncio.timeout(PATIENCE):
            await world.services.tables.add_column(world.app, OPERATOR, world.table_id, NewColumn("more", "string"))
        await building
    await world.run_once()
    assert [index.columns for index in await world.ready()] == [["score"]]
    assert not await unfinished(world)


async def test_a_changed_or_dropped_column_takes_its_indexes_along(world):
    await world.query(where={"city": {"$contains": "299"}})
    await world.query(where={"age": 5}, order_by="score")
    await world.query(order_by="joined")
    await world.run_once()
    assert len(await world.ready()) == 3
    change = ColumnChange(data_type="array")
    with pytest.raises(Exception, match="cannot be converted to array"):
        await world.services.tables.change_column(world.app, OPERATOR, world.table_id, "city", change)
    assert len(await world.physical()) == 3
    change = ColumnChange(data_type="string")
    await world.services.tables.change_column(world.app, OPERATOR, world.table_id, "age", change)
    await world.services.tables.drop_column(world.app, OPERATOR, world.table_id, "city")
    (left,) = await world.indexes()
    assert left.columns == ["joined"]
    assert await world.physical() == {left.name}


@pytest.mark.parametrize("size", [2500, 10_000])
async def test_no_index_refuses_a_value_that_is_too_long_for_it(world, size):
    await world.query(order_by="city")
    await world.run_once()
    assert len(await world.ready()) == 1
    long = secrets.token_hex(size)
    made = await world.services.rows.create(world.principal, world.table_id, row_data(city=long))
    (index,) = await world.indexes()
    assert index.state == "failed"
    assert await world.physical() == set()
    assert msgspec.json.decode(made)["data"]["city"] == long
    # And none is built over such values.
    await world.query(order_by="city")
    await world.run_once()
    (index,) = await world.indexes()
    assert (index.state, index.error) == ("failed", "Values of this table are too long for this index.")
    assert await world.physical() == set()


async def test_writers_that_meet_the_same_index_all_go_on(world):
    await world.query(order_by="city")
    await world.run_once()
    rows = [row_data(city=secrets.token_hex(2500)) for _ in range(12)]
    await asyncio.gather(*(world.services.rows.create(world.principal, world.table_id, row) for row in rows))
    assert (await world.query(1, limit=0))["total_count"] == ROWS + 12


async def test_no_index_makes_way_for_a_limit_of_another_sort(world):
    await world.query(order_by="city")
    await world.run_once()
    places = ", ".join("1" for _ in range(101))
    with pytest.raises(asyncpg.ProgramLimitExceededError) as refused:
        await world.services.database.fetch(f"select jsonb_build_array({places})")
    schema = (await world.table()).schema
    assert not await world.services.prepared_tables.drop_blocking_index(schema, refused.value)
    assert len(await world.ready()) == 1


async def test_a_transaction_does_not_fail_for_an_index_either(world):
    await world.query(order_by="city")
    await world.run_once()
    data = row_data(city=secrets.token_hex(2500))
    create = msgspec.Raw(json.encode(Operation("create", str(world.table_id), data=data)))
    done = await world.services.batches.transaction(world.principal, CLIENT, [create, create])
    assert done.success_count == 2
    assert (await world.query(1, limit=0))["total_count"] == ROWS + 2


def row_data(**fields):
    return msgspec.Raw(msgspec.json.encode(fields))


LITERAL = ["100%", "a_b", "axb", "back\\slash", "back\\", "%", "_", "Ünder", "ünder", "한국어", "", "\\%"]


@pytest.mark.parametrize("indexed", [False, True])
async def test_contains_and_ends_with_are_literal_with_and_without_an_index(world, indexed):
    made = {}
    for text in LITERAL:
        answer = await world.services.rows.create(world.principal, world.table_id, row_data(city=text))
        made[msgspec.json.decode(answer)["id"]] = text
    if indexed:
        await world.query(where={"city": {"$contains": "100%"}})
        await world.run_once()
        assert len(await world.ready()) == 1
    for text in [text for text in LITERAL if text]:
        contains = await world.ids(where={"city": {"$contains": text}})
        ends = await world.ids(where={"city": {"$endsWith": text}})
        assert contains & made.keys() == {key for key, value in made.items() if text in value}
        assert ends & made.keys() == {key for key, value in made.items() if value.endswith(text)}


PATHS = [
    {"a": {"b": 1}},
    {"a": {"b": 1.0}},
    {"a": {"b": [1]}},
    {"a": [{"b": 1}]},
    {"a": {"b": "1"}},
    {"a": {"b": None}},
]


async def test_equality_along_a_path_means_the_same_with_an_index(world):
    table_id = await world.services.tables.create(world.app, OPERATOR, TableDefinition("free", {}, AccessLevel.PUBLIC))
    free = World(world.services, world.principal, table_id)
    rows = [*PATHS, {"a": ["x", "y"]}, {"a": {"0": "x"}}, *({"n": number} for number in range(980))]
    await world.services.rows.create_many(world.principal, table_id, msgspec.Raw(msgspec.json.encode(rows)))
    await world.services.rows.create_many(world.principal, table_id, msgspec.Raw(msgspec.json.encode(rows)))

    async def counts():
        wheres = [{"a.b": 1}, {"a.b": [1]}, {"a.b": "1"}, {"a.b": None}, {"a": {"b": 1}}, {"a.0": "x"}, {"n": 5}]
        return [(await free.query(1, where=where))["total_count"] for where in wheres]

    expected = [4, 2, 2, 1968, 4, 4, 2]
    assert await counts() == expected
    await free.query(where={"n": 5})
    await free.run_once()
    (index,) = await free.ready()
    assert index.columns == ["extra"]
    assert index.name in await free.explain(where={"n": 5})
    assert await counts() == expected


async def test_the_report_counts(world):
    await world.query(order_by="score")
    await world.run_once()
    assert any("indexes are ready" in line for line in await service.report(world.services.database))


async def test_an_index_serves_the_first_stages_of_a_pipeline(world):
    pipeline = [{"$match": {"city": "city 7"}}, {"$sort": {"score": 1}}, {"$limit": 5}]
    for _ in range(3):
        before = await world.services.aggregation.run(world.principal, str(world.table_id), pipeline)
    await world.run_once()
    (index,) = await world.ready()
    schema = (await world.table()).schema
    compiled = compile_pipeline(schema, pipeline, everything(schema, Action.LIST), world.app.limits)
    async with world.services.database.connection() as connection:
        lines = await connection.fetch(f"explain {compiled.sql}", *compiled.arguments)
    plan = "\n".join(line[0] for line in lines)
    assert index.name in plan
    assert "Sort" not in plan
    assert await world.services.aggregation.run(world.principal, str(world.table_id), pipeline) == before


async def test_connections_that_know_a_query_from_before_use_the_index_too(world):
    query = {"where": {"city": {"$startsWith": "city 29"}}, "limit": 5}
    await world.services.control.start()
    # After five times PostgreSQL settles on a plan; one for any value, in which no index can serve a prefix.
    await world.query(times=20, **query)
    await world.run_once()

    name = (await world.ready())[0].name
    physical = (await world.table()).schema.physical
    read = f"""
        select idx_tup_read / idx_scan from pg_stat_user_indexes
        where relid = '%s'::regclass and left(indexrelname, 47) = '{name}' and idx_scan > 0
    """

    async def used():
        """Its entries are found; a plan for any value, as of before the node has heard of it, reads them all."""
        await world.query(1, **query)
        return (await world.on_shard(physical, read) or ROWS) < ROWS / 10

    await until(used)
    await world.services.control.stop()
