"""What a member sees of its accounts at vendors, and how it parts with them."""

from collections.abc import Iterator

import httpx
import pytest

from tests.accounts.test_factors import age
from tests.mail.world import MEMBERS, call, post, sign_up
from tests.oauth.test_id_token_sign_in import enable, pressed
from tests.oauth.vendors import Vendors, vendors
from tests.support import App, assert_error

IDENTITIES = f"{MEMBERS}/me/identities"


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as running:
        yield running


async def unlink(app: App, token: str, provider: str = "google") -> httpx.Response:
    async with app.client(token) as client:
        return await client.delete(f"{IDENTITIES}/{provider}")


async def test_a_member_lists_and_unlinks_its_own(app: App, vendor: Vendors):
    await enable(app, vendor)
    joan = await sign_up(app, "joan")
    token = (await pressed(app, vendor, joan["access_token"]))["access_token"]
    async with app.client(token) as client:
        (found,) = (await client.get(IDENTITIES)).json()["identities"]
    assert (found["provider"], found["email"]) == ("GOOGLE", "ada@example.test")
    eve = await sign_up(app, "eve")
    assert_error(await unlink(app, eve["access_token"]), 404, "IDENTITY_NOT_FOUND")
    await age(app, joan)
    assert_error(await unlink(app, token), 403, "REAUTHENTICATION_REQUIRED")
    await post(app, "/me/reauthenticate", {"password": "correct horse"}, token)
    assert (await unlink(app, token)).json() == {"message": "Account unlinked.", "name": "GOOGLE"}
    # The session goes on; the vendor's account makes another member now.
    async with app.client(token) as client:
        assert (await client.get(IDENTITIES)).json() == {"identities": []}
    assert (await pressed(app, vendor, status=201))["member_id"] != joan["member_id"]
    (entry,) = (await call(app, "GET", "/audit-log", params={"action": "member.unlink"}))["data"]
    assert (entry["actor_kind"], entry["target"]) == ("member", joan["member_id"])


async def test_the_last_way_in_stays(app: App, vendor: Vendors):
    await enable(app, vendor)
    ada = await pressed(app, vendor, status=201)
    assert_error(await unlink(app, ada["access_token"]), 409, "LAST_WAY_IN")
    assert (await pressed(app, vendor))["member_id"] == ada["member_id"]
    # The address that Google has verified is another way, once the app takes mails.
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
    assert (await unlink(app, ada["access_token"])).status_code == 200
