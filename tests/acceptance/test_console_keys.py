"""Console: public and secret keys."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pilotis.kit.crypto import secret_hash
from tests.console import client_of, database_of, owner_of, second_node, the_log, user_with
from tests.support import App, assert_error
from tests.waiting import until

PUBLIC_KEY = {"key_id", "key", "name", "allowed_origins", "created_at", "last_used_at"}
SECRET_KEY = {"key_id", "prefix", "name", "role", "user_id", "email", "created_at", "last_used_at"}
SECRET_KEY |= {"may_sign_in_members"}
TABLES = "/v1/public/tables"
LOCKED = {"title": "by the secret key", "schema": {}, "access_level": "Public"}


async def public_key(app: App, **body: Any) -> dict[str, Any]:
    async with owner_of(app).client(app) as console:
        answer = await console.post("/keys/public", json={"name": "a key", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def secret_key(app: App, name: str = "a key") -> dict[str, Any]:
    async with owner_of(app).client(app) as console:
        answer = await console.post("/keys/secret", json={"name": name})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def status_with(app: App, key: str, origin: str | None = None) -> httpx.Response:
    headers = {"X-Public-Key": key} | ({"Origin": origin} if origin else {})
    async with httpx.AsyncClient(base_url=app.server.url, verify=False) as client:
        return await client.get(TABLES, headers=headers)


async def test_a_public_key_is_made_listed_changed_and_revoked(app: App):
    made = await public_key(app, name="website")
    assert set(made) == PUBLIC_KEY
    assert (made["name"], made["allowed_origins"], made["last_used_at"]) == ("website", [], None)
    assert (await status_with(app, made["key"])).status_code == 200
    async with owner_of(app).client(app) as console:
        listed = (await console.get("/keys/public")).json()
        assert [(key["key"], key["name"]) for key in listed["data"]] == [
            (app.public_key, "first"),
            (made["key"], "website"),
        ]
        assert listed["total_count"] == 2
        changed = await console.patch(f"/keys/public/{made['key_id']}", json={"name": "shop"})
        assert changed.status_code == 200
        assert changed.json()["name"] == "shop"
        gone = await console.delete(f"/keys/public/{made['key_id']}")
        assert gone.status_code == 200
        assert set(gone.json()) == {"message", "id"}
        assert gone.json()["id"] == made["key_id"]
        assert_error(await status_with(app, made["key"]), 401, "INVALID_PUBLIC_KEY")
        assert (await console.get("/keys/public")).json()["total_count"] == 1
        assert_error(await console.delete(f"/keys/public/{made['key_id']}"), 404, "KEY_NOT_FOUND")
        assert_error(await console.patch(f"/keys/public/{made['key_id']}", json={}), 404, "KEY_NOT_FOUND")
    assert (await status_with(app, app.public_key)).status_code == 200


async def test_the_node_that_revokes_a_key_refuses_it_from_the_answer_on(app: App):
    made = await public_key(app)
    # A node that hears of nothing shows what it knows by itself.
    async with second_node(app.server, listening=False) as node, client_of(node) as client:
        assert (await client.get(TABLES, headers={"X-Public-Key": made["key"]})).status_code == 200
        path = f"/v1/apps/{app.app_id}/keys/public/{made['key_id']}"
        token = {"Authorization": f"Bearer {app.console['access_token']}"}
        assert (await client.delete(path, headers=token)).status_code == 200
        answer = await client.get(TABLES, headers={"X-Public-Key": made["key"]})
        assert_error(answer, 401, "INVALID_PUBLIC_KEY")


async def test_another_node_refuses_a_revoked_key_at_once(app: App):
    made = await public_key(app)
    async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": made["key"]}) as client:
        assert (await client.get(TABLES)).status_code == 200
        async with owner_of(app).client(app) as console:
            await console.delete(f"/keys/public/{made['key_id']}")

        async def refused() -> bool:
            return (await client.get(TABLES)).status_code == 401

        await until(refused)
        assert_error(await client.get(TABLES), 401, "INVALID_PUBLIC_KEY")


async def test_allowed_origins_bound_where_browsers_may_use_a_key(app: App):
    made = await public_key(app, allowed_origins=["HTTPS://Example.com:443/", "http://localhost:5173"])
    assert made["allowed_origins"] == ["https://example.com", "http://localhost:5173"]
    for origin in (None, "https://example.com", "http://localhost:5173"):
        assert (await status_with(app, made["key"], origin)).status_code == 200
    for origin in ("https://evil.example", "http://example.com", "https://example.com.evil.example", "null"):
        assert_error(await status_with(app, made["key"], origin), 403, "ORIGIN_NOT_ALLOWED")
    async with owner_of(app).client(app) as console:
        path = f"/keys/public/{made['key_id']}"
        await console.patch(path, json={"allowed_origins": ["https://evil.example"]})
        assert (await status_with(app, made["key"], "https://evil.example")).status_code == 200
        assert_error(await status_with(app, made["key"], "https://example.com"), 403, "ORIGIN_NOT_ALLOWED")
        await console.patch(path, json={"name": "renamed"})
        assert_error(await status_with(app, made["key"], "https://example.com"), 403, "ORIGIN_NOT_ALLOWED")
        await console.patch(path, json={"allowed_origins": []})
        assert (await status_with(app, made["key"], "https://example.com")).status_code == 200


async def test_allowed_origins_bind_members_too(app: App):
    member = await app.member()
    made = await public_key(app, allowed_origins=["https://example.com"])
    async with app.client(member["access_token"], Origin="https://evil.example") as client:
        client.headers["X-Public-Key"] = made["key"]
        assert_error(await client.get("/v1/public/app-members/me"), 403, "ORIGIN_NOT_ALLOWED")


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "example.com",
        "https://",
        "https://example.com/path",
        "https://example.com?x",
        "https://user@example.com",
        "https://*.example.com",
        "*",
        "null",
        "https://exämple.com",
        "https://example.com:0",
        "https://example.com:65536",
        "https://example.com\n",
        "https://a b",
        "javascript:alert(1)",
    ],
)
async def test_what_is_no_origin_is_refused(app: App, origin: str):
    async with owner_of(app).client(app) as console:
        body = {"name": "x", "allowed_origins": ["https://good.example", origin]}
        error = assert_error(await console.post("/keys/public", json=body), 400, "VALIDATION_FAILED")
    assert error["details"][0]["field"] == "allowed_origins[1]"


@pytest.mark.parametrize(
    "origin", ["http://[::1]:8080", "capacitor://localhost", "https://xn--exmple-cua.com", "http://10.0.0.1"]
)
async def test_what_browsers_send_as_origin_is_taken(app: App, origin: str):
    made = await public_key(app, allowed_origins=[origin])
    assert made["allowed_origins"] == [origin]
    assert (await status_with(app, made["key"], origin)).status_code == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("public", {}),
        ("public", {"name": ""}),
        ("public", {"name": "x", "key": "pk_mine"}),
        ("public", {"name": "x", "allowed_origins": "https://example.com"}),
        ("public", {"name": "x", "allowed_origins": [f"https://{n}.example" for n in range(101)]}),
        ("secret", {}),
        ("secret", {"name": "x", "role": "owner"}),
        ("secret", {"name": "x", "user_id": str(uuid4())}),
    ],
)
async def test_a_bad_key_is_refused(app: App, kind: str, body: dict[str, Any]):
    async with owner_of(app).client(app) as console:
        assert_error(await console.post(f"/keys/{kind}", json=body), 400, "VALIDATION_FAILED")
        assert (await console.get(f"/keys/{kind}")).json()["total_count"] == 1


async def test_last_use_of_a_public_key_is_noted(app: App):
    made = await public_key(app)
    await status_with(app, made["key"])
    async with owner_of(app).client(app) as console:

        async def last_used_at() -> str | None:
            keys = (await console.get("/keys/public")).json()["data"]
            return next(key["last_used_at"] for key in keys if key["key_id"] == made["key_id"])

        noted = await until(last_used_at)
        assert noted >= made["created_at"]
        # Within the minute it stays, however often the key is used.
        await status_with(app, made["key"])
        await asyncio.sleep(1.5)
        assert await last_used_at() == noted


async def test_a_node_notes_the_last_use_when_it_stops(app: App):
    made = await public_key(app)
    async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": made["key"]}) as client:
        await client.get(TABLES)
    async with owner_of(app).client(app) as console:
        assert (await console.get("/keys/public")).json()["data"][1]["last_used_at"] is not None


async def test_a_secret_key_is_shown_once_and_stored_as_a_hash(app: App):
    made = await secret_key(app, "backend")
    assert set(made) == {"key_id", "key", "prefix", "name", "role", "may_sign_in_members", "created_at"}
    assert made["key"].startswith(made["prefix"])
    assert len(made["key"]) - len(made["prefix"]) >= 32
    async with owner_of(app).client(app) as console:
        answer = await console.get("/keys/secret")
        log = await console.get("/audit-log")
    assert made["key"] not in answer.text + log.text + app.server.logs()
    listed = answer.json()
    assert listed["total_count"] == 2
    assert [key["name"] for key in listed["data"]] == ["first", "backend"]
    key = listed["data"][1]
    assert set(key) == SECRET_KEY
    assert (key["prefix"], key["user_id"], key["email"]) == (
        made["prefix"],
        app.console["user_id"],
        app.console["email"],
    )
    async with database_of(app.server) as database:
        row = await database.fetchrow("select * from pilotis.secret_keys where key_id = $1", made["key_id"])
    assert row["key_hash"] == secret_hash(made["key"])
    assert made["key"] not in str(row)


async def test_a_secret_key_acts_and_its_use_is_noted(app: App):
    made = await secret_key(app)
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"schema_locked": True})
        async with app.client(made["key"]) as client:
            assert (await client.post(TABLES, json=LOCKED)).status_code == 201
        keys = (await console.get("/keys/secret")).json()["data"]
    assert next(key for key in keys if key["key_id"] == made["key_id"])["last_used_at"] is not None
    entry = (await the_log(app, action="table.create"))[0]
    assert (entry["actor_kind"], entry["actor_id"]) == ("secret_key", made["key_id"])


async def test_a_revoked_secret_key_is_refused_at_once(app: App):
    made = await secret_key(app)
    async with owner_of(app).client(app) as console, app.client(made["key"]) as client:
        assert (await client.get(TABLES)).status_code == 200
        answer = await console.delete(f"/keys/secret/{made['key_id']}")
        assert answer.status_code == 200
        assert answer.json()["id"] == made["key_id"]
        assert_error(await client.get(TABLES), 401, "INVALID_SECRET_KEY")
        assert_error(await console.delete(f"/keys/secret/{made['key_id']}"), 404, "KEY_NOT_FOUND")
    async with app.client(app.secret_key) as client:
        assert (await client.get(TABLES)).status_code == 200


async def test_a_secret_key_falls_with_its_users_role(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        key = (await console.post("/keys/secret", json={"name": "mine"})).json()["key"]
    async with owner_of(app).client(app) as console, app.client(key) as client:
        await console.patch("", json={"schema_locked": True})
        assert (await client.post(TABLES, json=LOCKED)).status_code == 201
        await console.patch(f"/users/{editor.user_id}", json={"role": "viewer"})
        assert_error(await client.post(TABLES, json={**LOCKED, "title": "other"}), 403, "SCHEMA_LOCKED")
        await console.delete(f"/users/{editor.user_id}")
        assert_error(await client.get(TABLES), 401, "INVALID_SECRET_KEY")


async def test_keys_of_another_app_are_out_of_reach(app: App, other_app: App):
    public, secret = await public_key(other_app), await secret_key(other_app)
    async with owner_of(app).client(app) as console:
        assert_error(await console.delete(f"/keys/public/{public['key_id']}"), 404, "KEY_NOT_FOUND")
        assert_error(await console.patch(f"/keys/public/{public['key_id']}", json={"name": "x"}), 404, "KEY_NOT_FOUND")
        assert_error(await console.delete(f"/keys/secret/{secret['key_id']}"), 404, "KEY_NOT_FOUND")
        assert_error(await console.delete("/keys/public/1"), 400, "INVALID_ID")
    async with app.client(other_app.secret_key) as client:
        assert_error(await client.get(TABLES), 401, "INVALID_SECRET_KEY")


async def test_of_parallel_revocations_one_succeeds(app: App):
    made = await secret_key(app)
    async with owner_of(app).client(app) as console:
        answers = await asyncio.gather(*(console.delete(f"/keys/secret/{made['key_id']}") for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 9
    assert len(await the_log(app, action="secret_key.revoke")) == 1


async def test_a_secret_key_with_the_role_viewer_reads_and_changes_nothing(app: App):
    table = await app.table({"name": "string"}, "Creator")
    async with owner_of(app).client(app) as console:
        made = await console.post("/keys/secret", json={"name": "reports", "role": "viewer"})
        assert made.status_code == 201
        assert made.json()["role"] == "viewer"
        listed = (await console.get("/keys/secret")).json()["data"]
        assert {key["name"]: key["role"] for key in listed} == {"first": "editor", "reports": "viewer"}
        assert (await console.post("/keys/secret", json={"name": "x", "role": "owner"})).status_code == 400
        await console.patch("", json={"schema_locked": True})
    rows = f"/v1/public/tables/{table}/data"
    async with app.client(app.secret_key) as editor, app.client(made.json()["key"]) as viewer:
        row = (await editor.post(rows, json={"data": {"name": "a"}})).json()
        assert (await viewer.get(rows)).json()["total_count"] == 1
        assert (await viewer.patch(f"{rows}/{row['id']}", json={"data": {"name": "b"}})).status_code == 403
        assert_error(await viewer.delete(f"/v1/public/tables/{table}"), 403, "SCHEMA_LOCKED")
        assert (await editor.get(f"{rows}/{row['id']}")).json()["data"] == {"name": "a"}
