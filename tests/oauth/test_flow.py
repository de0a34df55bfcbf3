"""The authorization code flow from end to end."""

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.backstage import claims_of
from tests.oauth.browsing import Browser, Provider, Registered, signed_in


async def keys_of(provider: Provider) -> KeySet:
    async with httpx.AsyncClient() as client:
        return KeySet.import_key_set((await client.get(f"{provider.url}/.well-known/jwks.json")).json())


async def test_a_member_signs_in_with_a_program(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="openid profile email", nonce="n-1")
    assert set(tokens) == {"access_token", "token_type", "expires_in", "scope", "refresh_token", "id_token"}
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 600)
    keys = await keys_of(provider)
    identity = jwt.decode(tokens["id_token"], keys, algorithms=["RS256"])
    access = jwt.decode(tokens["access_token"], keys, algorithms=["RS256"])
    member = (
        await browser.http.get("/v1/public/app-members/me", headers={"Authorization": f"Bearer {browser.access_token}"})
    ).json()
    assert access.header["typ"] == "at+jwt"
    assert identity.claims["aud"] == identity.claims["azp"] == club.client_id
    assert identity.claims["nonce"] == "n-1"
    assert identity.claims["iss"] == access.claims["iss"] == provider.url
    assert identity.claims["sub"] == access.claims["sub"] == member["member_id"]
    assert access.claims["aud"] == [f"{provider.url}/apps/{provider.app.app_id}", provider.url]
    assert identity.claims["sid"] == access.claims["sid"] == claims_of(browser.access_token)["sid"]
    assert identity.claims["auth_time"] <= identity.claims["iat"]
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    answer = await browser.http.get("/oauth/userinfo", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["sub"] == member["member_id"]


async def test_a_client_finds_claims_in_its_id_tokens_if_it_asks_to(provider: Provider, browser: Browser):
    """Some programs read the profile from the ID token alone."""
    scopes = ["openid", "profile", "email", "offline_access"]
    await browser.sign_in()
    async with provider.app.client(browser.access_token) as client:
        assert (await client.patch("/v1/public/app-members/me", json={"nickname": "Ada"})).status_code == 200
    for asked in (True, False):
        made = await provider.client(claims_in_id_token=asked, scopes=scopes)
        tokens = await signed_in(provider, made, browser, scope=" ".join(scopes))
        identity = claims_of(tokens["id_token"])
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        shared = (await browser.http.get("/oauth/userinfo", headers=bearer)).json()
        assert {"name", "nickname", "updated_at", "sub"} <= set(shared)
        assert identity["sub"] == shared["sub"]
        there = {name: identity[name] for name in shared if name in identity and name != "sub"}
        assert there == ({name: shared[name] for name in shared if name != "sub"} if asked else {})
        refreshed = await provider.token(made, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
        assert ("nickname" in claims_of(refreshed["id_token"])) is asked
