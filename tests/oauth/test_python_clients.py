"""Authlib and requests-oauthlib as their users' programs call them; the consent page is the test's."""

import asyncio
import time
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oidc.discovery import OpenIDProviderMetadata
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from oauthlib.oauth2 import InvalidGrantError
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

from tests.oauth.browsing import CALLBACK, Browser, Provider, Registered

SCOPES = ["openid", "profile", "offline_access"]


@pytest.fixture(autouse=True)
def on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries ask for https, also on loopback."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
async def shop(provider: Provider) -> Registered:
    return await provider.client(scopes=SCOPES)


async def returned(browser: Browser, url: str, **body: Any) -> str:
    """The address at which the browser arrives after the consent."""
    return f"{CALLBACK}?{urlencode(await browser.approve(url, **body))}"


@pytest.mark.parametrize("path", ["oauth-authorization-server", "openid-configuration"])
def test_authlib_accepts_the_metadata(provider: Provider, path: str):
    found = httpx.get(f"{provider.url}/.well-known/{path}").json()
    kind = AuthorizationServerMetadata if path.startswith("oauth") else OpenIDProviderMetadata
    kind(found).validate()
    with pytest.raises(ValueError, match="response_types_supported"):
        kind({**found, "response_types_supported": "code"}).validate()


@pytest.mark.parametrize("kind", ["confidential", "public"])
async def test_authlib_walks_the_whole_flow(provider: Provider, shop: Registered, browser: Browser, kind: str):
    client = shop
    if kind == "public":
        client = await provider.client(token_endpoint_auth_method="none", scopes=SCOPES)
    token_url = f"{provider.url}/oauth/token"
    async with AsyncOAuth2Client(
        client.client_id,
        client.secret,
        token_endpoint_auth_method="client_secret_basic" if client.secret else "none",
        scope=" ".join(SCOPES),
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
    ) as session:
        verifier = "v" * 48
        url, state = session.create_authorization_url(
            f"{provider.url}/oauth/authorize", code_verifier=verifier, nonce="n-1"
        )
        back = await returned(browser, url)
        token = await session.fetch_token(token_url, authorization_response=back, state=state, code_verifier=verifier)
        keys = KeySet.import_key_set((await session.get(f"{provider.url}/.well-known/jwks.json")).json())
        claims = jwt.decode(token["id_token"], keys, algorithms=["RS256"]).claims
        assert (claims["nonce"], claims["aud"]) == ("n-1", client.client_id)
        info = await session.get(f"{provider.url}/oauth/userinfo")
        assert info.json()["sub"] == claims["sub"]
        fresh = await session.refresh_token(token_url, refresh_token=token["refresh_token"])
        assert fresh["access_token"] != token["access_token"]
        if kind == "confidential":
            told = await session.introspect_token(f"{provider.url}/oauth/introspect", token=fresh["access_token"])
            assert told.json()["active"] is True
        revoked = await session.revoke_token(f"{provider.url}/oauth/revoke", token=fresh["refresh_token"])
        assert revoked.status_code == 200
        with pytest.raises(OAuthError, match="invalid_grant"):
            await session.refresh_token(token_url, refresh_token=fresh["refresh_token"])
        if kind == "confidential":
            told = await session.introspect_token(f"{provider.url}/oauth/introspect", token=fresh["access_token"])
            assert told.json() == {"active": False}
        with pytest.raises(OAuthError, match="invalid_grant"):
            await session.fetch_token(token_url, authorization_response=back, state=state, code_verifier=verifier)


async def test_authlib_signs_with_a_key(provider: Provider):
    await provider.scope("stock:read")
    key = ECKey.generate_key("P-256", {"kid": "one"})
    client = await provider.client(
        token_endpoint_auth_method="private_key_jwt",
        jwks={"keys": [key.as_dict(private=False)]},
        grant_types=["client_credentials"],
        redirect_uris=[],
        scopes=["stock:read"],
    )
    async with AsyncOAuth2Client(client.client_id, key, token_endpoint_auth_method="private_key_jwt") as session:
        # The assertion is for the issuer; Authlib's default is the address of the endpoint.
        session.register_client_auth_method(
            PrivateKeyJWT(provider.url, claims={"exp": int(time.time()) + 60}, alg="ES256")
        )
        token = await session.fetch_token(f"{provider.url}/oauth/token", grant_type="client_credentials")
    assert token["scope"] == "stock:read"


@pytest.mark.parametrize("kind", ["confidential", "public"])
async def test_requests_oauthlib_walks_the_whole_flow(
    provider: Provider, shop: Registered, browser: Browser, kind: str
):
    client = shop
    if kind == "public":
        client = await provider.client(token_endpoint_auth_method="none", scopes=SCOPES)
    session = OAuth2Session(client.client_id, redirect_uri=CALLBACK, scope=SCOPES, pkce="S256")
    url, _ = session.authorization_url(f"{provider.url}/oauth/authorize", nonce="n-1")
    back = await returned(browser, url)
    token_url = f"{provider.url}/oauth/token"
    proof: dict[str, Any] = {"include_client_id": True}
    if client.secret:
        proof = {"auth": HTTPBasicAuth(client.client_id, client.secret)}
    token = await asyncio.to_thread(session.fetch_token, token_url, authorization_response=back, **proof)
    assert set(token["scope"]) == set(SCOPES)
    info = await asyncio.to_thread(session.get, f"{provider.url}/oauth/userinfo")
    assert info.json()["sub"]
    more: dict[str, Any] = {"client_id": client.client_id} if kind == "public" else proof
    fresh = await asyncio.to_thread(session.refresh_token, token_url, token["refresh_token"], **more)
    assert fresh["access_token"] != token["access_token"]
    with pytest.raises(InvalidGrantError):
        await asyncio.to_thread(session.refresh_token, token_url, "rt_wrong", **more)
    session.close()


async def test_requests_oauthlib_hears_of_fewer_scopes(provider: Provider, shop: Registered, browser: Browser):
    """The library compares the granted scopes with the requested ones, so the answer must name them."""
    session = OAuth2Session(shop.client_id, redirect_uri=CALLBACK, scope=SCOPES, pkce="S256")
    url, _ = session.authorization_url(f"{provider.url}/oauth/authorize")
    back = await returned(browser, url, scopes=["openid"])
    with pytest.raises(Warning, match="Scope has changed") as changed:
        await asyncio.to_thread(
            session.fetch_token,
            f"{provider.url}/oauth/token",
            authorization_response=back,
            auth=HTTPBasicAuth(shop.client_id, shop.secret),
        )
    assert changed.value.new_scope == ["openid"]
    session.close()
