"""OAuth access tokens as credentials of functions, the one route of the server's own that takes them."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.backstage import run_sql
from tests.conftest import new_app
from tests.functions.support import Functions
from tests.oauth.browsing import Browser, Pkce, Provider, Registered, redeem, signed_in
from tests.oauth.test_dpop import EC, ED, ath, proof_for, sent
from tests.support import Server, assert_error, plain_client

pytestmark = [pytest.mark.usefixtures("sandboxes"), pytest.mark.filterwarnings("ignore:EdDSA is deprecated")]
SOURCE = "export default (payload, ctx) => ({ caller: ctx.caller, claims: ctx.claims, mayAsk: Boolean(ctx.asCaller) });"
INVOKE = "/v1/public/functions/orders/invoke"


@pytest.fixture
async def orders(provider: Provider) -> AsyncIterator[Functions]:
    """The function `orders` of the provider app, which programs may call with the scope `orders:read`."""
    made = Functions(provider.app)
    await provider.scope("orders:read")
    await made.made("orders", SOURCE, oauth_scope="orders:read")
    yield made
    await made.console.aclose()


@pytest.fixture
async def reader(provider: Provider, orders: Functions) -> Registered:
    """A client that may ask for the scope."""
    return await provider.client(
        scopes=["openid", "orders:read"], grant_types=["authorization_code", "refresh_token", "client_credentials"]
    )


async def call(provider: Provider, authorization: str | None, **headers: str) -> httpx.Response:
    lines = {**headers, **({"Authorization": authorization} if authorization else {})}
    async with plain_client(provider.url) as caller:
        return await caller.post(INVOKE, json={}, headers=lines)


def challenge(provider: Provider, *more: str) -> str:
    address = f"{provider.url}/.well-known/oauth-protected-resource/apps/{provider.app.app_id}"
    return "Bearer " + ", ".join([*more, f'resource_metadata="{address}"'])


async def test_a_function_knows_the_claims_of_a_members_token(provider: Provider, reader: Registered, browser: Browser):
    tokens = await signed_in(provider, reader, browser, scope="openid orders:read")
    answer = await call(provider, f"Bearer {tokens['access_token']}")
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    assert result["caller"] == {"type": "oauth_client", "id": reader.client_id}
    assert result["mayAsk"] is False
    info = await browser.http.get("/oauth/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert result["claims"]["sub"] == info.json()["sub"]
    assert result["claims"]["scope"] == "openid orders:read"
    assert result["claims"]["app_id"] == provider.app.app_id


async def test_without_a_token_the_answer_tells_where_tokens_come_from(provider: Provider, reader: Registered):
    answer = await call(provider, None, **{"X-App-Id": provider.app.app_id})
    assert_error(answer, 401, "TOKEN_REQUIRED")
    assert answer.headers["www-authenticate"] == challenge(provider)
    assert answer.headers["access-control-expose-headers"].count("www-authenticate")
    address = answer.headers["www-authenticate"].split('"')[1]
    async with plain_client(provider.url) as caller:
        found = (await caller.get(address)).json()
        assert found["resource"] == f"{provider.url}/apps/{provider.app.app_id}"
        (issuer,) = found["authorization_servers"]
        metadata = (await caller.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
    assert metadata["token_endpoint"] == f"{provider.url}/oauth/token"
    assert "orders:read" in found["scopes_supported"]
    # What is no id never gets into the header.
    answer = await call(provider, None, **{"X-App-Id": 'x", error="y'})
    assert "resource_metadata" not in answer.headers.get("www-authenticate", "")


async def test_a_token_without_the_scope_is_refused(provider: Provider, reader: Registered, browser: Browser):
    tokens = await signed_in(provider, reader, browser, scope="openid")
    answer = await call(provider, f"Bearer {tokens['access_token']}")
    assert_error(answer, 403, "INSUFFICIENT_SCOPE")
    assert answer.headers["www-authenticate"] == challenge(
        provider, 'error="insufficient_scope"', 'scope="orders:read"'
    )


async def test_a_function_without_a_scope_takes_no_oauth_token(
    provider: Provider, orders: Functions, reader: Registered, browser: Browser
):
    tokens = await signed_in(provider, reader, browser, scope="openid orders:read")
    (function,) = (await orders.console.get(orders.base)).json()["data"]
    changed = await orders.console.patch(f"{orders.base}/{function['id']}", json={"oauth_scope": None})
    assert changed.json()["oauth_scope"] is None
    assert_error(await call(provider, f"Bearer {tokens['access_token']}"), 403, "INSUFFICIENT_SCOPE")


async def test_who_may_call_still_holds(provider: Provider, orders: Functions, reader: Registered, browser: Browser):
    """A program that acts for itself is no member."""
    own = await provider.token(reader, grant_type="client_credentials")
    member = await signed_in(provider, reader, browser, scope="openid orders:read")
    (function,) = (await orders.console.get(orders.base)).json()["data"]
    assert (await call(provider, f"Bearer {own['access_token']}")).status_code == 200
    await orders.console.patch(f"{orders.base}/{function['id']}", json={"invoke_access": "AppMember"})
    answer = await call(provider, f"Bearer {own['access_token']}")
    assert_error(answer, 401, "MEMBER_TOKEN_REQUIRED")
    assert answer.headers["www-authenticate"] == challenge(provider, 'scope="orders:read"')
    assert (await call(provider, f"Bearer {member['access_token']}")).status_code == 200
    await orders.console.patch(f"{orders.base}/{function['id']}", json={"invoke_access": "Secret"})
    assert_error(await call(provider, f"Bearer {member['access_token']}"), 401, "SECRET_KEY_REQUIRED")


async def refused(provider: Provider, token: str) -> None:
    answer = await call(provider, f"Bearer {token}")
    assert_error(answer, 401, "INVALID_TOKEN")
    assert answer.headers["www-authenticate"] == challenge(provider, 'error="invalid_token"')


async def test_a_token_that_ended_is_refused(provider: Provider, reader: Registered, browser: Browser):
    tokens = await signed_in(provider, reader, browser, scope="openid orders:read")
    assert (await call(provider, f"Bearer {tokens['access_token']}")).status_code == 200
    await provider.post("revoke", reader, token=tokens["access_token"])
    await refused(provider, tokens["access_token"])
    fresh = await signed_in(provider, reader, browser, scope="openid orders:read")
    await run_sql(
        provider.app.server, "update pilotis.sessions set revoked_at = now() where app_id = $1", provider.app.app_id
    )
    await refused(provider, fresh["access_token"])


async def test_other_tokens_are_refused(
    provider: Provider, reader: Registered, browser: Browser, signing: tuple[Server, dict[str, str]]
):
    tokens = await signed_in(provider, reader, browser, scope="openid orders:read")
    for other in (tokens["id_token"], tokens["refresh_token"], browser.access_token, tokens["access_token"] + "x"):
        assert (await call(provider, f"Bearer {other}")).status_code == 401
    # A public key and an OAuth token are two different ways.
    key = {"X-Public-Key": provider.settings["public_key"], "Origin": provider.url}
    assert_error(await call(provider, f"Bearer {tokens['access_token']}", **key), 401, "INVALID_TOKEN")
    # Of a token of another app the function is that app's.
    other_app = await Provider(new_app(*signing)).start()
    await other_app.scope("orders:read")
    robot = await other_app.client(grant_types=["client_credentials"], redirect_uris=[], scopes=["orders:read"])
    foreign = await other_app.token(robot, grant_type="client_credentials")
    assert_error(await call(provider, f"Bearer {foreign['access_token']}"), 404, "FUNCTION_NOT_FOUND")


async def test_no_data_route_takes_an_oauth_token(provider: Provider, reader: Registered, browser: Browser):
    tokens = await signed_in(provider, reader, browser, scope="openid orders:read")
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    key = {"X-Public-Key": provider.app.public_key}
    async with plain_client(provider.url) as caller:
        for headers in (bearer, {**bearer, **key}):
            assert (await caller.get("/v1/public/tables", headers=headers)).status_code == 401
        assert (await caller.get("/v1/account/oauth/connections", headers=bearer)).status_code == 401
        assert (await caller.get("/v1/apps", headers=bearer)).status_code == 401


async def test_a_bound_token_needs_its_key(provider: Provider, reader: Registered):
    form = {"grant_type": "client_credentials"}
    tokens: dict[str, Any] = (await sent(provider, reader, form, proof_for(provider, "/oauth/token"))).json()
    access = tokens["access_token"]

    def bound(**options: Any) -> str:
        return proof_for(provider, INVOKE, claims={"ath": ath(access)}, **options).decode()

    good = bound()
    assert (await call(provider, f"DPoP {access}", DPoP=good)).status_code == 200
    assert_error(await call(provider, f"DPoP {access}", DPoP=good), 401, "DPOP_REFUSED")
    assert_error(await call(provider, f"DPoP {access}", DPoP=bound(alg="EdDSA", key=ED)), 401, "DPOP_REFUSED")
    answer = await call(provider, f"DPoP {access}")
    assert_error(answer, 401, "DPOP_REFUSED")
    assert answer.headers["www-authenticate"].startswith('DPoP error="invalid_dpop_proof"')
    assert_error(await call(provider, f"Bearer {access}"), 401, "INVALID_OAUTH_TOKEN")
    assert EC.thumbprint() == tokens["cnf"]["jkt"]


async def test_a_token_for_another_resource_is_refused(provider: Provider, reader: Registered, browser: Browser):
    other = "http://127.0.0.1:9/orders"
    query = "update pilotis.oauth_settings set resources = array[$2] where app_id = $1"
    await run_sql(provider.app.server, query, provider.app.app_id, other)
    for resource in (other, f"{provider.url}/mcp/{provider.app.app_id}"):
        pkce = Pkce()
        url = provider.authorize_url(reader, pkce, scope="openid orders:read", resource=resource)
        tokens = await redeem(provider, reader, (await browser.approve(url))["code"], pkce)
        await refused(provider, tokens["access_token"])
