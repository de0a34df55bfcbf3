"""Class A1: a name from a request reaches SQL nowhere. Every place that takes a name is given every hostile one."""

import copy
import json
from typing import Any

import httpx
import pytest

from tests.support import App, assert_error

pytestmark = pytest.mark.share(0.34)

TABLES = "/v1/public/tables"
NAMES = [
    'a"b',
    "a'b",
    "a->>'b",
    "a'->'b",
    "a;--",
    "a\\'b",
    "a/*b*/",
    "a) or (1=1",
    "'||pg_sleep(9)||'",
    "1); drop table apps; --",
    "$",
    "$1",
    "%s",
    "{0}",
    "a b",
    "\u0430",  # Cyrillic
    "\uff41",  # full width: the same letter under NFKC
    "a\u200b",
    "\u202ea",
    "a\ufeff",
    "__proto__",
    "__class__",
    "__creator",
    "ctid",
    "x" * 10_000,
]

# Places where a name is looked up, each a path and a body; NAME is the name and TABLE the table.
LOOKED_UP: dict[str, tuple[str, Any]] = {
    "where": ("/data/query", {"where": {"NAME": 1}}),
    "where with an operator": ("/data/query", {"where": {"NAME": {"$gt": 1}}}),
    "where inside $or": ("/data/query", {"where": {"$or": [{"a": "x"}, {"$not": {"NAME": 1}}]}}),
    "where with a path": ("/data/query", {"where": {"NAME.k": 1}}),
    "order_by": ("/data/query", {"order_by": "NAME"}),
    "order_by with a path": ("/data/query", {"order_by": "NAME.k"}),
    "order_direction": ("/data/query", {"order_by": "a", "order_direction": "NAME"}),
    "delete-where": ("/data/delete-where", {"where": {"NAME": {"$ne": 1}}}),
    "a row's field": ("/data", {"data": {"NAME": 1}}),
    "a bulk row's field": ("/data/bulk", {"data": [{"NAME": 1}]}),
    "search": ("/v1/public/search", {"table_id": "TABLE", "query": "x", "fields": ["NAME"]}),
    "search in a path": ("/v1/public/search", {"table_id": "TABLE", "query": "x", "fields": ["NAME.k"]}),
    "autocomplete": ("/v1/public/autocomplete", {"table_id": "TABLE", "query": "x", "field": "NAME"}),
    "geo": (
        "/v1/public/geo",
        {"table_id": "TABLE", "field": "NAME", "near": {"center": {"latitude": 0, "longitude": 0}}},
    ),
    "a change in a transaction": (
        "/v1/public/transactions",
        {"operations": [{"type": "update", "table_id": "TABLE", "doc_id": "ROW", "data": {"NAME": 1}}]},
    ),
    "$inc in a transaction": (
        "/v1/public/transactions",
        {"operations": [{"type": "update", "table_id": "TABLE", "doc_id": "ROW", "data": {"NAME": {"$inc": 1}}}]},
    ),
    "a type of operation": ("/v1/public/transactions", {"operations": [{"type": "NAME", "table_id": "TABLE"}]}),
    **{
        f"aggregate {label}": ("/v1/public/aggregate", {"table_id": "TABLE", "pipeline": [stage]})
        for label, stage in {
            "$match": {"$match": {"NAME": 1}},
            "$sort": {"$sort": {"NAME": 1}},
            "$group._id": {"$group": {"_id": "$NAME"}},
            "a member of $group._id": {"$group": {"_id": {"x": "$NAME"}}},
            "$sum": {"$group": {"_id": None, "x": {"$sum": "$NAME"}}},
            "$sum of a path": {"$group": {"_id": None, "x": {"$sum": "$NAME.k"}}},
            "an accumulator": {"$group": {"_id": None, "x": {"NAME": "$n"}}},
            "$project": {"$project": {"NAME": 1}},
            "an expression": {"$project": {"x": {"$concat": ["$NAME", "!"]}}},
            "an operator": {"$project": {"x": {"$NAME": ["$n", 1]}}},
            "$unwind": {"$unwind": "$NAME"},
            "a format": {"$project": {"x": {"$dateToString": {"date": "$d", "format": "%QNAME"}}}},
            "a time zone": {"$project": {"x": {"$dateToString": {"date": "$d", "timezone": "NAME"}}}},
            "a unit": {"$project": {"x": {"$dateTrunc": {"date": "$d", "unit": "NAME"}}}},
            "a stage": {"NAME": {}},
        }.items()
    },
}


def filled(value: Any, **words: str) -> Any:
    """Put words into a body, in keys and texts alike."""
    if isinstance(value, dict):
        return {filled(key, **words): filled(item, **words) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, **words) for item in value]
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
    return value


@pytest.fixture
async def world(app: App) -> tuple[App, str, dict[str, Any]]:
    table = await app.table({"a": "string", "n": "int", "o": "object", "tags": "array", "d": "date"})
    row = await app.row(table, {"a": "x", "n": 1, "o": {"k": 1}, "tags": [1, 2], "d": "2026-01-01"})
    return app, table, row


async def assert_nothing_happened(app: App, table: str, row: dict[str, Any]) -> None:
    async with app.client() as client:
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]
        assert [one["id"] for one in (await client.get(TABLES)).json()["tables"]] == [table]


def assert_says_nothing_of_sql(answer: httpx.Response, name: str) -> None:
    text = answer.text.replace(json.dumps(name, ensure_ascii=False)[1:-1], "").lower()
    assert not [word for word in ("select ", "syntax", "postgres", "traceback", " from app_", "__e") if word in text]


@pytest.mark.advisory("GHSA-c442-97qw-j6c6", "GHSA-qpr4-jrj4-6f27", "GHSA-p2w6-rmh7-w8q3")
@pytest.mark.parametrize("place", LOOKED_UP)
async def test_a_hostile_name_is_unknown_wherever_it_is_looked_up(world: tuple[App, str, dict[str, Any]], place: str):
    app, table, row = world
    path, body = LOOKED_UP[place]
    async with app.client() as client:
        for name in NAMES:
            given = filled(copy.deepcopy(body), NAME=name, TABLE=table, ROW=row["id"])
            answer = await client.post(path if path.startswith("/v1") else f"{TABLES}/{table}{path}", json=given)
            assert answer.status_code == 400, (name[:40], answer.text)
            # What slept in the database would be cut off after its five seconds.
            assert answer.json()["code"] != "QUERY_TIMEOUT", name[:40]
            assert_says_nothing_of_sql(answer, name)
    await assert_nothing_happened(app, table, row)


@pytest.mark.advisory("GHSA-c2hr-cqg6-8j6r", "GHSA-6927-3vr9-fxf2")
@pytest.mark.parametrize(
    "text",
    [
        "a'||pg_sleep(9)||'b",
        "a' or '1'='1",
        "\\Qa\\' or 1=1 --\\E",
        "a\\",
        "a\\'; drop table x; --",
        "a$$; select 1; $$b",
        'a"b',
        "a--b",
        "a/*b*/",
        "%_a",
        "a\\Eb",
        "a\nb",
    ],
)
async def test_a_hostile_text_is_looked_for_letter_by_letter(app: App, text: str):
    """As a value, and as a pattern that means the same letters: it finds itself and nothing else."""
    table = await app.table({"a": "string", "o": "object"})
    row = await app.row(table, {"a": f"x{text}y", "o": {"k": f"x{text}y"}})
    await app.row(table, {"a": "something else", "o": {"k": "something else"}})
    pattern = "".join(letter if letter.isalnum() else f"\\{letter}" for letter in text)
    async with app.client() as client:
        for field in ("a", "o.k"):
            for where in (
                {field: f"x{text}y"},
                {field: {"$contains": text}},
                {field: {"$startsWith": f"x{text}"}},
                {field: {"$endsWith": f"{text}y"}},
                {field: {"$matches": f"^x{pattern}y$"}},
                {field: {"$in": [f"x{text}y"]}},
            ):
                found = await client.post(f"{TABLES}/{table}/data/query", json={"where": where})
                assert [one["id"] for one in found.json()["data"]] == [row["id"]], (where, found.text)
                body = {"table_id": table, "pipeline": [{"$match": where}, {"$count": "n"}]}
                assert (await client.post("/v1/public/aggregate", json=body)).json()["data"] == [{"n": 1}], where
        answer = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"a": {"$matches": text}}})
        assert answer.status_code in {200, 400}
        assert_says_nothing_of_sql(answer, text)


@pytest.mark.advisory("GHSA-p2w6-rmh7-w8q3")
async def test_a_hostile_name_of_an_output_is_shown_as_it_is(world: tuple[App, str, dict[str, Any]]):
    app, table, row = world
    async with app.client() as client:
        for name in NAMES:
            for stage in (
                {"$project": {"id": 0, name: "$n"}},
                {"$addFields": {name: "$n"}},
                {"$group": {"_id": None, name: {"$max": "$n"}}},
                {"$group": {"_id": {name: "$n"}}},
                {"$project": {"id": 0, "x": {name: "$n"}}},
                {"$unwind": {"path": "$tags", "includeArrayIndex": name}},
                {"$count": name},
            ):
                body = {"table_id": table, "pipeline": [stage]}
                answer = await client.post("/v1/public/aggregate", json=body)
                if name.startswith("$"):
                    assert answer.status_code == 400, answer.text
                    continue
                assert answer.status_code == 200, (name[:40], answer.text[:300])
                document = answer.json()["data"][0]
                found = [part for part in (document, document.get("_id"), document.get("x")) if isinstance(part, dict)]
                assert any(part.get(name) in {0, 1} for part in found), (stage, document)
            without = {"table_id": table, "pipeline": [{"$project": {name: 0}}]}
            answer = await client.post("/v1/public/aggregate", json=without)
            assert answer.json()["data"][0]["o"] == {"k": 1}, name
    await assert_nothing_happened(app, table, row)


@pytest.mark.advisory("GHSA-gqpp-xgvh-9h7h", "GHSA-q3vj-96h2-gwvg", "GHSA-qpr4-jrj4-6f27", "parse-server#10261")
async def test_a_hostile_name_inside_json_is_a_name_like_any_other(app: App):
    """Below an object column, and in a table that takes any field, a name is whatever the user says."""
    table, free = await app.table({"o": "object"}), await app.table({})
    async with app.client() as client:
        for name in [*NAMES, "a,b", "{a,b}", "null", "0", "-1", '{"', '"}', "\n"]:
            if name == "x" * 10_000:
                continue
            row = await app.row(table, {"o": {name: {name: 7}, "k": 1}})
            query = {"where": {f"o.{name}.{name}": 7}, "order_by": f"o.{name}"}
            found = (await client.post(f"{TABLES}/{table}/data/query", json=query)).json()
            assert [one["id"] for one in found["data"]] == [row["id"]], name
            pipeline = [{"$match": {"id": row["id"]}}, {"$group": {"_id": f"$o.{name}.{name}"}}]
            grouped = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
            assert grouped.json()["data"] == [{"_id": 7}], name
            if not name or name.startswith("__"):
                refused = await client.post(f"{TABLES}/{free}/data", json={"data": {name: 1}})
                assert_error(refused, 400, "INVALID_COLUMN_NAME")
                continue
            made = await app.row(free, {name: 1})
            assert made["data"] == {name: 1}
            change = {"data": {name: {"$inc": 41}}}
            changed = await client.patch(f"{TABLES}/{free}/data/{made['id']}", json=change)
            assert changed.json()["data"] == {name: 42}, (name, changed.text)
            if not name.startswith("$"):
                found = (await client.post(f"{TABLES}/{free}/data/query", json={"where": {name: 42}})).json()
                assert [one["id"] for one in found["data"]] == [made["id"]], name
            assert (await client.delete(f"{TABLES}/{free}/data/{made['id']}")).status_code == 200


@pytest.mark.advisory("GHSA-gqpp-xgvh-9h7h", "GHSA-q3vj-96h2-gwvg")
async def test_a_dotted_name_is_no_path_in_an_increment(app: App):
    table = await app.table({"o": "object", "n": "int"})
    row = await app.row(table, {"o": {"k": 1}, "n": 1})
    async with app.client() as client:
        for name in ("o.k", "n.k", "o.k'", 'o."k"', "o.k = 0, n"):
            answer = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {name: {"$inc": 1}}})
            assert_error(answer, 400, "UNKNOWN_COLUMN")
        for amount in ("1", "1); drop table x; --", {"$inc": 1}, [1], True, None):
            answer = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {"n": {"$inc": amount}}})
            assert answer.status_code == 400, answer.text
    await assert_nothing_happened(app, table, row)


@pytest.mark.advisory("GHSA-p2w6-rmh7-w8q3", "GHSA-c442-97qw-j6c6")
async def test_the_character_0_is_refused_in_every_name(world: tuple[App, str, dict[str, Any]]):
    app, table, row = world
    async with app.client() as client:
        for path, body in LOOKED_UP.values():
            given = filled(copy.deepcopy(body), NAME="a\0b", TABLE=table, ROW=row["id"])
            answer = await client.post(path if path.startswith("/v1") else f"{TABLES}/{table}{path}", json=given)
            assert answer.status_code == 400, answer.text
        for stage in ({"$project": {"a\0": "$n"}}, {"$count": "\0"}):
            answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": [stage]})
            assert_error(answer, 400, "VALIDATION_FAILED")
    await assert_nothing_happened(app, table, row)


@pytest.mark.advisory("GHSA-c442-97qw-j6c6")
async def test_a_column_cannot_be_given_a_hostile_name(world: tuple[App, str, dict[str, Any]]):
    app, table, row = world
    definable = {"\u0430", "\uff41", "ctid"}  # letters of another script, and words of the database
    async with app.client() as client:
        for name in NAMES:
            if name not in definable:
                answer = await client.post(f"{TABLES}/{table}/columns", json={"name": name, "data_type": "int"})
                assert answer.status_code == 400, (name[:40], answer.text)
                definition = {"title": "t", "schema": {name: "int"}, "access_level": "Public"}
                assert (await client.post(TABLES, json=definition)).status_code == 400
            if "/" not in name:
                answer = await client.delete(f"{TABLES}/{table}/columns/{httpx.URL('/' + name).raw_path.decode()[1:]}")
                assert answer.status_code in {400, 404}, answer.text
    await assert_nothing_happened(app, table, row)
