"""Interface: App settings, their console side, and the limits of an app."""

import asyncio
from typing import Any

import pytest

from pilotis.limits import PER_APP, Limits
from tests.console import client_of, owner_of, second_node, set_auth, the_log, user_with
from tests.support import App, assert_error
from tests.waiting import until

DEFAULT = {"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": []}
CREDENTIALS = {"login_id": "ada", "password": "correct horse"}


async def test_the_public_key_reads_the_auth_settings(app: App):
    async with app.client() as client:
        answer = await client.get("/v1/public/auth-settings")
        assert answer.status_code == 200
        assert answer.json() == DEFAULT
        del client.headers["X-Public-Key"]
        assert_error(await client.get("/v1/public/auth-settings"), 401, "PUBLIC_KEY_REQUIRED")


async def test_auth_settings_are_put_whole_and_hold_at_once(app: App):
    changed = {
        "allow_id_password_login": False,
        "allow_guest_login": False,
        "enabled_oauth_providers": [],
    }
    async with owner_of(app).client(app) as console, app.client() as client:
        assert (await client.post("/v1/public/app-members")).status_code == 201
        answer = await console.put("/auth-settings", json=changed)
        assert answer.status_code == 200
        assert answer.json() == changed
        assert (await console.get("/auth-settings")).json() == changed
        assert (await client.get("/v1/public/auth-settings")).json() == changed
        assert_error(await client.post("/v1/public/app-members"), 403, "LOGIN_DISABLED")
        assert_error(await client.post("/v1/public/app-members/signup", json=CREDENTIALS), 403, "LOGIN_DISABLED")
        await set_auth(app)
        assert (await client.post("/v1/public/app-members")).status_code == 201
        assert (await client.post("/v1/public/app-members/signup", json=CREDENTIALS)).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {},
        {key: value for key, value in DEFAULT.items() if key != "allow_guest_login"},
        {**DEFAULT, "allow_guest_login": "yes"},
        {**DEFAULT, "allow_guest_login": None},
        {**DEFAULT, "enabled_oauth_providers": "GOOGLE"},
        {**DEFAULT, "enabled_oauth_providers": ["GOOGLE"]},
        {**DEFAULT, "enabled_oauth_providers": ["google"]},
        {**DEFAULT, "enabled_oauth_providers": ["GOOGLE\n"]},
        {**DEFAULT, "enabled_oauth_providers": [""]},
        {**DEFAULT, "enabled_oauth_providers": [{"$ne": None}]},
        {**DEFAULT, "enabled_oauth_providers": ["A" * 51]},
        {**DEFAULT, "enabled_oauth_providers": [f"P{number}" for number in range(51)]},
        {**DEFAULT, "schema_locked": True},
    ],
)
async def test_bad_auth_settings_are_refused(app: App, body: dict[str, Any]):
    async with owner_of(app).client(app) as console:
        assert_error(await console.put("/auth-settings", json=body), 400, "VALIDATION_FAILED")
        assert (await console.get("/auth-settings")).json() == DEFAULT


async def test_another_node_hears_of_new_auth_settings(app: App):
    async with (
        second_node(app.server) as node,
        client_of(node, **{"X-Public-Key": app.public_key}) as client,
    ):
        assert (await client.get("/v1/public/auth-settings")).json() == DEFAULT
        await set_auth(app, allow_guest_login=False)

        async def heard() -> bool:
            return (await client.get("/v1/public/auth-settings")).json()["allow_guest_login"] is False

        await until(heard)


async def test_every_limit_is_shown_with_the_servers(app: App):
    async with owner_of(app).client(app) as console:
        limits = (await console.get("/limits")).json()["limits"]
    assert set(limits) == set(Limits.__struct_fields__)
    assert limits["row_bytes"] == {
        "value": 1048576,
        "server_value": 1048576,
        "plan_value": None,
        "is_own": False,
        "is_settable": True,
        "unit": "bytes",
        "zero_is_unlimited": False,
    }
    assert limits["argon2_passes"]["is_settable"] is False
    # The test server's own, not the built-in default.
    assert limits["signup_per_minute"]["server_value"] == 100_000


async def test_an_app_sets_limits_and_takes_them_away(app: App):
    async with owner_of(app).client(app) as console:
        answer = await console.patch("/limits", json={"page_rows": 2, "tables": 5})
        assert answer.status_code == 200
        assert answer.json() == (await console.get("/limits")).json()
        assert answer.json()["limits"]["page_rows"] == {
            "value": 2,
            "server_value": 1000,
            "plan_value": None,
            "is_own": True,
            "is_settable": True,
            "unit": None,
            "zero_is_unlimited": False,
        }
        limits = (await console.patch("/limits", json={"page_rows": None})).json()["limits"]
        assert (limits["page_rows"]["value"], limits["page_rows"]["is_own"]) == (1000, False)
        assert limits["tables"]["value"] == 5
    assert [entry["details"] for entry in await the_log(app, action="limits.update")] == [
        {"page_rows": None},
        {"page_rows": 2, "tables": 5},
    ]


async def test_limits_hold_from_the_answer_on(app: App):
    table = await app.table({})
    for number in range(3):
        await app.row(table, {"number": number})
    data = f"/v1/public/tables/{table}/data"
    async with owner_of(app).client(app) as console, app.client() as client:
        assert len((await client.get(data)).json()["data"]) == 3
        await console.patch("/limits", json={"page_rows": 2, "row_bytes": 100, "password_min_length": 20, "tables": 1})
        listed = (await client.get(data)).json()
        assert (len(listed["data"]), listed["limit"], listed["total_count"]) == (2, 2, 3)
        assert (await client.post(data, json={"data": {"text": "x" * 100}})).status_code == 413
        assert (await client.post("/v1/public/app-members/signup", json=CREDENTIALS)).status_code == 400
        body = {"title": "one too many", "schema": {}, "access_level": "Public"}
        assert (await client.post("/v1/public/tables", json=body)).status_code == 409


async def test_an_apps_own_data_rate_limit_holds_for_it_alone(app: App, other_app: App):
    async with owner_of(app).client(app) as console:
        await console.patch("/limits", json={"data_per_minute": 3})
    async with app.client() as client:
        answers = [await client.get("/v1/public/tables") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[3].headers["retry-after"]) >= 1
    async with other_app.client() as client:
        assert (await client.get("/v1/public/tables")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"argon2_passes": 1},
        {"no_such_limit": 1},
        {"page_rows": 0},
        {"page_rows": -1},
        {"page_rows": "10"},
        {"page_rows": 1.5},
        {"page_rows": 10**12},
        {"columns": 201},
        {"password_min_length": 257},
        {"password_min_length": 7},
        {"password_min_length": 20, "password_max_length": 10},
        [],
    ],
)
async def test_bad_limits_are_refused(app: App, body: Any):
    async with owner_of(app).client(app) as console:
        before = (await console.get("/limits")).json()
        assert_error(await console.patch("/limits", json=body), 400, "VALIDATION_FAILED")
        assert (await console.get("/limits")).json() == before


async def test_parallel_changes_of_different_limits_are_all_kept(app: App):
    names = sorted(PER_APP - {"data_per_minute", "password_min_length", "body_bytes", "access_token_seconds"})
    async with owner_of(app).client(app) as console:
        before = (await console.get("/limits")).json()["limits"]
        wanted = {name: before[name]["value"] - 1 if before[name]["value"] else 500 for name in names}

        async def change(name: str) -> None:
            async def is_taken() -> bool:
                # A busy machine may answer 503: each waits for the one before.
                return (await console.patch("/limits", json={name: wanted[name]})).status_code == 200

            await until(is_taken)

        await asyncio.gather(*map(change, names))
        limits = (await console.get("/limits")).json()["limits"]
    assert {name: limits[name]["value"] for name in names} == wanted


async def test_a_viewer_reads_settings_and_an_editor_changes_them(app: App):
    viewer, editor = await user_with(app, "viewer"), await user_with(app, "editor")
    async with viewer.client(app) as console:
        assert (await console.get("/auth-settings")).status_code == 200
        assert (await console.get("/limits")).status_code == 200
        assert_error(await console.put("/auth-settings", json=DEFAULT), 403, "ROLE_REQUIRED")
        assert_error(await console.patch("/limits", json={"page_rows": 1}), 403, "ROLE_REQUIRED")
    async with editor.client(app) as console:
        assert (await console.put("/auth-settings", json=DEFAULT)).status_code == 200
        assert (await console.patch("/limits", json={"page_rows": 1})).status_code == 200
