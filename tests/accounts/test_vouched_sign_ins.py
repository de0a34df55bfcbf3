"""The app's own server signs a member in by a key that an owner has made for it, and the gate decides as ever."""

from typing import Any

import httpx
import pytest

from tests.accounts.authenticator import code as totp
from tests.accounts.authenticator import enrolled, finish
from tests.accounts.test_sign_in_codes import CHALLENGE, exchange
from tests.console import owner_of, user_with
from tests.mail.world import MEMBERS, account, call, sign_up
from tests.support import App, assert_error


@pytest.fixture
async def key(app: App) -> str:
    """A secret key that may sign members in."""
    async with owner_of(app).client(app) as owner:
        made = await owner.post("/keys/secret", json={"name": "Site", "may_sign_in_members": True})
    assert (made.status_code, made.json()["may_sign_in_members"]) == (201, True)
    return made.json()["key"]


async def ask(app: App, key: str, member_id: str, **change: Any) -> httpx.Response:
    async with app.client(key) as client:
        path = f"/v1/apps/{app.app_id}/members/{member_id}/sign-in-code"
        return await client.post(path, json={"code_challenge": CHALLENGE, **change})


async def code_for(app: App, key: str, member_id: str) -> str:
    answer = await ask(app, key, member_id)
    assert answer.status_code == 200, answer.text
    assert answer.json()["expires_in"] == 60
    return answer.json()["code"]


async def test_a_page_is_signed_in_and_everybody_can_see_how(app: App, key: str):
    ada = await sign_up(app, "ada")
    code = await code_for(app, key, ada["member_id"])
    assert_error(await exchange(app, code, "w" * 64), 400, "INVALID_CODE")
    taken = await exchange(app, code)
    assert taken.status_code == 200, taken.text
    assert (taken.json()["member_id"], taken.json()["provider"]) == (ada["member_id"], "app")
    async with app.client(taken.json()["access_token"]) as client:
        sessions = (await client.get(f"{MEMBERS}/me/sessions")).json()["sessions"]
    (current,) = [one for one in sessions if one["is_current"]]
    assert (current["methods"], current["level"]) == (["app"], 1)
    (entry,) = (await call(app, "GET", "/audit-log", params={"action": "member.sign_in_code"}))["data"]
    assert (entry["target"], entry["actor_kind"]) == (ada["member_id"], "secret_key")
    # Somebody else has the code too: the session that it began ends.
    assert_error(await exchange(app, code), 400, "INVALID_CODE")
    async with app.client(taken.json()["access_token"]) as client:
        assert (await client.get(f"{MEMBERS}/me")).status_code == 401


async def test_the_gate_decides_at_the_exchange(app: App, key: str):
    await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
    ada = await sign_up(app, "ada")
    secret, _ = await enrolled(app, ada["access_token"])
    asked = await exchange(app, await code_for(app, key, ada["member_id"]))
    assert_error(asked, 401, "SECOND_FACTOR_REQUIRED")
    done = await finish(app, asked.json()["ticket"], totp=totp(secret, 1))
    assert (await account(app, done.json()["access_token"]))["member_id"] == ada["member_id"]
    code = await code_for(app, key, ada["member_id"])
    await call(app, "PATCH", f"/members/{ada['member_id']}", json={"banned_until": "2999-01-01T00:00:00Z"})
    assert_error(await exchange(app, code), 403, "MEMBER_BANNED")
    assert_error(await ask(app, key, ada["member_id"]), 403, "MEMBER_BANNED")


async def test_only_a_key_that_an_owner_has_made_for_it(app: App, other_app: App, key: str):
    ada = await sign_up(app, "ada")
    assert_error(await ask(app, app.secret_key, ada["member_id"]), 403, "SIGN_IN_NOT_ALLOWED")
    assert (await ask(app, ada["access_token"], ada["member_id"])).status_code in {401, 403}
    async with owner_of(app).client(app) as owner:
        answer = await owner.post(f"/members/{ada['member_id']}/sign-in-code", json={"code_challenge": CHALLENGE})
        assert answer.status_code in {401, 403}
        viewer = await owner.post("/keys/secret", json={"name": "V", "role": "viewer", "may_sign_in_members": True})
        listed = (await owner.get("/keys/secret")).json()["data"]
    assert {one["name"]: one["may_sign_in_members"] for one in listed} == {"first": False, "Site": True, "V": True}
    assert (await ask(app, viewer.json()["key"], ada["member_id"])).status_code == 403
    async with other_app.client(key) as client:
        path = f"/v1/apps/{other_app.app_id}/members/{ada['member_id']}/sign-in-code"
        assert (await client.post(path, json={"code_challenge": CHALLENGE})).status_code in {401, 404}
    eve = await sign_up(other_app, "eve")
    assert_error(await ask(app, key, eve["member_id"]), 404, "MEMBER_NOT_FOUND")
    assert_error(await ask(app, key, "nobody"), 404, "MEMBER_NOT_FOUND")
    assert_error(await ask(app, key, ada["member_id"], code_challenge="x" * 50), 400, "VALIDATION_FAILED")
    (site,) = [one for one in listed if one["name"] == "Site"]
    async with owner_of(app).client(app) as owner:
        assert (await owner.delete(f"/keys/secret/{site['key_id']}")).status_code == 200
    assert_error(await ask(app, key, ada["member_id"]), 401, "INVALID_SECRET_KEY")


async def test_an_editor_makes_no_such_key(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as client:
        refused = await client.post("/keys/secret", json={"name": "Site", "may_sign_in_members": True})
        assert_error(refused, 403, "ROLE_REQUIRED")
        assert (await client.post("/keys/secret", json={"name": "Site"})).json()["may_sign_in_members"] is False
