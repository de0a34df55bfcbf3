"""Titles of tables and names of storages in the place of their ids."""

from __future__ import annotations

import uuid
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import new_app
from tests.support import App, plain_client


def own(app: App) -> httpx.AsyncClient:
    """A client with the app's secret key, for the routes of the console."""
    return plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.secret_key}")


@pytest.mark.parametrize("title", ["orders", "주문 2026", "a/b?c#d%2F e", "data", "Größe"])
async def test_every_route_of_a_table_takes_its_title(app: App, title: str) -> None:
    table = await app.table({"n": "int"}, title=title)
    path = f"/v1/public/tables/{quote(title, safe='')}"
    async with app.client() as client:
        row = (await client.post(f"{path}/data", json={"data": {"n": 1}})).json()
        assert (await client.get(f"{path}/data/{row['id']}")).json() == row
        assert (await client.get(f"{path}/data")).json()["data"] == [row]
        assert (await client.post(f"{path}/data/query", json={"where": {"n": 1}})).json()["data"] == [row]
        changed = await client.patch(f"{path}/data/{row['id']}", json={"data": {"n": {"$inc": 1}}})
        assert changed.json()["data"] == {"n": 2}
        assert (await client.get(path)).json()["id"] == table
        assert (await client.get(f"{path}/columns")).json()["columns"][0]["name"] == "n"
        assert (await client.delete(f"{path}/data/{row['id']}")).status_code == 200
    async with own(app) as console:
        assert (await console.get(f"/tables/{quote(title, safe='')}/rules")).status_code == 200


async def test_an_unknown_title_is_an_invalid_id(app: App) -> None:
    other = await app.table({"n": "int"}, title="known")
    async with app.client() as client:
        for title in ("unknown", "Known", "known%20", "x" * 300, "%00"):
            answer = await client.get(f"/v1/public/tables/{title}/data")
            assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ID"), title
        await client.delete(f"/v1/public/tables/{other}")
        assert (await client.get("/v1/public/tables/known/data")).json()["code"] == "INVALID_ID"


async def test_another_app_has_its_own_titles(app: App, console: dict[str, str]) -> None:
    mine = await app.table({"n": "int"}, title="mine")
    other = new_app(app.server, console)
    async with other.client() as client:
        assert (await client.get("/v1/public/tables/mine")).json()["code"] == "INVALID_ID"
        own_one = await other.table({"n": "int"}, title="mine")
        assert (await client.get("/v1/public/tables/mine")).json()["id"] == own_one != mine


async def test_a_new_title_holds_with_the_next_request(app: App) -> None:
    first = await app.table({"n": "int"}, title="before")
    await app.row(first, {"n": 1})
    async with app.client() as client:
        assert (await client.get("/v1/public/tables/before/data")).json()["total_count"] == 1
        body = {"title": "after", "schema": {"n": "int"}, "access_level": "Public"}
        renamed = await client.patch("/v1/public/tables/before", json=body)
        assert renamed.status_code == 200, renamed.text
        second = await app.table({"n": "int"}, title="before")
        assert (await client.get("/v1/public/tables/before")).json()["id"] == second
        assert (await client.get("/v1/public/tables/after")).json()["id"] == first
        assert (await client.get("/v1/public/tables/before/data")).json()["total_count"] == 0


async def test_a_title_that_looks_like_an_id_is_refused(app: App) -> None:
    title = str(uuid.uuid4())
    async with app.client() as client:
        body = {"title": title, "schema": {}, "access_level": "Public"}
        answer = await client.post("/v1/public/tables", json=body)
    assert (answer.status_code, answer.json()["details"][0]["field"]) == (400, "title")


async def test_an_idempotency_key_is_of_the_table_whatever_it_is_called(app: App) -> None:
    table = await app.table({"n": "int"}, title="once")
    async with app.client(**{"Idempotency-Key": str(uuid.uuid4())}) as client:
        rows = [
            (await client.post(f"/v1/public/tables/{name}/data", json={"data": {"n": 1}})).json()
            for name in (table, "once")
        ]
    assert rows[0] == rows[1]


async def test_a_storage_is_found_by_its_name(app: App) -> None:
    token = app.console["access_token"]
    async with plain_client(f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {token}") as console:
        body = {"name": "my pictures", "upload_access": "Public", "read_access": "Public"}
        made = await console.post("/storages/files", json=body)
        assert made.status_code == 201, made.text
        assert (await console.get("/storages/files/my%20pictures")).json()["id"] == made.json()["id"]
    async with app.client() as client:
        items = "/v1/public/storages/files/my%20pictures/items"
        by_name, by_id = await client.get(items), await client.get(items.replace("my%20pictures", made.json()["id"]))
        assert (by_name.status_code, by_name.json()) == (by_id.status_code, by_id.json())
        assert (await client.get("/v1/public/storages/files/others/items")).json()["code"] == "INVALID_ID"
        # Without an app, a name means nothing.
        answer = await client.options("/v1/public/storages/files/others/tus")
        assert answer.json()["code"] == "INVALID_ID"


async def test_a_body_names_a_table_by_its_title(app: App) -> None:
    table = await app.table({"n": "int", "name": "string", "spot": "object"}, title="by title")
    spot = {"latitude": 35.1, "longitude": 129.1}
    async with app.client() as client:
        create = {"type": "create", "table_id": "by title", "data": {"n": 1, "name": "Ada", "spot": spot}}
        for path in ("batch", "transactions"):
            done = (await client.post(f"/v1/public/{path}", json={"operations": [create, create]})).json()
            assert done["success_count"] == 2, done
        named = {"table_id": "by title"}
        near = {"field": "spot", "near": {"center": spot}}
        for path, body in {
            "search": {"query": "ada"},
            "geo": near,
            "aggregate": {"pipeline": [{"$count": "n"}]},
            "autocomplete": {"query": "a", "field": "name"},
        }.items():
            by_title = await client.post(f"/v1/public/{path}", json=named | body)
            by_id = await client.post(f"/v1/public/{path}", json={"table_id": table} | body)
            assert (by_title.status_code, by_title.json()) == (200, by_id.json())
            for wrong in ("no such title", "", 5):
                answer = await client.post(f"/v1/public/{path}", json={"table_id": wrong} | body)
                assert answer.status_code == 400
                assert [one["field"] for one in answer.json()["details"]] == ["table_id"], answer.text
