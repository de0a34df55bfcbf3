"""The app's team finds members, gives them addresses, and mails them links for new passwords."""

from typing import Any

import pytest

from tests.accounts.authenticator import enrolled
from tests.accounts.test_imports import imported
from tests.console import owner_of
from tests.mail.world import NEW_PASSWORD, call, mails, post, sign_in, sign_up, token_of, verified
from tests.support import App, assert_error


async def found(app: App, **query: Any) -> list[str]:
    page = await call(app, "GET", "/members", params=query)
    assert page["total_count"] == len(page["data"])
    return sorted(one["login_id"] for one in page["data"])


async def test_members_are_found_by_what_is_known_of_them(app: App):
    await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
    ada = await verified(app, "ada", "Ada@example.com")
    bob = await sign_up(app, "bob")
    await enrolled(app, ada["access_token"])
    await call(app, "PATCH", f"/members/{bob['member_id']}", json={"roles": ["staff"]})
    identity = [{"provider": "GOOGLE", "subject": "1"}]
    await imported(app, {"login_id": "old", "identities": identity, "created_at": "2020-01-01T00:00:00Z"})
    async with owner_of(app).client(app) as client:
        team = (await client.post("/teams", json={"name": "Owls"})).json()["team_id"]
        added = await client.put(f"/teams/{team}/members/{bob['member_id']}", json={"roles": []})
        assert added.status_code == 200, added.text
    assert await found(app, email="ADA@example.com") == ["ada"]
    assert await found(app, email="da@example.com") == []
    assert await found(app, search="da@exam") == ["ada"]
    assert await found(app, role="staff") == ["bob"]
    assert await found(app, provider="GOOGLE") == ["old"]
    assert await found(app, factor="totp") == ["ada"]
    assert await found(app, team_id=team) == ["bob"]
    assert await found(app, created_after="2021-01-01T00:00:00Z") == ["ada", "bob"]
    assert await found(app, active_after="2999-01-01T00:00:00Z") == []
    assert await found(app, role="staff", provider="GOOGLE") == []


@pytest.mark.parametrize("query", [{"created_after": "soon"}, {"factor": "sms"}, {"team_id": "x"}, {"role": "Röle"}])
async def test_a_filter_that_is_none_is_refused(app: App, query: dict[str, str]):
    async with owner_of(app).client(app) as client:
        assert (await client.get("/members", params=query)).status_code == 400


async def test_an_address_that_the_team_vouches_for_is_verified_and_nobody_elses(app: App):
    ada, eve = await sign_up(app, "ada"), await sign_up(app, "eve", "ada@example.com")
    (mail,) = await mails(app, 1)
    path = f"/members/{ada['member_id']}"
    assert (await call(app, "PATCH", path, json={"email": "ada@example.com"}))["email"] == "ada@example.com"
    # Whoever only claimed it has nothing.
    claim = await post(app, "/me/email/confirm", {"code": mail["code"]}, eve["access_token"])
    assert_error(claim, 401, "INVALID_MAIL_CODE")
    async with owner_of(app).client(app) as client:
        taken = await client.patch(f"/members/{eve['member_id']}", json={"email": "ADA@example.com"})
        assert_error(taken, 409, "EMAIL_TAKEN")
        assert_error(await client.patch(path, json={"email": "a@b@c"}), 400, "VALIDATION_FAILED")
    assert (await call(app, "PATCH", path, json={"email": None}))["email"] is None


async def test_the_team_mails_a_reset(app: App):
    ada, bob = await verified(app, "ada", "ada@example.com"), await sign_up(app, "bob")
    async with owner_of(app).client(app) as client:
        assert (await client.post(f"/members/{ada['member_id']}/mail-reset")).status_code == 202
        assert_error(await client.post(f"/members/{bob['member_id']}/mail-reset"), 409, "MEMBER_HAS_NO_EMAIL")
    (mail,) = await mails(app, 1, purpose="reset_password")
    body = {"token": token_of(mail), "password": NEW_PASSWORD}
    assert (await post(app, "/password-reset/confirm", body)).status_code == 200
    assert (await sign_in(app, "ada", NEW_PASSWORD)).status_code == 200
