"""The token endpoint and its companions: grants, client authentication, replays, and what tokens permit."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from pilotis.kit import rs256
from pilotis.kit.crypto import base64url
from tests.backstage import claims_of, run_sql
from tests.conftest import first_console_user, new_app
from tests.console import the_log
from tests.oauth.browsing import CALLBACK, Browser, Pkce, Provider, Registered, redeem, signed_in
from tests.support import Server, plain_client


async def the_code(provider: Provider, client: Registered, browser: Browser, pkce: Pkce, **parameters: str) -> str:
    return (await browser.approve(provider.authorize_url(client, pkce, **parameters)))["code"]


async def userinfo(provider: Provider, token: str, **headers: str) -> httpx.Response:
    async with plain_client(provider.url) as client:
        return await client.get("/oauth/userinfo", headers={"Authorization": f"Bearer {token}", **headers})


async def test_a_code_is_bound_to_its_request(provider: Provider, club: Registered, browser: Browser):
    pkce, other = Pkce(), await provider.client(name="Other")
    code = await the_code(provider, club, browser, pkce)
    assert (await redeem(provider, other, code, pkce, 400))["error"] == "invalid_grant"
    assert (await redeem(provider, club, code, pkce, 400, redirect_uri=CALLBACK + "/"))["error"] == "invalid_grant"
    assert (await redeem(provider, club, code, Pkce(), 400))["error"] == "invalid_grant"
    for verifier in ("", "short", pkce.challenge, pkce.verifier + "!"):
        assert (await redeem(provider, club, code, pkce, 400, code_verifier=verifier))["error"] == "invalid_grant"
    assert (await redeem(provider, club, code[:-1], pkce, 400))["error"] == "invalid_grant"
    # What failed has not used the code up.
    assert (await redeem(provider, club, code, pkce))["access_token"]


async def test_a_code_is_stored_as_its_hash_and_expires(provider: Provider, club: Registered, browser: Browser):
    pkce = Pkce()
    code = await the_code(provider, club, browser, pkce)
    query = "select count(*) from pilotis.oauth_codes c where c::text like '%' || $1 || '%'"
    assert await run_sql(provider.app.server, query, code) == 0
    seconds = "select extract(epoch from expires_at - created_at)::int from pilotis.oauth_codes where app_id = $1"
    assert await run_sql(provider.app.server, seconds, provider.app.app_id) == 60
    await run_sql(
        provider.app.server, "update pilotis.oauth_codes set expires_at = now() where app_id = $1", provider.app.app_id
    )
    assert (await redeem(provider, club, code, pkce, 400))["error"] == "invalid_grant"


async def test_no_code_is_redeemed_after_its_member_signed_out(provider: Provider, club: Registered, browser: Browser):
    """Not even that of an offline grant, which would outlive the session."""
    pkce = Pkce()
    code = await the_code(provider, club, browser, pkce, scope="openid offline_access")
    async with provider.app.client(browser.access_token) as member:
        assert (await member.post("/v1/public/app-members/signout")).status_code == 200
    assert (await redeem(provider, club, code, pkce, 400))["error"] == "invalid_grant"


async def test_of_twenty_redemptions_one_wins_and_its_tokens_are_revoked(
    provider: Provider, club: Registered, browser: Browser
):
    pkce = Pkce()
    code = await the_code(provider, club, browser, pkce, scope="openid offline_access")
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": pkce.verifier}
    answers = await asyncio.gather(*(provider.post("token", club, **form) for _ in range(20)))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 400: 19}
    (tokens,) = [answer.json() for answer in answers if answer.status_code == 200]
    assert (await userinfo(provider, tokens["access_token"])).status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await provider.token(club, 400, **refresh))["error"] == "invalid_grant"
    (entry,) = await the_log(provider.app, action="oauth_grant.revoke")
    assert entry["details"]["reason"] == "code_reused"


async def test_another_client_cannot_end_a_grant_by_its_code(provider: Provider, club: Registered, browser: Browser):
    pkce, other = Pkce(), await provider.client(name="Other")
    code = await the_code(provider, club, browser, pkce)
    tokens = await redeem(provider, club, code, pkce)
    await redeem(provider, other, code, pkce, 400)
    assert (await userinfo(provider, tokens["access_token"])).status_code == 200


async def test_public_clients_rotate_their_refresh_tokens(provider: Provider, browser: Browser):
    public = await provider.client(token_endpoint_auth_method="none", scopes=["openid", "offline_access"])
    tokens = await signed_in(provider, public, browser, scope="openid offline_access")
    first = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    answers = await asyncio.gather(*(provider.token(public, **first) for _ in range(20)))
    assert len({answer["refresh_token"] for answer in answers}) == 1
    second = answers[0]
    assert second["refresh_token"] != tokens["refresh_token"]
    identity = claims_of(second["id_token"])
    assert identity["auth_time"] == claims_of(tokens["id_token"])["auth_time"]
    assert "nonce" not in identity
    await run_sql(
        provider.app.server,
        "update pilotis.oauth_grants set refreshed_at = now() - interval '61 seconds' where app_id = $1",
        provider.app.app_id,
    )
    assert (await provider.token(public, 400, **first))["error"] == "invalid_grant"
    # The copy has ended what its original had gained.
    again = {**first, "refresh_token": second["refresh_token"]}
    assert (await provider.token(public, 400, **again))["error"] == "invalid_grant"
    assert (await userinfo(provider, second["access_token"])).status_code == 401
    (entry,) = await the_log(provider.app, action="oauth_grant.revoke")
    assert entry["details"]["reason"] == "refresh_token_reused"


async def test_confidential_clients_keep_theirs(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="openid profile offline_access")
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await provider.token(club, **form))["refresh_token"] == tokens["refresh_token"]
    fewer = await provider.token(club, **form, scope="openid")
    assert claims_of(fewer["access_token"])["scope"] == fewer["scope"] == "openid"
    assert (await provider.token(club, 400, **form, scope="openid email"))["error"] == "invalid_scope"
    assert (await provider.token(club, **form))["scope"] == "openid profile offline_access"
    other = await provider.client(name="Other")
    assert (await provider.token(other, 400, **form))["error"] == "invalid_grant"
    for wrong in (tokens["refresh_token"][:-2] + "AA", "rt_", "rt_" + "A" * 107, tokens["access_token"]):
        assert (await provider.token(club, 400, **{**form, "refresh_token": wrong}))["error"] == "invalid_grant"
    await run_sql(
        provider.app.server,
        "update pilotis.oauth_grants set refresh_expires_at = now() where app_id = $1",
        provider.app.app_id,
    )
    assert (await provider.token(club, 400, **form))["error"] == "invalid_grant"


async def test_a_grant_ends_with_its_session_unless_it_is_offline(
    provider: Provider, club: Registered, browser: Browser
):
    bound = await signed_in(provider, club, browser, scope="openid")
    offline = await signed_in(provider, club, browser, scope="openid offline_access")
    async with provider.app.client(browser.access_token) as member:
        await member.post("/v1/public/app-members/signout")
    form = {"grant_type": "refresh_token"}
    assert (await provider.token(club, 400, **form, refresh_token=bound["refresh_token"]))["error"] == "invalid_grant"
    assert (await userinfo(provider, bound["access_token"])).status_code == 401
    assert (await provider.token(club, **form, refresh_token=offline["refresh_token"]))["access_token"]
    assert (await userinfo(provider, offline["access_token"])).status_code == 200


async def test_a_client_acts_for_itself(provider: Provider):
    await provider.scope("orders:read")
    robot = await provider.client(
        grant_types=["client_credentials"], redirect_uris=[], scopes=["openid", "orders:read"]
    )
    tokens = await provider.token(robot, grant_type="client_credentials")
    assert set(tokens) == {"access_token", "token_type", "expires_in", "scope"}
    claims = claims_of(tokens["access_token"])
    assert (claims["sub"], claims["client_id"], claims["scope"]) == (robot.client_id, robot.client_id, "orders:read")
    assert claims["aud"] == f"{provider.url}/apps/{provider.app.app_id}"
    assert not {"sid", "grant_id", "auth_time"} & set(claims)
    for scope in ("openid", "orders:write", "orders:read openid"):
        found = await provider.token(robot, 400, grant_type="client_credentials", scope=scope)
        assert found["error"] == "invalid_scope"
    assert (await userinfo(provider, tokens["access_token"])).status_code == 403
    resource = f"{provider.url.upper().replace('HTTP', 'http')}/apps/{provider.app.app_id}/"
    narrowed = await provider.token(robot, grant_type="client_credentials", resource=resource)
    assert claims_of(narrowed["access_token"])["aud"] == claims["aud"]
    found = await provider.token(robot, 400, grant_type="client_credentials", resource="https://other.example")
    assert found["error"] == "invalid_target"


async def test_grant_types_are_those_of_the_client(provider: Provider, club: Registered):
    assert (await provider.token(club, 400, grant_type="client_credentials"))["error"] == "unauthorized_client"
    for name in ("password", "implicit", "urn:ietf:params:oauth:grant-type:device_code"):
        assert (await provider.token(club, 400, grant_type=name))["error"] == "unsupported_grant_type"
    assert (await provider.token(club, 400))["error"] == "invalid_request"
    await provider.asked("PUT", "settings", {"is_provider": False})
    found = await provider.token(club, 400, grant_type="authorization_code", code="x")
    assert found["error"] == "unauthorized_client"


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def test_a_client_authenticates_in_its_one_way(provider: Provider):
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[])
    await provider.scope("a")
    await provider.asked("PUT", f"clients/{robot.client_id}", {"scopes": ["a"]})
    assert robot.secret is not None
    good = {"grant_type": "client_credentials"}
    both = {"client_id": robot.client_id, "client_secret": robot.secret}
    encoded = quote(robot.client_id, safe="").replace("-", "%2D"), quote(robot.secret, safe="").replace("-", "%2D")
    cases: list[tuple[dict[str, str], dict[str, str], int]] = [
        (robot.basic, {}, 200),
        (basic(*encoded), {}, 200),
        (robot.basic, {"client_id": robot.client_id}, 200),
        (robot.basic, {"client_id": "cl_other"}, 401),
        (robot.basic, both, 401),
        ({}, both, 401),
        ({}, {"client_id": robot.client_id}, 401),
        ({}, {}, 401),
        (basic(robot.client_id, "wrong"), {}, 401),
        (basic(robot.client_id, ""), {}, 401),
        (basic("cl_" + "A" * 32, robot.secret), {}, 401),
        ({"Authorization": "Basic x"}, {}, 401),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:x").decode()}, {}, 401),
        ({"Authorization": f"Bearer {robot.secret}"}, {}, 401),
        (robot.basic, {"client_assertion": "x"}, 401),
    ]
    async with plain_client(provider.url) as caller:
        for headers, form, status in cases:
            answer = await caller.post("/oauth/token", data={**good, **form}, headers=headers)
            assert answer.status_code == status, (headers, form, answer.text)
            assert (answer.headers["cache-control"], answer.headers.get("pragma", "no-cache")) == (
                "no-store",
                "no-cache",
            )
            if status == 401:
                assert answer.json()["error"] == "invalid_client"
                challenge = answer.headers.get("www-authenticate")
                assert (challenge or "").startswith("Basic") == headers.get("Authorization", "").startswith("Basic")
    await provider.asked("PUT", f"clients/{robot.client_id}", {"is_active": False})
    assert (await provider.token(robot, 401, **good))["error"] == "invalid_client"


async def test_two_secrets_are_good_while_one_replaces_the_other(provider: Provider):
    await provider.scope("a")
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=["a"])
    path = f"clients/{robot.client_id}/regenerate-secret"
    new = Registered(robot.client_id, (await provider.asked("POST", path, {}))["client_secret"])
    for client in (robot, new):
        assert await provider.token(client, grant_type="client_credentials")
    newest = Registered(robot.client_id, (await provider.asked("POST", path, {"overlap_seconds": 0}))["client_secret"])
    assert await provider.token(newest, grant_type="client_credentials")
    for client in (robot, new):
        assert (await provider.token(client, 401, grant_type="client_credentials"))["error"] == "invalid_client"


async def test_too_many_failures_have_to_wait_and_successes_are_free(provider: Provider):
    await provider.scope("a")
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=["a"])
    wrong = Registered(robot.client_id, "cs_wrong")
    statuses = [(await provider.post("token", wrong, grant_type="client_credentials")).status_code for _ in range(21)]
    assert statuses == [401] * 20 + [429]
    answer = await provider.post("token", wrong, grant_type="client_credentials")
    assert (answer.json()["error"], "retry-after" in answer.headers) == ("temporarily_unavailable", True)
    assert await provider.token(robot, grant_type="client_credentials")


@pytest.mark.parametrize("route", ["token", "introspect", "revoke"])
async def test_forms_alone_are_taken(provider: Provider, club: Registered, route: str):
    async with plain_client(provider.url) as caller:
        for sent in ({"json": {"grant_type": "x"}}, {"content": b"grant_type=x"}, {"files": {"grant_type": b"x"}}):
            answer = await caller.post(f"/oauth/{route}", headers=club.basic, **sent)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), answer.text
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for text in ("grant_type=a&grant_type=b", "token=%FF", "token=%00&grant_type=x", "a=" + "x" * 70_000):
            answer = await caller.post(f"/oauth/{route}", content=text, headers={**club.basic, **form})
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), answer.text
        answer = await caller.post(
            f"/oauth/{route}?grant_type=client_credentials&token=x", headers={**club.basic, **form}
        )
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.advisory("GHSA-69xg-f649-w5g2")
async def test_introspection_is_no_oracle(
    provider: Provider, club: Registered, browser: Browser, signing: tuple[Server, dict[str, str]]
):
    tokens = await signed_in(provider, club, browser, scope="openid offline_access")
    second = await Provider(new_app(*signing)).start()
    other, foreign = await provider.client(name="Other"), await second.client(is_resource_server=True)
    server = await provider.client(name="API", is_resource_server=True)

    async def asked(client: Registered, token: str) -> dict[str, object]:
        answer = await provider.post("introspect", client, token=token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    for client in (club, server):
        found = await asked(client, tokens["access_token"])
        claims = claims_of(tokens["access_token"])
        assert found["active"] is True
        assert {name: found[name] for name in ("sub", "exp", "jti", "sid", "aud", "scope")} == {
            name: claims[name] for name in ("sub", "exp", "jti", "sid", "aud", "scope")
        }
    assert "token_type" not in await asked(club, tokens["refresh_token"])
    assert (await asked(club, tokens["refresh_token"]))["active"] is True
    inactive = {"active": False}
    for client in (other, foreign):
        for token in (tokens["access_token"], tokens["refresh_token"]):
            assert await asked(client, token) == inactive
    for token in ("x", "a.b.c", tokens["id_token"], browser.access_token or "", provider.app.secret_key):
        assert await asked(club, token) == inactive
    public = await provider.client(token_endpoint_auth_method="none")
    answer = await provider.post("introspect", public, token=tokens["access_token"])
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_a_secret_key_sees_all_tokens_of_its_app(
    provider: Provider, club: Registered, browser: Browser, signing: tuple[Server, dict[str, str]]
):
    tokens = await signed_in(provider, club, browser)
    other = new_app(*signing)

    async def told(key: str, token: str) -> httpx.Response:
        async with plain_client(provider.url) as caller:
            headers = {"Authorization": f"Bearer {key}"}
            return await caller.post("/oauth/introspect", data={"token": token}, headers=headers)

    for kind in ("access_token", "refresh_token"):
        answer = await told(provider.app.secret_key, tokens[kind])
        assert (answer.json()["active"], answer.json()["client_id"]) == (True, club.client_id)
        assert (await told(other.secret_key, tokens[kind])).json() == {"active": False}
        for key in ("sk_wrong", provider.app.public_key, tokens["access_token"]):
            refused = await told(key, tokens[kind])
            assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


async def test_tokens_are_revoked_by_their_own_client(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser, scope="openid offline_access")
    other = await provider.client(name="Other")
    for client, token in ((other, tokens["access_token"]), (other, tokens["refresh_token"]), (club, "nothing")):
        answer = await provider.post("revoke", client, token=token)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await userinfo(provider, tokens["access_token"])).status_code == 200
    await provider.post("revoke", club, token=tokens["access_token"])
    assert (await userinfo(provider, tokens["access_token"])).status_code == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    next_token = (await provider.token(club, **refresh))["access_token"]
    assert (await userinfo(provider, next_token)).status_code == 200
    await provider.post("revoke", club, token=tokens["refresh_token"])
    assert (await userinfo(provider, next_token)).status_code == 401
    assert (await provider.token(club, 400, **refresh))["error"] == "invalid_grant"


async def test_userinfo_says_what_was_shared(provider: Provider, browser: Browser):
    await provider.app.member("grace@example.com", "correct horse")
    browser.login_id = "grace@example.com"
    client = await provider.client(scopes=["openid", "profile", "email", "address"])
    tokens = await signed_in(provider, client, browser, scope="openid profile email address")
    async with provider.app.client(browser.access_token) as member:
        await member.patch(
            "/v1/public/app-members/me/custom-data",
            json={"custom_data": {"address": {"country": "KR"}, "sub": "eve", "email": "eve@example.com"}},
        )
    found = (await userinfo(provider, tokens["access_token"])).json()
    assert found["sub"] == claims_of(tokens["access_token"])["sub"]
    assert (found["email"], found["email_verified"]) == ("grace@example.com", False)
    assert found["address"] == {"country": "KR"}
    fewer = await signed_in(provider, client, browser, scope="openid")
    assert set((await userinfo(provider, fewer["access_token"])).json()) == {"sub"}


async def test_userinfo_takes_a_token_in_two_ways(provider: Provider, club: Registered, browser: Browser):
    token = (await signed_in(provider, club, browser))["access_token"]
    async with plain_client(provider.url) as caller:
        assert (await caller.post("/oauth/userinfo", data={"access_token": token})).status_code == 200
        bearer = {"Authorization": f"bearer {token}"}
        assert (await caller.get("/oauth/userinfo", headers=bearer)).status_code == 200
        both = await caller.post("/oauth/userinfo", data={"access_token": token}, headers=bearer)
        assert both.status_code == 401
        for answer in (
            await caller.get("/oauth/userinfo"),
            await caller.get("/oauth/userinfo", params={"access_token": token}),
        ):
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_userinfo_may_be_read_by_pages_of_the_tokens_client(
    provider: Provider, club: Registered, browser: Browser
):
    token = (await signed_in(provider, club, browser))["access_token"]
    own = await userinfo(provider, token, Origin="https://club.example")
    assert own.headers["access-control-allow-origin"] == "https://club.example"
    assert "origin" in own.headers["vary"].lower()
    assert "access-control-allow-credentials" not in own.headers
    foreign = await userinfo(provider, token, Origin="https://evil.example")
    assert "access-control-allow-origin" not in foreign.headers
    assert "origin" in foreign.headers["vary"].lower()
    async with plain_client(provider.url) as caller:
        asked = {"Origin": "https://any.example", "Access-Control-Request-Method": "GET"}
        preflight = await caller.options("/oauth/userinfo", headers=asked)
    assert preflight.headers["access-control-allow-origin"] == "https://any.example"


def forged(token: str, **header: object) -> str:
    payload = token.split(".")[1]
    head = base64url(json.dumps({"alg": "RS256", "typ": "at+jwt", **header}).encode())
    key = rs256.generate()
    return f"{head}.{payload}.{base64url(key.signature(f'{head}.{payload}'.encode()))}"


@pytest.mark.advisory("GHSA-4q3h-vp4r-prv2", "CVE-2025-59420", "CVE-2026-31813")
async def test_no_other_token_passes_for_an_access_token(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser)
    access, head = tokens["access_token"], tokens["access_token"].split(".")
    kid = json.loads(base64.urlsafe_b64decode(head[0] + "=="))["kid"]
    none = base64url(json.dumps({"alg": "none", "typ": "at+jwt", "kid": kid}).encode())
    wrong = {
        "an ID token": tokens["id_token"],
        "a refresh token": tokens["refresh_token"],
        "a member's token": browser.access_token or "",
        "a secret key": provider.app.secret_key,
        "no algorithm": f"{none}.{head[1]}.",
        "another key": forged(access, kid=kid),
        "another kid": forged(access, kid="../../etc/passwd"),
        "a key that it brings": forged(access, kid=kid, jwk=rs256.generate().public.jwk()),
        "an address of keys": forged(access, kid=kid, jku="https://evil.example/jwks"),
        "critical": forged(access, kid=kid, crit=["x"]),
        "a cut": access[:-4],
        "too long": access + "A" * 20_000,
    }
    for name, token in wrong.items():
        answer = await userinfo(provider, token)
        assert answer.status_code == 401, name
        assert 'error="invalid_token"' in answer.headers["www-authenticate"], name
    # And no OAuth token is a member's.
    for token in (access, tokens["id_token"]):
        async with provider.app.client(token) as client:
            assert (await client.get("/v1/public/app-members/me")).status_code == 401


@pytest.fixture
def keyless_server(tmp_path: Path) -> Iterator[Server]:
    """A server of its own: on the one that tests share, another may have created the key."""
    running = Server(tmp_path / "data").start()
    yield running
    running.stop()


async def test_without_a_key_nothing_is_signed_and_the_rest_lives_on(keyless_server: Server):
    server = keyless_server
    keyless = await Provider(new_app(server, first_console_user(server))).start()
    await keyless.app.member("ada", "correct horse")
    client = await keyless.client()
    async with Browser(keyless, "ada") as browser:
        answer = await browser.approve(keyless.authorize_url(client, Pkce()))
        assert answer["code"]
    answer = await keyless.post("token", client, grant_type="authorization_code", code=answer["code"])
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert "retry-after" in answer.headers
    async with plain_client(server.url) as caller:
        assert (await caller.post("/oauth/token", json={})).status_code == 503
    assert (await keyless.post("introspect", client, token="x")).json() == {"active": False}


async def test_a_client_shows_when_it_was_last_used(provider: Provider):
    robot = await provider.client(grant_types=["client_credentials"], redirect_uris=[], scopes=[])
    assert (await provider.asked("GET", f"clients/{robot.client_id}"))["last_used_at"] is None
    wrong = Registered(robot.client_id, "cs_wrong")
    assert (await provider.token(wrong, 401, grant_type="client_credentials"))["error"] == "invalid_client"
    assert (await provider.asked("GET", f"clients/{robot.client_id}"))["last_used_at"] is None
    await provider.token(robot, grant_type="client_credentials")
    first = (await provider.asked("GET", f"clients/{robot.client_id}"))["last_used_at"]
    assert first is not None
    # To the minute: not each request is a write.
    await provider.token(robot, grant_type="client_credentials")
    await run_sql(
        provider.app.server,
        "update pilotis.oauth_clients set last_used_at = last_used_at - interval '1 hour' where client_id = $1",
        robot.client_id,
    )
    before = (await provider.asked("GET", f"clients/{robot.client_id}"))["last_used_at"]
    await provider.token(robot, grant_type="client_credentials")
    assert (await provider.asked("GET", f"clients/{robot.client_id}"))["last_used_at"] >= first > before
