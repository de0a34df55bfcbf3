"""Decisions, Tables and rows: who may use the rows of a table, for every row route and every kind of caller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from pilotis.users.service import grant_role
from tests.conftest import PASSWORD
from tests.database import connect
from tests.services import stale_node
from tests.support import App, assert_error
from tests.waiting import until

TABLES = "/v1/public/tables"

Operation = Callable[[httpx.AsyncClient, str, str], Awaitable[httpx.Response]]

READS: dict[str, Operation] = {
    "list": lambda client, table, row: client.get(f"{TABLES}/{table}/data"),
    "read": lambda client, table, row: client.get(f"{TABLES}/{table}/data/{row}"),
    "query": lambda client, table, row: client.post(f"{TABLES}/{table}/data/query", json={}),
}
WRITES: dict[str, Operation] = {
    "create": lambda client, table, row: client.post(f"{TABLES}/{table}/data", json={"data": {"a": 1}}),
    "bulk": lambda client, table, row: client.post(f"{TABLES}/{table}/data/bulk", json={"data": [{"a": 1}]}),
    "update": lambda client, table, row: client.patch(f"{TABLES}/{table}/data/{row}", json={"data": {"a": 2}}),
    "delete-where": lambda client, table, row: client.post(
        f"{TABLES}/{table}/data/delete-where", json={"where": {"a": 77}}
    ),
    "delete": lambda client, table, row: client.delete(f"{TABLES}/{table}/data/{row}"),
}

# For each access level, who may read and write another member's row. None means no; a status is the answer.
MEMBER_NEEDED = (401, "MEMBER_TOKEN_REQUIRED")
ROLE_NEEDED = (403, "ROLE_REQUIRED")
CALLERS = ["public", "member", "guest", "secret key", "owner", "viewer"]


def refusal(level: str, caller: str, *, write: bool) -> tuple[int, str] | None:
    if level == "Public":
        return None
    if caller == "public":
        return MEMBER_NEEDED
    return ROLE_NEEDED if caller == "viewer" and write else None


async def viewer_token(app: App) -> str:
    """Make a console user with the role viewer on the app and return its access token."""
    email = f"viewer-{app.app_id}@example.com"
    async with stale_node(app.server) as node:
        user_id = await node.users.create(email, PASSWORD)
        async with node.database.transaction() as connection:
            await grant_role(connection, app.app_id, user_id, "viewer")
    async with app.client() as client:
        answer = await client.post("/v1/auth/signin", json={"email": email, "password": PASSWORD})
    token: str = answer.json()["access_token"]
    return token


@pytest.fixture
async def tokens(app: App) -> dict[str, str | None]:
    return {
        "public": None,
        "member": (await app.member("ada"))["access_token"],
        "guest": (await app.guest())["access_token"],
        "secret key": app.secret_key,
        "owner": app.console["access_token"],
        "viewer": await viewer_token(app),
    }


@pytest.mark.parametrize("level", ["Public", "AppMember", "Creator"])
async def test_every_route_for_every_caller(app: App, tokens: dict[str, str | None], level: str):
    table = await app.table({"a": "int"}, level)
    author = (await app.member("author"))["access_token"]
    for caller in CALLERS:
        async with app.client(tokens[caller]) as client:
            for name, operation in (READS | WRITES).items():
                row = await app.row(table, {"a": 1}, author)
                answer = await operation(client, table, row["id"])
                refused = refusal(level, caller, write=name in WRITES)
                if refused:
                    assert_error(answer, *refused)
                elif level == "Creator" and caller in {"member", "guest"} and name in {"read", "update", "delete"}:
                    assert_error(answer, 404, "ROW_NOT_FOUND")
                else:
                    assert answer.status_code in {200, 201}, (caller, name, answer.text)


@pytest.mark.parametrize("level", ["Public", "AppMember", "Creator"])
async def test_another_apps_members_and_keys_open_nothing(app: App, other_app: App, level: str):
    table = await app.table({"a": "int"}, level)
    row = await app.row(table, {"a": 1}, app.secret_key)
    for token in ((await other_app.member())["access_token"], other_app.secret_key):
        async with app.client(token) as client:
            for operation in (READS | WRITES).values():
                answer = await operation(client, table, row["id"])
                assert answer.status_code == 401, answer.text


@pytest.mark.advisory("GHSA-72hp-qff8-4pvv")
async def test_a_members_rows_do_not_exist_for_other_members(app: App):
    table = await app.table({"a": "int", "s": "string"}, "Creator")
    ada, bob = (await app.member("ada"))["access_token"], (await app.guest())["access_token"]
    hers = [await app.row(table, {"a": number, "s": "secret"}, ada) for number in range(3)]
    his = await app.row(table, {"a": 9}, bob)
    nobodys = await app.row(table, {"a": 5}, app.secret_key)
    path = f"{TABLES}/{table}/data"

    async def seen(token: str, **query: Any) -> tuple[list[str], int]:
        async with app.client(token) as client:
            found = (await client.post(f"{path}/query", json=query)).json()
        return [row["id"] for row in found["data"]], found["total_count"]

    for token, own in ((ada, [row["id"] for row in hers]), (bob, [his["id"]])):
        assert await seen(token) == (own, len(own))
        assert await seen(token, limit=0) == ([], len(own))
        assert await seen(token, order_by="a", order_direction="desc") == (own[::-1], len(own))
        assert await seen(token, where={"$or": [{"a": {"$gte": 0}}, {"a": {"$lt": 0}}]}) == (own, len(own))
        assert await seen(token, where={"$not": {"a": 12345}}) == (own, len(own))
        async with app.client(token) as client:
            listed = (await client.get(path)).json()
            assert ([row["id"] for row in listed["data"]], listed["total_count"]) == (own, len(own))
            assert_error(await client.get(f"{path}/{nobodys['id']}"), 404, "ROW_NOT_FOUND")
    assert await seen(bob, where={"s": {"$matches": "secret"}}) == ([], 0)
    async with app.client(bob) as client:
        assert (await client.post(f"{path}/delete-where", json={"all": True})).json() == {"deleted_count": 1}
    every = [row["id"] for row in [*hers, nobodys]]
    for token in (app.secret_key, app.console["access_token"]):
        assert await seen(token) == (every, 4)
    async with app.client(ada) as client:
        answer = await client.patch(f"{path}/{hers[0]['id']}", json={"data": {"a": 100}})
        assert answer.json()["data"]["a"] == 100
        assert (await client.delete(f"{path}/{hers[0]['id']}")).status_code == 200
        assert (await client.post(f"{path}/delete-where", json={"where": {"a": {"$gt": 0}}})).json() == {
            "deleted_count": 2
        }
    assert await seen(app.secret_key) == ([nobodys["id"]], 1)


async def test_a_rows_creator_cannot_be_sent(app: App):
    ada = await app.member("ada")
    for schema in ({}, {"a": "int"}):
        table = await app.table(schema, "Creator")
        async with app.client((await app.guest())["access_token"]) as client:
            answer = await client.post(
                f"{TABLES}/{table}/data", json={"data": {"a": 1, "__creator": ada["member_id"], "__id": "x"}}
            )
            assert_error(answer, 400, "UNKNOWN_COLUMN" if schema else "INVALID_COLUMN_NAME")
        async with app.client(ada["access_token"]) as client:
            assert (await client.get(f"{TABLES}/{table}/data")).json()["total_count"] == 0


async def test_closing_a_table_leaves_its_rows_to_their_creators(app: App):
    table = await app.table({"a": "int"}, "Public", title="notes")
    member = await app.member("ada")
    ada = member["access_token"]
    mine = await app.row(table, {"a": 1}, ada)
    await app.row(table, {"a": 2})
    async with app.client() as client:
        body = {"title": "notes", "schema": {"a": "int"}, "access_level": "Creator"}
        assert (await client.patch(f"{TABLES}/{table}", json=body)).status_code == 200
        assert_error(await client.get(f"{TABLES}/{table}/data"), 401, "MEMBER_TOKEN_REQUIRED")
    async with app.client(ada) as client:
        assert (await client.get(f"{TABLES}/{table}/data")).json()["data"] == [
            {**mine, "created_by": member["member_id"]}
        ]


async def rows_of_every_answer(client: httpx.AsyncClient, table: str, row_id: str) -> dict[str, dict[str, Any]]:
    """The row as each route that answers rows shows it, and a new one as the create routes show it."""
    path = f"{TABLES}/{table}/data"
    near = {"center": {"latitude": 1, "longitude": 1}, "radius": 1000}
    asked = {
        "list": await client.get(path),
        "read": await client.get(f"{path}/{row_id}"),
        "query": await client.post(f"{path}/query", json={"where": {"id": row_id}}),
        "update": await client.patch(f"{path}/{row_id}", json={"data": {"a": {"$inc": 1}}}),
        "search": await client.post("/v1/public/search", json={"table_id": table, "query": "pebble"}),
        "geo": await client.post("/v1/public/geo", json={"table_id": table, "field": "place", "within": near}),
        "create": await client.post(path, json={"data": {"a": 3}}),
        "bulk": await client.post(f"{path}/bulk", json={"data": [{"a": 3}]}),
    }
    assert all(answer.is_success for answer in asked.values()), {k: v.text for k, v in asked.items()}
    bodies = {name: answer.json() for name, answer in asked.items()}
    return {
        name: (body.get("created") or body.get("data"))[0] if "id" not in body else body
        for name, body in bodies.items()
    }


@pytest.mark.parametrize("level", ["Public", "AppMember", "Creator"])
async def test_rows_say_who_created_them_to_the_apps_side_and_to_members_about_their_own(
    app: App, tokens: dict[str, str | None], level: str
):
    table = await app.table({"a": "int", "s": "string", "place": "object"}, level)
    author = await app.member("author")
    data = {"a": 1, "s": "pebble", "place": {"latitude": 1, "longitude": 1}}
    row = await app.row(table, data, author["access_token"])
    callers = {"secret key": None, "owner": None}
    if level == "Creator":
        callers["author"] = author["member_id"]
    for caller, own in callers.items():
        async with app.client(tokens.get(caller, author["access_token"])) as client:
            shown = await rows_of_every_answer(client, table, row["id"])
        for route, found in shown.items():
            expected = own if route in {"create", "bulk"} else author["member_id"]
            assert found["created_by"] == expected, (caller, route)
            assert [*found][:5] == ["id", "data", "created_at", "created_by", "updated_at"], (caller, route)
    for caller in {"Public": ["public", "member", "guest"], "AppMember": ["member", "guest"], "Creator": []}[level]:
        async with app.client(tokens[caller]) as client:
            shown = await rows_of_every_answer(client, table, row["id"])
        assert not [route for route, found in shown.items() if "created_by" in found], caller


async def test_rows_with_encrypted_columns_say_who_created_them(app: App):
    table = await app.table({"secret": {"type": "string", "encrypted": True}}, "Creator")
    ada = await app.member("ada")
    made = await app.row(table, {"secret": "x"}, ada["access_token"])
    async with app.client(ada["access_token"]) as client:
        read = (await client.get(f"/v1/public/tables/{table}/data/{made['id']}")).json()
        (listed,) = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
    assert read == listed == made
    assert (read["created_by"], read["data"]) == (ada["member_id"], {"secret": "x"})


async def test_who_created_a_row_is_a_condition_for_those_who_see_it(app: App, tokens: dict[str, str | None]):
    table = await app.table({"a": "int"})
    ada, bob = await app.member("author"), await app.guest()
    rows = {
        name: await app.row(table, {"a": 1}, token)
        for name, token in (("ada", ada["access_token"]), ("bob", bob["access_token"]), ("nobody", app.secret_key))
    }
    path = f"{TABLES}/{table}/data"

    async def found(token: str, where: Any, **query: Any) -> list[str]:
        async with app.client(token) as client:
            answer = await client.post(f"{path}/query", json={"where": where, **query})
            assert answer.status_code == 200, answer.text
            pipeline = [{"$match": where}, {"$sort": {"created_at": 1}}, {"$project": {"id": 1}}]
            matched = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": pipeline})
        names = {row["id"]: name for name, row in rows.items()}
        same = [names[row["id"]] for row in answer.json()["data"]]
        assert sorted(names[row["id"]] for row in matched.json()["data"]) == sorted(same), matched.text
        return same

    hers, his = ada["member_id"], bob["member_id"]
    for token in (app.secret_key, app.console["access_token"], tokens["viewer"]):
        assert await found(token, {"$creator": hers}) == ["ada"]
        assert await found(token, {"$creator": {"$eq": his}, "a": 1}) == ["bob"]
        assert await found(token, {"$creator": {"$ne": hers}}) == ["bob", "nobody"]
        assert await found(token, {"$creator": {"$in": [hers, None]}}) == ["ada", "nobody"]
        assert await found(token, {"$creator": {"$nin": [hers, his]}}) == ["nobody"]
        assert await found(token, {"$creator": {"$isNull": True}}) == ["nobody"]
        assert await found(token, {"$creator": None}) == ["nobody"]
        assert await found(token, {"$or": [{"$creator": hers}, {"$not": {"$creator": {"$isNull": False}}}]}) == [
            "ada",
            "nobody",
        ]
        assert (await found(token, {}, order_by="$creator"))[-1] == "nobody"
    async with app.client(app.secret_key) as client:
        for bad in ({"$gt": hers}, {"$contains": "a"}, {"$matches": "a"}):
            answer = await client.post(f"{path}/query", json={"where": {"$creator": bad}})
            assert_error(answer, 400, "INVALID_OPERATOR")
        for bad in (1, ["a"], {"a": 1}):
            assert_error(
                await client.post(f"{path}/query", json={"where": {"$creator": bad}}), 400, "VALIDATION_FAILED"
            )
        grouped = [{"$group": {"_id": "$a"}}, {"$match": {"$creator": hers}}]
        answer = await client.post("/v1/public/aggregate", json={"table_id": table, "pipeline": grouped})
        assert_error(answer, 400, "INVALID_OPERATOR")
    # Whoever does not see creators learns nothing about them, by no route; a member may ask for its own rows.
    for token, refused in ((None, (400, "INVALID_OPERATOR")), (ada["access_token"], (403, "CREATOR_NOT_YOURS"))):
        async with app.client(token) as client:
            for where in ({"$creator": his}, {"$or": [{"$creator": {"$isNull": True}}]}):
                for asked in (
                    await client.post(f"{path}/query", json={"where": where}),
                    await client.post(f"{path}/delete-where", json={"where": where}),
                    await client.post(
                        "/v1/public/aggregate", json={"table_id": table, "pipeline": [{"$match": where}]}
                    ),
                ):
                    assert_error(asked, *refused)
            assert_error(await client.post(f"{path}/query", json={"order_by": "$creator"}), 400, "UNKNOWN_COLUMN")
    for own in ({"$member": "id"}, {"$eq": {"$member": "id"}}, hers, {"$eq": hers}):
        assert await found(ada["access_token"], {"$creator": own}) == ["ada"]
    assert await found(bob["access_token"], {"$creator": {"$member": "id"}}) == ["bob"]
    async with app.client(app.secret_key) as client:
        answer = await client.post(f"{path}/delete-where", json={"where": {"$creator": his}})
        assert answer.json() == {"deleted_count": 1}


async def test_pages_asked_for_together_show_creators_only_to_those_who_see_them(app: App):
    table = await app.table({"a": "int"})
    author = await app.member("author")
    await app.row(table, {"a": 1}, author["access_token"])
    async with app.client() as public, app.client(app.secret_key) as keyed:
        clients = [public, keyed] * 20
        answers = await asyncio.gather(*(client.get(f"{TABLES}/{table}/data") for client in clients))
    for client, answer in zip(clients, answers, strict=True):
        assert ("created_by" in answer.json()["data"][0]) is (client is keyed)


async def test_a_row_of_the_largest_size_has_room_for_its_creator(app: App):
    table = await app.table({"s": "string"}, "Creator")
    member = await app.member("author")
    size = (1 << 20) - len('{"s":""}')
    async with app.client(member["access_token"]) as client:
        made = await client.post(f"{TABLES}/{table}/data", json={"data": {"s": "x" * size}})
        assert made.status_code == 201, made.text
        path = f"{TABLES}/{table}/data/{made.json()['id']}"
        changed = await client.patch(path, json={"data": {"s": "y" * size}})
        assert changed.json()["created_by"] == member["member_id"]
        assert_error(await client.patch(path, json={"data": {"s": "y" * (size + 1)}}), 413, "ROW_TOO_LARGE")


async def test_a_member_that_has_signed_out_reads_nothing_and_waits_for_nothing(app: App):
    """A read begins before it is known whether the session is alive: then it is cancelled."""
    path, query = "/v1/public/app-members", "/v1/public"
    async with app.client() as client:
        tokens = [(await app.guest())["access_token"] for _ in range(2)]
        signed_in, signed_out = ({"Authorization": f"Bearer {token}"} for token in tokens)
        table = await app.table({"a": "string"}, "Creator")
        row = await app.row(table, {"a": "a"}, tokens[1])
        assert (await client.post(f"{path}/signout", headers=signed_out)).status_code == 200
        connection = await connect(app.server)
        try:
            async with connection.transaction():
                name = f"app_{UUID(app.app_id).hex}.t_{UUID(table).hex}"
                await connection.execute(f"lock table {name} in access exclusive mode")
                waiting = asyncio.create_task(client.get(f"{TABLES}/{table}/data", headers=signed_in))
                await until(lambda: waits_for_lock(connection))
                answers = await asyncio.gather(
                    client.get(f"{TABLES}/{table}/data", headers=signed_out),
                    client.get(f"{TABLES}/{table}/data/{row}", headers=signed_out),
                    client.post(f"{TABLES}/{table}/data/query", json={}, headers=signed_out),
                    client.post(f"{query}/aggregate", json={"table_id": table, "pipeline": []}, headers=signed_out),
                    client.post(
                        f"{query}/search", json={"table_id": table, "query": "a", "fields": ["a"]}, headers=signed_out
                    ),
                    client.get(f"{path}/me", headers=signed_out),
                )
                for answer in answers:
                    assert_error(answer, 401, "INVALID_TOKEN")
                assert not waiting.done()
            assert (await waiting).json()["total_count"] == 0
        finally:
            await connection.close()


async def waits_for_lock(connection: asyncpg.Connection) -> bool:
    found: bool = await connection.fetchval("select exists (select from pg_locks where not granted)")
    return found
