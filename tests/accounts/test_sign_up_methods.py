"""An app names the ways by which members make themselves; who is a member already signs in by any."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.console import owner_of
from tests.mail.world import PASSWORD, account, call, mails, post, sign_in, sign_up, verified
from tests.oauth.test_id_token_sign_in import enable, press, pressed
from tests.oauth.vendors import Person, Vendors, vendors
from tests.support import App, assert_error

ALL = ["password", "email", "social", "guest"]


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as running:
        yield running


async def settings(app: App, **change: Any) -> dict[str, Any]:
    return await call(app, "PATCH", "/account-settings", json=change)


async def test_new_members_come_by_a_vendor_alone_and_others_sign_in_as_ever(app: App, vendor: Vendors):
    await enable(app, vendor)
    await settings(app, methods={"email_code": True})
    guest = (await post(app, "", None)).json()
    ada = await verified(app, "ada", "ada@example.com")
    changed = await settings(app, sign_up_methods=["social"])
    assert (changed["sign_up"], changed["sign_up_methods"]) == ("open", ["social"])
    new = {"login_id": "eve", "password": PASSWORD}
    refused = assert_error(await post(app, "/signup", new), 403, "SIGN_UP_CLOSED")
    assert refused["message"] == "Nobody can sign up for this app with a password."
    # A guest becomes a member by these ways, too.
    assert_error(await post(app, "/signup", new, guest["access_token"]), 403, "SIGN_UP_CLOSED")
    assert_error(await post(app, "", None), 403, "SIGN_UP_CLOSED")
    # The answer does not tell whose address is known; only a member gets a mail.
    for email in ("eve@example.com", "ada@example.com"):
        assert (await post(app, "/email-sign-in", {"email": email})).status_code == 202
    assert [mail["recipient"] for mail in await mails(app, 2)] == ["ada@example.com"] * 2
    assert (await sign_in(app, "ada", PASSWORD)).json()["member_id"] == ada["member_id"]
    assert (await pressed(app, vendor, guest["access_token"]))["member_id"] == guest["member_id"]
    vendor.person = Person(subject="2", email=None)
    await pressed(app, vendor, status=201)


async def test_a_link_that_was_mailed_before_makes_no_member_after(app: App, vendor: Vendors):
    await enable(app, vendor)
    await settings(app, methods={"email_code": True})
    asked = (await post(app, "/email-sign-in", {"email": "eve@example.com"})).json()
    code = (await mails(app, 1))[0]["code"]
    await settings(app, sign_up_methods=["password", "guest"])
    confirmation = {"ticket": asked["ticket"], "code": code}
    assert_error(await post(app, "/email-sign-in/confirm", confirmation), 403, "SIGN_UP_CLOSED")
    assert_error(await press(app, vendor), 403, "SIGN_UP_CLOSED")
    # A member links what is no way to sign up.
    joan = await sign_up(app, "joan")
    assert (await pressed(app, vendor, joan["access_token"]))["member_id"] == joan["member_id"]
    guest = (await post(app, "", None)).json()
    vendor.person = Person(subject="2", email=None)
    assert_error(await press(app, vendor, guest["access_token"]), 403, "SIGN_UP_CLOSED")
    assert (await account(app, guest["access_token"]))["is_guest"] is True


async def test_each_way_is_named_once_and_at_least_one(app: App):
    assert (await settings(app))["sign_up_methods"] == ALL
    assert (await settings(app, sign_up_methods=["guest", "password", "guest"]))["sign_up_methods"] == [
        "password",
        "guest",
    ]
    async with app.client() as client:
        shown = (await client.get("/v1/public/account-settings")).json()
        assert shown["sign_up_methods"] == ["password", "guest"]
        pages = await client.get(f"/account/{app.app_id}/sign-in")
        assert '"sign_up":true' in pages.text.replace(" ", "")
        await settings(app, sign_up_methods=["guest"])
        pages = await client.get(f"/account/{app.app_id}/sign-in")
        assert '"sign_up":false' in pages.text.replace(" ", "")
    async with owner_of(app).client(app) as owner:
        for wrong in ([], ["passkey"], None, "password"):
            answer = await owner.patch("/account-settings", json={"sign_up_methods": wrong})
            assert_error(answer, 400, "VALIDATION_FAILED")
