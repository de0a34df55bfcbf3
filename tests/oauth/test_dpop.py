"""DPoP: proofs that are no good, proofs used twice, and tokens that only their key's holder can use."""

import asyncio
import hashlib
import json
import time
import uuid
from collections import Counter
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from pilotis.kit.crypto import MasterKeyring, MasterKeys, base64url
from pilotis.oauth.tokens.dpop import InvalidDpopProofError, Nonces, UseDpopNonceError, check
from tests.backstage import claims_of
from tests.oauth.browsing import CALLBACK, Browser, Pkce, Provider, Registered, redeem
from tests.support import plain_client

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
URL, TOKEN = "https://as.example.com/oauth/userinfo", "token-123"
EC, ED, RSA = ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519"), RSAKey.generate_key(2048)
NONCES = Nonces(MasterKeyring(MasterKeys(b"k" * 32)))
KEYS = {"ES256": EC, "EdDSA": ED, "PS256": RSA}


class Registry(jws.JWSRegistry):
    max_header_length = 4096


def proof(
    header: dict[str, Any] | None = None,
    claims: dict[str, Any] | None = None,
    *,
    alg: str = "ES256",
    key: Any = None,
    without: tuple[str, ...] = (),
) -> bytes:
    """A proof, good unless something is changed or left out."""
    key = key or KEYS[alg]
    head = {"typ": "dpop+jwt", "alg": alg, "jwk": key.as_dict(private=False), **(header or {})}
    body = {"jti": str(uuid.uuid4()), "htm": "GET", "htu": URL, "iat": int(time.time()), "ath": ath(TOKEN)}
    body |= claims or {}
    for name in without:
        head.pop(name, None)
        body.pop(name, None)
    if head.get("alg") != alg:
        return f"{base64url(json.dumps(head).encode())}.{base64url(json.dumps(body).encode())}.".encode()
    registry = Registry(algorithms=[alg], strict_check_header=False)
    return jws.serialize_compact(head, json.dumps(body).encode(), key, registry=registry).encode()


def ath(token: str) -> str:
    return base64url(hashlib.sha256(token.encode()).digest())


def good() -> dict[str, dict[str, Any]]:
    """Return what makes proofs that are taken now: times and nonces would be old at the end of a long run."""
    return {
        "ES256": {},
        "EdDSA": {"alg": "EdDSA"},
        "PS256": {"alg": "PS256"},
        "query and fragment": {"claims": {"htu": URL + "?a=b#c"}},
        "upper case and port": {"claims": {"htu": "HTTPS://AS.EXAMPLE.COM:443/oauth/userinfo"}},
        "more members": {"header": {"foo": 1}, "claims": {"exp": 1, "bar": 2}},
        "10 s ahead": {"claims": {"iat": int(time.time()) + 10}},
        "10 s ago": {"claims": {"iat": int(time.time()) - 10}},
        "nbf and exp": {"claims": {"nbf": int(time.time()), "exp": int(time.time()) + 300}},
        "any time under a nonce": {"claims": {"iat": 1, "nonce": NONCES.newest()}},
    }


BAD = {
    **{f"no {name}": {"without": (name,)} for name in ("typ", "alg", "jwk", "jti", "htm", "htu", "iat", "ath")},
    "typ": {"header": {"typ": "JWT"}},
    "alg none": {"header": {"alg": "none"}},
    "private key": {"header": {"jwk": EC.as_dict(private=True)}},
    "another key": {"header": {"jwk": ECKey.generate_key("P-256").as_dict(private=False)}},
    "method": {"claims": {"htm": "POST"}},
    "method in lower case": {"claims": {"htm": "get"}},
    "path": {"claims": {"htu": URL + "x"}},
    "user name": {"claims": {"htu": "https://as.example.com@evil.test/oauth/userinfo"}},
    "no URL": {"claims": {"htu": "["}},
    "another token": {"claims": {"ath": ath("other")}},
    "iat as text": {"claims": {"iat": "1"}},
    "iat true": {"claims": {"iat": True}},
    "iat NaN": {"claims": {"iat": float("nan")}},
    "iat of 400 digits": {"claims": {"iat": 10**400}},
    "lone surrogate": {"claims": {"jti": "\ud800"}},
    "long jti": {"claims": {"jti": "x" * 257}},
    "empty jti": {"claims": {"jti": ""}},
}


@pytest.mark.parametrize("name", good())
def test_a_good_proof_is_taken(name: str):
    given = good()[name]
    found = check([proof(**given)], "GET", URL, NONCES, access_token=TOKEN)
    assert found.jkt == KEYS[given.get("alg", "ES256")].thumbprint()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_proof_is_refused(name: str):
    with pytest.raises(InvalidDpopProofError):
        check([proof(**BAD[name])], "GET", URL, NONCES, access_token=TOKEN)


def test_what_is_no_proof_is_refused():
    secret, good = OctKey.generate_key(256), proof()
    head = {"typ": "dpop+jwt", "alg": "HS256", "jwk": secret.as_dict(private=True)}
    registry = Registry(algorithms=["HS256"], strict_check_header=False)
    symmetric = jws.serialize_compact(head, b"{}", secret, registry=registry).encode()
    cut = good[:-8] + (b"A" * 8 if not good.endswith(b"A" * 8) else b"B" * 8)
    critical = {"typ": "dpop+jwt", "alg": "ES256", "jwk": EC.as_dict(private=False), "crit": ["x"]}
    crit = base64url(json.dumps(critical).encode()).encode() + good[good.index(b".") :]
    nested = base64url(b"[" * 4000).encode() + b".e30."
    for lines in ([], [good, good], [good + b", " + good], [b"abc"], [symmetric], [cut], [crit], [nested], [b"\xff"]):
        with pytest.raises(InvalidDpopProofError):
            check(lines, "GET", URL, NONCES, access_token=TOKEN)


def test_a_nonce_is_asked_for_when_the_time_is_off():
    for claims in ({"iat": int(time.time()) - 3600}, {"iat": int(time.time()) + 3600}, {"nonce": "made up"}):
        with pytest.raises(UseDpopNonceError):
            check([proof(claims=claims)], "GET", URL, NONCES)
    with pytest.raises(UseDpopNonceError):
        check([proof()], "GET", URL, NONCES, nonce_required=True)


async def sent(
    provider: Provider, client: Registered, form: dict[str, str], proof_: bytes | None, path: str = "token"
) -> httpx.Response:
    headers = {**client.basic} if client.secret else {}
    public = {} if client.secret else {"client_id": client.client_id}
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    lines += [(b"DPoP", proof_)] if proof_ else []
    async with plain_client(provider.url) as caller:
        return await caller.post(f"/oauth/{path}", data={**public, **form}, headers=lines)


def proof_for(provider: Provider, path: str, method: str = "POST", **options: Any) -> bytes:
    claims = {"htm": method, "htu": f"{provider.url}{path}", **options.pop("claims", {})}
    return proof(claims=claims, **options)


async def test_tokens_are_bound_to_the_key(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    code = (await browser.approve(provider.authorize_url(club, pkce)))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    answer = await sent(provider, club, form, proof_for(provider, "/oauth/token"))
    tokens = answer.json()
    assert (tokens["token_type"], tokens["cnf"]) == ("DPoP", {"jkt": EC.thumbprint()})
    assert claims_of(tokens["access_token"])["cnf"] == {"jkt": EC.thumbprint()}
    assert answer.headers["dpop-nonce"]
    access = tokens["access_token"]
    path = "/oauth/userinfo"

    async def asked(scheme: str, proof_: bytes | None) -> httpx.Response:
        headers = [(b"Authorization", f"{scheme} {access}".encode())] + ([(b"DPoP", proof_)] if proof_ else [])
        async with plain_client(provider.url) as caller:
            return await caller.get(path, headers=headers)

    good = proof_for(provider, path, "GET", claims={"ath": ath(access)})
    assert (await asked("DPoP", good)).status_code == 200
    again = await asked("DPoP", good)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_dpop_proof")
    assert again.headers["www-authenticate"].startswith('DPoP error="invalid_dpop_proof"')
    for scheme, proof_ in (
        ("Bearer", None),
        ("Bearer", proof_for(provider, path, "GET", claims={"ath": ath(access)})),
        ("DPoP", None),
        ("DPoP", proof_for(provider, path, "GET", claims={"ath": ath("other")})),
        ("DPoP", proof_for(provider, path, "GET", alg="EdDSA", claims={"ath": ath(access)})),
    ):
        assert (await asked(scheme, proof_)).status_code == 401
    # A confidential client can refresh with any of its keys, but not without one.
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await sent(provider, club, refresh, None)).json()["error"] == "invalid_grant"
    other = await sent(provider, club, refresh, proof_for(provider, "/oauth/token", alg="EdDSA"))
    assert other.json()["cnf"] == {"jkt": ED.thumbprint()}


async def test_the_refresh_token_of_a_public_client_needs_its_own_key(provider: Provider, browser: Browser):
    """RFC 9449, section 5: nothing but the key binds it to the client."""
    public = await provider.client(token_endpoint_auth_method="none", scopes=["openid", "offline_access"])
    pkce = Pkce()
    code = (await browser.approve(provider.authorize_url(public, pkce, scope="openid offline_access")))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    tokens = (await sent(provider, public, form, proof_for(provider, "/oauth/token"))).json()
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    for proof_ in (None, proof_for(provider, "/oauth/token", alg="EdDSA")):
        answer = await sent(provider, public, refresh, proof_)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    # The failed attempts have neither used up nor revoked it.
    again = await sent(provider, public, refresh, proof_for(provider, "/oauth/token"))
    assert again.json()["cnf"] == {"jkt": EC.thumbprint()}


async def test_of_twenty_uses_of_one_proof_one_counts(provider: Provider):
    await provider.scope("a")
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=["a"])
    one = proof_for(provider, "/oauth/token")
    form = {"grant_type": "client_credentials"}
    answers = await asyncio.gather(*(sent(provider, robot, form, one) for _ in range(20)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 400: 19}
    assert {answer.json()["error"] for answer in answers if answer.status_code == 400} == {"invalid_dpop_proof"}


async def test_a_nonce_may_be_required(provider: Provider):
    await provider.asked("PUT", "settings", {"dpop_nonce": "required"})
    await provider.scope("a")
    robot = await provider.client(
        grant_types=["client_credentials"], redirect_uris=[], scopes=["a"], dpop_bound_access_tokens=True
    )
    form = {"grant_type": "client_credentials"}
    assert (await sent(provider, robot, form, None)).json()["error"] == "invalid_dpop_proof"
    refused = await sent(provider, robot, form, proof_for(provider, "/oauth/token"))
    assert (refused.status_code, refused.json()["error"]) == (400, "use_dpop_nonce")
    nonce = refused.headers["dpop-nonce"]
    answer = await sent(provider, robot, form, proof_for(provider, "/oauth/token", claims={"nonce": nonce}))
    assert (answer.status_code, "dpop-nonce" in answer.headers) == (200, False)


async def pushed(provider: Provider, client: Registered, pkce: Pkce, **parameters: str) -> httpx.Response:
    query = httpx.URL(provider.authorize_url(client, pkce, **parameters)).params
    return await sent(provider, client, dict(query), None, "par")


async def test_a_request_may_be_pushed(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    answer = await pushed(provider, club, pkce, scope="openid profile")
    assert (answer.status_code, answer.json()["expires_in"]) == (201, 90)
    assert answer.headers["cache-control"] == "no-store"
    uri = answer.json()["request_uri"]
    assert uri.startswith("urn:ietf:params:oauth:request_uri:")
    url = f"{provider.url}/oauth/authorize?" + str(
        httpx.QueryParams(
            {"client_id": club.client_id, "request_uri": uri, "scope": "email", "redirect_uri": "https://x"}
        )
    )
    # It may be opened again until the member has decided.
    first = await browser.begin(url)
    found = await browser.approve(url)
    tokens = await redeem(provider, club, found["code"], pkce)
    assert tokens["scope"] == "openid profile"
    assert (await browser.visit(url)).status_code == 400
    assert (await browser.consent("approve", first)).status_code == 409
    other = await provider.client(name="Other")
    uri = (await pushed(provider, club, pkce)).json()["request_uri"]
    stolen = httpx.QueryParams({"client_id": other.client_id, "request_uri": uri})
    assert (await browser.visit(f"{provider.url}/oauth/authorize?{stolen}")).status_code == 400


async def test_a_pushed_request_is_checked_at_once(provider: Provider, club: Registered):
    pkce = Pkce()
    for changes, error in (
        ({"redirect_uri": "https://evil.example/"}, "invalid_request"),
        ({"scope": "nothing"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"request_uri": "urn:ietf:params:oauth:request_uri:x"}, "invalid_request"),
        ({"request": "x"}, "request_not_supported"),
        ({"resource": "https://other.example"}, "invalid_target"),
    ):
        answer = await pushed(provider, club, pkce, **changes)
        assert (answer.status_code, answer.json()["error"]) == (400, error), changes
    wrong = Registered(club.client_id, "cs_wrong")
    assert (await pushed(provider, wrong, pkce)).status_code == 401
    assert (await pushed(provider, club, pkce, client_id="cl_other")).status_code == 401


async def test_a_client_may_have_to_push(provider: Provider, browser: Browser):
    client = await provider.client(require_pushed_authorization_requests=True)
    answer = await browser.visit(provider.authorize_url(client, Pkce()))
    assert "error=invalid_request" in answer.headers["location"]
    assert (await pushed(provider, client, Pkce())).status_code == 201


async def test_a_proof_with_a_pushed_request_binds_the_code(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    query = dict(httpx.URL(provider.authorize_url(club, pkce)).params)
    answer = await sent(provider, club, query, proof_for(provider, "/oauth/par"), "par")
    parameters = httpx.QueryParams({"client_id": club.client_id, "request_uri": answer.json()["request_uri"]})
    code = (await browser.approve(f"{provider.url}/oauth/authorize?{parameters}"))["code"]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    other = await sent(provider, club, form, proof_for(provider, "/oauth/token", alg="EdDSA"))
    assert (other.status_code, other.json()["error"]) == (400, "invalid_grant")
    assert (await sent(provider, club, form, None)).json()["error"] == "invalid_grant"
    assert (await sent(provider, club, form, proof_for(provider, "/oauth/token"))).status_code == 200
    mixed = {**query, "dpop_jkt": "x" * 43}
    answer = await sent(provider, club, mixed, proof_for(provider, "/oauth/par"), "par")
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
