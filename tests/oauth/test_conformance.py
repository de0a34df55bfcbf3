"""What the conformance lists ask for and no other test shows."""

import httpx
import pytest

from tests.backstage import claims_of, run_sql
from tests.oauth.browsing import Browser, Pkce, Provider, Registered, landed, redeem, signed_in

IGNORED = {
    "display": "popup",
    "login_hint": "ada",
    "ui_locales": "se ko",
    "claims_locales": "se",
    "acr_values": "1 2",
    "claims": '{"id_token": {"name": {"essential": true}}}',
    "extra": "foobar",
}


@pytest.mark.parametrize("name", IGNORED)
async def test_a_parameter_without_effect_is_taken(provider: Provider, club: Registered, browser: Browser, name: str):
    tokens = await signed_in(provider, club, browser, **{name: IGNORED[name]})
    assert claims_of(tokens["id_token"])["sub"]


async def test_a_request_needs_no_nonce_and_a_nonce_comes_back(provider: Provider, club: Registered, browser: Browser):
    claims = claims_of((await signed_in(provider, club, browser))["id_token"])
    assert "nonce" not in claims
    claims = claims_of((await signed_in(provider, club, browser, nonce="n-0S6_WzA2Mj"))["id_token"])
    assert claims["nonce"] == "n-0S6_WzA2Mj"


async def test_state_and_nonce_may_be_long_and_state_may_be_absent(
    provider: Provider, club: Registered, browser: Browser
):
    pkce = Pkce()
    back = await browser.approve(provider.authorize_url(club, pkce, state="s" * 1000, nonce="n" * 1000))
    assert back["state"] == "s" * 1000
    assert claims_of((await redeem(provider, club, back["code"], pkce))["id_token"])["nonce"] == "n" * 1000
    assert "state" not in await browser.approve(provider.authorize_url(club, Pkce(), state=None))


async def test_a_pushed_request_expires_and_is_checked(provider: Provider, club: Registered, browser: Browser):
    given = dict(httpx.URL(provider.authorize_url(club, Pkce())).params)
    pushed = (await provider.post("par", club, **given)).json()
    query = httpx.QueryParams({"client_id": club.client_id, "request_uri": pushed["request_uri"]})
    later = "update pilotis.oauth_requests set expires_at = now() where app_id = $1 and is_pushed"
    await run_sql(provider.app.server, later, provider.app.app_id)
    answer = await browser.visit(f"{provider.url}/oauth/authorize?{query}")
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    for changed in ({"code_challenge": ""}, {"code_challenge_method": "plain"}, {"redirect_uri": ""}):
        answer = await provider.post("par", club, **{**given, **changed})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    for method in ("GET", "PUT"):
        answer = await browser.http.request(method, "/oauth/par", headers=club.basic)
        assert (answer.status_code, answer.json()["error"]) == (405, "invalid_request")


async def test_the_scheme_of_a_token_is_in_any_case(provider: Provider, club: Registered, browser: Browser):
    token = (await signed_in(provider, club, browser))["access_token"]
    for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
        answer = await browser.http.get("/oauth/userinfo", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == 200, scheme


async def test_an_id_token_is_complete(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, nonce="n", scope="openid offline_access")
    claims = claims_of(tokens["id_token"])
    names = {"iss", "sub", "aud", "azp", "iat", "exp", "auth_time", "at_hash", "sid", "amr", "acr", "app_id", "nonce"}
    assert set(claims) == names
    assert (claims["iss"], claims["aud"], claims["azp"]) == (provider.url, club.client_id, club.client_id)
    assert claims["exp"] - claims["iat"] == 600
    assert (claims["amr"], claims["acr"]) == (["pwd"], "urn:pilotis:level:1")
    fresh = await provider.token(club, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    later = claims_of(fresh["id_token"])
    assert set(later) == names - {"nonce"}
    assert (later["sub"], later["auth_time"], later["sid"]) == (claims["sub"], claims["auth_time"], claims["sid"])


async def test_the_order_of_scopes_does_not_matter(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="email profile openid")
    assert set(tokens["scope"].split()) == {"openid", "profile", "email"}
    assert tokens["id_token"]


async def test_max_age_of_hours_asks_for_nothing_new(provider: Provider, club: Registered, browser: Browser):
    first = claims_of((await signed_in(provider, club, browser))["id_token"])
    pkce = Pkce()
    answer = await browser.visit(provider.authorize_url(club, pkce, max_age="10000", prompt="none"))
    back = landed(answer.headers["location"])
    again = claims_of((await redeem(provider, club, back["code"], pkce))["id_token"])
    assert again["auth_time"] == first["auth_time"]


async def test_without_response_type_the_client_is_told(provider: Provider, club: Registered, browser: Browser):
    answer = await browser.visit(provider.authorize_url(club, Pkce(), response_type=None))
    back = landed(answer.headers["location"])
    assert (back["error"], back["state"]) == ("invalid_request", "the state")


async def test_the_log_has_no_secrets(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    answer = await browser.approve(provider.authorize_url(club, pkce, scope="openid offline_access"))
    tokens = await redeem(provider, club, answer["code"], pkce)
    await redeem(provider, club, answer["code"], pkce, 400)
    await browser.http.get("/oauth/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    logged = provider.app.server.logs()
    assert "/oauth/token" in logged
    secrets = [
        club.secret,
        answer["code"],
        pkce.verifier,
        *(tokens[f"{kind}_token"] for kind in ("access", "id", "refresh")),
    ]
    secrets += [value for _, value in browser.http.cookies.items()]
    for secret in secrets:
        assert secret
        assert secret not in logged
