"""Members' connections to clients, and their immediate end when members disconnect them."""

import httpx

from tests.oauth.browsing import Browser, Pkce, Provider, Registered, redeem, signed_in
from tests.receiver import Receiver
from tests.support import assert_error
from tests.waiting import until
from tests.webhooks.world import create, events

PATH = "/v1/account/oauth/connections"


async def asked(browser: Browser, method: str = "GET", path: str = PATH) -> httpx.Response:
    return await browser.http.request(method, path, headers={"Authorization": f"Bearer {browser.access_token}"})


async def test_a_member_sees_and_ends_its_connections(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="openid profile offline_access")
    pkce = Pkce()
    open_code = (await browser.approve(provider.authorize_url(club, pkce)))["code"]
    (found,) = (await asked(browser)).json()["data"]
    assert (found["client"]["name"], found["client"]["client_id"]) == ("Coffee club", club.client_id)
    assert sorted(one["name"] for one in found["scopes"]) == ["offline_access", "openid", "profile"]
    assert found["last_used_at"]
    await provider.app.member("eve")
    async with Browser(provider, "eve") as other:
        await other.sign_in()
        assert (await asked(other)).json()["data"] == []
        answer = await asked(other, "DELETE", f"{PATH}/{found['consent_id']}")
        assert_error(answer, 404, "CONSENT_NOT_FOUND")
    answer = await asked(browser, "DELETE", f"{PATH}/{found['consent_id']}")
    assert answer.json() == {"message": "Disconnected.", "id": found["consent_id"]}
    assert_error(await asked(browser, "DELETE", f"{PATH}/{found['consent_id']}"), 404, "CONSENT_NOT_FOUND")
    assert (await asked(browser)).json()["total_count"] == 0
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await browser.http.get("/oauth/userinfo", headers=bearer)).status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await provider.token(club, 400, **refresh))["error"] == "invalid_grant"
    assert (await redeem(provider, club, open_code, pkce, 400))["error"] == "invalid_grant"
    # The member is asked once more.
    assert await browser.begin(provider.authorize_url(club, Pkce()))


async def test_an_oauth_token_is_no_members_token(provider: Provider, club: Registered, browser: Browser):
    browser.access_token = (await signed_in(provider, club, browser))["access_token"]
    assert_error(await asked(browser), 401, "INVALID_TOKEN")


async def test_the_provider_hears_who_connects_and_who_leaves(provider: Provider, club: Registered, browser: Browser):
    async with Receiver.listening() as receiver:
        await create(provider.app, receiver.url(), ["oauth.*"])
        await signed_in(provider, club, browser, scope="openid")
        await until(lambda: len(receiver.received) == 1)
        (found,) = (await asked(browser)).json()["data"]
        # What is covered already is no news; further scopes are.
        await signed_in(provider, club, browser, scope="openid")
        await browser.approve(provider.authorize_url(club, Pkce(), prompt="consent", scope="openid"))
        await signed_in(provider, club, browser, scope="openid profile")
        await until(lambda: len(receiver.received) == 2)
        await asked(browser, "DELETE", f"{PATH}/{found['consent_id']}")
        await until(lambda: len(receiver.received) == 3)
        heard = sorted(events(receiver), key=lambda event: event["id"])
    member_id = heard[0]["actor"]["id"]
    about = {"consent_id": found["consent_id"], "client_id": club.client_id, "member_id": member_id}
    assert [(event["type"], event["data"]) for event in heard] == [
        ("oauth.connection.created", {**about, "scopes": ["openid"]}),
        ("oauth.connection.created", {**about, "scopes": ["openid", "profile"]}),
        ("oauth.connection.revoked", {**about, "scopes": ["openid", "profile"]}),
    ]
    assert {event["subject"] for event in heard} == {f"oauth/connections/{found['consent_id']}"}
    assert {event["actor"]["kind"] for event in heard} == {"member"}
