"""Interface: Advanced data routes, search."""

import random
from typing import Any

import httpx
import pytest

from tests.support import App, assert_error

BOOKS = [
    {"title": "Python cookbook", "body": "Recipes for the working programmer"},
    {"title": "Snakes of Africa", "body": "The rock python and its cousins"},
    {"title": "Cooking for two", "body": "Recipes for a small kitchen"},
    {"title": "東京都の歴史", "body": "江戸から今日まで"},
    {"title": "서울에서 부산까지", "body": "대한민국 여행"},
    {"title": "北京手机 guide", "body": "iPhone手机"},
    {"title": "Crème brûlée", "body": "Façade & <b>naïve</b> desserts"},
    {"title": "Thai ภาษาไทย", "body": "हिन्दी सेब"},
]


async def search(app: App, table: str, query: str, token: str | None = None, **more: Any) -> httpx.Response:
    async with app.client(token) as client:
        return await client.post("/v1/public/search", json={"table_id": table, "query": query, **more})


async def titles(app: App, table: str, query: str, **more: Any) -> list[str]:
    answer = await search(app, table, query, **more)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total_count"] == len(answer.json()["data"])
    return [item["data"]["title"] for item in answer.json()["data"]]


async def fill(app: App, table: str, rows: list[dict[str, Any]], token: str | None = None) -> None:
    async with app.client(token) as client:
        answer = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
    assert answer.status_code == 201, answer.text


@pytest.fixture
async def books(app: App) -> str:
    table = await app.table({"title": "string", "body": "string", "pages": "int"})
    await fill(app, table, BOOKS)
    return table


async def test_finds_rows_with_score_and_highlights(app: App, books: str):
    answer = await search(app, books, "python", fields=["title", "body"], limit=10)
    body = answer.json()
    assert body["total_count"] == 2
    first, second = body["data"]
    assert set(first) == {"id", "data", "created_at", "updated_at", "score", "highlights"}
    assert first["data"]["title"] == "Python cookbook"
    assert first["highlights"] == {"title": "<mark>Python</mark> cookbook"}
    assert second["highlights"] == {"body": "The rock <mark>python</mark> and its cousins"}
    assert first["score"] > second["score"] > 0


async def test_earlier_fields_weigh_more(app: App, books: str):
    assert (await titles(app, books, "python", fields=["title", "body"]))[0] == "Python cookbook"
    assert (await titles(app, books, "python", fields=["body", "title"]))[0] == "Snakes of Africa"


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("recipes kitchen", {"Cooking for two"}),
        ("kitchen COOKING", {"Cooking for two"}),
        ("recipes kitch", {"Cooking for two"}),
        ("cook", {"Python cookbook", "Cooking for two"}),
        ('"recipes for the"', {"Python cookbook"}),
        ('"for recipes"', set()),
        ("recipes -kitchen", {"Python cookbook"}),
        ('recipes -"small kitchen"', {"Python cookbook"}),
        ("creme brulee", {"Crème brûlée"}),
        ("CRÈME", {"Crème brûlée"}),
        ("ｐｙｔｈｏｎ", {"Python cookbook", "Snakes of Africa"}),
        ("naive", {"Crème brûlée"}),
        ("東京", {"東京都の歴史"}),
        ("京都", {"東京都の歴史"}),
        ("東京都", {"東京都の歴史"}),
        ("京", {"東京都の歴史", "北京手机 guide"}),
        ("今日 歴史", {"東京都の歴史"}),
        ("서울", {"서울에서 부산까지"}),
        ("민국", {"서울에서 부산까지"}),
        ("부산 여행", {"서울에서 부산까지"}),
        ("iphone手机", {"北京手机 guide"}),
        ("ภาษา", {"Thai ภาษาไทย"}),
        ("सेब", {"Thai ภาษาไทย"}),
    ],
)
async def test_words_phrases_exclusions_and_scripts(app: App, books: str, query: str, found: set[str]):
    assert set(await titles(app, books, query)) == found


@pytest.mark.parametrize(("query", "title"), [("pyhton", "Python cookbook"), ("kicthen", "Cooking for two")])
async def test_typing_errors_are_forgiven_where_nothing_else_is_found(app: App, books: str, query: str, title: str):
    assert title in await titles(app, books, query)


async def test_a_forgiven_word_is_highlighted(app: App, books: str):
    item = (await search(app, books, "kicthen")).json()["data"][0]
    assert item["highlights"] == {"body": "Recipes for a small <mark>kitchen</mark>"}


async def test_a_phrase_forgives_nothing(app: App, books: str):
    assert await titles(app, books, '"pyhton cookbook"') == []


async def test_highlights_are_safe_html(app: App, books: str):
    item = (await search(app, books, "naive")).json()["data"][0]
    assert item["highlights"]["body"] == "Façade &amp; &lt;b&gt;<mark>naïve</mark>&lt;/b&gt; desserts"


async def test_a_long_text_is_cut_around_the_match(app: App):
    table = await app.table({"body": "string"})
    await app.row(table, {"body": "lorem ipsum " * 100 + "needle" + " dolor sit" * 100})
    highlight = (await search(app, table, "needle")).json()["data"][0]["highlights"]["body"]
    assert "<mark>needle</mark>" in highlight
    assert highlight.startswith("…")
    assert highlight.endswith("…")
    assert len(highlight) < 300


async def test_a_page_and_the_total(app: App):
    table = await app.table({"name": "string"})
    await fill(app, table, [{"name": f"word {number}"} for number in range(30)])
    first = (await search(app, table, "word")).json()
    rest = (await search(app, table, "word", offset=20, limit=20)).json()
    assert [len(first["data"]), len(rest["data"])] == [20, 10]
    assert first["total_count"] == rest["total_count"] == 30
    assert len({item["id"] for item in first["data"] + rest["data"]}) == 30
    assert (await search(app, table, "word", limit=0)).json() == {"data": [], "total_count": 30}
    assert (await search(app, table, "word", limit=5000)).json()["total_count"] == 30
    assert (await search(app, table, "word", offset=100)).json() == {"data": [], "total_count": 30}


async def test_free_form_fields_and_paths(app: App):
    table = await app.table({})
    await fill(
        app,
        table,
        [{"it's": "needle one"}, {"a": {"b": "needle two"}}, {"a": {"b": 7}}, {"other": "needle"}],
    )
    assert (await search(app, table, "needle", fields=["it's", "a.b"])).json()["total_count"] == 2
    assert (await search(app, table, "needle", fields=["it's"])).json()["data"][0]["highlights"] == {
        "it's": "<mark>needle</mark> one"
    }
    assert_error(await search(app, table, "needle"), 400, "VALIDATION_FAILED")


async def test_a_path_into_an_object_column(app: App):
    table = await app.table({"address": "object", "name": "string"})
    await app.row(table, {"address": {"city": "Ghent"}, "name": "x"})
    assert (await search(app, table, "ghen", fields=["address.city"])).json()["total_count"] == 1


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("x" * 501, {}),
        ("a " * 40, {}),
        ("python", {"fields": []}),
        ("python", {"fields": ["pages"]}),
        ("python", {"limit": -1}),
        ("python", {"fields": "title"}),
    ],
)
async def test_bad_requests(app: App, books: str, query: str, more: dict[str, Any]):
    assert_error(await search(app, books, query, **more), 400, "VALIDATION_FAILED")


@pytest.mark.parametrize("query", ["", "   ", '"" - -- "-"', "-only -excluded", "… — ¿"])
async def test_an_empty_or_wordless_search_finds_nothing(app: App, books: str, query: str):
    answer = await search(app, books, query)
    assert (answer.status_code, answer.json()) == (200, {"data": [], "total_count": 0})
    assert_error(await search(app, books, query, fields=["pages"]), 400, "VALIDATION_FAILED")
    assert_error(await search(app, books, query, fields=["nothing"]), 400, "UNKNOWN_COLUMN")


async def test_a_field_named_twice_counts_once(app: App, books: str):
    body = (await search(app, books, "python", fields=["title", "title"])).json()
    assert [item["highlights"] for item in body["data"]] == [{"title": "<mark>Python</mark> cookbook"}]


@pytest.mark.parametrize("name", ["nothing", 'title"', "title'; drop table x --", "__creator", "id", "title.x", ""])
async def test_unknown_fields(app: App, books: str, name: str):
    assert_error(await search(app, books, "python", fields=[name]), 400, "UNKNOWN_COLUMN")


@pytest.mark.parametrize("query", ["'a' & 'b", "a\\", ":*", "a:*", "!a | b", "(a", "a <-> b", "%a_", "a\n b", "😀 x"])
async def test_operators_of_the_database_mean_nothing(app: App, books: str, query: str):
    answer = await search(app, books, query)
    assert answer.status_code == 200, answer.text


async def test_columns_may_have_any_name(app: App):
    names = ["place", "score", "whole", "texts", "item", "key", "value", "found", "matched", "total_count", "ctid"]
    table = await app.table(dict.fromkeys(names, "string"))
    await app.row(table, dict.fromkeys(names, "needle"))
    for query in ("needle", "neelde"):
        body = (await search(app, table, query)).json()
        assert body["total_count"] == 1, body
        assert set(body["data"][0]["highlights"]) == set(names)


async def test_encrypted_columns_are_not_searched(app: App):
    table = await app.table({"name": "string", "secret": {"type": "string", "encrypted": True}})
    await app.row(table, {"name": "open", "secret": "hidden"})
    assert_error(await search(app, table, "hidden", fields=["secret"]), 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
    assert (await search(app, table, "hidden")).json()["total_count"] == 0
    assert (await search(app, table, "open")).json()["data"][0]["data"] == {"name": "open", "secret": "hidden"}


async def test_members_find_their_own_rows_only(app: App):
    ada, bob = await app.member("ada"), await app.member("bob")
    table = await app.table({"name": "string"}, "Creator")
    await app.row(table, {"name": "kitchen"}, ada["access_token"])
    mine = await search(app, table, "kitchen", ada["access_token"])
    assert mine.json()["total_count"] == 1
    for query in ("kitchen", "kicthen"):
        others = await search(app, table, query, bob["access_token"])
        assert others.json() == {"data": [], "total_count": 0}
    assert_error(await search(app, table, "kitchen"), 401, "MEMBER_TOKEN_REQUIRED")


async def test_another_apps_table_is_not_there(app: App, other_app: App, books: str):
    assert_error(await search(other_app, books, "python"), 404, "TABLE_NOT_FOUND")


async def test_texts_too_long_for_a_tsvector(app: App):
    table = await app.table({"body": "string"})
    await app.row(table, {"body": "needle " + " ".join(f"w{number}" for number in range(120_000))})
    await app.row(table, {"body": "x" * 900_000 + " needle"})
    assert (await search(app, table, "needle")).json()["total_count"] == 1


async def test_a_text_of_very_many_different_signs_does_not_end_search_for_all(app: App):
    table = await app.table({"text": "string"})
    signs = random.Random(1)
    huge = "".join(chr(signs.randrange(0x20000, 0x2A6D0)) for _ in range(100_000))
    await app.row(table, {"text": huge})
    await app.row(table, {"text": "needle"})
    async with app.client() as client:
        for query, expected in (("needle", 1), (huge[5000:5006], 1)):
            body = {"table_id": table, "query": query, "limit": 0}
            answer = await client.post("/v1/public/search", json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json()["total_count"] == expected
