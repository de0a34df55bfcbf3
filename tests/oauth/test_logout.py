"""Signing out: what a client may begin, what a page asks, and that every client of the session is told."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.backstage import claims_of, run_sql
from tests.console import owner_of
from tests.oauth.browsing import Browser, Pkce, Provider, Registered, signed_in
from tests.receiver import Receiver
from tests.support import plain_client
from tests.waiting import until

OUT = "https://club.example/out?x=1"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver.listening() as listening:
        yield listening


@pytest.fixture
async def told(provider: Provider, receiver: Receiver) -> Registered:
    """A client that wants to be told."""
    return await provider.client(
        scopes=["openid", "offline_access"],
        post_logout_redirect_uris=[OUT],
        backchannel_logout_uri=f"http://127.0.0.1:{receiver.port}/logout",
    )


async def end(browser: Browser, method: str = "GET", **parameters: str | None) -> httpx.Response:
    given = {name: value for name, value in parameters.items() if value is not None}
    options: dict[str, Any] = {"params": given} if method == "GET" else {"data": given}
    return await browser.http.request(method, "/oauth/end-session", **options)


async def is_signed_in(browser: Browser, client: Registered) -> bool:
    url = browser.provider.authorize_url(client, Pkce(), prompt="none")
    return "code=" in (await browser.visit(url)).headers["location"]


async def logout_token(receiver: Receiver, provider: Provider) -> dict[str, Any]:
    """The claims of the logout token that came, verified by the public keys."""
    await until(lambda: receiver.received)
    (received,) = receiver.received
    assert (received.method, received.path) == ("POST", "/logout")
    assert received.headers["content-type"] == "application/x-www-form-urlencoded"
    form = parse_qs(received.body.decode())
    assert set(form) == {"logout_token"}
    async with plain_client(provider.url) as caller:
        keys = KeySet.import_key_set((await caller.get("/.well-known/jwks.json")).json())
    token = jwt.decode(form["logout_token"][0], keys, algorithms=["RS256"])
    assert token.header["typ"] == "logout+jwt"
    return dict(token.claims)


async def test_a_hint_of_the_session_spares_the_question(
    provider: Provider, told: Registered, browser: Browser, receiver: Receiver
):
    tokens = await signed_in(provider, told, browser)
    answer = await end(browser, id_token_hint=tokens["id_token"], post_logout_redirect_uri=OUT, state="\u20ac bye")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{OUT}&state=%E2%82%AC+bye")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert not await is_signed_in(browser, told)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await browser.http.get("/oauth/userinfo", headers=bearer)).status_code == 401
    claims = await logout_token(receiver, provider)
    identity = claims_of(tokens["id_token"])
    assert (claims["iss"], claims["aud"]) == (provider.url, told.client_id)
    assert (claims["sub"], claims["sid"]) == (identity["sub"], identity["sid"])
    assert claims["events"] == {"http://schemas.openid.net/event/backchannel-logout": {}}
    assert claims["exp"] - claims["iat"] == 120
    assert "nonce" not in claims
    # And the member itself is signed out, not only the provider.
    async with provider.app.client(browser.access_token) as member:
        assert (await member.get("/v1/public/app-members/me")).status_code == 401


async def test_otherwise_a_page_asks(provider: Provider, told: Registered, browser: Browser):
    await signed_in(provider, told, browser)
    answer = await end(browser, client_id=told.client_id, post_logout_redirect_uri=OUT, state="s")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "form-action 'self' https://club.example;" in answer.headers["content-security-policy"]
    assert await is_signed_in(browser, told)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', answer.text))
    # Another site's page knows what the form asks for, but not what binds it to the browser.
    for confirm in (None, "", "x" * 43):
        refused = await end(browser, "POST", **{**fields, "confirm": confirm})
        assert refused.status_code == 200
        assert await is_signed_in(browser, told)
    done = await end(browser, "POST", **fields)
    assert (done.status_code, done.headers["location"]) == (303, f"{OUT}&state=s")
    assert not await is_signed_in(browser, told)


@pytest.mark.parametrize("parameters", [{}, {"state": "s"}])
async def test_a_request_that_names_nothing_asks_and_ends_on_a_page(
    provider: Provider, told: Registered, browser: Browser, parameters: dict[str, str]
):
    await signed_in(provider, told, browser)
    answer = await end(browser, **parameters)
    assert answer.status_code == 200
    assert await is_signed_in(browser, told)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', answer.text))
    done = await end(browser, "POST", **fields)
    assert (done.status_code, "location" in done.headers, "You are signed out" in done.text) == (200, False, True)
    assert not await is_signed_in(browser, told)


async def test_a_hint_needs_neither_target_nor_state(provider: Provider, told: Registered, browser: Browser):
    hint = (await signed_in(provider, told, browser))["id_token"]
    done = await end(browser, id_token_hint=hint)
    assert (done.status_code, "location" in done.headers, "You are signed out" in done.text) == (200, False, True)
    assert not await is_signed_in(browser, told)
    hint = (await signed_in(provider, told, browser))["id_token"]
    done = await end(browser, id_token_hint=hint, post_logout_redirect_uri=OUT)
    assert (done.status_code, done.headers["location"]) == (303, OUT)
    assert not await is_signed_in(browser, told)


async def test_another_target_or_hint_is_refused(provider: Provider, told: Registered, browser: Browser):
    tokens = await signed_in(provider, told, browser)
    other = await provider.client(name="Other")
    hint = tokens["id_token"]
    for parameters in (
        {"id_token_hint": hint, "post_logout_redirect_uri": "https://evil.example/"},
        {"id_token_hint": hint, "post_logout_redirect_uri": OUT + "/"},
        {"id_token_hint": hint, "post_logout_redirect_uri": OUT + "&y=2"},
        {"post_logout_redirect_uri": OUT},
        {"client_id": other.client_id, "post_logout_redirect_uri": OUT},
        {"client_id": other.client_id, "id_token_hint": hint},
        {"id_token_hint": hint[:-4] + "AAAA"},
        {"id_token_hint": tokens["access_token"]},
        {"client_id": "cl_x"},
    ):
        answer = await end(browser, **parameters)
        assert (answer.status_code, "location" in answer.headers) == (400, False), parameters
        assert answer.headers["content-type"].startswith("text/html")
    assert await is_signed_in(browser, told)


async def test_a_hint_of_another_session_asks(provider: Provider, told: Registered, browser: Browser):
    old = await signed_in(provider, told, browser)
    async with Browser(provider, "ada") as another:
        await signed_in(provider, told, another)
        answer = await end(another, id_token_hint=old["id_token"], post_logout_redirect_uri=OUT)
        assert answer.status_code == 200
        assert await is_signed_in(another, told)
    assert await is_signed_in(browser, told)


async def test_nobody_is_signed_in(provider: Provider, told: Registered, browser: Browser):
    tokens = await signed_in(provider, told, browser)
    async with Browser(provider, "ada") as stranger:
        answer = await end(stranger, id_token_hint=tokens["id_token"], post_logout_redirect_uri=OUT)
        assert (answer.status_code, answer.headers["location"]) == (303, OUT)
        answer = await end(stranger, client_id=told.client_id, post_logout_redirect_uri=OUT)
        assert (answer.status_code, "location" in answer.headers) == (200, False)
        assert (await end(stranger)).status_code == 200
    assert await is_signed_in(browser, told)


@pytest.mark.parametrize("how", ["sign-out", "deactivation", "deletion", "reuse", "disconnection", "console"])
async def test_whatever_ends_the_session_is_told(
    provider: Provider, told: Registered, browser: Browser, receiver: Receiver, how: str
):
    tokens = await signed_in(provider, told, browser, scope="openid offline_access")
    app_id = provider.app.app_id
    async with provider.app.client(browser.access_token) as member:
        if how == "sign-out":
            await member.post("/v1/public/app-members/signout")
        elif how == "deactivation":
            async with owner_of(provider.app).client(provider.app) as console:
                path = f"/members/{claims_of(tokens['id_token'])['sub']}"
                answer = await console.patch(path, json={"is_active": False})
            assert answer.status_code == 200, answer.text
        elif how == "disconnection":
            (found,) = (await member.get("/v1/account/oauth/connections")).json()["data"]
            await member.delete(f"/v1/account/oauth/connections/{found['consent_id']}")
        elif how == "console":
            async with owner_of(provider.app).client(provider.app) as console:
                grant_id = claims_of(tokens["access_token"])["grant_id"]
                assert (await console.delete(f"/oauth/grants/{grant_id}")).status_code == 200
        elif how == "deletion":
            answer = await member.request("DELETE", "/v1/public/app-members/me", json={"password": "correct horse"})
            assert answer.status_code == 200, answer.text
        else:
            body = {"login_id": "ada", "password": "correct horse"}
            refresh = (await member.post("/v1/public/app-members/signin", json=body)).json()["refresh_token"]
            await run_sql(
                provider.app.server,
                "update pilotis.oauth_grants set session_id = $2::uuid where app_id = $1",
                app_id,
                claims_of(refresh)["sid"],
            )
            for _ in range(2):
                headers = {"Authorization": f"Bearer {refresh}"}
                answer = await member.post("/v1/auth/re-issue", headers=headers)
                if answer.is_success:
                    # A token stays good until its successor was used.
                    used = {"Authorization": f"Bearer {answer.json()['access_token']}"}
                    assert (await member.get("/v1/public/app-members/me", headers=used)).status_code == 200
                await run_sql(
                    provider.app.server,
                    """
                    update pilotis.sessions set refreshed_at = refreshed_at - interval '1 hour',
                        successor_used_at = successor_used_at - interval '1 hour' where app_id = $1
                    """,
                    app_id,
                )
    claims = await logout_token(receiver, provider)
    assert claims["sub"] == claims_of(tokens["id_token"])["sub"]
    assert claims["sid"] == claims_of(tokens["id_token"])["sid"] or how == "reuse"


async def test_a_client_that_fails_is_told_again(
    provider: Provider, told: Registered, browser: Browser, receiver: Receiver
):
    receiver.answers["/logout"] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
    tokens = await signed_in(provider, told, browser)
    await end(browser, id_token_hint=tokens["id_token"])
    await until(lambda: receiver.received)
    receiver.answers.clear()
    await run_sql(provider.app.server, "update pilotis.jobs set run_at = now() where app_id = $1", provider.app.app_id)
    await until(lambda: len(receiver.received) == 2)
    first, second = (parse_qs(one.body.decode())["logout_token"][0] for one in receiver.received)
    assert claims_of(first)["jti"] != claims_of(second)["jti"]


async def test_a_logout_token_is_no_other_token(
    provider: Provider, told: Registered, browser: Browser, receiver: Receiver
):
    tokens = await signed_in(provider, told, browser)
    await end(browser, id_token_hint=tokens["id_token"])
    await until(lambda: receiver.received)
    token = parse_qs(receiver.received[0].body.decode())["logout_token"][0]
    assert (await end(browser, id_token_hint=token)).status_code == 400
    answer = await browser.http.get("/oauth/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401
    assert (await provider.post("introspect", told, token=token)).json() == {"active": False}
