"""Class N: names of a language's own machinery are data; a key that comes twice counts once."""

from typing import Any

import httpx
import pytest

from tests.support import App, assert_error

TABLES = "/v1/public/tables"
JSON = {"Content-Type": "application/json"}
KEYS = [
    "__proto__",
    "constructor",
    "prototype",
    "toString",
    "hasOwnProperty",
    "__class__",
    "__init__",
    "__dict__",
    "__globals__",
    "__reduce__",
    "_bsontype",
    "self",
    "None",
    "__struct_fields__",
]


@pytest.mark.advisory("GHSA-p6h4-93qp-jhcm", "GHSA-462x-c3jw-7vr6", "GHSA-prm5-8g2m-24gg", "GHSA-9ccr")
async def test_hostile_keys_are_data_wherever_data_goes(app: App):
    member = await app.member()
    hostile = {key: {key: {"isAdmin": True, "_bsontype": "Code", "code": "1"}} for key in KEYS}
    typed, free = await app.table({"o": "object"}), await app.table({})
    async with app.client(member["access_token"]) as client:
        row = (await client.post(f"{TABLES}/{typed}/data", json={"data": {"o": hostile}})).json()
        assert row["data"] == {"o": hostile}
        refused = await client.post(f"{TABLES}/{free}/data", json={"data": hostile})
        assert_error(refused, 400, "INVALID_COLUMN_NAME")
        names = [key for key in KEYS if not key.startswith("__")]
        named = dict.fromkeys(names, hostile)
        row = (await client.post(f"{TABLES}/{free}/data", json={"data": named})).json()
        assert row["data"] == named
        change = {"data": {key: {"x": 1} for key in names}}
        changed = await client.patch(f"{TABLES}/{free}/data/{row['id']}", json=change)
        assert changed.json()["data"] == change["data"]
        for key in names:
            query = {"where": {f"{key}.x": 1}, "order_by": f"{key}.x"}
            assert (await client.post(f"{TABLES}/{free}/data/query", json=query)).json()["total_count"] == 1, key
        merged = await client.patch("/v1/public/app-members/me/custom-data", json={"custom_data": hostile})
        assert merged.json()["custom_data"] == hostile
        # No other object is changed by it.
        made = await app.member("eve")
        me = await client.get("/v1/public/app-members/me", headers={"Authorization": f"Bearer {made['access_token']}"})
        assert me.json() == {"member_id": made["member_id"], "nickname": None, "is_active": True, "custom_data": {}}


@pytest.mark.advisory("GHSA-q342-9w2p-57fp", "GHSA-p6h4-93qp-jhcm")
@pytest.mark.parametrize("key", KEYS)
async def test_hostile_keys_are_unknown_fields_at_any_depth_of_a_request(app: App, key: str):
    table = await app.table({"a": "string"})
    nested: dict[str, Any] = {"a": {"b": [{key: 1}]}}
    bodies: list[tuple[str, Any]] = [
        ("/v1/public/app-members/signup", {"login_id": "ada", "password": "correct horse", key: {"x": 1}}),
        (TABLES, {"title": "t", "schema": {}, "access_level": "Public", key: 1}),
        (TABLES, {"title": "t", "schema": {"a": {"type": "string", key: 1}}, "access_level": "Public"}),
        (f"{TABLES}/{table}/columns", {"name": "b", "data_type": "int", key: 1}),
        (f"{TABLES}/{table}/data", {"data": {}, key: 1}),
        (f"{TABLES}/{table}/data", {"data": {key: 1}}),
        (f"{TABLES}/{table}/data", {"data": nested}),
        (f"{TABLES}/{table}/data/query", {"where": {key: 1}}),
        (f"{TABLES}/{table}/data/query", {"where": {"$or": [{"$and": [{key: 1}]}]}}),
        ("/v1/public/search", {"table_id": table, "query": "x", key: 1}),
        (
            "/v1/public/geo",
            {"table_id": table, "field": "a", "near": {"center": {"latitude": 0, "longitude": 0, key: 1}}},
        ),
        ("/v1/public/batch", {"operations": [], key: 1}),
        ("/v1/public/transactions", {"operations": [], key: 1}),
        ("/v1/public/transactions", {"operations": [{"type": "create", "table_id": table, "data": {}, key: 1}]}),
    ]
    async with app.client() as client:
        for path, body in bodies:
            answer = await client.post(path, json=body)
            assert answer.status_code == 400, (path, body, answer.text)
        operations = [{"type": "create", "table_id": table, "data": {}, key: 1}]
        (result,) = (await client.post("/v1/public/batch", json={"operations": operations})).json()["results"]
        assert (result["success"], result["error"]["code"]) == (False, "VALIDATION_FAILED")
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == []


@pytest.mark.advisory("GHSA-q342-9w2p-57fp")
async def test_a_column_may_be_called_what_an_object_calls_its_own(app: App):
    names = [key for key in KEYS if not key.startswith("__")]
    table = await app.table(dict.fromkeys(names, "int"))
    row = await app.row(table, dict.fromkeys(names, 7))
    async with app.client() as client:
        for name in names:
            found = await client.post(f"{TABLES}/{table}/data/query", json={"where": {name: 7}, "order_by": name})
            assert found.json()["total_count"] == 1
            pipeline = [{"$group": {"_id": f"${name}", name: {"$sum": f"${name}"}}}]
            body = {"table_id": table, "pipeline": pipeline}
            assert (await client.post("/v1/public/aggregate", json=body)).json()["data"] == [{"_id": 7, name: 7}]
        assert (await client.get(f"{TABLES}/{table}/data/{row['id']}")).json()["data"] == dict.fromkeys(names, 7)


async def post(client: httpx.AsyncClient, path: str, text: str) -> httpx.Response:
    return await client.post(path, content=text.encode(), headers=JSON)


@pytest.mark.advisory("GHSA-q342-9w2p-57fp")
async def test_of_a_key_that_comes_twice_one_is_checked_and_the_same_is_used(app: App):
    """The first good and the last bad, and the reverse: nothing gets past the check that is then stored."""
    table = await app.table({"n": "int", "o": "object"})
    path = f"{TABLES}/{table}/data"
    async with app.client() as client:
        for bad in ('"x"', "1.5", "[]", "99999999999999999999"):
            assert_error(await post(client, path, f'{{"data":{{"n":1,"n":{bad}}}}}'), 400, "VALIDATION_FAILED")
        assert_error(await post(client, path, '{"data":{"n":"x","n":1}}'), 400, "VALIDATION_FAILED")
        for text in ('{"data":{"n":2,"n":1}}', '{"data":{"n":2,"\\u006e":1}}', '{"data":{},"data":{"n":1}}'):
            answer = await post(client, path, text)
            assert answer.status_code == 201, answer.text
            assert answer.json()["data"] == {"n": 1}
            assert (await client.get(f"{path}/{answer.json()['id']}")).json() == answer.json()
        doubled = await post(client, path, '{"data":{"o":{"a":1,"a":2,"\\u0061":3}}}')
        assert (await client.get(f"{path}/{doubled.json()['id']}")).json()["data"] == {"o": {"a": 3}}
        for text in (
            '{"where":{"n":1},"where":{}}',
            '{"all":true,"all":false}',
            '{"where":{"n":1,"n":{"$foo":1}}}',
            '{"where":{"n":{"$eq":1,"$eq":[]}},"where":{"x":1}}',
        ):
            assert (await post(client, f"{path}/delete-where", text)).status_code == 400
        assert (await client.get(path)).json()["total_count"] == 4
        operation = '{"type":"create","type":"delete","table_id":"TABLE","data":{}}'.replace("TABLE", table)
        answer = await post(client, "/v1/public/batch", '{"operations":[' + operation + "]}")
        assert_error(answer, 400, "DUPLICATE_KEY")
