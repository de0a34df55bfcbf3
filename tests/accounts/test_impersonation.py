"""The app's team acts as a member with a reason that stays, and takes nothing of its account."""

from typing import Any

import httpx

from tests.console import owner_of, the_log
from tests.mail.world import MEMBERS, PASSWORD, call, post, sign_in, sign_up
from tests.support import App, assert_error

REASON = "Ticket 17: no orders are shown."


async def impersonate(app: App, member: dict[str, Any], **body: Any) -> httpx.Response:
    async with owner_of(app).client(app) as client:
        return await client.post(f"/members/{member['member_id']}/impersonate", json={"reason": REASON, **body})


async def allow(app: App) -> None:
    await call(app, "PATCH", "/account-settings", json={"impersonation": "owner"})


class TestImpersonation:
    async def test_it_sees_and_does_what_the_member_may_and_leaves_a_trail(self, app: App):
        ada = await sign_up(app, "ada")
        assert_error(await impersonate(app, ada), 403, "IMPERSONATION_NOT_ALLOWED")
        await allow(app)
        table = await app.table({"n": "number"}, access_level="Creator")
        answer = await impersonate(app, ada, seconds=60)
        assert answer.status_code == 200, answer.text
        token = answer.json()["access_token"]
        async with app.client(token) as client:
            made = await client.post(f"/v1/public/tables/{table}/data", json={"data": {"n": 1}})
            assert (made.status_code, made.json()["created_by"]) == (201, ada["member_id"])
            assert (await client.get(f"{MEMBERS}/me/account")).json()["login_id"] == "ada"
            own = (await client.get(f"{MEMBERS}/me/sessions")).json()["sessions"]
        (shown,) = [one for one in own if one["methods"] == ["impersonation"]]
        assert shown["session_id"] == answer.json()["session_id"]
        (entry,) = await the_log(app, action="member.impersonate")
        assert (entry["details"]["reason"], entry["target"]) == (REASON, ada["member_id"])
        # The member ends it.
        async with app.client(ada["access_token"]) as client:
            await client.delete(f"{MEMBERS}/me/sessions/{shown['session_id']}")
        async with app.client(token) as client:
            assert (await client.get(f"{MEMBERS}/me")).status_code == 401

    async def test_a13_nothing_of_the_account_and_no_way_on(self, app: App):
        await allow(app)
        await call(app, "PATCH", "/account-settings", json={"second_factor": "optional", "methods": {"passkey": True}})
        await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": ["https://app.example.com/"]})
        ada = await sign_up(app, "ada")
        token = (await impersonate(app, ada)).json()["access_token"]
        code = {"redirect_uri": "https://app.example.com/", "code_challenge": "x" * 43}
        for method, path, body in (
            ("POST", "/me/totp", None),
            ("POST", "/me/passkeys/start", None),
            ("POST", "/me/email", {"email": "eve@example.com"}),
            ("PUT", "/me/password", {"password": "battery staple"}),
            ("PATCH", "/me/password", {"current_password": PASSWORD, "new_password": "battery staple"}),
            ("PATCH", "/me", {"nickname": "Eve"}),
            ("PATCH", "/me/custom-data", {"custom_data": {}}),
            ("POST", "/me/reauthenticate", {"password": PASSWORD}),
            ("POST", "/me/sessions/end-others", None),
            ("POST", "/me/export", None),
            ("POST", "/me/sign-in-code", code),
            ("DELETE", "/me", {"password": PASSWORD}),
        ):
            async with app.client(token) as client:
                answer = await client.request(method, f"{MEMBERS}{path}", json=body)
                assert_error(answer, 403, "IMPERSONATION_NOT_ALLOWED")
        async with app.client(token) as client:
            consent = await client.post("/v1/oauth/consent/approve", json={"request_id": "x"})
            assert_error(consent, 403, "IMPERSONATION_NOT_ALLOWED")
            assert (await client.post("/v1/auth/re-issue")).status_code == 401
            again = await client.post(f"/v1/apps/{app.app_id}/members/{ada['member_id']}/impersonate", json={})
            assert again.status_code == 401
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200

    async def test_who_may_and_with_what(self, app: App, other_app: App):
        await allow(app)
        ada, eve = await sign_up(app, "ada"), await sign_up(other_app, "eve")
        assert_error(await impersonate(app, eve), 404, "MEMBER_NOT_FOUND")
        for body in ({"reason": ""}, {"reason": None}, {"seconds": 901}, {"seconds": 0}):
            assert_error(await impersonate(app, ada, **body), 400, "VALIDATION_FAILED")
        path = f"/v1/apps/{app.app_id}/members/{ada['member_id']}/impersonate"
        for token in (app.secret_key, ada["access_token"]):
            async with app.client(token) as client:
                assert (await client.post(path, json={"reason": REASON})).status_code == 401
        guest = (await post(app, "", None)).json()
        token = (await impersonate(app, guest)).json()["access_token"]
        promoted = await post(app, "/signup", {"login_id": "mine", "password": PASSWORD}, token)
        assert_error(promoted, 403, "IMPERSONATION_NOT_ALLOWED")
