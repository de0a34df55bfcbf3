"""Console: the roles of console users on an app, and who may do what."""

import asyncio
import json
from uuid import UUID, uuid4

import pytest

from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.principals import Role
from pilotis.server import endpoint_table
from tests.conftest import new_app
from tests.console import ConsoleUser, database_of, owner_of, the_log, user_with
from tests.support import App, Server, assert_error

ROUTES = [endpoint for endpoint in endpoint_table() if endpoint.access.role]


async def ask(endpoint: Endpoint, app: App, user: ConsoleUser) -> tuple[int, str | None]:
    """Call a route as a user, about itself where it is about a user, and return status and error code."""
    path = endpoint.path
    for name, kind in endpoint.parameters.items():
        value = {"app_id": app.app_id, "user_id": user.user_id}.get(name, str(uuid4()) if kind is UUID else "name")
        path = path.replace(f":{name}", value)
    async with user.client() as client:
        body = {} if endpoint.body is None else {"content": b"[]"}
        async with client.stream(endpoint.method, path.removeprefix("/v1"), **body) as answer:
            # What succeeds is not read: a stream of events has no end.
            code = None if answer.is_success else json.loads(await answer.aread()).get("code")
    return answer.status_code, code


async def give_role(app: App, user: ConsoleUser, role: Role) -> None:
    """Give a console user a role on an app behind the server's back."""
    async with database_of(app.server) as database:
        await database.execute(
            """
            insert into pilotis.app_users (app_id, user_id, role) values ($1, $2, $3)
            on conflict (app_id, user_id) do update set role = excluded.role
            """,
            app.app_id,
            user.user_id,
            role.name.lower(),
        )


async def test_each_route_takes_its_role_and_no_lower_one(
    server: Server, console: dict[str, str], app: App, other_app: App
):
    user = await user_with(other_app, "owner")
    found = {}
    for role in (None, *Role):
        if role is not None:
            await give_role(app, user, role)
        for endpoint in ROUTES:
            allowed = role is not None and role >= endpoint.access.role
            of = app
            # What is refused changes nothing, and neither does a body that is none. The rest may take the role away.
            if allowed and endpoint.method != "GET" and endpoint.body is None:
                of = new_app(server, console)
                await give_role(of, user, role)
            status, code = await ask(endpoint, of, user)
            refused = (404, "APP_NOT_FOUND") if role is None else (403, "ROLE_REQUIRED")
            right = status not in {401, 403, 405, 500} if allowed else (status, code) == refused
            if not right:
                found[f"{endpoint.method} {endpoint.path} as {role}"] = (status, code)
    assert not found


async def test_the_users_of_an_app_are_listed(app: App):
    editor, viewer = await user_with(app, "editor"), await user_with(app, "viewer")
    async with viewer.client(app) as console:
        listed = (await console.get("/users")).json()
        second = (await console.get("/users", params={"limit": 1, "offset": 1})).json()
    assert [(user["user_id"], user["email"], user["role"]) for user in listed["data"]] == [
        (app.console["user_id"], app.console["email"], "owner"),
        (editor.user_id, editor.email, "editor"),
        (viewer.user_id, viewer.email, "viewer"),
    ]
    assert set(listed["data"][0]) == {"user_id", "email", "role", "created_at"}
    assert second == {"data": [listed["data"][1]], "total_count": 3, "limit": 1, "offset": 1}


async def test_a_changed_role_holds_at_once(app: App):
    user = await user_with(app, "viewer")
    async with owner_of(app).client(app) as owner, user.client(app) as console:
        assert_error(await console.patch("", json={"name": "x"}), 403, "ROLE_REQUIRED")
        answer = await owner.patch(f"/users/{user.user_id}", json={"role": "editor"})
        assert answer.status_code == 200
        assert answer.json()["role"] == "editor"
        assert (await console.patch("", json={"name": "x"})).status_code == 200
        answer = await owner.delete(f"/users/{user.user_id}")
        assert answer.status_code == 200
        assert answer.json()["id"] == user.user_id
        assert_error(await console.get(""), 404, "APP_NOT_FOUND")
        assert_error(await owner.delete(f"/users/{user.user_id}"), 404, "USER_NOT_FOUND")
        assert_error(await owner.patch(f"/users/{user.user_id}", json={"role": "owner"}), 404, "USER_NOT_FOUND")


@pytest.mark.parametrize("body", [{}, {"role": "admin"}, {"role": "OWNER"}, {"role": None}, {"role": {"$ne": 1}}])
async def test_a_bad_role_is_refused(app: App, body: dict):
    async with owner_of(app).client(app) as console:
        answer = await console.patch(f"/users/{app.console['user_id']}", json=body)
        assert_error(answer, 400, "VALIDATION_FAILED")


async def test_everybody_may_leave_and_only_owners_remove_others(app: App):
    editor, viewer = await user_with(app, "editor"), await user_with(app, "viewer")
    async with editor.client(app) as console:
        assert_error(await console.delete(f"/users/{viewer.user_id}"), 403, "ROLE_REQUIRED")
        assert_error(await console.patch(f"/users/{editor.user_id}", json={"role": "owner"}), 403, "ROLE_REQUIRED")
        assert (await console.delete(f"/users/{editor.user_id}")).status_code == 200
        assert_error(await console.get(""), 404, "APP_NOT_FOUND")
    async with viewer.client(app) as console:
        assert (await console.delete(f"/users/{viewer.user_id}")).status_code == 200


async def test_who_comes_back_does_not_bring_old_secret_keys_along(app: App):
    user = await user_with(app, "editor")
    async with user.client(app) as console:
        key = (await console.post("/keys/secret", json={"name": "laptop"})).json()["key"]
    async with app.client(key) as client, owner_of(app).client(app) as owner:
        assert (await client.get("/v1/public/tables")).status_code == 200
        assert (await owner.delete(f"/users/{user.user_id}")).status_code == 200
        assert_error(await client.get("/v1/public/tables"), 401, "INVALID_SECRET_KEY")
        invitation = (await owner.post("/invitations", json={"email": user.email, "role": "editor"})).json()
        async with user.client() as console:
            accepted = await console.post("/invitations/accept", json={"token": invitation["token"]})
            assert accepted.status_code == 200, accepted.text
        assert_error(await client.get("/v1/public/tables"), 401, "INVALID_SECRET_KEY")


async def test_the_last_owner_stays(app: App):
    owner = owner_of(app)
    await user_with(app, "editor")
    async with owner.client(app) as console:
        path = f"/users/{owner.user_id}"
        assert_error(await console.delete(path), 409, "LAST_OWNER")
        for role in ("editor", "viewer"):
            assert_error(await console.patch(path, json={"role": role}), 409, "LAST_OWNER")
        assert (await console.patch(path, json={"role": "owner"})).status_code == 200
        await user_with(app, "owner")
        assert (await console.delete(path)).status_code == 200


async def test_a_deactivated_owner_does_not_count(app: App):
    owner, other = owner_of(app), await user_with(app, "owner")
    async with database_of(app.server) as database:
        await database.execute("update pilotis.users set is_active = false where user_id = $1", other.user_id)
    async with owner.client(app) as console:
        assert_error(await console.delete(f"/users/{owner.user_id}"), 409, "LAST_OWNER")


async def test_two_owners_who_demote_each_other_leave_one(app: App):
    for attempt in range(6):
        first, second = owner_of(app), await user_with(app, "owner")
        async with first.client(app) as one, second.client(app) as other:
            if attempt % 2:
                answers = await asyncio.gather(
                    one.patch(f"/users/{second.user_id}", json={"role": "viewer"}),
                    other.patch(f"/users/{first.user_id}", json={"role": "viewer"}),
                )
            else:
                answers = await asyncio.gather(
                    one.delete(f"/users/{second.user_id}"), other.delete(f"/users/{first.user_id}")
                )
        # Who comes second is no owner any more, or not even on the app.
        assert sorted(answer.status_code for answer in answers) in ([200, 403], [200, 404])
        async with database_of(app.server) as database:
            owners = await database.fetch(
                "select user_id from pilotis.app_users where app_id = $1 and role = 'owner'", app.app_id
            )
        (left,) = [user for user in (first, second) if user.user_id in {str(row["user_id"]) for row in owners}]
        app.console = {"user_id": left.user_id, "email": left.email, "access_token": left.access_token}


async def test_all_owners_leaving_at_once_leave_one(app: App):
    owners = [owner_of(app), *[await user_with(app, "owner") for _ in range(4)]]

    async def leave(owner: ConsoleUser) -> int:
        async with owner.client(app) as console:
            return (await console.delete(f"/users/{owner.user_id}")).status_code

    assert sorted(await asyncio.gather(*map(leave, owners))) == [200, 200, 200, 200, 409]


async def test_roles_bound_what_a_console_user_does_with_rows(app: App):
    table = await app.table({"name": "string"}, access_level="AppMember")
    editor, viewer = await user_with(app, "editor"), await user_with(app, "viewer")
    data = f"/v1/public/tables/{table}/data"
    async with app.client(editor.access_token) as client:
        assert (await client.post(data, json={"data": {"name": "x"}})).status_code == 201
    async with app.client(viewer.access_token) as client:
        assert (await client.get(data)).json()["total_count"] == 1
        assert_error(await client.post(data, json={"data": {"name": "y"}}), 403, "ROLE_REQUIRED")


async def test_changes_of_roles_are_in_the_log(app: App):
    user = await user_with(app, "viewer")
    async with owner_of(app).client(app) as console:
        await console.patch(f"/users/{user.user_id}", json={"role": "editor"})
        await console.delete(f"/users/{user.user_id}")
    removed, changed = await the_log(app, action="user")
    assert (changed["action"], changed["details"]) == ("user.change_role", {"email": user.email, "role": "editor"})
    assert (removed["action"], removed["target"]) == ("user.remove", user.user_id)
    assert removed["actor_email"] == app.console["email"]
