"""The settings of accounts, and sessions that await a proof."""

from typing import Any

import pytest

from tests.accounts.authenticator import enrolled, finish
from tests.console import owner_of
from tests.mail.world import MEMBERS, PASSWORD, account, call, mails, post, sign_in, sign_up, verified
from tests.support import App, assert_error

ADA = "ada@example.com"


async def settings(app: App, **change: Any) -> dict[str, Any]:
    return await call(app, "PATCH", "/account-settings", json=change)


class TestSettings:
    async def test_a_change_keeps_the_rest_and_is_shown_to_pages(self, app: App):
        before = await call(app, "GET", "/account-settings")
        after = await settings(app, email_verification="required", methods={"email_code": True})
        changed = {"email_verification": "required", "methods": {**before["methods"], "email_code": True}}
        assert after == {**before, **changed} == await call(app, "GET", "/account-settings")
        async with app.client() as client:
            shown = (await client.get("/v1/public/account-settings")).json()
        # Which functions decide is the app's own affair.
        for name in ("hooks", "impersonation", "on_sign_up", "team_second_factor", "urls"):
            del after[name]
        after["challenge"] = {name: after["challenge"][name] for name in ("provider", "site_key")}
        assert shown == {
            **after,
            "pages_url": f"{app.server.url}/account/{app.app_id}",
            "guests": True,
            "providers": [],
            "password_min_length": 8,
            "password_max_length": 256,
        }

    async def test_passwords_are_one_setting_with_two_names(self, app: App):
        await settings(app, methods={"password": False})
        assert (await call(app, "GET", "/auth-settings"))["allow_id_password_login"] is False
        assert_error(await sign_in(app, "ada", PASSWORD), 403, "LOGIN_DISABLED")

    @pytest.mark.parametrize(
        "change", [{"sign_up": "maybe"}, {"methods": {"sms": True}}, {"methods": {"password": None}}, {"level": 2}]
    )
    async def test_what_is_not_a_setting_is_refused(self, app: App, change: dict[str, Any]):
        async with owner_of(app).client(app) as client:
            assert_error(await client.patch("/account-settings", json=change), 400, "VALIDATION_FAILED")

    async def test_closed_means_that_nobody_makes_itself(self, app: App):
        async with app.client() as client:
            guest = (await client.post(MEMBERS)).json()
        await settings(app, sign_up="closed")
        new = {"login_id": "ada", "password": PASSWORD}
        assert_error(await post(app, "/signup", new), 403, "SIGN_UP_CLOSED")
        assert_error(await post(app, "/signup", new, guest["access_token"]), 403, "SIGN_UP_CLOSED")
        assert_error(await post(app, "", None), 403, "SIGN_UP_CLOSED")
        async with owner_of(app).client(app) as client:
            assert (await client.post("/members", json=new)).status_code == 201
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 200

    async def test_a_login_id_may_have_to_be_an_address(self, app: App):
        await settings(app, login_id_form="email")
        answer = await post(app, "/signup", {"login_id": "ada", "password": PASSWORD})
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["code"] == "INVALID_EMAIL"
        ada = await sign_up(app, "Ada@Example.com")
        # Mail goes where the address was typed, and no case of its letters makes another one.
        assert (await mails(app, 1))[0]["recipient"] == "Ada@Example.com"
        again = await post(app, "/signup", {"login_id": ADA, "password": PASSWORD})
        assert_error(again, 409, "LOGIN_ID_TAKEN")
        assert (await sign_in(app, "ADA@example.com", PASSWORD)).json()["member_id"] == ada["member_id"]

    async def test_without_verification_no_address_is_accepted(self, app: App):
        await settings(app, email_verification="off")
        answer = await post(app, "/signup", {"login_id": "ada", "password": PASSWORD, "email": ADA})
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["code"] == "NOT_ACCEPTED"
        ada = await sign_up(app, "ada")
        assert_error(await post(app, "/me/email", {"email": ADA}, ada["access_token"]), 400, "VALIDATION_FAILED")


class TestBan:
    async def test_ends_sessions_and_every_way_in_until_it_is_over(self, app: App):
        """A06: also a sign-in that waits for a second factor."""
        await settings(app, second_factor="optional", methods={"email_code": True})
        ada = await verified(app, "ada", ADA)
        asked = (await post(app, "/email-sign-in", {"email": ADA})).json()
        code = (await mails(app, 1, purpose="sign_in"))[0]["code"]
        path = f"/members/{ada['member_id']}"
        until = "2999-01-01T00:00:00.000Z"
        banned = await call(app, "PATCH", path, json={"banned_until": until, "ban_reason": "Spam"})
        assert (banned["banned_until"], banned["ban_reason"], banned["sessions"]) == (until, "Spam", 0)
        for token in (ada["access_token"], ada["refresh_token"]):
            async with app.client(token) as client:
                assert (await client.get(f"{MEMBERS}/me")).status_code == 401
                assert (await client.post("/v1/auth/re-issue")).status_code == 401
        assert assert_error(await sign_in(app, "ada", PASSWORD), 403, "MEMBER_BANNED")["until"] == until
        mailed = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": code})
        assert_error(mailed, 403, "MEMBER_BANNED")
        assert_error(await sign_in(app, "ada", "wrong password"), 401, "INVALID_CREDENTIALS")
        await call(app, "PATCH", path, json={"banned_until": None})
        ada = (await sign_in(app, "ada", PASSWORD)).json()
        await enrolled(app, ada["access_token"])
        ticket = assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")["ticket"]
        await call(app, "PATCH", path, json={"banned_until": until})
        factor = await finish(app, ticket, recovery_code="AAAAA-AAAAA")
        assert_error(factor, 401, "INVALID_SECOND_FACTOR")
        await call(app, "PATCH", path, json={"banned_until": "2020-01-01T00:00:00Z"})
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")
        async with owner_of(app).client(app) as client:
            assert_error(await client.patch(path, json={"banned_until": "soon"}), 400, "VALIDATION_FAILED")


class TestProvisional:
    async def test_a_session_waits_for_the_address(self, app: App):
        """Outside of the member's own account it is refused, also after a refresh and by requests that only read."""
        table = await app.table({})
        await settings(app, email_verification="required")
        answer = await post(app, "/signup", {"login_id": "ada", "password": PASSWORD})
        assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == "email"
        ada = await sign_up(app, "ada", ADA)
        async with app.client(ada["refresh_token"]) as client:
            renewed = (await client.post("/v1/auth/re-issue")).json()
        second = (await sign_in(app, "ada", PASSWORD)).json()
        path = f"/v1/public/tables/{table}/data"
        for token in (ada["access_token"], renewed["access_token"], second["access_token"]):
            async with app.client(token) as client:
                assert_error(await client.get(path), 403, "EMAIL_NOT_VERIFIED")
                assert_error(await client.post(path, json={"data": {}}), 403, "EMAIL_NOT_VERIFIED")
                assert_error(await client.get("/v1/account/oauth/connections"), 403, "EMAIL_NOT_VERIFIED")
                assert (await client.get(f"{MEMBERS}/me")).status_code == 200
        (mail,) = await mails(app, 1)
        answer = await post(app, "/me/email/confirm", {"code": mail["code"]}, ada["access_token"])
        assert answer.status_code == 200
        async with app.client(second["access_token"]) as client:
            assert (await client.get(path)).status_code == 200
        # A sign-in of a member with an address is as any other.
        third = (await sign_in(app, "ada", PASSWORD)).json()
        async with app.client(third["access_token"]) as client:
            assert (await client.get(path)).status_code == 200
            assert (await client.post(f"{MEMBERS}/signout")).status_code == 200

    async def test_guests_and_living_sessions_go_on(self, app: App):
        table = await app.table({})
        ada = await sign_up(app, "ada")
        eve = await verified(app, "eve", "eve@example.com")
        await settings(app, email_verification="required")
        async with app.client() as client:
            guest = (await client.post(MEMBERS)).json()
        for member in (ada, eve, guest):
            async with app.client(member["access_token"]) as client:
                assert (await client.get(f"/v1/public/tables/{table}/data")).status_code == 200
        assert (await account(app, ada["access_token"]))["email"] is None
        # The next sign-in has to prove an address, and gets it by `me/email`.
        later = (await sign_in(app, "ada", PASSWORD)).json()
        async with app.client(later["access_token"]) as client:
            assert_error(await client.get(f"/v1/public/tables/{table}/data"), 403, "EMAIL_NOT_VERIFIED")
        assert (await post(app, "/me/email", {"email": ADA}, later["access_token"])).status_code == 202
