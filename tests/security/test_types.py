"""Class A2: a value of another type than the one asked for is refused, and an operator in data stays data."""

from typing import Any

import pytest

from tests.acceptance.test_files import storage
from tests.conftest import PASSWORD
from tests.support import App, assert_error, plain_client

TABLES = "/v1/public/tables"
OTHERS: list[Any] = [{"$ne": None}, {"$gt": ""}, {"$regex": ".*"}, {"$in": ["x"]}, ["x"], [], {}, True, 1, 0.5, None]


@pytest.mark.advisory("GHSA-vgjh-hmwf-c588", "GHSA-5fw2-8jcv-xh87", "parse-server#10209", "parse-server#10212")
@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("/v1/public/app-members/signup", {"login_id": "ada", "password": "correct horse"}, ["login_id", "password"]),
        ("/v1/public/app-members/signin", {"login_id": "ada", "password": "correct horse"}, ["login_id", "password"]),
        ("/v1/auth/signin", {"email": "first@example.com", "password": PASSWORD}, ["email", "password"]),
        (
            "/v1/auth/signup",
            {"email": "new@example.com", "password": PASSWORD, "token": "x"},
            ["email", "password", "token"],
        ),
    ],
)
async def test_no_credential_is_taken_in_another_type(app: App, path: str, body: dict[str, Any], fields: list[str]):
    await app.member()
    async with app.client() as client:
        for field in fields:
            for value in OTHERS:
                answer = await client.post(path, json=body | {field: value})
                told = assert_error(answer, 400, "VALIDATION_FAILED")
                assert told["details"][0]["field"] == field, value


@pytest.mark.advisory("GHSA-vgjh-hmwf-c588")
async def test_an_invitations_token_is_a_text(app: App):
    async with plain_client(app.server.url, Authorization=f"Bearer {app.console['access_token']}") as client:
        for value in OTHERS:
            answer = await client.post("/v1/invitations/accept", json={"token": value})
            assert_error(answer, 400, "VALIDATION_FAILED")


@pytest.mark.advisory("parse-server#10209", "parse-server#10212", "parse-server#10230")
async def test_no_identifier_is_taken_in_another_type(app: App):
    table = await app.table({"a": "string", "o": "object"})
    row = await app.row(table, {"a": "x"})
    base = await storage(app)
    near = {"center": {"latitude": 0, "longitude": 0}}
    cases: list[tuple[str, dict[str, Any], list[str]]] = [
        ("/v1/public/aggregate", {"table_id": table, "pipeline": []}, ["table_id", "pipeline"]),
        ("/v1/public/search", {"table_id": table, "query": "x", "fields": ["a"]}, ["table_id", "query"]),
        ("/v1/public/autocomplete", {"table_id": table, "query": "x", "field": "a"}, ["table_id", "query", "field"]),
        ("/v1/public/geo", {"table_id": table, "field": "o", "near": near}, ["table_id", "field"]),
        (f"{base}/complete-upload", {"file_id": row["id"]}, ["file_id"]),
        (f"{base}/presigned-url", {"file_name": "a", "file_size": 1, "mime_type": "a/b"}, ["file_name", "mime_type"]),
        (f"{base}/folders", {"name": "f"}, ["name"]),
        (f"{TABLES}", {"title": "t", "schema": {}, "access_level": "Public"}, ["title", "access_level"]),
        (f"{TABLES}/{table}/columns", {"name": "b", "data_type": "int"}, ["name", "data_type"]),
    ]
    async with app.client() as client:
        for path, body, fields in cases:
            for field in fields:
                for value in OTHERS:
                    if (field, value) == ("pipeline", []):
                        continue
                    answer = await client.post(path, json=body | {field: value})
                    assert answer.status_code == 400, (path, field, value, answer.text)
        for field in ("doc_id", "table_id", "type"):
            for value in OTHERS:
                operation = {"type": "delete", "table_id": table, "doc_id": row["id"], field: value}
                for path in ("/v1/public/batch", "/v1/public/transactions"):
                    answer = await client.post(path, json={"operations": [operation]})
                    refused = answer.status_code == 400 or answer.json().get("success_count") == 0
                    assert refused, (field, value, answer.text)
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]
        assert len((await client.get(TABLES)).json()["tables"]) == 1


@pytest.mark.share(0.34)
@pytest.mark.advisory("parse-server#10230", "GHSA-5fw2-8jcv-xh87")
@pytest.mark.parametrize(
    "where",
    [
        {"$where": "1"},
        {"a": {"$regex": "x"}},
        {"a": {"$foo": 1}},
        {"$or": {"a": "x"}},
        {"$or": "x"},
        {"$or": [["a", "x"]]},
        {"$and": None},
        {"$not": [{"a": "x"}]},
        {"a": {"$in": {"0": "x"}}},
        {"a": {"$between": {"0": "a", "1": "b"}}},
        {"a": {"$eq": "x", "$$eq": "x"}},
        {"a": {"$or": [{"$eq": "x"}]}},
        {"a": {"$not": "x"}},
        [{"a": "x"}],
        "a = 'x'",
        1,
        True,
    ],
    ids=str,
)
async def test_an_operator_that_is_none_or_holds_another_type(app: App, where: Any):
    table = await app.table({"a": "string"})
    row = await app.row(table, {"a": "x"})
    async with app.client() as client:
        for path in ("query", "delete-where"):
            assert (await client.post(f"{TABLES}/{table}/data/{path}", json={"where": where})).status_code == 400
        body = {"table_id": table, "pipeline": [{"$match": where}]}
        assert (await client.post("/v1/public/aggregate", json=body)).status_code == 400
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [row]


@pytest.mark.advisory("GHSA-5fw2-8jcv-xh87", "parse-server#10230")
async def test_operators_in_data_are_data(app: App):
    hostile = {"$ne": None, "$set": {"is_active": False}, "$ref": 0, "$or": [{"$gt": 1}], "n": {"$inc": "x"}}
    typed, free = await app.table({"o": "object", "l": "array"}), await app.table({})
    async with app.client() as client:
        row = await app.row(typed, {"o": hostile, "l": [hostile]})
        assert (await client.get(f"{TABLES}/{typed}/data/{row['id']}")).json()["data"] == {"o": hostile, "l": [hostile]}
        assert (await app.row(free, {"o": hostile}))["data"] == {"o": hostile}
        pipeline = [{"$project": {"id": 0, "x": {"$literal": hostile}}}]
        answer = await client.post("/v1/public/aggregate", json={"table_id": typed, "pipeline": pipeline})
        assert answer.json()["data"] == [{"x": hostile}]
