"""Interface: POST /v1/public/aggregate. The facts, not the words, of MongoDB's manual on each stage and operator."""

import json
from decimal import Decimal
from typing import Any

import httpx
import pytest

from tests.support import App, assert_error

SALES_SCHEMA = {"item": "string", "price": "number", "quantity": "int", "date": "date"}
SALES = [
    {"item": "abc", "price": 10, "quantity": 2, "date": "2014-03-01T08:00:00Z"},
    {"item": "jkl", "price": 20, "quantity": 1, "date": "2014-03-01T09:00:00Z"},
    {"item": "xyz", "price": 5, "quantity": 10, "date": "2014-03-15T09:00:00Z"},
    {"item": "xyz", "price": 5, "quantity": 20, "date": "2014-04-04T11:21:39.736Z"},
    {"item": "abc", "price": 10, "quantity": 10, "date": "2014-04-04T21:23:13.331Z"},
    {"item": "def", "price": 7.5, "quantity": 5, "date": "2015-06-04T05:08:13Z"},
    {"item": "def", "price": 7.5, "quantity": 10, "date": "2015-09-10T08:43:00Z"},
    {"item": "abc", "price": 10, "quantity": 5, "date": "2016-02-06T20:20:13Z"},
]
AMOUNT = {"$multiply": ["$price", "$quantity"]}


async def loaded(app: App, schema: dict[str, Any], rows: list[dict[str, Any]], access_level: str = "Public") -> str:
    table = await app.table(schema, access_level)
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data", json={"data": rows})
    assert answer.status_code == 201, answer.text
    return table


async def aggregate(app: App, table: str, pipeline: list[dict[str, Any]], token: str | None = None) -> Any:
    async with app.client(token) as client:
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
    assert answer.status_code == 200, answer.text
    body = json.loads(answer.text, parse_float=Decimal)
    assert set(body) == {"data", "total_count"}
    assert body["total_count"] == len(body["data"])
    return body["data"]


async def test_group_by_item_having_a_total(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    pipeline = [
        {"$group": {"_id": "$item", "total": {"$sum": AMOUNT}}},
        {"$match": {"total": {"$gte": 100}}},
        {"$sort": {"_id": 1}},
    ]
    totals = [{"_id": "abc", "total": 170}, {"_id": "def", "total": Decimal("112.5")}, {"_id": "xyz", "total": 150}]
    assert await aggregate(app, table, pipeline) == totals


async def test_group_by_day_of_one_year(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    pipeline = [
        {"$match": {"date": {"$gte": "2014-01-01", "$lt": "2015-01-01"}}},
        {
            "$group": {
                "_id": {"$dateToString": {"format": "%Y-%m-%d", "date": "$date"}},
                "total": {"$sum": AMOUNT},
                "average": {"$avg": "$quantity"},
                "count": {"$sum": 1},
            }
        },
        {"$sort": {"total": -1}},
    ]
    assert await aggregate(app, table, pipeline) == [
        {"_id": "2014-04-04", "total": 200, "average": 15, "count": 2},
        {"_id": "2014-03-15", "total": 50, "average": 10, "count": 1},
        {"_id": "2014-03-01", "total": 40, "average": Decimal("1.5"), "count": 2},
    ]


async def test_a_null_id_groups_everything(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    group = {"_id": None, "total": {"$sum": AMOUNT}, "average": {"$avg": "$quantity"}, "n": {"$count": {}}}
    assert await aggregate(app, table, [{"$group": group}]) == [
        {"_id": None, "total": Decimal("452.5"), "average": Decimal("7.875"), "n": 8}
    ]
    assert await aggregate(app, table, [{"$match": {"item": "none"}}, {"$group": group}]) == []


async def test_a_compound_id(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    pipeline = [
        {"$group": {"_id": {"y": {"$year": "$date"}, "item": "$item"}, "n": {"$sum": 1}}},
        {"$match": {"_id.y": 2014}},
        {"$sort": {"_id.item": -1}},
        {"$project": {"_id": 0, "item": "$_id.item", "n": 1}},
    ]
    expected = [{"item": "xyz", "n": 2}, {"item": "jkl", "n": 1}, {"item": "abc", "n": 2}]
    assert await aggregate(app, table, pipeline) == expected


async def test_every_accumulator(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    pipeline = [
        {"$sort": {"date": 1}},
        {
            "$group": {
                "_id": "$item",
                "sum": {"$sum": "$quantity"},
                "avg": {"$avg": "$quantity"},
                "min": {"$min": "$quantity"},
                "max": {"$max": "$date"},
                "count": {"$count": {}},
                "first": {"$first": "$quantity"},
                "last": {"$last": "$quantity"},
                "push": {"$push": "$quantity"},
                "set": {"$addToSet": "$price"},
            }
        },
        {"$match": {"_id": "abc"}},
    ]
    (abc,) = await aggregate(app, table, pipeline)
    assert abc.pop("avg") == pytest.approx(Decimal(17) / 3)
    assert abc == {
        "_id": "abc",
        "sum": 17,
        "min": 2,
        "max": "2016-02-06T20:20:13.000Z",
        "count": 3,
        "first": 2,
        "last": 5,
        "push": [2, 10, 5],
        "set": [10],
    }


MIXED = [{"k": 1}, {"k": "a"}, {"k": None}, {"other": True}, {"k": True}, {"k": [1]}, {"k": {"a": 1}}, {"k": 0.5}]


async def test_types_sort_in_bson_order_and_missing_counts_as_null(app: App):
    table = await loaded(app, {}, MIXED)
    pipeline = [{"$sort": {"k": 1, "id": 1}}, {"$project": {"id": 0, "k": 1}}]
    expected = [{"k": None}, {}, {"k": Decimal("0.5")}, {"k": 1}, {"k": "a"}, {"k": {"a": 1}}, {"k": [1]}, {"k": True}]
    assert await aggregate(app, table, pipeline) == expected
    pipeline[0] = {"$sort": {"k": -1, "id": -1}}
    assert await aggregate(app, table, pipeline) == expected[::-1]


async def test_accumulators_pass_over_what_is_no_number_and_over_missing_fields(app: App):
    table = await loaded(app, {}, MIXED)
    group = {
        "_id": None,
        "sum": {"$sum": "$k"},
        "avg": {"$avg": "$k"},
        "min": {"$min": "$k"},
        "max": {"$max": "$k"},
        "push": {"$push": "$k"},
        "none": {"$avg": "$other"},
        "zero": {"$sum": "$absent"},
    }
    pipeline = [{"$group": group}]
    assert await aggregate(app, table, pipeline) == [
        {
            "_id": None,
            "sum": Decimal("1.5"),
            "avg": Decimal("0.75"),
            "min": Decimal("0.5"),
            "max": True,
            "push": [1, "a", None, True, [1], {"a": 1}, Decimal("0.5")],
            "none": None,
            "zero": 0,
        }
    ]


async def test_missing_and_null_are_one_group(app: App):
    table = await loaded(app, {}, MIXED)
    pipeline = [{"$group": {"_id": "$k", "n": {"$sum": 1}}}, {"$match": {"_id": None}}]
    assert await aggregate(app, table, pipeline) == [{"_id": None, "n": 2}]


async def test_unwind(app: App):
    rows = [
        {"item": "a", "sizes": ["S", "M"]},
        {"item": "b", "sizes": []},
        {"item": "c", "sizes": "M"},
        {"item": "d"},
        {"item": "e", "sizes": None},
    ]
    table = await loaded(app, {}, rows)
    shown = {"$project": {"id": 0, "created_at": 0, "updated_at": 0}}
    assert await aggregate(app, table, [{"$unwind": "$sizes"}, shown]) == [
        {"item": "a", "sizes": "S"},
        {"item": "a", "sizes": "M"},
        {"item": "c", "sizes": "M"},
    ]
    unwind = {"path": "$sizes", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "at"}
    kept = await aggregate(app, table, [{"$unwind": unwind}, {"$project": {"id": 0, "item": 1, "at": 1}}])
    assert [(row["item"], row["at"]) for row in kept] == [
        ("a", 0), ("a", 1), ("b", None), ("c", None), ("d", None), ("e", None)
    ]  # fmt: skip
    pipeline = [{"$unwind": "$sizes"}, {"$group": {"_id": "$sizes", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    assert await aggregate(app, table, pipeline) == [{"_id": "M", "n": 2}, {"_id": "S", "n": 1}]


async def test_project_and_add_fields(app: App):
    rows = [{"name": "x", "o": {"a": 1, "b": 2}, "n": 3}]
    table = await loaded(app, {"name": "string", "o": "object", "n": "int", "gone": "string"}, rows)
    cases = [
        ([{"$project": {"id": 0, "name": 1, "gone": 1}}], {"name": "x"}),
        ([{"$project": {"id": 0, "o.a": 1}}], {"o": {"a": 1}}),
        ([{"$project": {"id": 0, "o": 0, "created_at": 0, "updated_at": 0}}], {"name": "x", "n": 3}),
        ([{"$project": {"id": 0, "o.a": 0, "created_at": 0, "updated_at": 0, "n": 0}}], {"name": "x", "o": {"b": 2}}),
        ([{"$project": {"id": 0, "twice": {"$add": ["$n", "$n"]}}}], {"twice": 6}),
        ([{"$project": {"id": 0, "new": {"x": "$name", "y": {"$literal": "$n"}}}}], {"new": {"x": "x", "y": "$n"}}),
        (
            [{"$addFields": {"o.c": {"$add": ["$o.a", "$o.b"]}, "n": None}}, {"$project": {"id": 0, "o": 1, "n": 1}}],
            {"o": {"a": 1, "b": 2, "c": 3}, "n": None},
        ),
        ([{"$project": {"id": 0, "list": ["$n", "$gone", 1]}}], {"list": [3, None, 1]}),
    ]
    for pipeline, expected in cases:
        assert await aggregate(app, table, pipeline) == [expected], pipeline


async def test_count_limit_and_skip(app: App):
    table = await loaded(app, SALES_SCHEMA, SALES)
    assert await aggregate(app, table, [{"$match": {"item": "abc"}}, {"$count": "n"}]) == [{"n": 3}]
    assert await aggregate(app, table, [{"$match": {"item": "zzz"}}, {"$count": "n"}]) == []
    pipeline = [{"$sort": {"quantity": -1}}, {"$skip": 1}, {"$limit": 2}, {"$project": {"id": 0, "quantity": 1}}]
    assert await aggregate(app, table, pipeline) == [{"quantity": 10}, {"quantity": 10}]
    pipeline = [{"$limit": 3}, {"$group": {"_id": None, "n": {"$sum": 1}}}]
    assert await aggregate(app, table, pipeline) == [{"_id": None, "n": 3}]


VALUES = {
    "two": 2, "seven": 7, "neg": -2.5, "half": 2.5, "text": "Héllo", "empty": "", "nothing": None, "yes": True,
    "list": [1, "a", None], "when": "2014-01-01T08:15:39.736Z", "object": {"a": 1},
}  # fmt: skip

EXPRESSIONS: list[tuple[Any, Any]] = [
    ({"$add": ["$two", "$seven", 1]}, 10),
    ({"$add": ["$two", "$nothing"]}, None),
    ({"$add": ["$two", "$absent"]}, None),
    ({"$subtract": ["$two", "$seven"]}, -5),
    ({"$multiply": ["$half", "$two"]}, 5),
    ({"$divide": ["$seven", "$two"]}, Decimal("3.5")),
    ({"$divide": ["$two", "$nothing"]}, None),
    ({"$mod": ["$seven", "$two"]}, 1),
    ({"$mod": [-7, 2]}, -1),
    ({"$abs": "$neg"}, Decimal("2.5")),
    ({"$abs": "$nothing"}, None),
    ({"$ceil": "$neg"}, -2),
    ({"$floor": "$neg"}, -3),
    ({"$round": "$half"}, 2),
    ({"$round": ["$neg", 0]}, -2),
    ({"$round": [10.55, 1]}, Decimal("10.6")),
    ({"$round": [19.25, 1]}, Decimal("19.2")),
    ({"$round": [1234, -2]}, 1200),
    ({"$cond": {"if": "$yes", "then": 1, "else": 2}}, 1),
    ({"$cond": ["$nothing", 1, "no"]}, "no"),
    ({"$cond": ["$empty", "true", "false"]}, "true"),
    ({"$ifNull": ["$nothing", "$absent", "x"]}, "x"),
    ({"$ifNull": ["$two", "x"]}, 2),
    ({"$concat": ["$text", "!", "$empty"]}, "Héllo!"),
    ({"$concat": ["$text", "$nothing"]}, None),
    ({"$substr": ["$text", 1, 2]}, "él"),
    ({"$substr": ["$text", 2, -1]}, "llo"),
    ({"$substr": ["$nothing", 0, 1]}, ""),
    ({"$toLower": "$text"}, "héllo"),
    ({"$toUpper": "$text"}, "HÉLLO"),
    ({"$toUpper": "$nothing"}, ""),
    ({"$year": "$when"}, 2014),
    ({"$month": "$when"}, 1),
    ({"$dayOfMonth": "$when"}, 1),
    ({"$hour": "$when"}, 8),
    ({"$year": "$nothing"}, None),
    ({"$dateToString": {"date": "$when"}}, "2014-01-01T08:15:39.736Z"),
    ({"$dateToString": {"date": "$when", "format": "%Y%m%d %H:%M:%S:%L 100%%"}}, "20140101 08:15:39:736 100%"),
    ({"$eq": [{"$dateToString": {"date": "$when", "format": "%%"}}, "%"]}, True),
    ({"$gt": [{"$dateToString": {"date": "$when", "format": "%%"}}, {"$dateToString": {"date": "$when"}}]}, False),
    ({"$ifNull": [{"$dateToString": {"date": "$absent", "format": "%%"}}, "none"]}, "none"),
    ({"$dateToString": {"date": "$when", "format": "%j %u %V %G %z"}}, "001 3 01 2014 +0000"),
    ({"$dateToString": {"date": "$when", "format": "%H:%M %z", "timezone": "America/New_York"}}, "03:15 -0500"),
    ({"$dateToString": {"date": "$when", "format": "%H:%M", "timezone": "+04:30"}}, "12:45"),
    ({"$dateToString": {"date": "$nothing", "onNull": "none"}}, "none"),
    ({"$dateTrunc": {"date": "$when", "unit": "hour"}}, "2014-01-01T08:00:00.000Z"),
    ({"$dateTrunc": {"date": "$when", "unit": "week"}}, "2013-12-29T00:00:00.000Z"),
    ({"$dateTrunc": {"date": "$when", "unit": "week", "startOfWeek": "monday"}}, "2013-12-30T00:00:00.000Z"),
    ({"$dateTrunc": {"date": "$when", "unit": "day", "timezone": "Asia/Seoul"}}, "2013-12-31T15:00:00.000Z"),
    ({"$dateTrunc": {"date": "$when", "unit": "quarter"}}, "2014-01-01T00:00:00.000Z"),
    ({"$size": "$list"}, 3),
    ({"$in": ["a", "$list"]}, True),
    ({"$in": [None, "$list"]}, True),
    ({"$in": [2, "$list"]}, False),
    ({"$in": ["$two", [1, 2]]}, True),
    ({"$eq": ["$two", 2]}, True),
    ({"$eq": ["$two", "2"]}, False),
    ({"$ne": ["$two", "2"]}, True),
    ({"$gt": ["$text", "$seven"]}, True),
    ({"$gt": ["$seven", "$nothing"]}, True),
    ({"$lt": ["$nothing", 0]}, True),
    ({"$gte": ["$two", 2]}, True),
    ({"$lte": ["$seven", "$two"]}, False),
    ({"$gt": ["$yes", "$text"]}, True),
    ({"$lt": ["$object", "$list"]}, True),
    ({"$eq": ["$nothing", None]}, True),
    ({"$and": ["$yes", "$two", "$text"]}, True),
    ({"$and": ["$yes", 0]}, False),
    ({"$or": ["$nothing", 0, "$absent"]}, False),
    ({"$or": ["$nothing", "$yes"]}, True),
    ({"$not": ["$nothing"]}, True),
    ({"$not": "$yes"}, False),
    ({"$literal": {"$add": [1, 2]}}, {"$add": [1, 2]}),
]


async def test_expressions_over_free_form_fields_and_typed_columns(app: App):
    types = {
        "two": "int", "seven": "int", "neg": "number", "half": "number", "text": "string", "empty": "string",
        "nothing": "string", "yes": "boolean", "list": "array", "when": "date", "object": "object", "absent": "int",
    }  # fmt: skip
    for schema in ({}, types):
        table = await loaded(app, schema, [VALUES])
        projection = {f"f{number}": expression for number, (expression, _) in enumerate(EXPRESSIONS)}
        (row,) = await aggregate(app, table, [{"$project": {"id": 0, **projection}}])
        wrong = {
            str(expression): (row.get(f"f{number}"), expected)
            for number, (expression, expected) in enumerate(EXPRESSIONS)
            if row.get(f"f{number}") != expected
        }
        assert wrong == {}


async def test_whole_documents(app: App):
    table = await loaded(app, {"a": "int", "when": "date"}, [{"a": 1, "when": "2024-01-01"}])
    (row,) = await aggregate(app, table, [])
    assert set(row) == {"id", "a", "when", "created_at", "updated_at"}
    assert (row["a"], row["when"]) == (1, "2024-01-01")
    (group,) = await aggregate(app, table, [{"$group": {"_id": "$a", "rows": {"$push": "$$ROOT"}}}])
    assert group["rows"] == [row]


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "pipeline",
    [
        [{}],
        [{"$match": {}, "$sort": {"a": 1}}],
        [{"$lookup": {"from": "x"}}],
        [{"$out": "x"}],
        [{"$group": {"n": {"$sum": 1}}}],
        [{"$group": {"_id": None, "n": 1}}],
        [{"$group": {"_id": None, "n": {"$median": "$a"}}}],
        [{"$group": {"_id": None, "$n": {"$sum": 1}}}],
        [{"$sort": {}}],
        [{"$sort": {"a": 2}}],
        [{"$sort": {"a": True}}],
        [{"$limit": 0}],
        [{"$limit": -1}],
        [{"$limit": 1.5}],
        [{"$skip": -1}],
        [{"$count": ""}],
        [{"$count": "$a"}],
        [{"$project": {}}],
        [{"$project": {"a": 1, "b": 0}}],
        [{"$project": {"x": {"$foo": 1}}}],
        [{"$project": {"x": {"$add": [1], "$subtract": [1, 2]}}}],
        [{"$project": {"x": {"$divide": [1]}}}],
        [{"$project": {"x": {"$cond": [1, 2]}}}],
        [{"$project": {"x": {"$dateToString": {"date": "$when", "format": "%Q"}}}}],
        [{"$project": {"x": {"$dateToString": {"date": "$when", "timezone": "Nowhere/Land"}}}}],
        [{"$project": {"x": {"$dateTrunc": {"date": "$when", "unit": "eon"}}}}],
        [{"$unwind": "a"}],
        [{"$unwind": {"path": "$a", "sideways": True}}],
        [{"$limit": 1}] * 21,
        [{"$project": {"x": json.loads('{"$abs":' * 25 + "1" + "}" * 25)}}],
    ],
)
async def test_a_wrong_pipeline_is_refused(app: App, pipeline: list[Any]):
    table = await app.table({"a": "int", "b": "int", "when": "date"})
    async with app.client() as client:
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
    assert_error(answer, 400, "INVALID_PIPELINE")


HOSTILE = ['a"b', "a'b", "a->>'b", "a;--", "$", "a\\b", "x" * 10_000, "a') from users--", "‮", "__id", "a b"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_names_are_names(app: App, name: str):
    table = await loaded(app, {"a": "int"}, [{"a": 1}])
    async with app.client() as client:

        async def run(*pipeline: Any) -> Any:
            body = {"table_id": table, "pipeline": list(pipeline)}
            return await client.post("/v1/public/aggregate", json=body)

        for stage in (
            {"$group": {"_id": f"${name}"}},
            {"$sort": {name: 1}},
            {"$match": {name: 1}},
            {"$unwind": f"${name}"},
        ):
            answer = await run(stage)
            assert answer.status_code == 400, answer.text
            assert "SQL" not in answer.text.upper().replace(name.upper(), "")
        for stage in ({"$project": {"id": 0, name: "$a"}}, {"$group": {"_id": None, name: {"$sum": "$a"}}}):
            answer = await run(stage)
            if name.startswith("$"):
                assert answer.status_code == 400
            else:
                assert answer.json()["data"][0][name] == 1, answer.text


async def test_failing_calculations_are_told(app: App):
    table = await loaded(app, {"a": "int"}, [{"a": 1}])
    async with app.client() as client:
        for expression in ({"$divide": ["$a", 0]}, {"$mod": ["$a", 0]}):
            body = {"table_id": table, "pipeline": [{"$project": {"x": expression}}]}
            assert_error(await client.post("/v1/public/aggregate", json=body), 400, "CALCULATION_FAILED")


async def test_members_aggregate_their_own_rows_only(app: App):
    table = await app.table({"a": "int"}, "Creator")
    ada, bob = await app.member("ada"), await app.member("bob")
    await app.row(table, {"a": 1}, ada["access_token"])
    await app.row(table, {"a": 2}, bob["access_token"])
    pipeline = [{"$group": {"_id": None, "sum": {"$sum": "$a"}, "n": {"$sum": 1}}}, {"$project": {"_id": 0}}]
    assert await aggregate(app, table, pipeline, ada["access_token"]) == [{"sum": 1, "n": 1}]
    assert await aggregate(app, table, pipeline, app.secret_key) == [{"sum": 3, "n": 2}]
    async with app.client() as client:
        body = {"table_id": table, "pipeline": pipeline}
        assert_error(await client.post("/v1/public/aggregate", json=body), 401, "MEMBER_TOKEN_REQUIRED")


async def test_another_apps_table_is_not_there(app: App, other_app: App):
    table = await loaded(app, {"a": "int"}, [{"a": 1}])
    async with other_app.client() as client:
        body = {"table_id": table, "pipeline": []}
        assert_error(await client.post("/v1/public/aggregate", json=body), 404, "TABLE_NOT_FOUND")


async def test_a_computed_field_takes_the_place_of_an_explicit_null(app: App):
    table = await loaded(app, {"a": "int", "b": "int"}, [{"a": None, "b": None}])
    async with app.client() as client:
        pipeline = [{"$addFields": {"a": {"$ifNull": ["$a", 0]}}}, {"$project": {"b": 0}}]
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
        pairs = json.loads(answer.text, object_pairs_hook=list)
    document = dict(pairs)["data"][0]
    assert [(name, value) for name, value in document if name in "ab"] == [("a", 0)]


@pytest.mark.parametrize(
    ("given", "added", "expected"),
    [
        ({"x": 1}, {"o.q.z": 7}, {"x": 1, "q": {"z": 7}}),
        ({"x": 1}, {"o.x.z": 7}, {"x": {"z": 7}}),
        ({"x": [1]}, {"o.x.z": 7}, {"x": [1]}),
        ({}, {"o.x": None}, {"x": None}),
    ],
)
async def test_add_fields_makes_the_objects_on_its_way(app: App, given: Any, added: Any, expected: Any):
    table = await loaded(app, {"o": "object"}, [{"o": given}])
    assert await aggregate(app, table, [{"$addFields": added}, {"$project": {"id": 0, "o": 1}}]) == [{"o": expected}]
    free = await loaded(app, {}, [{"o": given}])
    assert await aggregate(app, free, [{"$addFields": added}, {"$project": {"id": 0, "o": 1}}]) == [{"o": expected}]


async def test_add_fields_inside_a_new_field(app: App):
    table = await loaded(app, {"a": "int"}, [{"a": 1}])
    pipeline = [{"$addFields": {"new.deep.er": "$a"}}, {"$project": {"id": 0, "new": 1}}]
    assert await aggregate(app, table, pipeline) == [{"new": {"deep": {"er": 1}}}]


async def test_leaving_out_what_is_inside_a_value_of_any_type(app: App):
    table = await loaded(app, {}, [{"k": {"y": {"z": 1, "a": 2}}}, {"k": 5}, {"k": [1]}, {"k": {"y": [1]}}])
    pipeline = [{"$group": {"_id": "$k"}}, {"$project": {"_id.y.z": 0}}, {"$sort": {"_id": 1}}]
    ids = [document["_id"] for document in await aggregate(app, table, pipeline)]
    assert sorted(map(str, ids)) == sorted(map(str, [5, {"y": [1]}, {"y": {"a": 2}}, [1]]))


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("+09", 9), ("+0530", 5), ("+05:30", 5), ("-03:30", 20), ("Asia/Seoul", 9), ("UTC", 0)],
)
async def test_offsets_and_zones(app: App, zone: str, hour: int):
    table = await loaded(app, {"d": "date"}, [{"d": "2026-01-01T00:00:00Z"}])
    date = {"date": "$d", "timezone": zone}
    stage = {"$project": {"id": 0, "part": {"$hour": date}, "text": {"$dateToString": {**date, "format": "%H"}}}}
    assert await aggregate(app, table, [stage]) == [{"part": hour, "text": f"{hour:02}"}]


async def test_milliseconds_are_added_to_dates(app: App):
    table = await loaded(app, {"d": "date", "n": "int"}, [{"d": "2026-01-01T09:00:00+09:00", "n": 1}, {"n": 2}])
    hour = {"$multiply": ["$n", 3_600_000]}
    stage = {"$project": {"id": 0, "later": {"$add": [hour, "$d", 1]}, "earlier": {"$subtract": ["$d", hour]}}}
    assert await aggregate(app, table, [stage]) == [
        {"later": "2026-01-01T01:00:00.001Z", "earlier": "2025-12-31T23:00:00.000Z"},
        {"later": None, "earlier": None},
    ]


async def test_one_moment_is_one_group_however_it_is_written(app: App):
    table = await loaded(app, {"d": "date"}, [{"d": "2026-01-01T00:00:00Z"}, {"d": "2026-01-01T09:00:00+09:00"}, {}])
    pipeline = [{"$group": {"_id": {"day": "$d"}, "n": {"$sum": 1}}}, {"$sort": {"n": -1}}]
    assert await aggregate(app, table, pipeline) == [
        {"_id": {"day": "2026-01-01T00:00:00Z"}, "n": 2},
        {"_id": {}, "n": 1},
    ]


async def test_any_number_but_zero_includes_a_field(app: App):
    table = await loaded(app, {"a": "int", "b": "int"}, [{"a": 7, "b": 8}])
    assert await aggregate(app, table, [{"$project": {"id": 0, "a": 2}}]) == [{"a": 7}]


async def test_dates_are_compared_with_constants_as_moments(app: App):
    table = await loaded(app, {"d": "date"}, [{"d": "2026-01-01T08:00:00+09:00"}, {"d": "2026-01-01"}, {}])
    stage = {
        "id": 0,
        "from": {"$gte": ["$d", "2026-01-01"]},
        "same": {"$eq": ["2026-01-01T09:00:00+09:00", "$d"]},
        "text": {"$gt": ["$d", "abc"]},
    }
    assert await aggregate(app, table, [{"$project": stage}]) == [
        {"from": False, "same": False, "text": False},
        {"from": True, "same": True, "text": False},
        {"from": False, "same": False, "text": False},
    ]


async def test_a_field_that_is_put_where_null_was_is_there_once(app: App):
    table = await loaded(app, {"a": "string", "o": "object", "l": "array"}, [{"a": None, "o": None, "l": [1]}])
    put = {"$addFields": {"a": "new", "o.k.z": 1}}
    unwind = {"$unwind": {"path": "$l", "includeArrayIndex": "a"}}
    async with app.client() as client:
        for stage, expected in (
            (put, {"a": "new", "o": {"k": {"z": 1}}, "l": [1]}),
            (unwind, {"a": 0, "l": 1, "o": None}),
        ):
            pipeline = [stage, {"$project": {"id": 0, "created_at": 0, "updated_at": 0}}]
            answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
            pairs = json.loads(answer.text, object_pairs_hook=list)
            ((_, ((*document,),)), _) = pairs
            assert sorted(name for name, _ in document) == sorted(expected)
            assert answer.json()["data"] == [expected]


async def test_paths_are_made_and_leave_arrays_alone(app: App):
    rows = [{"o": {"s": "x", "l": [{"k": 1, "m": 2}, 3]}}]
    cases = [
        ({"$addFields": {"o.p.q": 1}}, {"s": "x", "l": [{"k": 1, "m": 2}, 3], "p": {"q": 1}}),
        ({"$addFields": {"o.s.t": 1}}, {"s": {"t": 1}, "l": [{"k": 1, "m": 2}, 3]}),
        ({"$addFields": {"o.l.k": 5}}, {"s": "x", "l": [{"k": 1, "m": 2}, 3]}),
        ({"$project": {"o.l.k": 0}}, {"s": "x", "l": [{"k": 1, "m": 2}, 3]}),
        ({"$project": {"o.s.t": 0}}, {"s": "x", "l": [{"k": 1, "m": 2}, 3]}),
    ]
    for schema in ({}, {"o": "object"}):
        table = await loaded(app, schema, rows)
        for stage, expected in cases:
            if schema or "$addFields" in stage:
                assert await aggregate(app, table, [stage, {"$project": {"id": 0, "o": 1}}]) == [{"o": expected}], stage


NULLS = [{"k": 1, "s": "a"}, {"k": 1, "s": None}, {"k": 1}, {"k": 2, "s": None}]


@pytest.mark.parametrize("schema", [{}, {"k": "int", "s": "string"}], ids=["free form", "columns"])
async def test_push_and_add_to_set_keep_explicit_nulls_and_drop_missing_fields(app: App, schema: dict[str, Any]):
    table = await loaded(app, schema, NULLS)
    group = {"_id": "$k", "all": {"$push": "$s"}, "set": {"$addToSet": "$s"}, "of": {"$push": {"s": "$s"}}}
    first, second = await aggregate(app, table, [{"$group": group}, {"$sort": {"_id": 1}}])
    assert first["all"] == ["a", None]
    assert sorted(first["set"], key=str) == [None, "a"]
    assert first["of"] == [{"s": "a"}, {"s": None}, {}]
    assert (second["all"], second["set"], second["of"]) == ([None], [None], [{"s": None}])


@pytest.mark.parametrize("schema", [{}, {"k": "int", "s": "string"}], ids=["free form", "columns"])
async def test_a_missing_field_stays_away_from_an_object_also_in_an_id(app: App, schema: dict[str, Any]):
    table = await loaded(app, schema, NULLS)
    shown = await aggregate(app, table, [{"$project": {"id": 0, "of": {"k": "$k", "s": "$s"}, "s": 1}}])
    assert shown == [
        {"s": "a", "of": {"k": 1, "s": "a"}},
        {"s": None, "of": {"k": 1, "s": None}},
        {"of": {"k": 1}},
        {"s": None, "of": {"k": 2, "s": None}},
    ]
    groups = await aggregate(app, table, [{"$group": {"_id": {"k": "$k", "s": "$s"}, "n": {"$count": {}}}}])
    expected = [{"k": 1, "s": "a"}, {"k": 1, "s": None}, {"k": 1}, {"k": 2, "s": None}]
    assert sorted((group["_id"] for group in groups), key=str) == sorted(expected, key=str)
    assert [group["n"] for group in groups] == [1] * 4
    both = await aggregate(app, table, [{"$group": {"_id": "$s", "n": {"$count": {}}}}, {"$sort": {"_id": 1}}])
    assert both == [{"_id": None, "n": 3}, {"_id": "a", "n": 1}]


@pytest.mark.parametrize("name", ["$year", "$month", "$dayOfMonth", "$hour", "$dateToString", "$dateTrunc"])
async def test_a_part_of_what_is_no_date_is_refused(app: App, name: str):
    more = {"unit": "day"} if name == "$dateTrunc" else {}

    async def part(table: str, operand: Any) -> httpx.Response:
        pipeline = [{"$project": {"x": {name: {"date": operand, **more}}}}]
        async with app.client() as client:
            return await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})

    row = {"s": "march", "n": 3, "b": True, "u": "018f0000-0000-7000-8000-000000000000", "l": []}
    types = {"s": "string", "n": "number", "b": "boolean", "u": "uuid", "l": "array"}
    for schema in ({}, types):
        table = await loaded(app, schema, [row, {}])
        for operand in ("$s", "$n", "$b", "$u", "$l", "no date", 3, {"$concat": ["$s", "-01"]}, {"a": "$s"}):
            assert "date" in assert_error(await part(table, operand), 400, "INVALID_PIPELINE")["message"]
        empty = await loaded(app, schema, [{"s": None}, {"s": "2026-03-01"}])
        assert (await part(empty, "$s")).status_code == 200


@pytest.mark.parametrize("schema", [{}, {"n": "int", "tags": "array"}], ids=["free form", "columns"])
async def test_unwind_keeps_an_explicit_null_where_it_preserves(app: App, schema: dict[str, Any]):
    table = await loaded(app, schema, [{"n": 1, "tags": None}, {"n": 2}, {"n": 3, "tags": []}, {"n": 4, "tags": ["a"]}])
    unwind = {"path": "$tags", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "at"}
    end = [{"$sort": {"n": 1}}, {"$project": {"id": 0, "n": 1, "tags": 1, "at": 1}}]
    assert await aggregate(app, table, [{"$unwind": unwind}, *end]) == [
        {"n": 1, "tags": None, "at": None},
        {"n": 2, "at": None},
        {"n": 3, "at": None},
        {"n": 4, "tags": "a", "at": 0},
    ]
    plain = [{"$unwind": "$tags"}, {"$project": {"id": 0, "n": 1, "tags": 1}}]
    assert await aggregate(app, table, plain) == [{"n": 4, "tags": "a"}]
