"""Indexes of searches, completions and places: what is noted, what appears, and that the statements use it."""

import msgspec
import pytest

from pilotis.data.indexes import store
from pilotis.data.query.geo.types import GeoRequest
from pilotis.data.query.search.types import AutocompleteRequest, SearchRequest
from pilotis.data.rows.table import PreparedTable
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.types import ColumnChange, NewColumn, TableDefinition
from pilotis.data.where.places import Coordinates, Near, Within
from pilotis.db.pool import Database
from pilotis.http.api.principals import OPERATOR
from pilotis.kit.errors import QueryTimeoutError
from tests.rows.index_world import ROWS, World, make_services
from tests.services import address
from tests.waiting import PATIENCE
from tests.whole import sample

SCHEMA = {"name": "string", "note": "string", "spot": "object", "about": "object"}
FAR = Coordinates(-33.9, 151.2)
SYDNEY = Near(FAR, 20_000.0)


def place(number):
    return {
        "name": f"Harbour{number} station",
        "note": f"where line{number % 300} ends",
        "spot": {"latitude": number * 60 / ROWS, "longitude": number * 120 / ROWS} if number else vars_of(FAR),
        "about": {"author": f"Writer{number}", "home": {"latitude": number * 60 / ROWS, "longitude": 7.5}},
    }


def vars_of(point):
    return msgspec.to_builtins(point)


class Places(World):
    """A table of places, and the statements that were run on it."""

    def __init__(self, world, table_id):
        super().__init__(world.services, world.principal, table_id)
        self.statements = []

    async def search(self, text, fields=None, times=3):
        for _ in range(times):
            request = SearchRequest(str(self.table_id), text, fields=fields)
            answer = await self.services.search.search(self.principal, request)
        return [item["data"]["name"] for item in msgspec.json.decode(answer)["data"]]

    async def complete(self, text, field="name", times=3):
        for _ in range(times):
            request = AutocompleteRequest(str(self.table_id), text, field)
            found = await self.services.search.autocomplete(self.principal, request)
        return found.suggestions

    async def near(self, field="spot", times=3, **shape):
        for _ in range(times):
            request = GeoRequest(str(self.table_id), field, **shape)
            answer = await self.services.geo.search(self.principal, request)
        return [item["data"]["name"] for item in msgspec.json.decode(answer)["data"]]

    async def noted(self):
        await self.services.index_uses.flush()
        rows = await store.uses(self.services.database, self.app.app_id, self.table_id)
        return {one.use for one in rows}

    async def plans(self):
        """Return the plans of the very statements that were run since the last time."""
        statements, self.statements[:] = list(self.statements), []
        plans = []
        async with self.services.database.connection() as connection:
            for sql, values in statements:
                lines = await connection.fetch(f"explain {sql}", *values)
                plans.append("\n".join(line[0] for line in lines))
        return plans


async def make(world, monkeypatch, schema):
    definition = TableDefinition(f"places {len(schema)}", schema, AccessLevel.PUBLIC)
    places = Places(world, await world.services.tables.create(world.app, OPERATOR, definition))
    for start in range(0, ROWS, 1000):
        rows = msgspec.json.encode([place(number) for number in range(start, start + 1000)])
        await world.services.rows.create_many(world.principal, places.table_id, msgspec.Raw(rows))
    fetch = PreparedTable.fetch_compiled

    async def watched(table, query, values, *others, **named):
        places.statements.append((query, list(values)))
        return await fetch(table, query, values, *others, **named)

    monkeypatch.setattr(PreparedTable, "fetch_compiled", watched)
    return places


@pytest.fixture
async def places(world, monkeypatch):
    return await make(world, monkeypatch, SCHEMA)


@pytest.fixture
async def free(world, monkeypatch):
    return await make(world, monkeypatch, {})


# What is asked, what is noted, the method of each index that appears.
ASKED = {
    "words": (lambda p: p.search("line7 ends", ["note"]), {"text:2": "gin"}),
    "words of two fields": (
        lambda p: p.search("harbour77 line77", ["name", "note"]),
        {"text:1": "gin", "text:2": "gin"},
    ),
    "words along a path": (lambda p: p.search("writer77", ["about.author"]), {"text:4.author": "gin"}),
    "typing errors": (lambda p: p.search("harbbpur77 sttion", ["name"]), {"text:1": "gin", "trigram:1": "gin"}),
    "a beginning": (lambda p: p.complete("harbour2"), {"completion:1": "btree"}),
    "a beginning along a path": (lambda p: p.complete("writer2", "about.author"), {"completion:4.author": "btree"}),
    "a word's beginning": (lambda p: p.complete("line29", "note"), {"completion:2": "btree", "text:2": "gin"}),
    "a misspelt beginning": (
        lambda p: p.complete("harbbpur77 sttion"),
        {"completion:1": "btree", "text:1": "gin", "trigram:1": "gin"},
    ),
    "around a point": (lambda p: p.near(near=SYDNEY), {"geo:3": "gist"}),
    "around a point along a path": (
        lambda p: p.near("about.home", near=Near(Coordinates(30.0, 7.5), 9000.0)),
        {"geo:4.home": "gist"},
    ),
    "in a box": (
        lambda p: p.near(within=Within(south_west=Coordinates(-34, 151), north_east=Coordinates(-33, 152))),
        {"geo:3": "gist"},
    ),
    "in a polygon": (
        lambda p: p.near(polygon=[vars_of(Coordinates(*c)) for c in ((-34, 151), (-34, 152), (-33, 152), (-33, 151))]),
        {"geo:3": "gist"},
    ),
}


@pytest.mark.parametrize("name", sample(ASKED, 0.4))
async def test_indexes_appear_and_the_very_statements_use_them(places, name):
    ask, uses = ASKED[name]
    before = await ask(places)
    assert before
    assert await places.noted() == set(uses)
    await places.run_once()
    ready = {index.name: index.method for index in await places.ready()}
    assert sorted(ready.values()) == sorted(uses.values())
    places.statements.clear()
    assert await ask(places) == before
    plans = await places.plans()
    assert all("Seq Scan" not in plan for plan in plans), "\n\n".join(plans)
    assert {index for index in ready if any(index in plan for plan in plans)} == set(ready)


async def test_nearest_of_all_come_in_the_order_of_the_index(places):
    first = (await places.near(near=Near(FAR)))[0]
    assert first == "Harbour0 station"
    await places.run_once()
    indexes = {index.method: index.name for index in await places.ready()}
    places.statements.clear()
    assert (await places.near(near=Near(FAR), times=1))[0] == first
    (plan,) = await places.plans()
    assert f"Index Scan using {indexes['gist']}" in plan
    # The total is that of the table without the rows that have no point, so neither reads it whole.
    assert f"Index Only Scan using {indexes['btree']}" in plan


async def test_a_table_that_takes_any_field_gets_them_too(free):
    found = await free.search("writer77", ["about.author"])
    await free.complete("harbour2")
    await free.near(near=SYDNEY)
    assert await free.noted() == {"text:extra.about.author", "completion:extra.name", "geo:extra.spot"}
    await free.run_once()
    ready = {index.name: index.columns for index in await free.ready()}
    assert sorted(ready.values()) == [["about.author"], ["name"], ["spot"]]
    free.statements.clear()
    assert await free.search("writer77", ["about.author"], times=1) == found
    await free.complete("harbour2", times=1)
    await free.near(near=SYDNEY, times=1)
    plans = await free.plans()
    assert all(any(name in plan for plan in plans) for name in ready)


async def test_contains_and_typing_errors_share_one_index(places):
    await places.query(where={"name": {"$contains": "bour77 s"}})
    await places.run_once()
    (index,) = await places.ready()
    await places.search("harbbpur77 sttion", ["name"])
    await places.run_once()
    assert len(await places.ready()) == 2
    places.statements.clear()
    assert await places.search("harbbpur77 sttion", ["name"], times=1)
    assert index.name in (await places.plans())[-1]
    assert index.name in await places.explain(where={"name": {"$contains": "bour77 s"}})


async def test_a_field_that_no_index_can_have_asks_for_none(places, free):
    await places.search("writer77", ["about.0"])
    await places.search("line7", ["note", "about.a b"])
    assert await places.noted() == set()
    await free.complete("x", "a-b")
    await free.near("a-b", near=SYDNEY)
    assert await free.noted() == set()


async def test_a_search_that_was_cut_off_counts(server, world):
    long = {"name": "some words to look at " * 4000}
    definition = TableDefinition("long", SCHEMA, AccessLevel.PUBLIC)
    hasty = Database(address(server), size=1, statement_seconds=PATIENCE)
    places = Places(World(make_services(world.services.settings, hasty), world.principal, None), None)
    places.table_id = await world.services.tables.create(world.app, OPERATOR, definition)
    rows = msgspec.Raw(msgspec.json.encode([long] * 200))
    # From then on the node knows the table, and has the search alone to ask for.
    places.services.index_uses.slow_seconds = PATIENCE
    assert await places.search("words look", ["name"], times=1) == []
    places.services.index_uses.slow_seconds = 0
    await world.services.rows.create_many(world.principal, places.table_id, rows)
    await hasty.execute("set statement_timeout = '100ms'")  # in which no machine reads so many words
    with pytest.raises(QueryTimeoutError):
        await places.search("words look", ["name"], times=1)
    await hasty.execute("set statement_timeout = 0")
    noted = await places.noted()
    await hasty.close()
    assert noted == {"text:1"}


async def test_changed_and_dropped_columns_take_these_indexes_along(places):
    await places.search("line7 ends", ["note"])
    await places.complete("harbour2")
    await places.near(near=SYDNEY)
    await places.near("about.home", near=SYDNEY)
    await places.run_once()
    assert len(await places.physical()) == 4
    tables = places.services.tables
    await tables.drop_column(places.app, OPERATOR, places.table_id, "spot")
    await tables.drop_column(places.app, OPERATOR, places.table_id, "about")
    await tables.change_column(places.app, OPERATOR, places.table_id, "note", ColumnChange(encrypted=True))
    (left,) = await places.indexes()
    assert (left.columns, left.method) == (["name"], "btree")
    assert await places.physical() == {left.name}
    assert await places.noted() == set()
    # A new column of the same name is another one.
    await tables.add_column(places.app, OPERATOR, places.table_id, NewColumn("spot", "object"))
    await places.run_once()
    assert await places.physical() == {left.name}


async def test_an_index_of_places_along_a_line_is_no_larger_than_others(world, monkeypatch):
    definition = TableDefinition("track", {"spot": "object"}, AccessLevel.PUBLIC)
    track = Places(world, await world.services.tables.create(world.app, OPERATOR, definition))
    rows = [{"spot": {"latitude": number / 60, "longitude": 7.5}} for number in range(1000)]
    for _ in range(2):
        await world.services.rows.create_many(world.principal, track.table_id, msgspec.Raw(msgspec.json.encode(rows)))
    request = GeoRequest(str(track.table_id), "spot", near=SYDNEY)
    for _ in range(3):
        await world.services.geo.search(world.principal, request)
    await track.run_once()
    (index,) = await track.ready()
    assert index.size_bytes < 500 * 2000


async def test_an_index_of_places_holds_what_is_no_place(places):
    await places.near(near=SYDNEY)
    await places.run_once()
    for spot in ({}, {"latitude": "x", "longitude": 1}, {"latitude": 91, "longitude": 0}, None):
        await places.services.rows.create(
            places.principal, places.table_id, msgspec.Raw(msgspec.json.encode({"spot": spot}))
        )
    assert await places.near(near=SYDNEY) == ["Harbour0 station"]
