"""Console: the audit log has every console action and every schema change."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pilotis.http.endpoint import Endpoint
from pilotis.server import endpoint_table
from tests.console import invite, owner_of, the_log, user_with
from tests.support import App, assert_error

ENTRY = {
    "entry_id",
    "created_at",
    "actor_kind",
    "actor_id",
    "actor_email",
    "action",
    "target",
    "details",
    "request_id",
}
AUTH = {"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []}
Perform = Callable[[App, httpx.AsyncClient], Awaitable[httpx.Response]]


async def _new_app(app: App, console: httpx.AsyncClient) -> httpx.Response:
    answer = await console.post("/apps", json={"name": "new"})
    app.app_id = answer.json()["app_id"]
    return answer


async def _restore(app: App, console: httpx.AsyncClient) -> httpx.Response:
    await console.delete(f"/apps/{app.app_id}")
    return await console.post(f"/apps/{app.app_id}/restore")


async def _on_public_key(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    keys = f"/apps/{app.app_id}/keys/public"
    made = (await console.post(keys, json={"name": "x"})).json()
    return await console.request(method, f"{keys}/{made['key_id']}", **body)


async def _revoke_secret(app: App, console: httpx.AsyncClient) -> httpx.Response:
    keys = f"/apps/{app.app_id}/keys/secret"
    made = (await console.post(keys, json={"name": "x"})).json()
    return await console.delete(f"{keys}/{made['key_id']}")


async def _on_user(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    user = await user_with(app, "viewer")
    return await console.request(method, f"/apps/{app.app_id}/users/{user.user_id}", **body)


async def _revoke_invitation(app: App, console: httpx.AsyncClient) -> httpx.Response:
    invitation = await invite(app, "viewer")
    return await console.delete(f"/apps/{app.app_id}/invitations/{invitation['invitation_id']}")


async def _accept(app: App, console: httpx.AsyncClient) -> httpx.Response:
    first = owner_of(app)
    second = await user_with(app, "owner")
    async with second.client(app) as other:
        await other.delete(f"/users/{first.user_id}")
        made = (await other.post("/invitations", json={"email": first.email, "role": "owner"})).json()
    return await console.post("/invitations/accept", json={"token": made["token"]})


async def _on_member(app: App, console: httpx.AsyncClient, method: str, path: str = "", **body: Any) -> httpx.Response:
    member = await app.member()
    return await console.request(method, f"/apps/{app.app_id}/members/{member['member_id']}{path}", **body)


async def _on_trash(app: App, console: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    """Call a route on a dropped table, or on its dropped column 1 where the path names one."""
    table = await app.table({"a": "int", "b": "int"})
    async with app.client() as client:
        await client.delete(
            f"/v1/public/tables/{table}/columns/a" if "columns" in path else f"/v1/public/tables/{table}"
        )
    return await console.request(method, f"/apps/{app.app_id}/trash" + path.format(table))


async def _on_storage(app: App, console: httpx.AsyncClient, method: str, **body: Any) -> httpx.Response:
    storages = f"/apps/{app.app_id}/storages/files"
    made = (await console.post(storages, json={"name": "x"})).json()
    return await console.request(method, f"{storages}/{made['id']}", **body)


async def _import(app: App, console: httpx.AsyncClient) -> httpx.Response:
    table = await app.table({"a": "int"})
    path = f"/apps/{app.app_id}/tables/{table}/import?format=jsonl"
    return await console.post(path, content=b'{"a": 1}\n', headers={"Content-Type": "application/jsonl"})


# How each console route that changes something is called with success. A new route belongs in here.
ACTIONS: dict[str, tuple[str, Perform]] = {
    "POST /v1/apps/:app_id/tables/:table_id/import": ("table.import", _import),
    "POST /v1/apps": ("app.create", _new_app),
    "PATCH /v1/apps/:app_id": (
        "app.update",
        lambda app, console: console.patch(f"/apps/{app.app_id}", json={"name": "x"}),
    ),
    "POST /v1/apps/:app_id/restore": ("app.restore", _restore),
    "PUT /v1/apps/:app_id/auth-settings": (
        "auth_settings.update",
        lambda app, console: console.put(f"/apps/{app.app_id}/auth-settings", json=AUTH),
    ),
    "PATCH /v1/apps/:app_id/limits": (
        "limits.update",
        lambda app, console: console.patch(f"/apps/{app.app_id}/limits", json={"tables": 7}),
    ),
    "POST /v1/apps/:app_id/keys/public": (
        "public_key.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/keys/public", json={"name": "x"}),
    ),
    "PATCH /v1/apps/:app_id/keys/public/:key_id": (
        "public_key.update",
        lambda app, console: _on_public_key(app, console, "PATCH", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/keys/public/:key_id": (
        "public_key.revoke",
        lambda app, console: _on_public_key(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/keys/secret": (
        "secret_key.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/keys/secret", json={"name": "x"}),
    ),
    "DELETE /v1/apps/:app_id/keys/secret/:key_id": ("secret_key.revoke", _revoke_secret),
    "PATCH /v1/apps/:app_id/users/:user_id": (
        "user.change_role",
        lambda app, console: _on_user(app, console, "PATCH", json={"role": "editor"}),
    ),
    "DELETE /v1/apps/:app_id/users/:user_id": ("user.remove", lambda app, console: _on_user(app, console, "DELETE")),
    "POST /v1/apps/:app_id/invitations": (
        "invitation.create",
        lambda app, console: console.post(
            f"/apps/{app.app_id}/invitations", json={"email": "new@example.com", "role": "viewer"}
        ),
    ),
    "DELETE /v1/apps/:app_id/invitations/:invitation_id": ("invitation.revoke", _revoke_invitation),
    "POST /v1/invitations/accept": ("invitation.accept", _accept),
    "PATCH /v1/apps/:app_id/members/:member_id": (
        "member.update",
        lambda app, console: _on_member(app, console, "PATCH", json={"is_active": False}),
    ),
    "DELETE /v1/apps/:app_id/members/:member_id": (
        "member.delete",
        lambda app, console: _on_member(app, console, "DELETE"),
    ),
    "POST /v1/apps/:app_id/members/:member_id/sign-out-everywhere": (
        "member.sign_out",
        lambda app, console: _on_member(app, console, "POST", "/sign-out-everywhere"),
    ),
    "POST /v1/apps/:app_id/trash/tables/:table_id/restore": (
        "table.restore",
        lambda app, console: _on_trash(app, console, "POST", "/tables/{}/restore"),
    ),
    "POST /v1/apps/:app_id/trash/tables/:table_id/columns/:number/restore": (
        "column.restore",
        lambda app, console: _on_trash(app, console, "POST", "/tables/{}/columns/1/restore"),
    ),
    "DELETE /v1/apps/:app_id/trash/tables/:table_id": (
        "table.purge",
        lambda app, console: _on_trash(app, console, "DELETE", "/tables/{}"),
    ),
    "DELETE /v1/apps/:app_id/trash/tables/:table_id/columns/:number": (
        "column.purge",
        lambda app, console: _on_trash(app, console, "DELETE", "/tables/{}/columns/1"),
    ),
    "DELETE /v1/apps/:app_id/trash": (
        "trash.empty",
        lambda app, console: _on_trash(app, console, "DELETE", ""),
    ),
    "POST /v1/apps/:app_id/storages/files": (
        "file_storage.create",
        lambda app, console: console.post(f"/apps/{app.app_id}/storages/files", json={"name": "x"}),
    ),
    "PATCH /v1/apps/:app_id/storages/files/:storage_id": (
        "file_storage.update",
        lambda app, console: _on_storage(app, console, "PATCH", json={"name": "y"}),
    ),
    "DELETE /v1/apps/:app_id/storages/files/:storage_id": (
        "file_storage.delete",
        lambda app, console: _on_storage(app, console, "DELETE"),
    ),
}


def changes_an_app(endpoint: Endpoint) -> bool:
    return endpoint.access.is_console and endpoint.method not in {"GET", "HEAD"}


CHANGES = [f"{endpoint.method} {endpoint.path}" for endpoint in endpoint_table() if changes_an_app(endpoint)]


@pytest.mark.parametrize("route", [route for route in CHANGES if route != "DELETE /v1/apps/:app_id"])
async def test_every_change_from_the_console_is_recorded(app: App, route: str):
    action, perform = ACTIONS[route]
    async with owner_of(app).client() as console:
        answer = await perform(app, console)
        assert answer.status_code in {200, 201}, answer.text
    request_id = answer.headers["x-request-id"]
    entries = [entry for entry in await the_log(app) if entry["request_id"] == request_id]
    assert action in [entry["action"] for entry in entries]
    for entry in entries:
        assert set(entry) == ENTRY
        assert (entry["actor_kind"], entry["actor_id"]) == ("console_user", app.console["user_id"])
        assert entry["actor_email"] == app.console["email"]
        age = datetime.now(UTC) - datetime.fromisoformat(entry["created_at"])
        assert age < timedelta(minutes=1)


async def test_the_deletion_of_an_app_is_recorded(app: App):
    async with owner_of(app).client(app) as console:
        answer = await console.delete("")
        await console.post("/restore")
    (entry,) = await the_log(app, action="app.delete")
    assert entry["request_id"] == answer.headers["x-request-id"]


async def test_what_is_refused_leaves_no_entry(app: App):
    before = await the_log(app)
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console:
        assert_error(await console.patch("", json={"name": "x"}), 403, "ROLE_REQUIRED")
    async with owner_of(app).client(app) as console:
        assert_error(await console.delete(f"/keys/public/{uuid4()}"), 404, "KEY_NOT_FOUND")
        assert_error(await console.patch("/limits", json={"password_min_length": 257}), 400, "VALIDATION_FAILED")
        assert_error(await console.delete(f"/users/{app.console['user_id']}"), 409, "LAST_OWNER")
    after = await the_log(app)
    assert [entry["action"] for entry in after[: len(after) - len(before)]] == [
        "invitation.accept",
        "invitation.create",
    ]


async def test_schema_changes_are_recorded_with_who_made_them(app: App):
    member = await app.member()
    editor = await user_with(app, "editor")
    expected: list[tuple[str, str, str | None]] = []
    for number, (kind, token, actor) in enumerate(
        [
            ("public", None, None),
            ("member", member["access_token"], member["member_id"]),
            ("secret_key", app.secret_key, None),
            ("console_user", editor.access_token, editor.user_id),
        ]
    ):
        async with app.client(token, **{"X-Request-Id": f"request-{number}"}) as client:
            body = {"title": f"table {number}", "schema": {"name": "string"}, "access_level": "Public"}
            table = f"/v1/public/tables/{(await client.post('/v1/public/tables', json=body)).json()['id']}"
            await client.patch(table, json={**body, "title": f"renamed {number}"})
            await client.post(f"{table}/columns", json={"name": "age", "data_type": "int"})
            await client.patch(f"{table}/columns/age", json={"data_type": "number"})
            await client.delete(f"{table}/columns/age")
            assert (await client.delete(table)).status_code == 200
        actions = ["table.create", "table.update", "column.create", "column.update", "column.drop", "table.drop"]
        expected += [(action, kind, actor) for action in actions]
        entries = [entry for entry in await the_log(app) if entry["request_id"] == f"request-{number}"]
        assert [(entry["action"], entry["actor_kind"]) for entry in reversed(entries)] == [(a, kind) for a in actions]
        if actor:
            assert {entry["actor_id"] for entry in entries} == {actor}


async def test_the_log_is_read_newest_first_in_pages_and_by_filter(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        for number in range(3):
            await console.patch("", json={"name": f"name {number}"})
        first = (await console.get("/audit-log", params={"action": "app.update", "limit": 2})).json()
        rest = (await console.get("/audit-log", params={"action": "app.update", "limit": 2, "offset": 2})).json()
        assert [entry["details"]["name"] for entry in first["data"]] == ["name 2", "name 1"]
        assert [entry["details"]["name"] for entry in rest["data"]] == ["name 0"]
        assert first["total_count"] == rest["total_count"] == 3
        by_editor = (await console.get("/audit-log", params={"actor": editor.user_id})).json()
        assert [entry["action"] for entry in by_editor["data"]] == ["app.update"] * 3 + ["invitation.accept"]
        assert (await console.get("/audit-log", params={"action": "app.up"})).json()["total_count"] == 0
        assert (await console.get("/audit-log", params={"action": "app", "limit": 0})).json()["total_count"] == 4
        assert_error(await console.get("/audit-log", params={"limit": "-1"}), 400, "VALIDATION_FAILED")
        assert (await console.get("/audit-log", params={"actor": "' or true --"})).json()["total_count"] == 0


@pytest.mark.parametrize("name", ["action", "actor"])
async def test_a_filter_with_u0000_is_refused(app: App, name: str):
    async with owner_of(app).client(app) as console:
        answer = await console.get("/audit-log", params={name: "a\0"})
    assert_error(answer, 400, "VALIDATION_FAILED")


async def test_a_viewer_does_not_read_the_log(app: App):
    viewer = await user_with(app, "viewer")
    async with viewer.client(app) as console:
        assert_error(await console.get("/audit-log"), 403, "ROLE_REQUIRED")


async def test_a_log_shows_its_own_app_alone(app: App, other_app: App):
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"name": "only here"})
    assert "only here" not in str(await the_log(other_app))


async def test_the_first_user_is_recorded_as_owner_of_the_first_app(app: App):
    async with owner_of(app).client() as console:
        apps = (await console.get("/apps", params={"limit": 1})).json()["data"]
        entries = (await console.get(f"/apps/{apps[0]['app_id']}/audit-log")).json()["data"]
    assert apps[0]["name"] == "first app"
    by_action = {entry["action"]: entry for entry in entries}
    assert by_action["app.create"]["actor_kind"] == "operator"
    assert by_action["app.adopt"]["actor_id"] == app.console["user_id"]
