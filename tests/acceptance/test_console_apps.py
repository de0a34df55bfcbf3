"""Console: apps, their deletion with its days of grace, and the schema lock."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests import forked
from tests.background import paused
from tests.conftest import new_app
from tests.console import client_of, database_of, owner_of, second_node, the_log, user_with
from tests.support import App, Server, assert_error

APP = {"app_id", "name", "schema_locked", "created_at", "updated_at", "deleted_at", "role"} | {
    *("parent_app_id", "branch", "expires_at"),
}


async def test_an_app_is_made_with_its_first_keys(app: App):
    async with owner_of(app).client() as console:
        answer = await console.post("/apps", json={"name": "Guestbook"})
    assert answer.status_code == 201
    made = answer.json()
    assert set(made) == {"app_id", "name", "public_key", "secret_key"}
    assert made["name"] == "Guestbook"
    assert UUID(made["app_id"]).version == 7
    assert made["public_key"].startswith("pk_")
    assert made["secret_key"].startswith("sk_")


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": 1}, {"name": "x" * 101}, {"name": "x", "app_id": str(uuid4())}, {"name": "\0"}]
)
async def test_a_bad_app_is_refused(app: App, body: dict):
    async with owner_of(app).client() as console:
        assert_error(await console.post("/apps", json=body), 400, "VALIDATION_FAILED")


async def test_a_user_lists_the_apps_it_has_a_role_on(app: App, other_app: App):
    editor = await user_with(app, "editor")
    async with editor.client() as console:
        listed = (await console.get("/apps")).json()
    assert [(item["app_id"], item["role"]) for item in listed["data"]] == [(app.app_id, "editor")]
    assert set(listed["data"][0]) == APP
    assert listed["data"][0]["deleted_at"] is None
    assert (listed["total_count"], listed["limit"], listed["offset"]) == (1, 20, 0)


async def test_the_list_has_pages(server: Server, app: App):
    user = await user_with(app, "editor")
    async with user.client() as console:
        made = [(await console.post("/apps", json={"name": f"app {number}"})).json()["app_id"] for number in range(3)]
        ids = sorted([app.app_id, *made])
        second = (await console.get("/apps", params={"limit": 2, "offset": 1})).json()
        none = (await console.get("/apps", params={"limit": 0})).json()
        clamped = (await console.get("/apps", params={"limit": 10**9})).json()
        for wrong in ({"limit": -1}, {"offset": -1}, {"limit": "x"}):
            assert_error(await console.get("/apps", params=wrong), 400, "VALIDATION_FAILED")
    assert [item["app_id"] for item in second["data"]] == ids[1:3]
    assert second["total_count"] == 4
    assert none == {"data": [], "total_count": 4, "limit": 0, "offset": 0}
    assert clamped["limit"] == 1000


async def test_an_app_is_read_and_renamed(app: App):
    async with owner_of(app).client(app) as console:
        before = (await console.get("")).json()
        answer = await console.patch("", json={"name": "New name"})
        after = (await console.get("")).json()
    assert set(before) == APP
    assert answer.status_code == 200
    assert answer.json() == after == {**before, "name": "New name", "updated_at": after["updated_at"]}
    assert after["updated_at"] >= before["updated_at"]


async def test_a_stranger_sees_no_app(app: App, other_app: App):
    stranger = await user_with(other_app, "owner")
    async with stranger.client(app) as console:
        assert_error(await console.get(""), 404, "APP_NOT_FOUND")
        assert_error(await console.patch("", json={"name": "mine"}), 404, "APP_NOT_FOUND")
        assert_error(await console.delete(""), 404, "APP_NOT_FOUND")
        assert_error(await console.post("/restore"), 404, "APP_NOT_FOUND")


async def test_only_an_owner_locks_the_schema(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        assert_error(await console.patch("", json={"schema_locked": True}), 403, "ROLE_REQUIRED")
        assert (await console.patch("", json={"name": "by an editor"})).status_code == 200
        assert (await console.get("")).json()["schema_locked"] is False


async def test_a_locked_schema_takes_a_secret_key_or_a_console_editor(app: App):
    table = await app.table({"name": "string"})
    editor, viewer = await user_with(app, "editor"), await user_with(app, "viewer")
    member = await app.member()
    async with owner_of(app).client(app) as console:
        assert (await console.patch("", json={"schema_locked": True})).json()["schema_locked"] is True
    column = f"/v1/public/tables/{table}/columns"
    for number, token in enumerate([None, member["access_token"], viewer.access_token]):
        async with app.client(token) as client:
            assert_error(
                await client.post(column, json={"name": f"no{number}", "data_type": "int"}), 403, "SCHEMA_LOCKED"
            )
            body = {"title": "another", "schema": {}, "access_level": "Public"}
            assert_error(await client.post("/v1/public/tables", json=body), 403, "SCHEMA_LOCKED")
            assert_error(await client.delete(f"/v1/public/tables/{table}"), 403, "SCHEMA_LOCKED")
    for number, token in enumerate([app.secret_key, editor.access_token]):
        async with app.client(token) as client:
            answer = await client.post(column, json={"name": f"yes{number}", "data_type": "int"})
            assert answer.status_code == 201, answer.text
    async with app.client() as client:
        assert (await client.post(f"/v1/public/tables/{table}/data", json={"data": {"name": "x"}})).status_code == 201
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"schema_locked": False})
    async with app.client() as client:
        assert (await client.post(column, json={"name": "open", "data_type": "int"})).status_code == 201


async def test_a_deleted_app_is_out_of_reach(app: App):
    member = await app.member()
    table = await app.table({"name": "string"})
    await app.row(table, {"name": "x"})
    async with owner_of(app).client(app) as console:
        answer = await console.delete("")
        assert answer.status_code == 200
        assert set(answer.json()) == {"message", "id"}
        assert answer.json()["id"] == app.app_id
        assert_error(await console.get(""), 404, "APP_NOT_FOUND")
        assert_error(await console.patch("", json={"name": "x"}), 404, "APP_NOT_FOUND")
        assert_error(await console.delete(""), 404, "APP_NOT_FOUND")
        assert_error(await console.get("/keys/public"), 404, "APP_NOT_FOUND")
        assert_error(await console.get("/audit-log"), 404, "APP_NOT_FOUND")
    async with app.client() as client:
        assert_error(await client.get("/v1/public/tables"), 401, "INVALID_PUBLIC_KEY")
        assert_error(await client.get(f"/v1/public/tables/{table}/data"), 401, "INVALID_PUBLIC_KEY")
        assert_error(await client.get("/v1/public/auth-settings"), 401, "INVALID_PUBLIC_KEY")
    async with app.client(app.secret_key) as client:
        assert_error(await client.get("/v1/public/tables"), 401, "INVALID_PUBLIC_KEY")
    async with app.client(member["access_token"]) as client:
        del client.headers["X-Public-Key"]
        assert_error(await client.get("/v1/public/app-members/me"), 401, "INVALID_TOKEN")
    async with app.client(member["refresh_token"]) as client:
        assert_error(await client.post("/v1/auth/re-issue"), 401, "INVALID_TOKEN")


async def test_a_deleted_app_is_listed_to_its_owners_alone(app: App):
    editor = await user_with(app, "editor")
    owner = await user_with(app, "owner")
    async with owner_of(app).client(app) as console:
        await console.delete("")
    async with owner.client() as console:
        listed = (await console.get("/apps")).json()
    assert [item["app_id"] for item in listed["data"]] == [app.app_id]
    assert listed["data"][0]["deleted_at"].endswith("Z")
    async with editor.client() as console:
        assert (await console.get("/apps")).json()["total_count"] == 0


async def test_a_restored_app_is_whole(app: App):
    member = await app.member()
    table = await app.table({"name": "string"})
    row = await app.row(table, {"name": "x"})
    async with owner_of(app).client(app) as console:
        await console.delete("")
        answer = await console.post("/restore")
        assert answer.status_code == 200
        assert set(answer.json()) == APP
        assert answer.json()["deleted_at"] is None
        assert (await console.get("")).status_code == 200
    async with app.client(app.secret_key) as client:
        assert (await client.get(f"/v1/public/tables/{table}/data/{row['id']}")).json() == row | {"created_by": None}
        assert (await client.get(f"/v1/public/tables/{table}/data")).json()["total_count"] == 1
        assert (await client.post(f"/v1/public/tables/{table}/data", json={"data": {"name": "y"}})).status_code == 201
    async with app.client(member["access_token"]) as client:
        assert (await client.get("/v1/public/app-members/me")).json()["member_id"] == member["member_id"]


async def test_only_an_owner_deletes_and_restores(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        assert_error(await console.delete(""), 403, "ROLE_REQUIRED")
        assert_error(await console.post("/restore"), 403, "ROLE_REQUIRED")
    async with owner_of(app).client(app) as console:
        assert_error(await console.post("/restore"), 409, "APP_NOT_DELETED")
        await console.delete("")
    async with editor.client(app) as console:
        assert_error(await console.post("/restore"), 403, "ROLE_REQUIRED")


async def test_of_parallel_deletes_one_succeeds(app: App):
    async with owner_of(app).client(app) as console:
        answers = await asyncio.gather(*(console.delete("") for _ in range(10)))
        assert sorted(answer.status_code for answer in answers) == [200] + [404] * 9
        answers = await asyncio.gather(*(console.post("/restore") for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9


async def test_a_node_that_has_not_heard_of_the_deletion_writes_nothing(app: App):
    table = await app.table({"name": "string"})
    path = f"/v1/public/tables/{table}"
    async with (
        second_node(app.server, listening=False) as node,
        client_of(node, **{"X-Public-Key": app.public_key}) as client,
    ):
        for number in range(3):
            made = await client.post(f"{path}/data", json={"data": {"name": f"before {number}"}})
            assert made.status_code == 201
        row = f"{path}/data/{made.json()['id']}"
        assert (await client.get(row)).status_code == 200
        async with owner_of(app).client(app) as console:
            await console.delete("")
        assert_error(await client.post(f"{path}/data", json={"data": {"name": "after"}}), 404, "TABLE_NOT_FOUND")
        assert_error(await client.get(row), 404, "TABLE_NOT_FOUND")
        assert_error(await client.patch(row, json={"data": {"name": "after"}}), 404, "TABLE_NOT_FOUND")
        assert_error(await client.delete(row), 404, "TABLE_NOT_FOUND")
        new_column = {"name": "after", "data_type": "int"}
        assert_error(await client.post(f"{path}/columns", json=new_column), 404, "TABLE_NOT_FOUND")
        assert_error(await client.post("/v1/public/app-members"), 401, "INVALID_PUBLIC_KEY")
        person = {"login_id": "after", "password": "correct horse"}
        assert_error(await client.post("/v1/public/app-members/signup", json=person), 401, "INVALID_PUBLIC_KEY")
        assert_error(await client.post("/v1/public/app-members/signin", json=person), 401, "INVALID_CREDENTIALS")
        new_table = {"title": "after", "schema": {}, "access_level": "Public"}
        assert_error(await client.post("/v1/public/tables", json=new_table), 404, "NOT_FOUND")
        async with owner_of(app).client(app) as console:
            await console.post("/restore")
        listed = (await client.get(f"{path}/data")).json()
    assert [item["data"]["name"] for item in listed["data"]] == ["before 0", "before 1", "before 2"]


async def test_after_seven_days_an_app_is_gone_for_good(server: Server, console: dict[str, str], app: App):
    bystander = new_app(server, console)
    await bystander.table({"name": "string"})
    await app.member()
    for number in range(3):
        await app.row(await app.table({"name": "string"}), {"name": f"row {number}"})
    async with owner_of(app).client(app) as client:
        await client.delete("")
    hex_id = UUID(app.app_id).hex
    async with database_of(server) as database, second_node(server) as node, AsyncExitStack() as stack:
        # The server would do it by itself sooner or later.
        await stack.enter_async_context(paused(database, "apps.purge"))
        purge = node.services.apps.purge_deleted
        assert await purge(database) == 0
        await database.execute(
            "update pilotis.apps set deleted_at = now() - interval '7 days' where app_id = $1", app.app_id
        )
        async with owner_of(app).client(app) as client:
            assert_error(await client.post("/restore"), 404, "APP_NOT_FOUND")
        async with owner_of(app).client() as client:
            assert app.app_id not in (await client.get("/apps", params={"limit": 1000})).text
        async with database_of(server) as another:
            assert sorted(await asyncio.gather(purge(database), purge(another))) == [0, 1]
        left = await database.fetch("select nspname from pg_namespace where nspname like '%' || $1", hex_id)
        assert left == []
        for table in ("apps", "app_users", "public_keys", "secret_keys", "members", "sessions", "tables", "audit_log"):
            count = await database.fetchval(f"select count(*) from pilotis.{table} where app_id = $1", app.app_id)
            assert (table, count) == (table, 0)
    async with bystander.client() as client:
        assert len((await client.get("/v1/public/tables")).json()["tables"]) == 1


async def test_the_deletion_renames_the_schema(app: App):
    hex_id = UUID(app.app_id).hex
    async with database_of(app.server) as database:
        async with owner_of(app).client(app) as console:
            await console.delete("")
            with pytest.raises(asyncpg.UndefinedTableError):
                await database.fetch(f"select * from app_{hex_id}.__row_counts")
            await console.post("/restore")
        await database.fetch(f"select * from app_{hex_id}.__row_counts")


async def test_the_life_of_an_app_is_in_its_log(app: App):
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"name": "renamed", "schema_locked": True})
        await console.delete("")
        await console.post("/restore")
    entries = await the_log(app, action="app")
    assert [entry["action"] for entry in entries] == ["app.restore", "app.delete", "app.update", "app.create"]
    assert entries[2]["details"] == {"name": "renamed", "schema_locked": True}


async def test_an_invited_viewer_creates_no_app_until_it_may_change_one_or_is_allowed(app: App):
    viewer, owner = await user_with(app, "viewer"), owner_of(app)
    async with viewer.client() as theirs, owner.client(app) as console:
        assert_error(await theirs.post("/apps", json={"name": "mine"}), 403, "APP_CREATION_NOT_ALLOWED")
        assert (await console.patch(f"/users/{viewer.user_id}", json={"role": "editor"})).status_code == 200
        assert (await theirs.post("/apps", json={"name": "mine"})).status_code == 201
    other = await user_with(app, "viewer")
    async with other.client() as theirs:
        assert (await theirs.post("/apps", json={"name": "mine"})).status_code == 403
        command = ["pilotis", "user", "allow-apps", other.email, *app.server.place]
        said = await asyncio.to_thread(forked.run, *command)
        assert said.stdout.strip() == f"{other.email} may create apps."
        assert (await theirs.post("/apps", json={"name": "mine"})).status_code == 201
