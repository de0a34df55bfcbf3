"""Interface: Table data, and Data row."""

import re
from typing import Any

import httpx
import pytest

from pilotis.kit import json
from tests.support import App, assert_error

TABLES = "/v1/public/tables"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NOWHERE = "018f0000-0000-7000-8000-000000000000"
JSON = {"Content-Type": "application/json"}

EXACT = b"""{
    "int": 123456789012345678901234567890, "scale": 1.10, "small": 1e-300, "large": -1.5e308, "zero": 0.0,
    "text": "\\u00e9\\ud83d\\ude00 \\\\u0000 \\"'%_", "nested": {"a": [1, {"b": null}], "": {}, "$gt": 1}, "null": null
}"""


async def send(client: httpx.AsyncClient, path: str, body: bytes | str, method: str = "POST") -> httpx.Response:
    return await client.request(method, path, content=body, headers=JSON)


async def test_a_row_goes_in_and_comes_out(app: App):
    table = await app.table({"name": {"type": "string", "required": True}, "price": "number"})
    async with app.client() as client:
        made = await client.post(f"{TABLES}/{table}/data", json={"data": {"price": 1.1, "name": "x"}})
        assert made.status_code == 201
        row = made.json()
        assert set(row) == {"id", "data", "created_at", "updated_at"}
        assert UUID7.fullmatch(row["id"])
        assert TIME.fullmatch(row["created_at"])
        assert row["created_at"] == row["updated_at"]
        assert row["data"] == {"name": "x", "price": 1.1}
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json() == row
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]


@pytest.mark.parametrize("schema", [{}, {"value": "object"}])
async def test_json_comes_out_as_exactly_as_it_went_in(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    data = b'{"value":%b}' % EXACT if schema else EXACT
    async with app.client() as client:
        made = await send(client, f"{TABLES}/{table}/data", b'{"data":%b}' % data)
        assert made.status_code == 201
        read = await client.get(f"{TABLES}/{table}/data/{made.json()['id']}")
    for answer in (made, read):
        assert json.decode(answer.content)["data"] == json.decode(data)
        assert b"1.10" in answer.content


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("string", ['"x"', '""', '"\\u0001"'], ["1", "true", "[]", "{}"]),
        ("number", ["1", "1.10", "5e-324", "123456789012345678901234567890"], ['"1"', "true", "[]", "1e400", "1e-400"]),
        ("int", ["1", "-9223372036854775808", "9223372036854775807"], ["9223372036854775808", "1.5", '"1"', "true"]),
        ("boolean", ["true", "false"], ["1", '"true"']),
        ("uuid", [f'"{NOWHERE}"'], ['"x"', "1", f'"{NOWHERE}0"']),
        ("object", ["{}", '{"a":[{}]}'], ["[]", '"{}"']),
        ("array", ["[]", "[1,null,[]]"], ["{}", '"[]"']),
        (
            "date",
            ['"2020-02-29"', '"2020-01-01T00:00:00+09:00"', '"2016-12-31T23:59:60Z"', '"2020-01-01t00:00:00.1234567z"'],
            ['"2021-02-29"', '"2020-01-01T00:00:00"', '"2020-01-01T24:00:00Z"', '"now"', '"1577836800"', "1577836800"],
        ),
    ],
)
async def test_values_are_checked_against_the_columns_type(app: App, type_: str, good: list[str], bad: list[str]):
    table = await app.table({"value": type_})
    async with app.client() as client:
        row = await app.row(table, {})
        for value in [*good, "null"]:
            made = await send(client, f"{TABLES}/{table}/data", f'{{"data":{{"value":{value}}}}}')
            assert made.status_code == 201, value
            changed = await send(
                client, f"{TABLES}/{table}/data/{row['id']}", f'{{"data":{{"value":{value}}}}}', "PATCH"
            )
            assert changed.status_code == 200, value
            read = await client.get(f"{TABLES}/{table}/data/{made.json()['id']}")
            for answer in (made, changed, read):
                assert json.decode(answer.content)["data"] == {"value": json.decode(value.encode())}, value
        for value in bad:
            body = f'{{"data":{{"value":{value}}}}}'
            for answer in (
                await send(client, f"{TABLES}/{table}/data", body),
                await send(client, f"{TABLES}/{table}/data/{row['id']}", body, "PATCH"),
            ):
                assert_error(answer, 400, "VALIDATION_FAILED")
        assert (await client.get(f"{TABLES}/{table}/data?limit=0")).json()["total_count"] == len(good) + 2


async def test_required_and_default_apply_on_create(app: App):
    schema = {"must": {"type": "int", "required": True}, "may": {"type": "string", "default": "d"}, "free": "array"}
    table = await app.table(schema)
    async with app.client() as client:
        for data in ({}, {"must": None}):
            answer = await client.post(f"{TABLES}/{table}/data", json={"data": data})
            assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == "data.must"
        for data, stored in (
            ({"must": 1}, {"must": 1, "may": "d"}),
            ({"must": 1, "may": None, "free": None}, {"must": 1, "may": None, "free": None}),
        ):
            row = await app.row(table, data)
            assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == stored
        answer = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {"must": None}})
        assert_error(answer, 400, "VALIDATION_FAILED")


async def test_patch_changes_only_the_given_fields(app: App):
    for schema in ({}, {"a": "string", "b": "object", "c": "int"}):
        table = await app.table(schema)
        row = await app.row(table, {"a": "x", "b": {"k": 1, "j": 2}})
        async with app.client() as client:
            expected = row["data"]
            stamps = [row["updated_at"]]
            for change in ({"b": {"k": 2}}, {"c": 7}, {"a": None}, {}, {"a": "y", "c": None}):
                answer = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": change})
                assert answer.status_code == 200
                expected = expected | change
                assert answer.json() == row | {"data": expected, "updated_at": answer.json()["updated_at"]}
                assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json() == answer.json()
                stamps.append(answer.json()["updated_at"])
            assert stamps == sorted(set(stamps))


async def test_a_deleted_row_is_gone(app: App):
    table = await app.table({"a": "int"})
    row = await app.row(table, {"a": 1})
    path = f"{TABLES}/{table}/data/{row['id']}"
    async with app.client() as client:
        answer = await client.delete(path)
        assert (answer.status_code, answer.json()["id"]) == (200, row["id"])
        assert answer.json()["message"]
        for again in (
            await client.get(path),
            await client.delete(path),
            await client.patch(path, json={"data": {}}),
        ):
            assert_error(again, 404, "ROW_NOT_FOUND")
        assert (await client.get(f"{TABLES}/{table}/data")).json()["total_count"] == 0


@pytest.mark.parametrize("path", ["data", "data/bulk"])
async def test_bulk_makes_what_it_can_and_tells_of_the_rest(app: App, path: str):
    table = await app.table({"a": {"type": "int", "required": True}})
    async with app.client() as client:
        made = await client.post(f"{TABLES}/{table}/{path}", json={"data": [{"a": 1}, {"a": 2}]})
        assert made.status_code == 201
        assert set(made.json()) == {"created", "total", "success"}
        assert (made.json()["total"], made.json()["success"]) == (2, 2)
        rows = [{"a": 3}, {"a": "x"}, {}, {"a": 4, "b": 1}, 5, {"a": 4}]
        mixed = (await client.post(f"{TABLES}/{table}/{path}", json={"data": rows})).json()
        assert [item["data"] for item in mixed["created"]] == [{"a": 3}, {"a": 4}]
        assert (mixed["total"], mixed["success"]) == (6, 2)
        failed = [(item["index"], item["code"]) for item in mixed["failed"]]
        assert failed == [(1, "VALIDATION_FAILED"), (2, "VALIDATION_FAILED"), (3, "UNKNOWN_COLUMN"), (4, failed[3][1])]
        assert all(item["message"] for item in mixed["failed"])
        none = assert_error(
            await client.post(f"{TABLES}/{table}/{path}", json={"data": rows[1:3]}), 400, "NOTHING_CREATED"
        )
        assert [detail["field"] for detail in none["details"]] == ["data[0].a", "data[1].a"]
        listed = (await client.get(f"{TABLES}/{table}/data")).json()
        assert listed["data"] == [*made.json()["created"], *mixed["created"]]
        assert listed["total_count"] == 4


async def test_bulk_takes_1000_rows_and_no_more(app: App):
    table = await app.table({"a": "int"})
    async with app.client() as client:
        made = await client.post(f"{TABLES}/{table}/data/bulk", json={"data": [{"a": i} for i in range(1000)]})
        assert made.json()["success"] == 1000
        page = (await client.get(f"{TABLES}/{table}/data?limit=1000")).json()
        assert [row["data"]["a"] for row in page["data"]] == list(range(1000))
        refused = await client.post(f"{TABLES}/{table}/data", json={"data": [{}] * 1001})
        assert assert_error(refused, 400, "VALIDATION_FAILED")["details"][0]["code"] == "TOO_MANY_ROWS"
        assert (await client.get(f"{TABLES}/{table}/data?limit=0")).json()["total_count"] == 1000


async def test_the_list_is_paged_in_the_order_of_creation(app: App):
    table = await app.table({"a": "int"})
    rows = [await app.row(table, {"a": number}) for number in range(25)]
    async with app.client() as client:
        for given, limit, offset in (
            ("", 20, 0),
            ("?limit=7&offset=20", 7, 20),
            ("?limit=0", 0, 0),
            ("?offset=99", 20, 99),
        ):
            page = (await client.get(f"{TABLES}/{table}/data{given}")).json()
            assert page.pop("execution_time_ms") >= 0
            assert page == {
                "data": rows[offset : offset + limit],
                "total_count": 25,
                "limit": limit,
                "offset": offset,
            }
        clamped = (await client.get(f"{TABLES}/{table}/data?limit=1000000000")).json()
        assert (clamped["limit"], len(clamped["data"])) == (1000, 25)


@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("value", ["-1", "1.5", '"5"', "true", "1e400", "[]"])
async def test_a_bad_limit_or_offset_is_400(app: App, name: str, value: str):
    table = await app.table({})
    async with app.client() as client:
        listed = await client.get(f"{TABLES}/{table}/data", params={name: value})
        assert assert_error(listed, 400, "VALIDATION_FAILED")["details"][0]["field"] == name
        queried = await send(client, f"{TABLES}/{table}/data/query", f'{{"{name}":{value}}}')
        assert assert_error(queried, 400, "VALIDATION_FAILED")["details"][0]["field"] == name


@pytest.mark.parametrize("value", ["", "abc", "1e9", "0x10", "%00", "٣"])
async def test_a_limit_that_is_no_number_is_400(app: App, value: str):
    table = await app.table({})
    async with app.client() as client:
        assert_error(await client.get(f"{TABLES}/{table}/data?limit={value}"), 400, "VALIDATION_FAILED")


async def test_query_filters_sorts_and_pages(app: App):
    table = await app.table({"n": "int", "s": "string"})
    rows = [await app.row(table, {"n": number % 3, "s": "x"} if number else {}) for number in range(7)]
    async with app.client() as client:
        body = {"where": {"s": "x"}, "order_by": "n", "order_direction": "desc", "limit": 4, "offset": 1}
        found = (await client.post(f"{TABLES}/{table}/data/query", json=body | {"select": ["n"]})).json()
        assert found["total_count"] == 6
        assert [rows.index(item) for item in found["data"]] == [5, 1, 4, 3]
        every = (await client.post(f"{TABLES}/{table}/data/query", json={})).json()
        assert (every["data"], every["total_count"]) == (rows, 7)
        clamped = (await client.post(f"{TABLES}/{table}/data/query", json={"limit": 5000})).json()
        assert clamped["limit"] == 1000
        total_only = (await client.post(f"{TABLES}/{table}/data/query", json={"limit": 0})).json()
        assert (total_only["data"], total_only["total_count"]) == ([], 7)


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ({"$eq": "bb"}, ["bb"]),
        ({"$ne": "bb"}, ["a", "%", None]),
        ({"$gt": "a"}, ["bb"]),
        ({"$gte": "a"}, ["a", "bb"]),
        ({"$lt": "a"}, ["%"]),
        ({"$lte": "a"}, ["a", "%"]),
        ({"$in": ["a", "bb", 1]}, ["a", "bb"]),
        ({"$nin": ["a", "bb"]}, ["%", None]),
        ({"$contains": "%"}, ["%"]),
        ({"$startsWith": "b"}, ["bb"]),
        ({"$endsWith": "b"}, ["bb"]),
        ({"$matches": "^(a|b+)$"}, ["a", "bb"]),
        ({"$between": ["a", "b"]}, ["a"]),
        ({"$between": ["%", "a"]}, ["a", "%"]),
        ({"$isNull": True}, [None]),
        ({"$isNull": False}, ["a", "bb", "%"]),
        ({"$gt": "%", "$lt": "b"}, ["a"]),
        ({"$not": {"$gt": "%"}}, ["%", None]),
        ("a", ["a"]),
        (None, [None]),
        (1, []),
    ],
)
async def test_each_where_operator(app: App, operator: Any, expected: list[str | None]):
    table = await app.table({"s": "string"})
    await app.table({"s": "string"})
    async with app.client() as client:
        values = [{"s": "a"}, {"s": "bb"}, {"s": "%"}, {}]
        await client.post(f"{TABLES}/{table}/data/bulk", json={"data": values})
        found = await client.post(f"{TABLES}/{table}/data/query", json={"where": {"s": operator}})
        assert [row["data"].get("s") for row in found.json()["data"]] == expected
        deleted = await client.post(f"{TABLES}/{table}/data/delete-where", json={"where": {"s": operator}})
        assert deleted.json() == {"deleted_count": len(expected)}
        left = (await client.get(f"{TABLES}/{table}/data")).json()
        assert [row["data"].get("s") for row in left["data"]] == [
            value.get("s") for value in values if value.get("s") not in expected
        ]
        assert left["total_count"] == 4 - len(expected)


async def test_arrays_paths_and_logic(app: App):
    table = await app.table({"tags": "array", "at": "object"})
    data: list[dict[str, Any]] = [
        {"tags": ["a", "b"], "at": {"city": "Paris", "n": 1}},
        {"tags": ["b"], "at": {"city": "Rome"}},
        {"tags": []},
    ]
    conditions: list[tuple[dict[str, Any], list[int]]] = [
        ({"tags": {"$arrayContains": "b"}}, [0, 1]),
        ({"tags": {"$arrayContains": ["a", "b"]}}, [0]),
        ({"tags": {"$arrayContainsAny": ["a", "x"]}}, [0]),
        ({"at.city": "Rome"}, [1]),
        ({"at.city": {"$startsWith": "P"}, "at.n": {"$lt": 2}}, [0]),
        ({"at.n": "1"}, []),
        ({"at.city": {"$isNull": True}}, [2]),
        ({"$or": [{"at.city": "Rome"}, {"tags": []}]}, [1, 2]),
        ({"$and": [{"tags": {"$arrayContains": "b"}}, {"$not": {"at.n": 1}}]}, [1]),
        ({"at": {"city": "Rome"}}, [1]),
        ({"created_at": {"$gt": "2020-01-01"}, "id": {"$isNull": False}}, [0, 1, 2]),
    ]
    async with app.client() as client:
        created = await client.post(f"{TABLES}/{table}/data/bulk", json={"data": data})
        ids = [row["id"] for row in created.json()["created"]]
        for where, expected in conditions:
            found = (await client.post(f"{TABLES}/{table}/data/query", json={"where": where})).json()
            assert [ids.index(row["id"]) for row in found["data"]] == expected, where
        by_city = {"order_by": "at.city", "order_direction": "desc"}
        found = (await client.post(f"{TABLES}/{table}/data/query", json=by_city)).json()
        assert [ids.index(row["id"]) for row in found["data"]] == [1, 0, 2]


EVIL_NAMES = [
    'a"b',
    "a'b",
    "a->>'b",
    ";--",
    "a) or (1=1",
    "__id",
    "__creator",
    "ctid",
    "\u0430",
    "x" * 10_000,
    "",
    "a.b",
]


@pytest.mark.parametrize("name", EVIL_NAMES)
async def test_a_name_is_looked_up_and_never_spliced(app: App, name: str):
    table = await app.table({"a": "string", "o": "object"})
    row = await app.row(table, {"a": "x", "o": {name: 1}})
    path = f"{TABLES}/{table}/data"
    async with app.client() as client:
        for answer in (
            await client.post(f"{path}/query", json={"where": {name: 1}}),
            await client.post(f"{path}/query", json={"order_by": name}),
            await client.post(f"{path}/delete-where", json={"where": {name: {"$ne": 1}}}),
            await client.post(path, json={"data": {name: 1}}),
            await client.patch(f"{path}/{row['id']}", json={"data": {name: 1}}),
        ):
            assert_error(answer, 400, "UNKNOWN_COLUMN")
        # Inside an object any name may be asked for.
        found = await client.post(f"{path}/query", json={"where": {f"o.{name}": 1}, "order_by": f"o.{name}"})
        assert found.json()["total_count"] == (0 if "." in name else 1)
        assert (await client.get(f"{path}/{row['id']}")).json() == row


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("[]", "VALIDATION_FAILED"),
        ('"a"', "VALIDATION_FAILED"),
        ('{"b":1}', "UNKNOWN_COLUMN"),
        ('{"a.b":1}', "UNKNOWN_COLUMN"),
        ('{"a":{"$foo":1}}', "INVALID_OPERATOR"),
        ('{"$foo":1}', "INVALID_OPERATOR"),
        ('{"a":{"$gt":"x","y":1}}', "INVALID_OPERATOR"),
        ('{"a":{"$gt":null}}', "VALIDATION_FAILED"),
        ('{"a":{"$gt":[1]}}', "VALIDATION_FAILED"),
        ('{"a":{"$in":"x"}}', "VALIDATION_FAILED"),
        ('{"a":{"$between":["a"]}}', "VALIDATION_FAILED"),
        ('{"a":{"$isNull":1}}', "VALIDATION_FAILED"),
        ('{"a":{"$contains":1}}', "VALIDATION_FAILED"),
        ('{"n":{"$contains":"1"}}', "INVALID_OPERATOR"),
        ('{"a":{"$arrayContains":"1"}}', "INVALID_OPERATOR"),
        ('{"$or":{}}', "VALIDATION_FAILED"),
        ('{"$or":[1]}', "VALIDATION_FAILED"),
        ('{"$not":[]}', "VALIDATION_FAILED"),
        ('{"a":{"$matches":"("}}', "INVALID_REGEX"),
        ('{"a":{"$matches":"%s"}}' % ("x" * 257), "INVALID_REGEX"),
        ('{"a":{"$not":{"$matches":"["}}}', "INVALID_REGEX"),
        ('{"a":1e400}', "VALIDATION_FAILED"),
        ('{"a":"\\u0000"}', "VALIDATION_FAILED"),
        ('{"a\\u0000":1}', "VALIDATION_FAILED"),
        ('{"a":"\\ud800"}', "MALFORMED_JSON"),
        ('{"a":NaN}', "MALFORMED_JSON"),
        ('{"$not":' * 10 + "{}" + "}" * 10, "WHERE_TOO_COMPLEX"),
        ('{{"$or":[{}]}}'.format(",".join(['{"a":1}'] * 101)), "WHERE_TOO_COMPLEX"),
        ('{{"a":{{"$in":[{}]}}}}'.format(",".join(["1"] * 1001)), "WHERE_TOO_COMPLEX"),
        ('{"o":' + "[" * 70 + "]" * 70 + "}", "MALFORMED_JSON"),
    ],
)
async def test_a_bad_condition_is_400_even_on_an_empty_table(app: App, where: str, code: str):
    table = await app.table({"a": "string", "n": "int", "o": "object"})
    async with app.client() as client:
        for path in ("query", "delete-where"):
            answer = await send(client, f"{TABLES}/{table}/data/{path}", f'{{"where":{where}}}')
            body = assert_error(answer, 400, code)
            assert "select" not in body["message"]


@pytest.mark.parametrize(
    "query",
    [{"order_by": "o"}, {"order_by": 1}, {"order_direction": "DESC"}, {"order_direction": ""}, {"orderBy": "a"}],
)
async def test_a_bad_order_is_400(app: App, query: dict[str, Any]):
    table = await app.table({"o": "object"})
    async with app.client() as client:
        assert_error(await client.post(f"{TABLES}/{table}/data/query", json=query), 400, "VALIDATION_FAILED")


@pytest.mark.parametrize(
    "where", [None, {}, {"$and": []}, {"$and": [{}, {"$and": []}]}, {"$or": [{}]}, {"$and": [{"$or": [{}, {}]}]}]
)
async def test_delete_where_asks_for_a_condition(app: App, where: Any):
    table = await app.table({"a": "int"})
    await app.row(table, {"a": 1})
    async with app.client() as client:
        path = f"{TABLES}/{table}/data/delete-where"
        assert_error(await client.post(path, json={"where": where}), 400, "WHERE_REQUIRED")
        assert_error(await client.post(path, json={"where": where, "all": False}), 400, "WHERE_REQUIRED")
        assert_error(await client.post(path, json={}), 400, "WHERE_REQUIRED")
        assert (await client.post(path, json={"where": where, "all": True})).json() == {"deleted_count": 1}


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 400, "MALFORMED_JSON"),
        ("{", 400, "MALFORMED_JSON"),
        ("{'data':{}}", 400, "MALFORMED_JSON"),
        (b'{"data":{"a":"\xff"}}', 400, "MALFORMED_JSON"),
        ('{"data":{"a":"\\ud800"}}', 400, "MALFORMED_JSON"),
        ('{"data":{"a":NaN}}', 400, "MALFORMED_JSON"),
        ('{{"data":{{"a":{}1{}}}}}'.format("[" * 63, "]" * 63), 400, "MALFORMED_JSON"),
        ('{"data":{"a":%s}}' % ("[" * 1_000_000), 400, "MALFORMED_JSON"),
        ('{"data":{"a":"\\u0000"}}', 400, "VALIDATION_FAILED"),
        ('{"data":{"\\u0000":1}}', 400, "VALIDATION_FAILED"),
        ('{"data":{"a":[{"\\u0000":1}]}}', 400, "VALIDATION_FAILED"),
        ('{"data":{"a":1e400}}', 400, "VALIDATION_FAILED"),
        ('{"data":{"a":%s}}' % ("9" * 5000), 400, "VALIDATION_FAILED"),
        ('{"a":1}', 400, "VALIDATION_FAILED"),
        ("{}", 400, "VALIDATION_FAILED"),
        ("[]", 400, "VALIDATION_FAILED"),
        ('{"data":{"a":1},"id":"x"}', 400, "VALIDATION_FAILED"),
        ('{"data":null}', 400, "VALIDATION_FAILED"),
        ('{"data":"x"}', 400, "VALIDATION_FAILED"),
        ('{"data":[]}', 400, "VALIDATION_FAILED"),
        ('{"data":{"a":"%s"}}' % ("x" * 2**20), 413, "ROW_TOO_LARGE"),
        ('{{"data":{{"a":[{}]}}}}'.format(",".join(["1e-300"] * 4000)), 413, "ROW_TOO_LARGE"),
        ('{"data":{"a":"%s"}}' % ("x" * 10 * 2**20), 413, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_a_bad_row_is_refused(app: App, body: str | bytes, status: int, code: str):
    table = await app.table({})
    row = await app.row(table, {"a": 1})
    async with app.client() as client:
        assert_error(await send(client, f"{TABLES}/{table}/data", body), status, code)
        changed = await send(client, f"{TABLES}/{table}/data/{row['id']}", body, "PATCH")
        assert_error(changed, status, "VALIDATION_FAILED" if body == '{"data":[]}' else code)
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]


async def test_other_media_types_are_415(app: App):
    table = await app.table({})
    async with app.client() as client:
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            headers = {"Content-Type": media_type}
            answer = await client.post(f"{TABLES}/{table}/data", content='{"data":{}}', headers=headers)
            assert_error(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
        utf8 = {"Content-Type": "application/json; charset=utf-8"}
        answer = await client.post(f"{TABLES}/{table}/data", content='{"data":{}}', headers=utf8)
        assert answer.status_code == 201


@pytest.mark.parametrize("schema", [{}, {f"c{number}": "string" for number in range(4)}])
async def test_a_row_does_not_outgrow_its_limit_by_patches(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    row = await app.row(table, {"c0": "x" * 400_000, "c1": "y" * 400_000})
    path = f"{TABLES}/{table}/data/{row['id']}"
    async with app.client() as client:
        refused = await client.patch(path, json={"data": {"c2": "z" * 400_000}})
        assert_error(refused, 413, "ROW_TOO_LARGE")
        assert (await client.get(path)).json() == row
        assert (await client.patch(path, json={"data": {"c0": "z" * 600_000}})).status_code == 200
        assert (await client.patch(path, json={"data": {"c0": None, "c2": "z" * 400_000}})).status_code == 200


async def test_a_page_too_large_to_send_is_refused(app: App):
    table = await app.table({"a": "string"})
    async with app.client() as client:
        for _ in range(4):
            rows = [{"a": "x" * 1_000_000}] * 9
            assert (await client.post(f"{TABLES}/{table}/data/bulk", json={"data": rows})).status_code == 201
        assert_error(await client.get(f"{TABLES}/{table}/data?limit=36"), 400, "RESULT_TOO_LARGE")
        page = (await client.get(f"{TABLES}/{table}/data?limit=33")).json()
        assert (len(page["data"]), page["total_count"]) == (33, 36)


@pytest.mark.parametrize("row_id", ["1", "x' or 1=1", "%00", "x" * 10_000, NOWHERE.replace("-", "")])
async def test_a_row_id_that_is_no_uuid_is_400(app: App, row_id: str):
    table = await app.table({})
    async with app.client() as client:
        for method in ("GET", "DELETE", "PATCH"):
            body = {"data": {}} if method == "PATCH" else None
            answer = await client.request(method, f"{TABLES}/{table}/data/{row_id}", json=body)
            assert_error(answer, 400, "INVALID_ID")


async def test_a_row_is_found_in_its_own_table_only(app: App):
    table, other = await app.table({}), await app.table({})
    row = await app.row(table, {"a": 1})
    async with app.client() as client:
        assert_error(await client.get(f"{TABLES}/{other}/data/{row['id']}"), 404, "ROW_NOT_FOUND")
        assert (await client.get(f"{TABLES}/{table}/data/{row['id'].upper()}")).json() == row


@pytest.mark.parametrize("schema", [{}, {"a": "object"}])
async def test_a_path_deeper_than_any_row_is_unknown(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    path = ".".join(["a"] * 5000)
    async with app.client() as client:
        for body in ({"where": {path: 1}}, {"where": {path: {"$ne": 1}}}, {"order_by": path}):
            assert_error(await client.post(f"/v1/public/tables/{table}/data/query", json=body), 400, "UNKNOWN_COLUMN")
        for route, body in (
            ("search", {"query": "x", "fields": [path]}),
            ("autocomplete", {"query": "x", "field": path}),
        ):
            answer = await client.post(f"/v1/public/{route}", json={"table_id": table, **body})
            assert_error(answer, 400, "UNKNOWN_COLUMN")


async def test_a_limit_above_2_to_the_53_is_clamped_on_every_list(app: App):
    table = await app.table({"name": "string", "place": "object"})
    await app.row(table, {"name": "needle", "place": {"latitude": 1, "longitude": 1}})
    near = {"near": {"center": {"latitude": 1, "longitude": 1}}}
    for limit in (2**53 + 1, 2**63, 10**30):
        async with app.client() as client:
            listed = await client.get(f"{TABLES}/{table}/data?limit={limit}")
            queried = await client.post(f"{TABLES}/{table}/data/query", json={"limit": limit, "offset": limit})
            assert (listed.json()["limit"], listed.json()["total_count"]) == (1000, 1)
            assert (queried.json()["limit"], queried.json()["data"]) == (1000, [])
            for path, body in (
                ("search", {"query": "needle"}),
                ("autocomplete", {"query": "nee", "field": "name"}),
                ("geo", {"field": "place", **near}),
            ):
                answer = await client.post(f"/v1/public/{path}", json={"table_id": table, "limit": limit, **body})
                assert answer.status_code == 200, answer.text
                assert answer.json().get("total_count", 1) == 1


async def test_null_limit_offset_and_direction_are_as_if_absent(app: App):
    table = await app.table({"name": "string", "place": "object"})
    await app.row(table, {"name": "a", "place": {"latitude": 1, "longitude": 1}})
    await app.row(table, {"name": "b"})
    nothing = {"limit": None, "offset": None}
    near = {"near": {"center": {"latitude": 1, "longitude": 1}}}
    async with app.client() as client:
        body = {"order_by": "name", "order_direction": None, **nothing}
        answer = (await client.post(f"{TABLES}/{table}/data/query", json=body)).json()
        assert [row["data"]["name"] for row in answer["data"]] == ["a", "b"]
        assert (answer["limit"], answer["offset"]) == (20, 0)
        for path, body in (
            ("search", {"query": "a", **nothing}),
            ("autocomplete", {"query": "a", "field": "name", "limit": None}),
            ("geo", {"field": "place", **near, **nothing}),
        ):
            answer = await client.post(f"/v1/public/{path}", json={"table_id": table, **body})
            assert answer.status_code == 200, answer.text


SPELLINGS = ["1e2", "1.50e3", "-2E-7", "1e-300", "1e300", "-0.0", "0e5", "0.0e-3", "-0", "1.10", "12e-1", "5"]


@pytest.mark.parametrize("schema", [{}, {"n": "number", "o": "object"}])
async def test_a_creates_answer_spells_numbers_as_a_read_does(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    async with app.client() as client:
        for number in SPELLINGS:
            data = f'{{"n":{number},"o":{{"a":[{number},"1E+5 \\"-0",{number}]}}}}'
            made = await send(client, f"{TABLES}/{table}/data", f'{{"data":{data}}}')
            bulk = await send(client, f"{TABLES}/{table}/data", f'{{"data":[{data}]}}')
            body = f'{{"operations":[{{"type":"create","table_id":"{table}","data":{data}}}]}}'
            batch = await send(client, "/v1/public/batch", body)
            for answer, id_ in (
                (made, made.json()["id"]),
                (bulk, bulk.json()["created"][0]["id"]),
                (batch, batch.json()["results"][0]["id"]),
            ):
                read = (await client.get(f"{TABLES}/{table}/data/{id_}")).content
                spelled = read[read.index(b'"data":') : read.index(b',"created_at"')].replace(b": ", b":")
                assert spelled.replace(b", ", b",") in answer.content, (number, answer.content, read)


@pytest.mark.parametrize("name", ["", "__id", "__x"])
async def test_free_form_tables_refuse_empty_names_and_pilotis_own(app: App, name: str):
    table = await app.table({})
    row = await app.row(table, {"a": 1})
    async with app.client() as client:
        for sent in ({name: 1}, {"a": 1, name: None}):
            made = await client.post(f"{TABLES}/{table}/data", json={"data": sent})
            assert_error(made, 400, "INVALID_COLUMN_NAME")
            changed = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": sent})
            assert_error(changed, 400, "INVALID_COLUMN_NAME")
        added = await client.patch(f"{TABLES}/{table}/data/{row['id']}", json={"data": {name: {"$inc": 1}}})
        assert_error(added, 400, "INVALID_COLUMN_NAME")
        inner = await client.post(f"{TABLES}/{table}/data", json={"data": {"a": {name: 1}}})
    assert inner.json()["data"] == {"a": {name: 1}}


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize("schema", [{}, {COMPOSED: "int", "o": "object"}], ids=["free form", "columns"])
async def test_names_in_nfd_are_normalised_as_in_schemas(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    path = f"{TABLES}/{table}/data"
    async with app.client() as client:
        row = (await client.post(path, json={"data": {DECOMPOSED: 1, "o": {DECOMPOSED: 2}}})).json()
        assert row["data"] == {COMPOSED: 1, "o": {DECOMPOSED: 2}}
        bulk = await client.post(path, json={"data": [{DECOMPOSED: 3}]})
        assert bulk.json()["created"][0]["data"] == {COMPOSED: 3}
        changed = await client.patch(f"{path}/{row['id']}", json={"data": {DECOMPOSED: 4}})
        assert changed.json()["data"][COMPOSED] == 4
        changed = await client.patch(f"{path}/{row['id']}", json={"data": {DECOMPOSED: {"$inc": 1}}})
        assert changed.json()["data"] == {COMPOSED: 5, "o": {DECOMPOSED: 2}}
        for where in ({DECOMPOSED: 5}, {"$or": [{DECOMPOSED: {"$gt": 4}}]}, {f"o.{DECOMPOSED}": 2}):
            found = (await client.post(f"{path}/query", json={"where": where, "order_by": DECOMPOSED})).json()
            assert [one["id"] for one in found["data"]] == [row["id"]], where
        pipeline = [
            {"$match": {DECOMPOSED: {"$gt": 0}}},
            {"$sort": {DECOMPOSED: -1}},
            {"$addFields": {"more": {"$add": [f"${DECOMPOSED}", 1]}}},
            {"$project": {DECOMPOSED: 1, "more": 1, "id": 0}},
        ]
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
        assert answer.json()["data"] == [{COMPOSED: 5, "more": 6}, {COMPOSED: 3, "more": 4}]
        gone = await client.post(f"{path}/delete-where", json={"where": {DECOMPOSED: 3}})
        assert gone.json() == {"deleted_count": 1}


async def test_column_routes_search_and_geo_take_names_in_nfd(app: App):
    table = await app.table({COMPOSED: "string", "lie\u0300u": "object"})
    await app.row(table, {DECOMPOSED: "needle", "li\u00e8u": {"latitude": 1, "longitude": 1}})
    async with app.client() as client:
        for path, body in (
            ("search", {"query": "needle", "fields": [DECOMPOSED]}),
            ("autocomplete", {"query": "nee", "field": DECOMPOSED}),
            ("geo", {"field": "lie\u0300u", "near": {"center": {"latitude": 1, "longitude": 1}}}),
        ):
            answer = (await client.post(f"/v1/public/{path}", json={"table_id": table, **body})).json()
            assert len(answer.get("data", answer.get("suggestions"))) == 1
        column = f"{TABLES}/{table}/columns/{DECOMPOSED}"
        changed = await client.patch(column, json={"description": "x"})
        assert changed.json()["name"] == COMPOSED
        assert (await client.delete(column)).json()["name"] == COMPOSED
