"""Class B: what a caller may not read, it cannot count, sort, group, complete or guess either."""

import json
from typing import Any

import httpx
import pytest

from tests.acceptance.test_files import storage, upload
from tests.backstage import me
from tests.support import App, assert_error

TABLES = "/v1/public/tables"
SECRET = "the-hidden-needle"
SCHEMA = {
    "name": "string",
    "ssn": {"type": "string", "encrypted": True},
    "amount": {"type": "number", "encrypted": True},
    "place": {"type": "object", "encrypted": True},
    "list": {"type": "array", "encrypted": True},
}
NEAR = {"center": {"latitude": 1, "longitude": 1}}


def where_uses(column: str) -> list[dict[str, Any]]:
    """Every way to compare a column other than by its keyed hash, bare and inside logic."""
    operators = [
        {"$gt": "a"},
        {"$gte": "a"},
        {"$lt": "z"},
        {"$lte": "z"},
        {"$between": ["a", "z"]},
        {"$contains": "n"},
        {"$startsWith": "t"},
        {"$endsWith": "e"},
        {"$matches": "^the"},
        {"$arrayContains": "x"},
        {"$arrayContainsAny": ["x"]},
        {"$not": {"$gt": "a"}},
        {"$eq": SECRET, "$gt": "a"},
    ]
    conditions: list[dict[str, Any]] = [{column: operator} for operator in operators]
    conditions += [{f"{column}.x": 1}, {f"{column}.x": {"$isNull": True}}]
    return [
        wrapped
        for one in conditions
        for wrapped in (
            one,
            {"$or": [one]},
            {"$or": [{"name": "x"}, one]},
            {"$and": [{"$or": [one]}]},
            {"$not": one},
            {"$not": {"$or": [{"$not": one}]}},
        )
    ]


@pytest.mark.advisory("GHSA-72hp-qff8-4pvv", "GHSA-r2m8-pxm9-9c4g", "GHSA-2m6g-crv8-p3c6", "PocketBase v0.32.0")
@pytest.mark.parametrize("column", ["ssn", "amount", "place", "list"])
async def test_an_encrypted_column_answers_no_condition_but_equality(app: App, column: str):
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "x", "ssn": SECRET, "amount": 7, "place": {"x": 1}, "list": [SECRET]})
    async with app.client() as client:
        for where in where_uses(column):
            for path in ("query", "delete-where"):
                answer = await client.post(f"{TABLES}/{table}/data/{path}", json={"where": where})
                assert answer.status_code == 400, (where, answer.text)
                told = answer.json()
                assert told["code"] in {"ENCRYPTED_COLUMN_NOT_QUERYABLE", "UNKNOWN_COLUMN", "VALIDATION_FAILED"}
                assert SECRET not in answer.text
        assert (await client.get(f"{TABLES}/{table}/data?limit=0")).json()["total_count"] == 1


@pytest.mark.advisory("GHSA-r2m8-pxm9-9c4g", "GHSA-72hp-qff8-4pvv", "GHSA-2m6g-crv8-p3c6")
async def test_an_encrypted_column_is_not_sorted_searched_grouped_or_computed(app: App):
    table = await app.table(SCHEMA)
    await app.row(table, {"name": "x", "ssn": SECRET, "amount": 7, "place": {"latitude": 1, "longitude": 1}})
    stages: list[dict[str, Any]] = []
    for column in ("ssn", "amount", "place", "list"):
        for path in (column, f"{column}.x"):
            stages += [
                {"$match": {path: SECRET}},
                {"$match": {"$or": [{"name": "x"}, {path: {"$isNull": False}}]}},
                {"$sort": {path: 1}},
                {"$group": {"_id": f"${path}"}},
                {"$group": {"_id": {"k": f"${path}"}}},
                {"$group": {"_id": f"$$ROOT.{path}"}},
                {"$group": {"_id": f"$$CURRENT.{path}"}},
                {"$project": {path: 1}},
                {"$addFields": {"copy": f"${path}"}},
                {"$addFields": {"copy": {"$ifNull": [f"${path}", 1]}}},
                {"$addFields": {"copy": {"$eq": [f"${path}", SECRET]}}},
                {"$unwind": f"${path}"},
            ]
            stages += [
                {"$group": {"_id": None, "v": {accumulator: f"${path}"}}}
                for accumulator in ("$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet")
            ]
    async with app.client() as client:
        for stage in stages:
            answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": [stage]})
            assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
        whole = [{"$group": {"_id": None, "rows": {"$push": "$$ROOT"}}}]
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": whole})
        assert answer.status_code == 200
        assert SECRET not in answer.text
        for path in ("ssn", "ssn.x"):
            for direction in ("asc", "desc"):
                body = {"order_by": path, "order_direction": direction}
                answer = await client.post(f"{TABLES}/{table}/data/query", json=body)
                assert answer.json()["code"] in {"ENCRYPTED_COLUMN_NOT_QUERYABLE", "UNKNOWN_COLUMN"}
        about = {"table_id": table, "query": SECRET}
        for field in ("ssn", "place.x"):
            answer = await client.post("/v1/public/search", json=about | {"fields": ["name", field]})
            assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
            answer = await client.post("/v1/public/autocomplete", json=about | {"field": field})
            assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
        answer = await client.post("/v1/public/geo", json={"table_id": table, "field": "place", "near": NEAR})
        assert_error(answer, 400, "ENCRYPTED_COLUMN_NOT_QUERYABLE")
        assert (await client.post("/v1/public/search", json=about)).json() == {"data": [], "total_count": 0}


async def views(client: httpx.AsyncClient, table: str) -> dict[str, Any]:
    """What every reading route reveals about a table: totals, groups, suggestions, and the rows' names."""

    async def post(path: str, **body: Any) -> Any:
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, (path, body, answer.text)
        return answer.json()

    data, about = f"{TABLES}/{table}/data", {"table_id": table}
    group = {"_id": "$name", "n": {"$sum": 1}, "most": {"$max": "$n"}}
    return {
        "list": (await client.get(data)).json() | {"execution_time_ms": 0},
        "total": (await client.get(f"{data}?limit=0")).json()["total_count"],
        "everything": await post(f"{data}/query", where={"$or": [{"n": {"$gte": 0}}, {"n": {"$lt": 0}}]}),
        "everything else": await post(f"{data}/query", where={"$not": {"name": "no such name"}}),
        "by prefix": await post(f"{data}/query", where={"name": {"$startsWith": "needle"}}, limit=0),
        "by pattern": await post(f"{data}/query", where={"name": {"$matches": "^n.*e"}}, limit=0),
        "sorted": await post(f"{data}/query", order_by="n", order_direction="desc"),
        "groups": await post("/v1/public/aggregate", **about, pipeline=[{"$group": group}]),
        "counted": await post("/v1/public/aggregate", **about, pipeline=[{"$count": "n"}]),
        "matched": await post("/v1/public/aggregate", **about, pipeline=[{"$match": {"n": {"$gt": 1}}}]),
        "search": await post("/v1/public/search", **about, query="needle"),
        "search without": await post("/v1/public/search", **about, query="needle -other"),
        "search for a likeness": await post("/v1/public/search", **about, query="neelde"),
        "complete": await post("/v1/public/autocomplete", **about, query="need", field="name"),
        "complete a likeness": await post("/v1/public/autocomplete", **about, query="neelde", field="name"),
        "near": await post("/v1/public/geo", **about, field="place", near=NEAR),
        "within": await post("/v1/public/geo", **about, field="place", within={**NEAR, "radius": 9}),
    }


@pytest.mark.advisory(
    "GHSA-72hp-qff8-4pvv", "GHSA-r2m8-pxm9-9c4g", "GHSA-2m6g-crv8-p3c6", "PocketBase v0.31.0", "PocketBase v0.32.0"
)
async def test_rows_of_others_leave_no_trace_in_any_route(app: App):
    """With and without another member's rows, every answer is the same to the byte, but for what differs by itself."""
    ada, bob = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    table = await app.table({"name": "string", "n": "int", "place": "object"}, "Creator")
    place = {"latitude": 1, "longitude": 1}
    await app.row(table, {"name": "needle mine", "n": 1, "place": place}, bob)
    async with app.client(bob) as client:
        before = await views(client, table)
        for number in range(30):
            await app.row(table, {"name": f"needle {number}", "n": number, "place": place}, ada)
        after = await views(client, table)
    assert json.dumps(after) == json.dumps(before)
    assert before["total"] == 1
    async with app.client(ada) as client:
        assert (await views(client, table))["total"] == 30


@pytest.mark.advisory("GHSA-72hp-qff8-4pvv")
async def test_rows_of_others_are_not_written_by_any_route(app: App):
    ada, bob = (await app.member("ada"))["access_token"], (await app.member("bob"))["access_token"]
    table = await app.table({"n": "int"}, "Creator")
    row = await app.row(table, {"n": 1}, ada)
    operations = [
        {"type": "update", "table_id": table, "doc_id": row["id"], "data": {"n": 2}},
        {"type": "update", "table_id": table, "doc_id": row["id"], "data": {"n": {"$inc": 1}}},
        {"type": "delete", "table_id": table, "doc_id": row["id"]},
    ]
    path = f"{TABLES}/{table}/data"
    async with app.client(bob) as client:
        for operation in operations:
            answer = await client.post("/v1/public/batch", json={"operations": [operation]})
            assert answer.json()["results"][0]["error"]["code"] == "ROW_NOT_FOUND"
            answer = await client.post("/v1/public/transactions", json={"operations": [operation]})
            assert_error(answer, 404, "ROW_NOT_FOUND", failed_index=0)
        assert_error(await client.patch(f"{path}/{row['id']}", json={"data": {"n": 2}}), 404, "ROW_NOT_FOUND")
        # The precondition is no oracle: right or wrong, the row is not there.
        for moment in (row["updated_at"], "2020-01-01T00:00:00Z"):
            body = {"data": {"n": 2}, "expected_updated_at": moment}
            assert_error(await client.patch(f"{path}/{row['id']}", json=body), 404, "ROW_NOT_FOUND")
        for where in ({"n": 1}, {"id": row["id"]}, {"$or": [{"n": 1}, {"id": row["id"]}]}, {"$not": {"n": 7}}):
            assert (await client.post(f"{path}/delete-where", json={"where": where})).json() == {"deleted_count": 0}
    async with app.client(ada) as client:
        assert (await client.get(path)).json()["data"] == [row]


@pytest.mark.advisory("GHSA-9cp7-3q5w-j92g", "GHSA-827p-g5x5-h86c")
@pytest.mark.parametrize(
    "pattern", ["(", "[", "a{2,1}", "*", "(?<name>a)", "\\", "[[:foo:]]", "a**", "(?z)x", "x{999}"]
)
async def test_a_malformed_pattern_is_told_in_our_own_words(app: App, pattern: str):
    table = await app.table({"a": "string"})
    await app.row(table, {"a": "x"})
    requests = {
        f"{TABLES}/{table}/data/query": {"where": {"a": {"$matches": pattern}}},
        f"{TABLES}/{table}/data/delete-where": {"where": {"$not": {"a": {"$matches": pattern}}}},
        "/v1/public/aggregate": {"table_id": table, "pipeline": [{"$match": {"a": {"$matches": pattern}}}]},
    }
    async with app.client() as client:
        for path, body in requests.items():
            answer = await client.post(path, json=body)
            told = assert_error(answer, 400, "INVALID_REGEX")
            assert told["message"] == "The pattern of $matches is not a valid regular expression."
        assert (await client.get(f"{TABLES}/{table}/data")).json()["total_count"] == 1


@pytest.mark.advisory("GHSA-37mj-c2wf-cx96", "GHSA-wp76-gg32-8258", "GHSA-g4v2-qx3q-4p64", "CVE-2026-53725")
async def test_no_answer_about_a_member_holds_more_than_the_interface_names(app: App):
    """No password hash, no session, no data of the credential: neither to the member nor to the console."""
    made = await app.member()
    body = {"login_id": "ada", "password": "correct horse"}
    async with app.client() as client:
        signed_in = (await client.post("/v1/public/app-members/signin", json=body)).json()
    assert set(made) == set(signed_in) == {"member_id", "nickname", "access_token", "refresh_token"}
    record = await me(app.server, made["access_token"])
    assert set(record.json()) == {"member_id", "nickname", "is_active", "custom_data"}
    async with app.client(app.console["access_token"]) as console:
        listed = await console.get(f"/v1/apps/{app.app_id}/members")
        read = await console.get(f"/v1/apps/{app.app_id}/members/{made['member_id']}")
    for answer in (record, listed, read):
        assert answer.status_code == 200
        for word in ("argon2", "password", "hash", "jti", "refresh_token", "access_token"):
            assert word not in answer.text, word


@pytest.mark.advisory("GHSA-hwx8-q9cg-mqmc")
@pytest.mark.parametrize("access", ["AppMember", "Creator", "Secret"])
async def test_what_is_told_of_a_file_needs_what_reading_it_needs(app: App, access: str):
    base = await storage(app, read_access=access)
    async with app.client(app.secret_key) as secret, app.client() as public:
        item = await upload(secret, base)
        for path in (f"{base}/items", f"{base}/path/{item['path']}", item["url"], f"{base}/items?search=a"):
            for method in ("GET", "HEAD"):
                answer = await public.request(method, path)
                assert answer.status_code == 401, (path, answer.text)
                assert "etag" not in answer.headers
        answer = await public.post(f"{base}/items/{item['id']}/signed-url", json={})
        assert answer.status_code == 401
