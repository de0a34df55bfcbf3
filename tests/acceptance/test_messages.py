"""Errors say what would be right: the allowed values, a column's type by its own name, the full path of the field."""

import json
from typing import Any

import httpx
import pytest

from tests.support import App, assert_error

SCHEMA = {
    "name": "string",
    "age": "int",
    "price": "number",
    "born": "date",
    "is": "boolean",
    "o": "object",
    "l": "array",
    "u": "uuid",
}
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"age": "x"}, "age", "an int, a whole number from -2^63 to 2^63-1, is expected, not a string"),
    ({"age": 2**63}, "age", "an int, a whole number from -2^63 to 2^63-1, is expected"),
    ({"born": 1}, "born", "a date, an RFC 3339 date or date-time"),
    ({"born": "soon"}, "born", "a date, an RFC 3339 date or date-time"),
    ({"name": 1}, "name", "a string is expected, not a number"),
    ({"price": "1"}, "price", "a number is expected, not a string"),
    ({"is": 1}, "is", "a boolean, true or false, is expected"),
    ({"o": []}, "o", "an object is expected, not an array"),
    ({"l": {}}, "l", "an array is expected, not an object"),
    ({"u": "x"}, "u", "a uuid, such as"),
]


def fault(answer: httpx.Response, code: str = "VALIDATION_FAILED", failed_index: int | None = None) -> tuple[str, str]:
    body = assert_error(answer, 400, code, failed_index=failed_index)
    return body["details"][0]["field"], body["details"][0]["message"]


async def test_a_wrong_value_names_its_full_path_and_the_columns_type(app: App):
    table = await app.table(SCHEMA)
    row = await app.row(table, {})
    path = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        for data, name, sentence in WRONG:
            create = {"type": "create", "table_id": table, "data": data}
            operations = {"operations": [{**create, "data": {}}, create]}
            for answer, place, index in (
                (await client.post(path, json={"data": data}), f"data.{name}", None),
                (await client.patch(f"{path}/{row['id']}", json={"data": data}), f"data.{name}", None),
                (await client.post("/v1/public/transactions", json=operations), f"operations[1].data.{name}", 1),
            ):
                field, message = fault(answer, failed_index=index)
                assert field == place
                assert message.startswith(f"{place}: {sentence}"), message
            bulk = (await client.post(path, json={"data": [{}, data]})).json()["failed"][0]
            assert bulk["message"].startswith(f"data[1].{name}: {sentence}")
            none = await client.post(f"{path}/bulk", json={"data": [data]})
            assert fault(none, "NOTHING_CREATED")[0] == f"data[0].{name}"
            batch = (await client.post("/v1/public/batch", json=operations)).json()["results"][1]
            assert batch["error"]["message"].startswith(f"operations[1].data.{name}: {sentence}")


@pytest.mark.parametrize("schema", [{}, {"o": "object"}])
async def test_a_number_out_of_range_names_its_path_inside_a_value(app: App, schema: dict[str, Any]):
    table = await app.table(schema)
    async with app.client(**{"Content-Type": "application/json"}) as client:
        body = b'{"data":{"o":{"a":1,"k":[0,{"x":1e999}]}}}'
        answer = await client.post(f"/v1/public/tables/{table}/data", content=body)
        assert fault(answer)[0] == "data.o.k[1].x"


QUERIES: list[tuple[dict[str, Any], str, str]] = [
    ({"order_direction": "DESC"}, "order_direction", '"asc" or "desc" is expected, not "DESC"'),
    ({"limit": -1}, "limit", "a whole number from 0 is expected"),
    ({"limit": "x"}, "limit", "a whole number from 0 is expected, not a string"),
    ({"where": []}, "where", "an object is expected, not an array"),
    ({"order_by": 1}, "order_by", "a string or an array of 1 to 3 items is expected, not a number"),
    ({"filter": {}}, "filter", "filter is not a field here; the fields are "),
    ({"where": {"$or": [{"age": {"$between": [1]}}]}}, "where.$or[0].age.$between", ""),
]


async def test_a_wrong_query_says_what_is_allowed(app: App):
    table = await app.table(SCHEMA)
    async with app.client() as client:
        for body, field, sentence in QUERIES:
            found, message = fault(await client.post(f"/v1/public/tables/{table}/data/query", json=body))
            assert found == field
            assert sentence in message


async def test_bodies_and_query_parameters_say_what_is_allowed(app: App):
    table = await app.table(SCHEMA)
    async with app.client() as client:
        answer = await client.post("/v1/public/tables", json={"title": "x", "schema": {}, "access_level": "public"})
        expected = 'access_level: "Creator", "Public" or "AppMember" is expected, not "public".'
        assert fault(answer) == ("access_level", expected)
        answer = await client.get(f"/v1/public/tables/{table}/data?limit=many")
        assert fault(answer) == ("limit", "limit: a whole number from 0 is expected, not a string.")
        body = {"operations": [{"type": "replace", "table_id": table}]}
        types = '"create", "delete", "delete-where", "update", "update-where" or "upsert"'
        expected = f'operations[0].type: {types} is expected, not "replace".'
        assert fault(await client.post("/v1/public/transactions", json=body), failed_index=0) == (
            "operations[0].type",
            expected,
        )
        pipeline = [{"$match": {"age": {"$in": 1}}}]
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
        assert fault(answer)[0] == "pipeline[0].$match.age.$in"
        polygon = [{"latitude": 1, "longitude": 1}, {"latitude": 91, "longitude": 1}]
        answer = await client.post("/v1/public/geo", json={"table_id": table, "field": "o", "polygon": polygon})
        field, message = fault(answer)
        assert (field, "a number from -90" in message) == ("polygon[1].latitude", True)
        body = {"table_id": table, "field": "o", "near": {"latitude": 1, "longitude": 1}}
        expected = "latitude is not a field here; the fields are center and max_distance."
        assert fault(await client.post("/v1/public/geo", json=body)) == ("near.latitude", expected)
        schema = {"age": {"type": "int", "required": "yes"}}
        answer = await client.post("/v1/public/tables", json={"title": "y", "schema": schema, "access_level": "Public"})
        field, message = fault(answer)
        assert (field, "true or false is expected, not a string" in message) == ("schema.age.required", True)


_ROWS, _STAGES = "tables/{table}/data", {"table_id": "{table}"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (_ROWS, {"data": {"nmae": "a"}}, "data.nmae"),
        (f"{_ROWS}/query", {"where": {"nmae": "a"}}, "where.nmae"),
        (f"{_ROWS}/query", {"where": {"$or": [{}, {"$not": {"nmae": {"$gt": 1}}}]}}, "where.$or[1].$not.nmae"),
        (f"{_ROWS}/query", {"where": {"age.years": 1}}, "where.age.years"),
        (f"{_ROWS}/delete-where", {"where": {"$and": [{"nmae": "a"}]}}, "where.$and[0].nmae"),
        (f"{_ROWS}/query", {"order_by": "nmae"}, "order_by"),
        ("geo", _STAGES | {"field": "nmae", "near": {"center": {"latitude": 1, "longitude": 1}}}, "field"),
        ("search", _STAGES | {"query": "a", "fields": ["nmae"]}, "fields"),
    ],
)
async def test_an_unknown_column_is_answered_with_its_path_and_the_columns_there_are(
    app: App, path: str, body: dict[str, Any], field: str
):
    table = await app.table({"name": "string", "age": "int", "o": "object"})
    found, message = await _unknown_column(app, table, path, body)
    name = field.removeprefix("where.") if field == "where.age.years" else "nmae"
    own = "" if field.startswith("data") else "created_at, id, "
    assert found == field
    assert message == f"The table has no column {name}. It has age, {own}name, o" + (", updated_at." if own else ".")


@pytest.mark.parametrize(
    ("pipeline", "field"),
    [
        ([{"$match": {"$or": [{"nmae": 1}]}}], "pipeline[0].$match.$or[0].nmae"),
        ([{"$limit": 1}, {"$group": {"_id": "$nmae"}}], "pipeline[1].$group._id"),
        ([{"$group": {"_id": None, "n": {"$sum": {"$add": [1, "$nmae"]}}}}], "pipeline[0].$group.n.$sum.$add[1]"),
        ([{"$sort": {"nmae": 1}}], "pipeline[0].$sort.nmae"),
        ([{"$project": {"nmae": 1}}], "pipeline[0].$project.nmae"),
        ([{"$addFields": {"x": {"y": "$nmae"}}}], "pipeline[0].$addFields.x.y"),
        ([{"$unwind": "$nmae"}], "pipeline[0].$unwind"),
    ],
)
async def test_an_unknown_field_of_a_pipeline_is_answered_with_its_path(
    app: App, pipeline: list[dict[str, Any]], field: str
):
    table = await app.table({"name": "string", "age": "int"})
    found, message = await _unknown_column(app, table, "aggregate", _STAGES | {"pipeline": pipeline})
    assert found == field
    fields = "age, created_at, id, name, updated_at"
    assert message == f"The documents have no field nmae. At this stage they have {fields}."


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (f"{_ROWS}/query", {"where": {"$or": [{"ssn": {"$gt": "1"}}]}}, "where.$or[0].ssn.$gt"),
        (f"{_ROWS}/query", {"where": {"o.a": "1"}}, "where.o.a"),
        (f"{_ROWS}/query", {"order_by": "ssn"}, "order_by"),
        ("search", _STAGES | {"query": "a", "fields": ["ssn"]}, "fields"),
        ("aggregate", _STAGES | {"pipeline": [{"$group": {"_id": {"k": "$ssn"}}}]}, "pipeline[0].$group._id.k"),
    ],
)
async def test_an_encrypted_column_is_refused_with_its_path(app: App, path: str, body: dict[str, Any], field: str):
    encrypted = {"ssn": {"type": "string", "encrypted": True}, "o": {"type": "object", "encrypted": True}}
    table = await app.table({**encrypted, "name": "string"})
    found, message = await _unknown_column(app, table, path, body, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
    assert found == field
    assert message.startswith(f"{'o' if field == 'where.o.a' else 'ssn'} is encrypted. ")


async def _unknown_column(
    app: App, table: str, path: str, body: dict[str, Any], code: str = "UNKNOWN_COLUMN"
) -> tuple[str, str]:
    async with app.client() as client:
        text = json.dumps(body).replace("{table}", table)
        answer = await client.post(
            f"/v1/public/{path.format(table=table)}", content=text, headers={"Content-Type": "application/json"}
        )
    return fault(answer, code)


async def test_of_many_columns_some_are_listed(app: App):
    table = await app.table({f"column_{number:03}": "int" for number in range(60)})
    async with app.client() as client:
        answer = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"x" * 5000: 1}})
    _, message = fault(answer, "UNKNOWN_COLUMN")
    assert message.endswith("column_028, column_029 and 30 more.")
    assert len(message) < 1000


@pytest.mark.parametrize(("number", "sentence"), [(1, "1 row has a value"), (2, "2 rows have a value")])
async def test_one_row_and_several_that_do_not_fit(app: App, number: int, sentence: str):
    table = await app.table({"amount": "string"})
    for _ in range(number):
        await app.row(table, {"amount": "12 EUR"})
    async with app.client() as client:
        answer = await client.patch(f"/v1/public/tables/{table}/columns/amount", json={"data_type": "number"})
    message = assert_error(answer, 409, "ROWS_DO_NOT_FIT")["message"]
    assert message == f"{sentence} in amount that cannot be converted to number. Nothing was changed."


def _stages(*stages: dict[str, Any]) -> dict[str, Any]:
    return {**_STAGES, "pipeline": list(stages)}


def _schema(columns: dict[str, Any]) -> dict[str, Any]:
    return {"title": "mistaken", "schema": columns, "access_level": "Public"}


# A path, a body, the field that is named, and what the message says would be right.
MISTAKES: list[tuple[str, dict[str, Any], str, str]] = [
    (f"{_ROWS}/query", {"where": {"$or": [{"age": {"$greater": 3}}]}}, "where.$or[0].age.$greater", "$eq, $ne, $gt"),
    (f"{_ROWS}/query", {"where": {"$nor": []}}, "where.$nor", "the operators are $and, $or, $not."),
    (f"{_ROWS}/query", {"where": {"age": {"$contains": "3"}}}, "where.age.$contains", "works on text"),
    (f"{_ROWS}/query", {"where": {"$not": {"age": {"$arrayContains": 3}}}}, "where.$not.age.$arrayContains", "arrays"),
    (f"{_ROWS}/query", {"where": {"age": {"$in": [1] * 1001}}}, "where.age.$in", "at most 1000 values"),
    (f"{_ROWS}/query", {"where": {"name": {"$matches": "a" * 257}}}, "where.name.$matches", "at most 256 characters"),
    (f"{_ROWS}/query", {"offset": 1.5}, "offset", "a whole number from 0 is expected, not a number with a fraction"),
    (
        "aggregate",
        _stages({"$group": {"_id": None, "n": {"$median": 1}}}),
        "pipeline[0].$group.n.$median",
        "$sum, $avg",
    ),
    ("aggregate", _stages({"$project": {"x": {"$plus": [1, 1]}}}), "pipeline[0].$project.x.$plus", "$abs, $add"),
    ("transactions", {"operations": []}, "operations", "an array of at least 1 item is expected"),
    ("tables", _schema({"a.b": "int"}), "schema.a.b", "'a.b' cannot name a column"),
    ("tables", _schema({"__a": "int"}), "schema.__a", "__a cannot name a column"),
    ("tables", _schema({"a": {"type": "int", "default": "x"}}), "schema.a.default", "a: an int, a whole number"),
    ("tables/{table}/columns", {"name": "n", "data_type": "int", "default_value": "x"}, "default_value", "n: an int"),
    ("tables/{table}/columns", {"name": "n", "type": "int"}, "type", "the fields are name, data_type, "),
    (_ROWS, {"data": {"name": {"$inc": 1}}}, "data.name", "a string is expected, not an object"),
]


@pytest.mark.share(0.34)
@pytest.mark.parametrize(("path", "body", "field", "sentence"), MISTAKES)
async def test_a_mistake_is_named_with_what_would_be_right(
    app: App, path: str, body: dict[str, Any], field: str, sentence: str
):
    table = await app.table({"name": "string", "age": "int"})
    content = json.dumps(body).replace("{table}", table)
    async with app.client(**{"Content-Type": "application/json"}) as client:
        answer = await client.post(f"/v1/public/{path.format(table=table)}", content=content)
    assert answer.status_code == 400
    assert answer.json()["details"][0]["field"] == field
    assert sentence in answer.json()["message"]


async def test_an_increment_of_a_column_without_numbers_says_which_have_them(app: App):
    table = await app.table({"name": "string", "o": "object"})
    row = await app.row(table, {})
    path = f"/v1/public/tables/{table}/data/{row['id']}"
    async with app.client() as client:
        field, message = fault(await client.patch(path, json={"data": {"name": {"$inc": 1}}}))
        assert field == "data.name"
        assert message == "data.name: $inc is for columns of type int and number; this one is string."
        # In an object it is a value like any other.
        kept = await client.patch(path, json={"data": {"o": {"$inc": 1}}})
        assert kept.json()["data"] == {"o": {"$inc": 1}}


async def test_a_body_of_another_kind_is_named(app: App):
    async with app.client() as client:
        answer = await client.post("/v1/public/transactions", json=[])
    assert fault(answer) == ("", "The body: an object is expected, not an array.")


def test_an_address_that_is_none_is_shown_one(app: App, console: dict[str, str]):
    body = {"email": "nobody", "role": "viewer"}
    with httpx.Client(
        base_url=app.server.url, headers={"Authorization": f"Bearer {console['access_token']}"}
    ) as client:
        answer = client.post(f"/v1/apps/{app.app_id}/invitations", json=body)
    assert fault(answer)[1] == "email: a string of at most 254 characters such as ada@example.com is expected."


async def test_a_list_names_the_route_that_filters_instead_of_returning_every_row(app: App):
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "a"})
    async with app.client() as client:
        for name, value in (
            ("where", '{"name":"b"}'),
            ("order_by", "age"),
            ("filter", "x"),
            ("name", "eq.b"),
            ("", ""),
        ):
            answer = await client.get(f"/v1/public/tables/{table}/data?{name}={value}&limit=5")
            body = assert_error(answer, 400, "VALIDATION_FAILED")
            assert [(one["field"], one["code"]) for one in body["details"]] == [(name, "UNKNOWN_PARAMETER")]
            assert "it takes count, cursor, expand, fields, limit, offset. " in body["message"]
            assert "POST /v1/public/tables/:table_id/data/query" in body["message"]
        tables = assert_error(await client.get("/v1/public/tables?title=x"), 400, "VALIDATION_FAILED")
        assert tables["message"] == "title is not a parameter of this address; it takes none."


UNMATCHABLE: list[tuple[dict[str, Any], str, str]] = [
    ({"name": {"eq": "a"}}, "where.name.eq", "Did you mean $eq?"),
    ({"age": {"gte": 1, "lt": 5}}, "where.age.gte", "Did you mean $gte?"),
    ({"is": {"not": True}}, "where.is.not", "Did you mean $not?"),
    ({"ssn": {"in": ["a"]}}, "where.ssn.in", "Did you mean $in?"),
    ({"created_at": {"gt": "2020-01-01"}}, "where.created_at.gt", "Did you mean $gt?"),
    ({"$or": [{"u": {"like": "a%"}}]}, "where.$or[0].u.like", "like is not an operator here"),
    ({"born": {"eq": "2020-01-01", "$gt": "2020-01-01"}}, "where.born.eq", "Did you mean $eq?"),
    ({"price": {}}, "where.price", "price holds no objects"),
    ({"age": [1]}, "where.age", "Did you mean $in?"),
    ({"$not": {"name": []}}, "where.$not.name", "name holds no lists"),
    ({"ssn": ["a"]}, "where.ssn", "Did you mean $in?"),
]


async def test_a_condition_that_cannot_match_is_an_error(app: App):
    table = await app.table({**SCHEMA, "ssn": {"type": "string", "encrypted": True}})
    row = await app.row(table, {"name": "a", "o": {"eq": "a"}, "l": [{"eq": "a"}]})
    async with app.client() as client:
        for where, field, sentence in UNMATCHABLE:
            path = f"/v1/public/tables/{table}/data"
            asked = [await client.post(f"{path}/{route}", json={"where": where}) for route in ("query", "delete-where")]
            if "ssn" not in where:
                body = {"table_id": table, "pipeline": [{"$match": where}]}
                asked.append(await client.post("/v1/public/aggregate", json=body))
            for answer in asked:
                found, message = fault(answer, "INVALID_OPERATOR")
                assert found.endswith(field.removeprefix("where")), found
                assert sentence in message
        # Objects have objects for values.
        for where in ({"o": {"eq": "a"}}, {"o.eq": "a"}, {"o.eq": {"$ne": {"eq": "a"}}}, {"l": [{"eq": "a"}]}):
            answer = await client.post(f"/v1/public/tables/{table}/data/query", json={"where": where})
            assert [one["id"] for one in answer.json()["data"]] == [row["id"]], where


async def test_a_title_in_place_of_an_id_is_told_where_ids_are_listed(app: App):
    async with app.client(app.console["access_token"]) as client:
        for path, place in (
            ("/v1/public/tables/posts/data", "GET /v1/public/tables."),
            ("/v1/public/storages/files/pictures/items", "/storages/files"),
            (f"/v1/apps/{app.app_id}/functions/greet/logs", "/functions."),
            (f"/v1/apps/{app.app_id}/workflows/nightly", "/workflows."),
        ):
            message = assert_error(await client.get(path), 400, "INVALID_ID")["message"]
            assert "listed with their ids by GET" in message
            assert place in message


async def test_an_address_with_a_slash_at_its_end_is_told_so(app: App):
    async with app.client() as client:
        slash = assert_error(await client.get("/v1/public/tables/"), 404, "NOT_FOUND")["message"]
        assert slash.endswith("leave out the slash at its end.")
        for path in ("/v1/tables", "/v1/tables/"):
            assert "/docs" in assert_error(await client.get(path), 404, "NOT_FOUND")["message"]
