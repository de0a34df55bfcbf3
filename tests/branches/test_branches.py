"""A branch is a copy of an app beside it, in which nothing acts; its definitions can be merged."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from pilotis.kit.mail_addresses import parse_sender
from pilotis.kit.smtp_urls import parse_smtp_url
from pilotis.mail.settings import ServerMail, SettingsOfMail
from pilotis.users.service import grant_role
from tests import databases
from tests.archive.shop import Shop, check_pages
from tests.backstage import run_sql
from tests.branches.previews import begin, branch_of, diff, ended, merge, owner, steps
from tests.conftest import new_app
from tests.services import stale_node
from tests.support import App, Server, assert_error, plain_client
from tests.waiting import until


@pytest.fixture(scope="module")
async def shop(server: Server, console: dict[str, str]) -> Shop:
    return await Shop(new_app(server, console)).fill()


async def test_a_branch_has_the_definitions_of_its_app_and_no_rows(shop: Shop):
    branch = await branch_of(shop.app)
    assert branch.public_key != shop.app.public_key
    async with branch.client() as client:
        tables = (await client.get("/v1/public/tables")).json()["tables"]
        assert {table["id"] for table in tables} == {shop.makers, shop.goods, shop.free}
        assert (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["total_count"] == 0
        signed_in = await client.post(
            "/v1/public/app-members/signin", json={"login_id": "ada", "password": "a good passphrase"}
        )
        assert_error(signed_in, 401, "INVALID_CREDENTIALS")
        await check_pages(client, branch)
    assert await steps(shop.app, branch) == []
    async with owner(shop.app) as client:
        app = (await client.get(f"/v1/apps/{branch.app_id}")).json()
        assert (app["parent_app_id"], app["branch"]) == (shop.app.app_id, "pr-17")
        assert (await client.delete(f"/v1/apps/{shop.app.app_id}/branches/{branch.app_id}")).status_code == 200
        assert (await client.get(f"/v1/apps/{branch.app_id}")).status_code == 404
        assert (await client.get(f"/v1/apps/{shop.app.app_id}/branches")).json()["data"] == []


async def test_a_whole_branch_has_rows_members_and_files_under_other_addresses(shop: Shop):
    branch = await branch_of(shop.app, "whole", rows="all", members="all", files="all")
    async with branch.client() as client:
        rows = (await client.get(f"/v1/public/tables/{shop.goods}/data")).json()["data"]
        assert rows == [shop.row]
        signed_in = await client.post(
            "/v1/public/app-members/signin", json={"login_id": "ada", "password": "a good passphrase"}
        )
        assert signed_in.status_code == 200
    twice = "select storage_id, file_id from pilotis.files group by 1, 2 having count(distinct app_id) > 1"
    assert await run_sql(shop.app.server, twice) is None
    files = await run_sql(shop.app.server, "select count(*) from pilotis.files where app_id = $1", branch.app_id)
    assert files == 1


async def test_definitions_are_merged_after_a_preview(shop: Shop):
    app = new_app(shop.app.server, shop.app.console)
    cafes = await app.table({"name": "string", "stars": "number"}, title="cafes")
    old = await app.table({"a": "int"}, title="old")
    await app.row(cafes, {"name": "Blue Door", "stars": 4})
    branch = await branch_of(app, "next", rows="all")
    async with branch.client() as client:
        schema = {"name": "string", "city": "string"}
        body = {"title": "places", "schema": schema, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{cafes}", json=body)).status_code == 200
        assert (await client.delete(f"/v1/public/tables/{old}")).status_code == 200
    tags = await branch.table({"place": {"type": "uuid", "references": {"table": "places"}}}, title="tags")
    await branch.row(tags, {})
    async with owner(app) as client:
        base = f"/v1/apps/{branch.app_id}"
        rules = {"rules": {"read": True}}
        assert (await client.put(f"{base}/tables/{tags}/rules", json=rules)).status_code == 200
        assert (await client.post(f"{base}/storages/files", json={"name": "pictures"})).status_code == 201
        change = {"sign_up": "closed"}
        assert (await client.patch(f"{base}/account-settings", json=change)).status_code == 200
        made = await client.post(f"{base}/functions", json={"name": "greet", "runtime": "javascript"})
        assert made.status_code == 201, made.text
        files = {"files": {"index.js": "export default () => 2"}}
        assert (await client.post(f"{base}/functions/{made.json()['id']}/versions", json=files)).status_code == 201
        flow = {"name": "daily", "steps": [{"name": "go", "step_type": "function", "function_id": made.json()["id"]}]}
        answer = await client.post(f"{base}/workflows", json=flow)
        assert answer.status_code == 201, answer.text
    assert await steps(app, branch) == [
        ("change", "tables", "places"),
        ("create", "tables", "tags"),
        ("drop", "tables", "old"),
        ("create", "storages", "pictures"),
        ("create", "functions", "greet"),
        ("create", "workflows", "daily"),
        ("change", "settings", "accounts.sign_up"),
    ]
    columns = (await diff(app, branch))["differences"][0]["columns"]
    assert sorted((one["kind"], one["name"], one["rows"]) for one in columns) == [
        ("added", "city", 0),
        ("dropped", "stars", 1),
    ]
    # Without permission, nothing is dropped.
    answer = await merge(app, branch)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["applied"]) == 6
    assert await steps(app, branch) == [("drop", "tables", "old")]
    answer = await merge(app, branch, drops=True)
    assert answer.status_code == 200, answer.text
    assert await steps(app, branch) == []
    async with app.client() as client:
        tables = {table["title"]: table for table in (await client.get("/v1/public/tables")).json()["tables"]}
        assert tables.keys() == {"places", "tags"}
        assert tables["places"]["id"] == cafes
        assert tables["tags"]["has_rules"]
        # Rows never merge.
        assert (await client.get(f"/v1/public/tables/{cafes}/data")).json()["total_count"] == 1
        assert (await client.get(f"/v1/public/tables/{tables['tags']['id']}/data")).json()["total_count"] == 0
    async with owner(app) as client:
        base = f"/v1/apps/{app.app_id}"
        (function,) = (await client.get(f"{base}/functions")).json()["data"]
        source = await client.get(f"{base}/functions/{function['id']}/versions/1/source")
        assert source.json()["files"] == files["files"]
        (workflow,) = (await client.get(f"{base}/workflows")).json()["data"]
        whole = (await client.get(f"{base}/workflows/{workflow['id']}")).json()
        assert whole["steps"][0]["function_id"] == function["id"]
        assert not whole["is_active"]
    # What was created by the merge has another id in the parent, and is the same thing from now on.
    async with branch.client() as client:
        body = {"title": "labels", "schema": {}, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{tags}", json=body)).status_code in {200, 403}
    async with owner(app) as client:
        headers = {"X-App-Id": branch.app_id}
        assert (await client.patch(f"/v1/public/tables/{tags}", json=body, headers=headers)).status_code == 200
    assert await steps(app, branch) == [("change", "tables", "labels")]


async def test_what_both_sides_have_changed_is_a_conflict(app: App):
    cafes = await app.table({"name": "string"}, title="cafes")
    bars = await app.table({"name": "string"}, title="bars")
    branch = await branch_of(app)

    async def rename(where: App, table: str, title: str, **schema: str) -> None:
        async with where.client() as client:
            body = {"title": title, "schema": {"name": "string", **schema}, "access_level": "Public"}
            answer = await client.patch(f"/v1/public/tables/{table}", json=body)
            assert answer.status_code == 200, answer.text

    seen = await diff(app, branch)
    await rename(branch, cafes, "cafes", stars="number")
    await rename(app, cafes, "cafes", city="string")
    await rename(app, bars, "pubs")
    made = await app.table({}, title="own")
    assert await steps(app, branch) == [
        ("conflict", "tables", "cafes"),
        ("newer", "tables", "bars"),
        ("left", "tables", "own"),
    ]
    async with owner(app) as client:
        path = f"/v1/apps/{app.app_id}/branches/{branch.app_id}/merge"
        assert_error(await client.post(path, json={"digest": seen["digest"]}), 409, "DIFFERENCES_CHANGED")
    assert "cafes" in assert_error(await merge(app, branch), 409, "MERGE_CONFLICT")["message"]
    assert (await merge(app, branch, parts=["functions"])).json()["applied"] == []
    answer = await merge(app, branch, theirs=True, drops=True)
    assert [one["title"] for one in answer.json()["applied"]] == ["cafes"]
    async with app.client() as client:
        tables = {table["id"]: table for table in (await client.get("/v1/public/tables")).json()["tables"]}
    assert tables[cafes]["schema"].keys() == {"name", "stars"}
    assert tables[bars]["title"] == "pubs"
    assert tables[made]["title"] == "own"


async def test_a_merge_that_the_parent_rejects_says_what_was_applied_and_goes_on_later(app: App):
    cafes = await app.table({"name": "string"}, title="cafes")
    await app.row(cafes, {"name": "Blue Door"})
    branch = await branch_of(app)
    await branch.table({"a": "int"}, title="first")
    await branch.table({"a": "int"}, title="taken")
    async with branch.client() as client:
        body = {"title": "cafes", "schema": {"name": "int"}, "access_level": "Public"}
        assert (await client.patch(f"/v1/public/tables/{cafes}", json=body)).status_code == 200
    (change, *_) = (await diff(app, branch))["differences"]
    assert change["columns"][0]["rows_that_do_not_fit"] == 1
    failed = assert_error(await merge(app, branch), 409, "MERGE_FAILED")
    assert "tables cafes: ROWS_DO_NOT_FIT" in failed["message"]
    async with app.client() as client:
        body["schema"] = {"name": "string"}
        row = (await client.get(f"/v1/public/tables/{cafes}/data")).json()["data"][0]
        assert (await client.delete(f"/v1/public/tables/{cafes}/data/{row['id']}")).status_code == 200
    answer = await merge(app, branch)
    assert answer.status_code == 200, answer.text
    assert await steps(app, branch) == []


async def test_of_sixteen_merges_at_once_one_is_applied(app: App):
    branch = await branch_of(app)
    await branch.table({"a": "int"}, title="first")
    await branch.table({"a": "int"}, title="second")
    async with owner(branch) as client:
        change = {"sign_up_methods": ["email"]}
        assert (await client.patch(f"/v1/apps/{branch.app_id}/account-settings", json=change)).status_code == 200
    body = {"digest": (await diff(app, branch))["digest"]}
    async with owner(app) as client:
        path = f"/v1/apps/{app.app_id}/branches/{branch.app_id}/merge"
        answers = await asyncio.gather(*[client.post(path, json=body) for _ in range(16)])
    (applied,) = [answer.json()["applied"] for answer in answers if answer.status_code == 200]
    assert [one["title"] for one in applied] == ["first", "second", "accounts.sign_up_methods"]
    for answer in answers:
        if answer.status_code != 200:
            assert_error(answer, 409, "DIFFERENCES_CHANGED")
    assert await steps(app, branch) == []


async def test_a_branch_needs_an_owner_for_members_has_a_name_and_a_limit(app: App):
    async with plain_client(app.server.url, Authorization=f"Bearer {app.secret_key}") as secret:
        path = f"/v1/apps/{app.app_id}/branches"
        answer = await secret.post(path, json={"name": "a", "members": "all"})
        assert_error(answer, 403, "ROLE_REQUIRED")
        answer = await secret.post(path, json={"name": "by-key"})
        assert answer.status_code == 202, answer.text
    branch = await ended(app, answer.json()["branch_id"])
    assert branch["state"] == "ready"
    assert_error(await begin(app, "by-key"), 409, "BRANCH_NAME_TAKEN")
    async with owner(app) as client:
        answer = await client.post(f"/v1/apps/{branch['branch_id']}/branches", json={"name": "b"})
        assert_error(answer, 400, "BRANCH_OF_BRANCH")
        assert (await client.patch(f"/v1/apps/{app.app_id}/limits", json={"branches": 1})).status_code == 200
        assert_error(await begin(app, "another"), 409, "BRANCH_LIMIT")
        assert (await client.delete(f"{path}/{branch['branch_id']}")).status_code == 200
    for name in ("", "Über", "a b", "-a", "a\n", "x" * 61):
        assert_error(await begin(app, name), 400, "VALIDATION_FAILED")


async def test_a_branch_that_has_expired_is_deleted_and_so_are_those_of_a_deleted_app(app: App):
    first, second = await branch_of(app, "first"), await branch_of(app, "second")
    expire = "update pilotis.apps set expires_at = now() - interval '1 second' where app_id = $1"
    await run_sql(app.server, expire, first.app_id)
    await _expire(app.server)
    async with owner(app) as client:
        assert (await client.get(f"/v1/apps/{first.app_id}")).status_code == 404
        assert (await client.get(f"/v1/apps/{second.app_id}")).status_code == 200
        assert (await client.delete(f"/v1/apps/{app.app_id}")).status_code == 200
        await _expire(app.server)
        assert (await client.get(f"/v1/apps/{second.app_id}")).status_code == 404


async def _expire(server: Server) -> None:
    """What the task does, which comes every ten minutes."""
    async with stale_node(server) as services, services.database.connection() as connection:
        await services.apps.delete_ended_branches(connection)


async def test_nothing_acts_in_a_branch_and_functions_may_reach_what_they_may_in_the_app(shop: Shop):
    server = shop.app.server
    async with owner(shop.app) as client:
        base = f"/v1/apps/{shop.app.app_id}"
        egress = {"egress": {"mode": "allowlist", "hosts": ["api.example.com"]}}
        assert (await client.patch(f"{base}/functions/{shop.function}", json=egress)).status_code == 200
        activated = "update pilotis.webhooks set is_active = true where app_id = $1"
        await run_sql(server, activated, shop.app.app_id)
        trigger = await client.post(
            f"{base}/functions/{shop.function}/triggers", json={"type": "schedule", "cron": "* * * * *"}
        )
        assert trigger.status_code == 201, trigger.text
        flow = {"name": "daily", "steps": [{"name": "go", "step_type": "function", "function_id": shop.function}]}
        assert (await client.post(f"{base}/workflows", json=flow)).status_code == 201
        hooks = {"hooks": {"send_mail": shop.function}}
        assert (await client.patch(f"{base}/account-settings", json=hooks)).status_code == 200
    branch = await branch_of(shop.app, "quiet")
    assert await steps(shop.app, branch) == []
    for table in ("webhooks", "function_triggers", "workflows"):
        query = f"select array_agg(distinct is_active) from pilotis.{table} where app_id = $1"
        assert await run_sql(server, query, shop.app.app_id) == [True]
        assert await run_sql(server, query, branch.app_id) == [False]
    query = "select egress_mode from pilotis.functions where app_id = $1"
    assert await run_sql(server, query, branch.app_id) == "allowlist"
    assert not await run_sql(server, "select count(*) from pilotis.schedules where app_id = $1", branch.app_id)
    async with stale_node(server) as services:
        operators = ServerMail(parse_smtp_url("smtp://localhost:9"), parse_sender("shop@example.com"), None)
        floor = services.floor
        mail = SettingsOfMail(floor.database, floor.secrets, lambda: floor.outgoing, operators, floor.limits)
        sending = await mail.of(UUID(branch.app_id))
        assert (sending.relay, sending.hook) == (None, None)
        assert (await mail.of(UUID(shop.app.app_id))).hook == UUID(shop.function)
        assert (await mail.read(await services.apps.by_id(UUID(branch.app_id)))).source == "mailbox"
        assert (await mail.read(await services.apps.by_id(UUID(shop.app.app_id)))).source == "server"


async def test_console_users_of_an_app_are_those_of_its_branches(app: App):
    branch = await branch_of(app)
    server = app.server
    role = "select role from pilotis.app_users where app_id = $1 and user_id = $2"
    async with stale_node(server) as services:
        user = await services.users.create(f"guest-{branch.app_id}@example.com", "correct horse battery")
        async with services.database.transaction(UUID(app.app_id)) as connection:
            await grant_role(connection, UUID(app.app_id), user, "editor")
    assert await run_sql(server, role, branch.app_id, user) == "editor"
    async with owner(app) as client:
        path = f"/v1/apps/{app.app_id}/users/{user}"
        assert (await client.patch(path, json={"role": "viewer"})).status_code == 200
        assert await run_sql(server, role, branch.app_id, user) == "viewer"
        assert (await client.delete(path)).status_code == 200
    assert await run_sql(server, role, branch.app_id, user) is None


@asynccontextmanager
async def holding(server: Server, statement: str) -> AsyncGenerator[None]:
    """Hold the locks of a statement."""
    connection = await asyncpg.connect(**databases.address(server.data_dir))
    try:
        async with connection.transaction():
            await connection.execute(statement)
            yield
    finally:
        await connection.close()


async def test_a_branch_that_is_deleted_while_it_is_created_leaves_nothing(shop: Shop):
    server = shop.app.server
    async with holding(server, "lock table pilotis.webhooks in access exclusive mode"):
        answer = await begin(shop.app, "gone", rows="all", members="all", files="all")
        branch_id = answer.json()["branch_id"]
        async with owner(shop.app) as client:
            path = f"/v1/apps/{shop.app.app_id}/branches/{branch_id}"
            assert (await client.get(path)).json()["state"] == "creating"
            assert_error(await client.get(f"{path}/diff"), 409, "BRANCH_NOT_READY")
            assert (await client.delete(path)).status_code == 200

    async def is_done() -> bool:
        query = "select count(*) from pilotis.jobs where kind = 'branches.create' and subject = $1"
        return not await run_sql(server, query, branch_id)

    await until(is_done)
    assert not await run_sql(server, "select count(*) from pilotis.apps where app_id = $1", branch_id)
    assert list(server.data_dir.rglob(f"*{branch_id}*")) == []
    assert list(server.data_dir.glob("branch-*")) == []
