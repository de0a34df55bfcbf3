"""Clients that authenticate with a key of their own, `private_key_jwt`."""

import asyncio
import secrets
import time
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tests.console import owner_of
from tests.oauth.browsing import Browser, Pkce, Provider, Registered
from tests.oauth.test_dpop import Registry
from tests.support import plain_client

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER = ECKey.generate_key("P-256", {"kid": "ec"})
TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
Key = ECKey | OKPKey | RSAKey | OctKey


def assertion(provider: Provider, client: Registered, key: Key = EC, alg: str = "ES256", **claims: Any) -> str:
    now = int(time.time())
    given = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": provider.url,
        "iat": now,
        "exp": now + 60,
        "jti": secrets.token_urlsafe(12),
        **claims,
    }
    given = {name: value for name, value in given.items() if value is not None}
    registry = Registry(algorithms=[alg])
    return jwt.encode({"alg": alg, "kid": str(key.kid)}, given, key, registry=registry)


@pytest.fixture
async def signer(provider: Provider) -> Registered:
    """A client with three keys."""
    await provider.scope("stock:read")
    jwks = {"keys": [key.as_dict(private=False) for key in (EC, ED, RSA)]}
    return await provider.client(
        token_endpoint_auth_method="private_key_jwt",
        jwks=jwks,
        scopes=["openid", "stock:read"],
        grant_types=["authorization_code", "refresh_token", "client_credentials"],
    )


async def ask(provider: Provider, text: str | None, route: str = "token", **form: str) -> httpx.Response:
    given = {"grant_type": "client_credentials"} if route == "token" else {}
    assertion = {"client_assertion_type": TYPE, "client_assertion": text} if text else {}
    async with plain_client(provider.url) as caller:
        return await caller.post(f"/oauth/{route}", data={**given, **assertion, **form})


@pytest.mark.parametrize(("name", "alg"), [("EC", "ES256"), ("ED", "EdDSA"), ("RSA", "PS256")])
async def test_a_client_authenticates_with_each_kind_of_key(
    provider: Provider, signer: Registered, name: str, alg: str
):
    assert signer.secret is None
    text = assertion(provider, signer, {"EC": EC, "ED": ED, "RSA": RSA}[name], alg)
    answer = await ask(provider, text)
    assert answer.status_code == 200, answer.text
    assert answer.json()["scope"] == "stock:read"


async def test_the_clients_clock_may_be_ahead_by_seconds(provider: Provider, signer: Registered):
    answer = await ask(provider, assertion(provider, signer, iat=now() + 8, nbf=now() + 8))
    assert answer.status_code == 200, answer.text


async def test_an_assertion_is_good_for_one_request(provider: Provider, signer: Registered):
    text = assertion(provider, signer)
    answers = await asyncio.gather(*(ask(provider, text) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 9
    assert {answer.json()["error"] for answer in answers if answer.status_code == 401} == {"invalid_client"}


def now() -> int:
    return int(time.time())


WRONG: dict[str, dict[str, Any]] = {
    "for the token endpoint": {"aud": "/oauth/token"},
    "for several": {"aud": ["", "https://other.example"]},
    "of another client": {"sub": "cl_other"},
    "without a subject": {"sub": None},
    "expired five minutes ago": {"exp": -300},
    "issued in over a minute": {"iat": 65, "nbf": 65},
    "expired": {"exp": -60},
    "valid for an hour": {"exp": 3600},
    "not valid yet": {"nbf": 100},
    "issued later": {"iat": 100},
    "without an id": {"jti": None},
    "without an end": {"exp": None},
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_assertion_is_refused(provider: Provider, signer: Registered, name: str):
    claims = dict(WRONG[name])
    for member in ("exp", "nbf", "iat"):
        if claims.get(member) is not None:
            claims[member] += now()
    if isinstance(claims.get("aud"), str):
        claims["aud"] = provider.url + claims["aud"]
    elif "aud" in claims:
        claims["aud"][0] = provider.url
    answer = await ask(provider, assertion(provider, signer, **claims))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), answer.text


async def test_a_wrong_signature_or_method_is_refused(provider: Provider, signer: Registered, club: Registered):
    secret = OctKey.generate_key(256, {"kid": "ec"})
    good = assertion(provider, signer)
    head, payload, signature = good.split(".")
    with_basic = good, {"client_secret": "cs_x"}
    for text, form in (
        (assertion(provider, signer, OTHER), {}),
        (assertion(provider, signer, secret, "HS256"), {}),
        (assertion(provider, signer, RSA, "RS256"), {}),
        (f"{head}.{payload}.{signature[:-4]}AAAA", {}),
        (f"{head}.{payload}.", {}),
        (good, {"client_id": club.client_id}),
        (good, {"client_assertion_type": "other"}),
        ("x", {}),
        with_basic,
        (assertion(provider, club), {}),
        (None, {"client_id": signer.client_id}),
        (None, {"client_id": signer.client_id, "client_secret": ""}),
    ):
        answer = await ask(provider, text, **form)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), (text, form)
    assert (await ask(provider, good)).status_code == 200, "A refused request used the assertion up."


async def test_the_whole_flow_with_keys(provider: Provider, signer: Registered, browser: Browser):
    pkce = Pkce()
    pushed = await ask(
        provider,
        assertion(provider, signer),
        "par",
        response_type="code",
        redirect_uri="https://club.example/callback",
        scope="openid",
        code_challenge=pkce.challenge,
        code_challenge_method="S256",
    )
    assert pushed.status_code == 201, pushed.text
    back = await browser.approve(
        f"{provider.url}/oauth/authorize?client_id={signer.client_id}&request_uri={pushed.json()['request_uri']}"
    )
    form = {"grant_type": "authorization_code", "code": back["code"], "code_verifier": pkce.verifier}
    tokens = await ask(provider, assertion(provider, signer), **form, redirect_uri="https://club.example/callback")
    assert tokens.status_code == 200, tokens.text
    token = tokens.json()["access_token"]
    told = await ask(provider, assertion(provider, signer), "introspect", token=token)
    assert told.json()["active"] is True
    assert (await ask(provider, assertion(provider, signer), "revoke", token=token)).status_code == 200
    told = await ask(provider, assertion(provider, signer), "introspect", token=token)
    assert told.json() == {"active": False}


KEYS: dict[str, Any] = {
    "none": None,
    "empty": {"keys": []},
    "private": {"keys": [EC.as_dict(private=True)]},
    "symmetric": {"keys": [OctKey.generate_key(256).as_dict(private=True)]},
    "short": {"keys": [{"kty": "RSA", "e": "AQAB", "n": "3" * 171}]},
    "another curve": {"keys": [ECKey.generate_key("P-384").as_dict(private=False)]},
    "for encryption": {"keys": [{**EC.as_dict(private=False), "use": "enc"}]},
    "off the curve": {"keys": [{**EC.as_dict(private=False), "y": EC.as_dict(private=False)["x"]}]},
    "eleven": {"keys": [EC.as_dict(private=False)] * 11},
}


@pytest.mark.parametrize("name", KEYS)
async def test_keys_that_cannot_be_used_are_refused(provider: Provider, name: str):
    body = {"name": "x", "token_endpoint_auth_method": "private_key_jwt", "grant_types": ["client_credentials"]}
    async with owner_of(provider.app).client(provider.app) as console:
        answer = await console.post("/oauth/clients", json={**body, "jwks": KEYS[name]})
        assert answer.status_code == 400, answer.text
        assert answer.json()["details"][0]["field"].startswith("jwks")


async def test_keys_are_replaced(provider: Provider, signer: Registered):
    jwks = {"keys": [OTHER.as_dict(private=False)]}
    await provider.asked("PUT", f"clients/{signer.client_id}", {"jwks": jwks})
    assert (await ask(provider, assertion(provider, signer))).status_code == 401
    assert (await ask(provider, assertion(provider, signer, OTHER))).status_code == 200
    async with owner_of(provider.app).client(provider.app) as console:
        answer = await console.post(f"/oauth/clients/{signer.client_id}/regenerate-secret", json={})
        assert answer.json()["code"] == "OAUTH_CLIENT_PUBLIC"
        answer = await console.put(f"/oauth/clients/{signer.client_id}", json={"jwks": None})
        assert answer.status_code == 400
