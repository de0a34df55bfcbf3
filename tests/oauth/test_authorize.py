"""The authorization endpoint: what is rejected with a page, what with a redirect, and when no consent is requested."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from pilotis.oauth.flow.texts import language
from tests.backstage import run_sql
from tests.conftest import new_app
from tests.oauth.browsing import CALLBACK, Browser, Pkce, Provider, Registered, landed, redeem, signed_in
from tests.support import assert_error

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("de, fr;q=0.5", "de"),
        ("fr;q=0.1, de-AT; q=0.9", "de"),
        ("se ko en", "ko"),
        ("ko-KR", "ko"),
        ("xx", "en"),
        ("", "en"),
        (None, "en"),
    ],
)
def test_pages_are_in_the_language_that_is_wanted_most(wanted: str | None, expected: str):
    assert language(wanted) == expected


async def refused_by_page(browser: Browser, url: str, says: str) -> None:
    answer = await browser.visit(url)
    assert answer.status_code == 400, answer.text
    assert "location" not in answer.headers
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert says in answer.text


async def refused_by_redirect(browser: Browser, url: str, error: str) -> dict[str, str]:
    answer = await browser.visit(url)
    assert answer.status_code == 303, answer.text
    found = landed(answer.headers["location"])
    assert found["error"] == error, found
    assert found["iss"] == browser.provider.url
    assert "code" not in found
    return found


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "uri",
    [
        "https://club.example/callback/",
        "https://club.example/Callback",
        "https://CLUB.example/callback",
        "https://club.example:443/callback",
        "https://club.example/callback?x=1",
        "https://club.example/a/../callback",
        "https://club.example/%63allback",
        "https://club.example/%2e/callback",
        "https://club.example@evil.example/callback",
        "https://club.example\\@evil.example/callback",
        "https://club.example.evil.example/callback",
        "https://club.example/callback#x",
        "http://club.example/callback",
        "//club.example/callback",
        "https://club.example/callback ",
        "javascript:alert(1)",
        "",
    ],
)
async def test_another_redirect_uri_is_never_redirected_to(
    provider: Provider, club: Registered, browser: Browser, uri: str
):
    url = provider.authorize_url(club, Pkce(), redirect_uri=uri)
    await refused_by_page(browser, url, "redirect_uri")


async def test_a_client_that_nobody_knows_gets_a_page(provider: Provider, club: Registered, browser: Browser):
    unknown = club.client_id[:-1] + ("A" if club.client_id[-1] != "A" else "B")
    for client_id in (unknown, "x", "cl_", "cl_\u00e9", "cl_" + "A" * 32, "https://evil.example/client"):
        url = provider.authorize_url(Registered(client_id, None), Pkce())
        await refused_by_page(browser, url, "no client with this client_id")
    await refused_by_page(browser, provider.authorize_url(Registered("", None), Pkce()), "client_id")
    await provider.asked("PUT", f"clients/{club.client_id}", {"is_active": False})
    await refused_by_page(browser, provider.authorize_url(club, Pkce()), "no client with this client_id")


async def test_an_app_that_is_no_provider_gets_a_page(provider: Provider, club: Registered, browser: Browser):
    await provider.asked("PUT", "settings", {"is_provider": False})
    await refused_by_page(browser, provider.authorize_url(club, Pkce()), "is not a provider")


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "state", "scope", "code_challenge"])
async def test_a_parameter_given_twice_gets_a_page(provider: Provider, club: Registered, browser: Browser, name: str):
    url = provider.authorize_url(club, Pkce())
    await refused_by_page(browser, f"{url}&{name}=x", f"is repeated: {name}")


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"request": "x"}, "request_not_supported"),
        ({"request_uri": "https://evil.example/request"}, "request_uri_not_supported"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"scope": "openid nothing"}, "invalid_scope"),
        ({"scope": "openid address"}, "invalid_scope"),
        ({"scope": "openid  profile"}, "invalid_scope"),
        ({"scope": None}, "invalid_scope"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "x" * 42}, "invalid_request"),
        ({"code_challenge": "x" * 42 + "="}, "invalid_request"),
        ({"state": "s" * 2001}, "invalid_request"),
        ({"nonce": "n" * 2001}, "invalid_request"),
        ({"max_age": "-1"}, "invalid_request"),
        ({"max_age": "1e3"}, "invalid_request"),
        ({"dpop_jkt": "x"}, "invalid_request"),
        ({"prompt": "none login"}, "invalid_request"),
        ({"prompt": "create"}, "invalid_request"),
        ({"id_token_hint": "a.b.c"}, "invalid_request"),
    ],
)
async def test_any_other_mistake_is_told_to_the_client(
    provider: Provider, club: Registered, browser: Browser, changes: dict[str, str | None], error: str
):
    found = await refused_by_redirect(browser, provider.authorize_url(club, Pkce(), **changes), error)
    if "state" not in changes:
        assert found["state"] == "the state"
    assert found["error_description"].isascii()


async def test_state_comes_back_as_it_was_and_the_query_of_the_address_stays(provider: Provider, browser: Browser):
    callback = f"{CALLBACK}?tenant=1&x=%20"
    client = await provider.client(redirect_uris=[callback])
    state = "\u20ac &=#%00?'\"<script>+ /\\"
    url = provider.authorize_url(client, Pkce(), redirect_uri=callback, state=state)
    request_id = await browser.begin(url)
    await browser.sign_in()
    location = (await browser.consent("approve", request_id)).json()["redirect_to"]
    assert location.startswith(f"{callback}&code=")
    found = parse_qs(urlsplit(location).query)
    assert found["state"] == [state]
    assert found["iss"] == [provider.url]
    denied = await browser.begin(url + "&prompt=consent")
    location = (await browser.consent("deny", denied)).json()["redirect_to"]
    assert parse_qs(urlsplit(location).query)["state"] == [state]


async def test_a_request_may_come_as_a_form(provider: Provider, club: Registered, browser: Browser):
    query = urlsplit(provider.authorize_url(club, Pkce())).query
    answer = await browser.http.post("/oauth/authorize", content=query, headers={"Content-Type": FORM})
    assert answer.status_code == 303
    assert urlsplit(answer.headers["location"]).path == "/oauth/consent"
    answer = await browser.http.post(f"/oauth/authorize?{query}", content="", headers={"Content-Type": FORM})
    assert answer.status_code == 400
    answer = await browser.http.post("/oauth/authorize", json={"client_id": club.client_id})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")


async def test_other_methods_and_paths_get_their_style(provider: Provider, browser: Browser):
    answer = await browser.http.put("/oauth/authorize")
    assert (answer.status_code, "allow" in answer.headers) == (405, True)
    assert answer.headers["content-type"].startswith("text/html")
    answer = await browser.http.get("/oauth/token")
    assert (answer.status_code, answer.json()["error"]) == (405, "invalid_request")
    answer = await browser.http.get("/oauth/nothing")
    assert (answer.status_code, answer.json()["error"]) == (404, "invalid_request")


async def test_who_is_signed_in_is_asked_once(provider: Provider, club: Registered, browser: Browser):
    first = await browser.approve(provider.authorize_url(club, Pkce()))
    silent = landed((await browser.visit(provider.authorize_url(club, Pkce(), prompt="none"))).headers["location"])
    at_once = landed((await browser.visit(provider.authorize_url(club, Pkce()))).headers["location"])
    assert first["code"] != at_once["code"] != silent["code"]
    more = await refused_by_redirect(
        browser, provider.authorize_url(club, Pkce(), prompt="none", scope="openid profile"), "consent_required"
    )
    assert more["state"] == "the state"
    assert await browser.begin(provider.authorize_url(club, Pkce(), scope="openid profile"))
    assert await browser.begin(provider.authorize_url(club, Pkce(), prompt="consent"))
    other = await provider.client(name="Another")
    await refused_by_redirect(browser, provider.authorize_url(other, Pkce(), prompt="none"), "consent_required")


async def test_nobody_is_signed_in_elsewhere(
    provider: Provider, club: Registered, browser: Browser, signing: tuple[object, dict[str, str]]
):
    await refused_by_redirect(browser, provider.authorize_url(club, Pkce(), prompt="none"), "login_required")
    await browser.approve(provider.authorize_url(club, Pkce()))
    async with Browser(provider, "ada") as another:
        await refused_by_redirect(another, provider.authorize_url(club, Pkce(), prompt="none"), "login_required")
        assert (await another.session(await another.begin(provider.authorize_url(club, Pkce())))).status_code == 401
    second = await Provider(new_app(*signing)).start()  # type: ignore[arg-type]
    foreign = await second.client()
    await refused_by_redirect(browser, second.authorize_url(foreign, Pkce(), prompt="none"), "login_required")


async def test_signing_out_ends_the_sign_in_with_the_provider(provider: Provider, club: Registered, browser: Browser):
    await browser.approve(provider.authorize_url(club, Pkce()))
    async with provider.app.client(browser.access_token) as member:
        assert (await member.post("/v1/public/app-members/signout")).status_code == 200
    await refused_by_redirect(browser, provider.authorize_url(club, Pkce(), prompt="none"), "login_required")


async def test_a_deactivated_member_is_signed_in_no_more(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser)
    statement = "update pilotis.members set is_active = false where app_id = $1 and login_id = 'ada'"
    await run_sql(provider.app.server, statement, provider.app.app_id)
    await refused_by_redirect(browser, provider.authorize_url(club, Pkce(), prompt="none"), "login_required")
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert (await provider.token(club, 400, **refresh))["error"] == "invalid_grant"


async def test_an_older_sign_in_is_not_enough(provider: Provider, club: Registered, browser: Browser):
    await browser.approve(provider.authorize_url(club, Pkce()))
    await run_sql(
        provider.app.server,
        "update pilotis.sessions set created_at = created_at - interval '1 hour' where app_id = $1",
        provider.app.app_id,
    )
    fresh = await browser.visit(provider.authorize_url(club, Pkce(), max_age="7200"))
    assert "code" in landed(fresh.headers["location"])
    for parameters in ({"max_age": "60"}, {"max_age": "0"}, {"prompt": "login"}, {"prompt": "select_account"}):
        request_id = await browser.begin(provider.authorize_url(club, Pkce(), **parameters))
        browser.access_token = (await browser.session(request_id)).json()["access_token"]
        assert (await browser.consent("info", request_id)).json()["reauthentication_required"] is True
        assert_error(await browser.consent("approve", request_id), 401, "REAUTHENTICATION_REQUIRED")
        await browser.sign_in()
        assert (await browser.consent("info", request_id)).json()["reauthentication_required"] is False
        assert (await browser.consent("approve", request_id)).status_code == 200
        await run_sql(
            provider.app.server,
            "update pilotis.sessions set created_at = created_at - interval '1 hour' where app_id = $1",
            provider.app.app_id,
        )
    await refused_by_redirect(
        browser, provider.authorize_url(club, Pkce(), prompt="none", max_age="60"), "login_required"
    )


async def test_a_hint_names_the_member(provider: Provider, club: Registered, browser: Browser):
    tokens = await signed_in(provider, club, browser)
    hinted = provider.authorize_url(club, Pkce(), prompt="none", id_token_hint=tokens["id_token"])
    assert "code" in landed((await browser.visit(hinted)).headers["location"])
    await provider.app.member("eve")
    async with Browser(provider, "eve") as other:
        await other.approve(provider.authorize_url(club, Pkce()))
        await refused_by_redirect(other, hinted, "login_required")


async def test_a_first_party_client_asks_for_no_consent(provider: Provider, browser: Browser):
    own = Registered(provider.settings["first_party_client_id"], None)
    await provider.asked("PUT", f"clients/{own.client_id}", {"redirect_uris": [CALLBACK]})
    pkce = Pkce()
    request_id = await browser.begin(provider.authorize_url(own, pkce))
    await browser.sign_in()
    assert (await browser.consent("info", request_id)).json()["consent_required"] is False
    approved = (await browser.consent("approve", request_id)).json()
    assert approved["consent_id"] is None
    tokens = await redeem(provider, own, landed(approved["redirect_to"])["code"], pkce)
    assert tokens["refresh_token"]


@pytest.mark.parametrize("uri", ["http://127.0.0.1/cb", "http://localhost:4711/cb", "com.example.club:/cb"])
@pytest.mark.parametrize("is_own", [True, False])
async def test_a_program_without_an_identity_is_agreed_to_each_time(
    provider: Provider, browser: Browser, uri: str, is_own: bool
):
    """Any program of the device could use its client_id (RFC 8252, section 8.6)."""
    if is_own:
        program = Registered(provider.settings["first_party_client_id"], None)
        await provider.asked("PUT", f"clients/{program.client_id}", {"redirect_uris": [uri, CALLBACK]})
    else:
        program = await provider.client(token_endpoint_auth_method="none", redirect_uris=[uri, CALLBACK])
    url = provider.authorize_url(program, Pkce(), redirect_uri=uri)
    await browser.sign_in()
    for _ in range(2):
        request_id = await browser.begin(url)
        assert (await browser.consent("info", request_id)).json()["consent_required"] is True
        answer = await browser.consent("approve", request_id)
        assert landed(answer.json()["redirect_to"], uri)["code"]
    silent = await browser.visit(provider.authorize_url(program, Pkce(), redirect_uri=uri, prompt="none"))
    assert landed(silent.headers["location"], uri)["error"] == "consent_required"
    # Only the holder of the address gets what is sent to it by https.
    assert landed((await browser.visit(provider.authorize_url(program, Pkce()))).headers["location"])["code"]


async def test_an_address_that_the_app_has_removed_gets_nothing(provider: Provider, club: Registered, browser: Browser):
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    await browser.sign_in()
    query = dict(httpx.URL(provider.authorize_url(club, Pkce())).params)
    uri = (await provider.post("par", club, **query)).json()["request_uri"]
    await provider.asked("PUT", f"clients/{club.client_id}", {"redirect_uris": ["https://club.example/new"]})
    for action in ("info", "approve", "deny"):
        assert_error(await browser.consent(action, request_id), 404, "OAUTH_REQUEST_NOT_FOUND")
    opened = httpx.QueryParams({"client_id": club.client_id, "request_uri": uri})
    await refused_by_page(browser, f"{provider.url}/oauth/authorize?{opened}", "no longer has the redirect_uri")


async def test_too_many_requests_from_one_address_have_to_wait(provider: Provider, club: Registered, browser: Browser):
    """Nobody has authenticated, and each is stored; who authenticates, or is signed in, is not counted with them."""
    public = await provider.client(token_endpoint_auth_method="none")
    await browser.approve(provider.authorize_url(club, Pkce()))
    server, key = provider.app.server, "oauth_requests:console:127.0.0.1:"
    full = "insert into pilotis.rate_limits (key, hits, resets_at) values ($1, 600, now() + interval '1 hour') "
    await run_sql(server, full + "on conflict (key) do update set hits = 600, resets_at = excluded.resets_at", key)
    try:
        answer = await browser.visit(provider.authorize_url(club, Pkce(), prompt="login"))
        assert (answer.status_code, answer.headers["content-type"]) == (429, "text/html; charset=utf-8")
        assert int(answer.headers["retry-after"]) > 60
        assert "Wait a minute" in answer.text
        query = dict(httpx.URL(provider.authorize_url(public, Pkce())).params)
        answer = await provider.post("par", public, **query)
        assert (answer.status_code, answer.json()["error"]) == (429, "temporarily_unavailable")
        query["client_id"] = club.client_id
        assert (await provider.post("par", club, **query)).status_code == 201
        assert landed((await browser.visit(provider.authorize_url(club, Pkce()))).headers["location"])["code"]
    finally:
        await run_sql(server, "delete from pilotis.rate_limits where key = $1", key)


async def test_a_browser_in_a_loop_has_to_wait(provider: Provider, club: Registered, browser: Browser):
    """Each answer without a question stores a grant, which lives no longer than its code unless that is redeemed."""
    pkce, server = Pkce(), provider.app.server
    first = (await browser.approve(provider.authorize_url(club, pkce)))["code"]
    seconds = "select extract(epoch from expires_at - created_at)::int from pilotis.oauth_grants where app_id = $1"
    assert await run_sql(server, seconds, provider.app.app_id) == 60
    await redeem(provider, club, first, pkce)
    assert await run_sql(server, seconds, provider.app.app_id) == 365 * 24 * 3600
    session = await run_sql(
        server, "select session_id from pilotis.oauth_grants where app_id = $1", provider.app.app_id
    )
    silent = provider.authorize_url(club, Pkce(), prompt="none")
    assert landed((await browser.visit(silent)).headers["location"])["code"]
    key = f"oauth_requests:console:{session}"
    assert await run_sql(server, "select hits from pilotis.rate_limits where key = $1", key) == 1
    await run_sql(server, "update pilotis.rate_limits set hits = 600 where key = $1", key)
    assert (await browser.visit(silent)).status_code == 429
    assert (
        await run_sql(server, "select count(*) from pilotis.oauth_grants where app_id = $1", provider.app.app_id) == 2
    )


async def test_of_twenty_approvals_one_counts(provider: Provider, club: Registered, browser: Browser):
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    await browser.sign_in()
    answers = await asyncio.gather(*(browser.consent("approve", request_id) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"OAUTH_REQUEST_DECIDED"}
    assert_error(await browser.consent("deny", request_id), 409, "OAUTH_REQUEST_DECIDED")
    page = await browser.http.get("/oauth/consent", params={"request_id": request_id})
    assert (page.status_code, page.headers["content-type"]) == (409, "text/html; charset=utf-8")


async def test_a_request_belongs_to_one_member_and_one_browser(provider: Provider, club: Registered, browser: Browser):
    await provider.app.member("eve")
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    await browser.sign_in()
    assert (await browser.consent("info", request_id)).status_code == 200
    async with Browser(provider, "eve") as other:
        await other.sign_in()
        assert_error(await other.consent("info", request_id), 404, "OAUTH_REQUEST_NOT_FOUND")
        assert_error(await other.consent("approve", request_id), 404, "OAUTH_REQUEST_NOT_FOUND")
    async with Browser(provider, "ada") as another:
        # The request of one who wants a victim to approve it: without the cookie of the browser that began.
        await another.sign_in()
        assert_error(await another.consent("approve", request_id), 403, "WRONG_BROWSER")
    token = {"Authorization": f"Bearer {browser.access_token}"}
    for origin in ("https://evil.example", "null"):
        answer = await browser.http.post(
            "/v1/oauth/consent/approve", json={"request_id": request_id}, headers={**token, "Origin": origin}
        )
        assert_error(answer, 403, "WRONG_BROWSER")
    assert (await browser.consent("approve", request_id)).status_code == 200


async def test_guests_connect_nothing(provider: Provider, club: Registered, browser: Browser):
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    browser.access_token = (await provider.app.guest())["access_token"]
    for action in ("info", "approve", "deny"):
        assert_error(await browser.consent(action, request_id), 403, "GUEST_NOT_ALLOWED")


async def test_members_of_another_app_see_nothing(
    provider: Provider, club: Registered, browser: Browser, signing: tuple[object, dict[str, str]]
):
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    second = await Provider(new_app(*signing)).start()  # type: ignore[arg-type]
    browser.access_token = (await second.app.member("ada"))["access_token"]
    for action in ("info", "approve", "deny"):
        assert_error(await browser.consent(action, request_id), 404, "OAUTH_REQUEST_NOT_FOUND")


async def test_a_request_expires(provider: Provider, club: Registered, browser: Browser):
    request_id = await browser.begin(provider.authorize_url(club, Pkce()))
    await browser.sign_in()
    await run_sql(
        provider.app.server,
        "update pilotis.oauth_requests set expires_at = now() where app_id = $1",
        provider.app.app_id,
    )
    for action in ("info", "approve", "deny"):
        assert_error(await browser.consent(action, request_id), 409, "OAUTH_REQUEST_EXPIRED")


async def test_a_member_may_agree_to_less(provider: Provider, browser: Browser):
    await provider.scope("orders:read", title="See your orders")
    await provider.scope("orders:write", title="Change your orders", is_required=True)
    client = await provider.client(scopes=["openid", "profile", "orders:read", "orders:write"])
    url = provider.authorize_url(client, Pkce(), scope="openid profile orders:read orders:write")
    request_id = await browser.begin(url)
    await browser.sign_in()
    info = (await browser.consent("info", request_id)).json()
    assert [(one["name"], one["is_required"]) for one in info["scopes"]] == [
        ("openid", True),
        ("profile", False),
        ("orders:read", False),
        ("orders:write", True),
    ]
    assert_error(await browser.consent("approve", request_id, scopes=["email"]), 400, "INVALID_SCOPE")
    approved = (await browser.consent("approve", request_id, scopes=["orders:read"])).json()
    assert approved["scopes"] == ["openid", "orders:read", "orders:write"]
    again = await browser.begin(url)
    granted = {one["name"]: one["already_granted"] for one in (await browser.consent("info", again)).json()["scopes"]}
    assert granted == {"openid": True, "profile": False, "orders:read": True, "orders:write": True}


async def test_the_session_route_takes_the_servers_own_page_alone(
    provider: Provider, club: Registered, browser: Browser
):
    await browser.approve(provider.authorize_url(club, Pkce()))
    request_id = await browser.begin(provider.authorize_url(club, Pkce(), prompt="consent"))
    for headers in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": CALLBACK}):
        answer = await browser.http.post("/oauth/consent/session", data={"request_id": request_id}, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "access_denied")
    found = await browser.session(request_id)
    assert found.status_code == 200
    assert set(found.json()) == {"member_id", "nickname", "access_token"}
    assert "access-control-allow-origin" not in found.headers


async def test_login_options_tell_how_to_sign_in(provider: Provider, club: Registered, browser: Browser):
    path = f"/v1/public/oauth/clients/{club.client_id}/login-options"
    found = (await browser.http.get(path, headers={"Origin": "https://any.example"})).json()
    assert found["provider_app"]["public_key"] == provider.settings["public_key"]
    assert (found["client"]["name"], found["allow_guest_login"]) == ("Coffee club", False)
    await provider.asked("PUT", "settings", {"is_provider": False})
    assert_error(await browser.http.get(path), 404, "OAUTH_CLIENT_NOT_FOUND")


async def test_an_app_may_have_a_consent_page_of_its_own(provider: Provider, club: Registered, browser: Browser):
    await provider.asked("PUT", "settings", {"consent_url": "https://app.example/consent?x=1"})
    answer = await browser.visit(provider.authorize_url(club, Pkce()))
    location = answer.headers["location"]
    assert location.startswith("https://app.example/consent?x=1&request_id=req_")
    query = parse_qs(urlsplit(location).query)
    assert query["client_id"] == [club.client_id]
    async with provider.app.client() as elsewhere:
        body = {"login_id": "ada", "password": "correct horse"}
        token = (await elsewhere.post("/v1/public/app-members/signin", json=body)).json()["access_token"]
        answer = await elsewhere.post(
            "/v1/oauth/consent/approve",
            json={"request_id": query["request_id"][0]},
            headers={"Authorization": f"Bearer {token}", "Origin": "https://app.example"},
        )
    assert answer.status_code == 200, answer.text
    assert "set-cookie" not in answer.headers
