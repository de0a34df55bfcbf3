"""Interface: Advanced data routes, autocompletion."""

from typing import Any

import httpx
import pytest

from tests.acceptance.test_search import fill
from tests.support import App, assert_error

PLACES = [
    "Seoul",
    "Seoul",
    "Seoul Station",
    "South Korea",
    "North Seoul Tower",
    "São Paulo",
    "東京駅",
    "서울역",
    "new york",
]


async def complete(app: App, table: str, query: str, token: str | None = None, **more: Any) -> httpx.Response:
    async with app.client(token) as client:
        body = {"table_id": table, "query": query, "field": "name", **more}
        return await client.post("/v1/public/autocomplete", json=body)


async def suggestions(app: App, table: str, query: str, **more: Any) -> list[str]:
    answer = await complete(app, table, query, **more)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"suggestions"}
    return answer.json()["suggestions"]


@pytest.fixture
async def places(app: App) -> str:
    table = await app.table({"name": "string", "size": "int", "secret": {"type": "string", "encrypted": True}})
    await fill(app, table, [{"name": name} for name in PLACES])
    return table


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("seo", ["Seoul", "Seoul Station", "North Seoul Tower"]),
        ("SEOUL", ["Seoul", "Seoul Station", "North Seoul Tower"]),
        ("seoul st", ["Seoul Station"]),
        ("station", ["Seoul Station"]),
        ("tower nor", ["North Seoul Tower"]),
        ("sao", ["São Paulo"]),
        ("so", ["South Korea"]),
        ("東", ["東京駅"]),
        ("京", ["東京駅"]),
        ("서울", ["서울역"]),
        ("new-yo", ["new york"]),
        ("zzzz", []),
        ("nroth", ["North Seoul Tower"]),
        ("statoin", ["Seoul Station"]),
    ],
)
async def test_values_by_prefix_then_by_any_word_then_by_likeness(app: App, places: str, query: str, found: list[str]):
    assert await suggestions(app, places, query) == found


async def test_a_limit(app: App, places: str):
    assert await suggestions(app, places, "seo", limit=2) == ["Seoul", "Seoul Station"]
    assert await suggestions(app, places, "seo", limit=0) == []


async def test_values_that_thousands_of_rows_have_are_one_suggestion_each(app: App):
    table = await app.table({"name": "string"})
    await fill(app, table, [{"name": "active"}] * 1000)
    await fill(app, table, [{"name": "Active"}, {"name": "activated"}, {"name": "actual"}, {"name": "other"}])
    assert [value.lower() for value in await suggestions(app, table, "act")] == ["activated", "active", "actual"]


async def test_a_long_text_is_not_suggested(app: App):
    table = await app.table({"name": "string"})
    await fill(app, table, [{"name": "needle " + "x" * 200}, {"name": "ﷺ" * 200}, {"name": "needle"}])
    assert await suggestions(app, table, "needle") == ["needle"]


async def test_columns_may_have_any_name(app: App):
    names = ["key", "value", "read", "first", "walk", "matched", "following"]
    table = await app.table(dict.fromkeys(names, "string"))
    await fill(app, table, [dict.fromkeys(names, "needle")] * 1000)
    for name in names:
        for query in ("need", "neelde"):
            assert await suggestions(app, table, query, field=name) == ["needle"]


async def test_free_form_fields(app: App):
    table = await app.table({})
    await fill(app, table, [{"name": "needle"}, {"name": 7}, {"a b": "thread"}])
    assert await suggestions(app, table, "need") == ["needle"]
    assert await suggestions(app, table, "thr", field="a b") == ["thread"]


@pytest.mark.parametrize(
    "more",
    [
        {"query": "x" * 501},
        {"query": 7},
        {"field": "size"},
        {"limit": -1},
        {"limit": "many"},
        {"table_id": "x"},
        {"filter": {}},
    ],
)
async def test_bad_requests(app: App, places: str, more: dict[str, Any]):
    body = {"table_id": places, "query": "seo", "field": "name", **more}
    async with app.client() as client:
        assert_error(await client.post("/v1/public/autocomplete", json=body), 400, "VALIDATION_FAILED")


@pytest.mark.parametrize("query", ["", " - "])
async def test_an_empty_or_wordless_query_completes_nothing(app: App, places: str, query: str):
    assert await suggestions(app, places, query) == []
    assert_error(await complete(app, places, query, field="nothing"), 400, "UNKNOWN_COLUMN")


async def test_fields_that_cannot_be_completed(app: App, places: str):
    assert_error(await complete(app, places, "x", field="nothing"), 400, "UNKNOWN_COLUMN")
    assert_error(await complete(app, places, "x", field='name" or true --'), 400, "UNKNOWN_COLUMN")
    assert_error(await complete(app, places, "x", field="secret"), 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")


async def test_members_complete_from_their_own_rows_only(app: App):
    ada, bob = await app.member("ada"), await app.member("bob")
    table = await app.table({"name": "string"}, "Creator")
    await app.row(table, {"name": "kitchen"}, ada["access_token"])
    for query in ("kit", "kitchen", "kicthen"):
        assert (await complete(app, table, query, ada["access_token"])).json() == {"suggestions": ["kitchen"]}
        assert (await complete(app, table, query, bob["access_token"])).json() == {"suggestions": []}
    assert_error(await complete(app, table, "kit"), 401, "MEMBER_TOKEN_REQUIRED")
