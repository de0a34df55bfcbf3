"""Pages of rows: what is skipped is never turned into text, and pages fit together wherever they begin."""

import asyncio

import httpx
import msgspec
import pytest

from pilotis.data.query.geo.types import GeoRequest
from pilotis.data.query.search.types import SearchRequest
from pilotis.data.rows.query import compile_query
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Query
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import everything
from pilotis.data.where.places import Coordinates, Near
from tests.rows.index_world import ROWS
from tests.support import App

QUERIES = {
    "as listed": {},
    "sorted": {"order_by": "score"},
    "with a condition": {"where": {"age": {"$gte": 0}}, "order_by": "joined", "order_direction": "desc"},
    "possibly large": {"limit": 1000},
}


def below_limits(node, *, below=False):
    """Yield the output of each node of a plan at which rows are not yet limited to those of the page."""
    below = below or node["Node Type"] == "Limit"
    if below:
        yield from node["Output"]
    for child in node.get("Plans", ()):
        yield from below_limits(child, below=below)


def on_nodes(plan):
    """Yield the plans with which other nodes of Citus run what a plan leaves to them."""
    if isinstance(plan, list):
        for part in plan:
            yield from on_nodes(part)
    elif isinstance(plan, dict):
        if "Remote Plan" in plan:
            yield from (remote["Plan"] for remotes in plan["Remote Plan"] for remote in remotes)
        for part in plan.values():
            yield from on_nodes(part)


async def assert_only_the_page_is_text(world, sql, arguments):
    async with world.services.database.connection() as connection:
        plan = await connection.fetchval(f"explain (verbose, format json) {sql}", *arguments)
    (whole,) = msgspec.json.decode(plan)
    outputs = [output for node in (whole["Plan"], *on_nodes(whole)) for output in below_limits(node)]
    assert outputs
    assert not [output for output in outputs if "to_char" in output]


@pytest.mark.share(0.34)
@pytest.mark.parametrize("offset", [0, 7, 100, 2000])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
async def test_only_the_rows_of_a_page_become_text(world, query, offset):
    request = Query(**query, offset=offset)
    table = await world.table()
    compiled = compile_query(table, request, everything(table.schema, Action.LIST), world.app.limits)
    await assert_only_the_page_is_text(world, compiled.sql, compiled.arguments)


async def test_only_the_rows_of_a_page_of_places_or_words_become_text(world, monkeypatch):
    statements = []
    fetch = PreparedTable.fetch_compiled

    async def watched(table, query, values, *others, **named):
        statements.append((query, list(values)))
        return await fetch(table, query, values, *others, **named)

    monkeypatch.setattr(PreparedTable, "fetch_compiled", watched)
    near = Near(Coordinates(0.0, 0.0))
    await world.services.geo.search(world.principal, GeoRequest(str(world.table_id), "place", near=near, offset=7))
    await world.services.search.search(world.principal, SearchRequest(str(world.table_id), "city", ["city"], offset=7))
    assert len(statements) == 2
    for sql, arguments in statements:
        await assert_only_the_page_is_text(world, sql, arguments)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
async def test_pages_fit_together_wherever_they_begin(world, query):
    whole = [row for offset in range(0, ROWS, 1000) for row in await page(world, query, offset, 1000)]
    assert len({row["id"] for row in whole}) == ROWS
    for offset in (0, 1, 98, 99, 100, 101, 2990, ROWS):
        assert await page(world, query, offset, 20) == whole[offset : offset + 20]


async def page(world, query, offset, limit):
    return (await world.query(1, **{**query, "offset": offset, "limit": limit}))["data"]


@pytest.mark.parametrize(("rows", "size"), [(200, 1), (60, 60_000)])
async def test_pages_that_arrive_together_are_those_that_arrive_alone(app: App, rows: int, size: int):
    """Also where their rows are so large that they are not read together."""
    table = await app.table({"number": "int", "text": "string"})
    path = f"/v1/public/tables/{table}/data"
    offsets = [offset % (rows + 20) for offset in range(0, 40 * 7, 7)]

    async def page(client: httpx.AsyncClient, offset: int, **headers: str) -> tuple[list[int], int, int, int]:
        answer = (await client.get(f"{path}?offset={offset}", headers=headers)).raise_for_status().json()
        numbers = [row["data"]["number"] for row in answer["data"]]
        assert all(len(row["data"]["text"]) == size for row in answer["data"])
        assert set(answer) == {"data", "total_count", "limit", "offset", "execution_time_ms"}
        return numbers, answer["total_count"], answer["limit"], answer["offset"]

    async with app.client() as client:
        for start in range(0, rows, 20):
            data = [{"number": number, "text": "x" * size} for number in range(start, start + 20)]
            assert (await client.post(f"{path}/bulk", json={"data": data})).status_code == 201
        together = await asyncio.gather(*(page(client, offset) for offset in offsets))
    expected = [(list(range(offset, min(offset + 20, rows))), rows, 20, offset) for offset in offsets]
    assert together == expected
