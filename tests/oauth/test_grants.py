"""The routes by which an app's team sees and revokes grants, and sees the keys that sign tokens."""

import uuid
from typing import Any

from tests.backstage import run_sql
from tests.console import owner_of, the_log, user_with
from tests.oauth.browsing import Browser, Pkce, Provider, Registered, redeem, signed_in
from tests.support import assert_error


async def listed(provider: Provider, **query: str) -> list[dict[str, Any]]:
    """The page of grants that the console gets."""
    async with owner_of(provider.app).client(provider.app) as console:
        answer = await console.get("/oauth/grants", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total_count"] == len(answer.json()["data"])
    return answer.json()["data"]


async def test_a_grant_is_listed_and_revoked_with_its_tokens(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="openid profile offline_access")
    (grant,) = await listed(provider)
    assert grant["client"] == {"client_id": club.client_id, "name": "Coffee club"}
    assert (grant["is_active"], grant["is_offline"], grant["is_bound"]) == (True, True, False)
    assert sorted(grant["scopes"]) == ["offline_access", "openid", "profile"]
    assert grant["last_used_at"]
    assert grant["revoked_at"] is None

    async with owner_of(provider.app).client(provider.app) as console:
        path = f"/oauth/grants/{grant['grant_id']}"
        assert (await console.delete(path)).json() == {"message": "Grant revoked.", "id": grant["grant_id"]}
        assert_error(await console.delete(path), 404, "OAUTH_GRANT_NOT_FOUND")
        assert_error(await console.delete(f"/oauth/grants/{uuid.uuid4()}"), 404, "OAUTH_GRANT_NOT_FOUND")
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await browser.http.get("/oauth/userinfo", headers=bearer)).status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await provider.token(club, 400, **refresh))["error"] == "invalid_grant"
    (grant,) = await listed(provider)
    assert (grant["is_active"], grant["revoke_reason"]) == (False, "revoked_by_app")
    (entry, *_) = await the_log(provider.app, action="oauth_grant.revoke")
    assert entry["details"]["client_id"] == club.client_id
    # The consent stays: the next sign-in shows no page.
    pkce = Pkce()
    await redeem(provider, club, (await browser.approve(provider.authorize_url(club, pkce)))["code"], pkce)


async def test_a_code_of_a_revoked_grant_cannot_be_exchanged(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    code = (await browser.approve(provider.authorize_url(club, pkce)))["code"]
    (grant,) = await listed(provider)
    assert grant["last_used_at"] is None
    async with owner_of(provider.app).client(provider.app) as console:
        assert (await console.delete(f"/oauth/grants/{grant['grant_id']}")).status_code == 200
    assert (await redeem(provider, club, code, pkce, 400))["error"] == "invalid_grant"


async def test_grants_of_one_client_or_member(provider: Provider, club: Registered, browser: Browser):
    other = await provider.client(name="Tea club")
    await signed_in(provider, club, browser)
    await signed_in(provider, other, browser)
    await provider.app.member("eve")
    async with Browser(provider, "eve") as second:
        await signed_in(provider, other, second)
    assert [grant["client"]["name"] for grant in await listed(provider)] == ["Tea club", "Tea club", "Coffee club"]
    assert len(await listed(provider, client_id=other.client_id)) == 2
    (newest, ada, _) = await listed(provider)
    assert newest["member"]["member_id"] != ada["member"]["member_id"]
    assert len(await listed(provider, member_id=ada["member"]["member_id"])) == 2
    assert len(await listed(provider, member_id=newest["member"]["member_id"], client_id=club.client_id)) == 0
    async with owner_of(provider.app).client(provider.app) as console:
        page = (await console.get("/oauth/grants", params={"limit": 1, "offset": 1})).json()
    assert (page["total_count"], [grant["grant_id"] for grant in page["data"]]) == (3, [ada["grant_id"]])


async def test_a_grant_that_ends_with_its_session_is_no_longer_active(
    provider: Provider, club: Registered, browser: Browser
):
    await signed_in(provider, club, browser)
    await run_sql(
        provider.app.server, "update pilotis.sessions set revoked_at = now() where app_id = $1", provider.app.app_id
    )
    (grant,) = await listed(provider)
    assert (grant["is_active"], grant["revoked_at"]) == (False, None)


async def test_viewers_list_and_editors_revoke(provider: Provider, club: Registered, browser: Browser):
    await signed_in(provider, club, browser)
    (grant,) = await listed(provider)
    viewer = await user_with(provider.app, "viewer")
    async with viewer.client(provider.app) as console:
        assert (await console.get("/oauth/grants")).status_code == 200
        assert_error(await console.delete(f"/oauth/grants/{grant['grant_id']}"), 403, "ROLE_REQUIRED")


async def test_the_keys_are_those_of_the_key_set(provider: Provider, browser: Browser):
    viewer = await user_with(provider.app, "viewer")
    published = (await browser.visit("/.well-known/jwks.json")).json()["keys"]
    async with viewer.client(provider.app) as console:
        answer = (await console.get("/oauth/keys")).json()
        none = (await console.get("/oauth/keys", params={"limit": 0})).json()
    (key,) = answer["data"]
    assert [key["kid"]] == [one["kid"] for one in published]
    assert (key["state"], key["source"], key["created_at"]) == ("signing", "setting", None)
    assert (answer["total_count"], none["total_count"], none["data"]) == (1, 1, [])
