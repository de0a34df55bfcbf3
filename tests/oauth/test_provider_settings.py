"""The settings by which an app is a provider, and the documents in which clients look the provider up."""

import httpx
import pytest

from tests.backstage import run_sql
from tests.console import owner_of, the_log, user_with
from tests.support import App, Server, assert_error

INITIAL = {
    "is_provider": False,
    "access_token_seconds": 600,
    "refresh_idle_days": 30,
    "refresh_absolute_days": 365,
    "consent_url": None,
    "login_redirect_uris": [],
    "dpop_nonce": "offered",
    "link_by_verified_email": False,
    "resources": [],
    "dynamic_clients": False,
    "dynamic_scopes": [],
    "first_party_client_id": None,
    "public_key": None,
    "updated_at": None,
}


async def test_an_app_is_no_provider_until_somebody_says_so(app: App):
    async with owner_of(app).client(app) as console:
        assert (await console.get("/oauth/settings")).json() == INITIAL
        changed = (await console.put("/oauth/settings", json={"access_token_seconds": 300})).json()
        assert changed == {**INITIAL, "access_token_seconds": 300, "updated_at": changed["updated_at"]}
        assert (await console.get("/oauth/settings")).json() == changed


async def test_a_provider_gets_a_client_of_its_own_and_a_key_for_the_consent_page(app: App):
    async with owner_of(app).client(app) as console:
        made = (await console.put("/oauth/settings", json={"is_provider": True})).json()
        client = (await console.get(f"/oauth/clients/{made['first_party_client_id']}")).json()
        assert (client["first_party"], client["client_type"], client["is_active"]) == (True, "public", True)
        again = (await console.put("/oauth/settings", json={"is_provider": True})).json()
        assert [again[name] for name in ("first_party_client_id", "public_key")] == [
            made["first_party_client_id"],
            made["public_key"],
        ]
    key = {"X-Public-Key": made["public_key"]}
    async with httpx.AsyncClient(base_url=app.server.url, headers=key) as page:
        own = await page.get("/v1/public/tables", headers={"Origin": app.server.url})
        assert own.status_code == 200, own.text
        foreign = await page.get("/v1/public/tables", headers={"Origin": "https://other.example"})
        assert_error(foreign, 403, "ORIGIN_NOT_ALLOWED")
    (entry, *_) = await the_log(app, action="oauth_settings.update")
    assert entry["details"]["is_provider"] is True


async def test_a_key_that_was_revoked_is_replaced(app: App):
    async with owner_of(app).client(app) as console:
        made = (await console.put("/oauth/settings", json={"is_provider": True})).json()
        revoke = "update pilotis.public_keys set revoked_at = now() where key = $1"
        await run_sql(app.server, revoke, made["public_key"])
        assert (await console.put("/oauth/settings", json={})).json()["public_key"] != made["public_key"]


async def test_the_key_may_be_used_from_the_apps_own_consent_page(app: App):
    async with owner_of(app).client(app) as console:
        await console.put("/oauth/settings", json={"is_provider": True})
        made = (await console.put("/oauth/settings", json={"consent_url": "https://app.example/consent"})).json()
    async with httpx.AsyncClient(base_url=app.server.url, headers={"X-Public-Key": made["public_key"]}) as page:
        answer = await page.get("/v1/public/tables", headers={"Origin": "https://app.example"})
        assert answer.status_code == 200, answer.text


async def test_owners_alone_say_where_members_are_sent(app: App):
    editor = await user_with(app, "editor")
    async with editor.client(app) as console:
        for field, value in (
            ("consent_url", "https://evil.example"),
            ("login_redirect_uris", ["https://evil.example"]),
        ):
            assert_error(await console.put("/oauth/settings", json={field: value}), 403, "ROLE_REQUIRED")
        assert (await console.put("/oauth/settings", json={"access_token_seconds": 60})).status_code == 200


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "wrong",
    [
        {"access_token_seconds": 59},
        {"access_token_seconds": 3601},
        {"access_token_seconds": True},
        {"refresh_idle_days": 0},
        {"consent_url": "http://app.example/"},
        {"consent_url": "javascript:alert(1)"},
        {"consent_url": "https://user@app.example/"},
        {"login_redirect_uris": ["https://a.example/#x"]},
        {"is_provider": "yes"},
        {"resources": ["http://api.example/"]},
        {"resources": ["https://api.example/#x"]},
        {"resources": ["https://api.example/?tenant=1"]},
        {"resources": ["https://api.example", "https://API.example/"]},
        {"resources": ["api.example"]},
        {"public_key": "pk_x"},
        {"app_id": "x"},
    ],
)
async def test_what_is_no_setting_is_refused(app: App, wrong: dict[str, object]):
    async with owner_of(app).client(app) as console:
        assert_error(await console.put("/oauth/settings", json=wrong), 400, "VALIDATION_FAILED")
        assert (await console.get("/oauth/settings")).json() == INITIAL


async def test_both_discovery_documents_say_the_same(server: Server):
    paths = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
    async with httpx.AsyncClient(base_url=server.url) as client:
        answers = [await client.get(path, headers={"Origin": "https://any.example"}) for path in paths]
        preflight = await client.options(paths[0], headers={"Origin": "https://any.example"})
    assert answers[0].content == answers[1].content
    for answer in (*answers, preflight):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
    assert answers[0].headers["cache-control"] == "public, max-age=300"
    found = answers[0].json()
    assert found["issuer"] == server.url
    endpoints = [value for name, value in found.items() if name.endswith(("_endpoint", "_uri"))]
    assert all(value.startswith(f"{server.url}/") for value in endpoints)
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["response_types_supported"] == ["code"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["request_parameter_supported"] is False
