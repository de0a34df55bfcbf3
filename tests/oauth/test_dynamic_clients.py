"""Clients that were not registered with an app: they register themselves, or publish their metadata at their id."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from pilotis.db.pool import Database
from pilotis.oauth import client_store
from pilotis.oauth.feature import OAuthFeature
from pilotis.oauth.flow import store as flow_store
from tests import databases
from tests.backstage import run_sql
from tests.console import owner_of
from tests.http.bare import application, serving
from tests.oauth.browsing import CALLBACK, Browser, Pkce, Provider, Registered, landed, redeem, signed_in
from tests.receiver import Receiver
from tests.services import stale_node
from tests.support import Server, plain_client
from tests.waiting import PATIENCE

PUBLIC = {"token_endpoint_auth_method": "none", "redirect_uris": [CALLBACK], "client_name": "Assistant"}
LOOPBACK = "http://127.0.0.1:4711/callback"


@pytest.fixture
async def opened(provider: Provider) -> Provider:
    """A provider that accepts dynamic clients, also for its scope `orders:read`."""
    await provider.scope("orders:read")
    await provider.asked("PUT", "settings", {"dynamic_clients": True, "dynamic_scopes": ["orders:read", "profile"]})
    await forget_registrations(provider)
    return provider


async def forget_registrations(provider: Provider) -> None:
    """Let this address register clients again."""
    await run_sql(provider.app.server, "delete from pilotis.rate_limits where key like 'oauth_registrations:%'")


async def register(provider: Provider, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with plain_client(provider.url) as caller:
        sent = {"content-type": "application/json", **headers}
        return await caller.post("/oauth/register", content=content, headers=sent)


async def registered(provider: Provider, **fields: Any) -> Registered:
    answer = await register(provider, {**PUBLIC, **fields})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return Registered(answer.json()["client_id"], answer.json().get("client_secret"))


def resource(provider: Provider) -> str:
    return f"{provider.url}/apps/{provider.app.app_id}"


async def test_the_address_of_an_apps_mcp_server_names_the_app(opened: Provider, browser: Browser):
    client = await registered(opened)
    for path, is_known in (("mcp", True), ("mcp/apps", False), ("other", False)):
        to = f"{opened.url}/{path}/{opened.app.app_id}"
        answer = await browser.visit(opened.authorize_url(client, Pkce(), resource=to))
        assert answer.status_code == (303 if is_known else 400), answer.text
        assert ("/oauth/consent?" in answer.headers.get("location", "")) is is_known


async def test_a_client_registers_itself_and_members_connect_it(opened: Provider, browser: Browser):
    client = await registered(opened, grant_types=["authorization_code", "refresh_token", "implicit"])
    pkce, to = Pkce(), resource(opened)
    url = opened.authorize_url(client, pkce, resource=to, scope="openid orders:read")
    request_id = await browser.begin(url)
    async with plain_client(opened.url) as caller:
        path = f"/v1/public/oauth/clients/{client.client_id}/login-options"
        options = await caller.get(path, params={"request_id": request_id})
        assert options.json()["client"]["name"] == "Assistant"
        assert (await caller.get(path)).json()["code"] == "OAUTH_CLIENT_NOT_FOUND"
    await browser.sign_in()
    info = (await browser.consent("info", request_id)).json()
    assert info["client"]["is_verified"] is False
    back = landed((await browser.consent("approve", request_id)).json()["redirect_to"])
    tokens = await redeem(opened, client, back["code"], pkce)
    assert tokens["scope"] == "openid orders:read"
    fresh = await opened.token(client, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    async with plain_client(opened.url) as caller:
        headers = {"Authorization": f"Bearer {fresh['access_token']}", "Origin": "https://club.example"}
        told = await caller.get("/oauth/userinfo", headers=headers)
        assert told.headers["access-control-allow-origin"] == "https://club.example"
    shown = (await opened.asked("GET", f"clients/{client.client_id}"))["source"]
    assert shown == "registration"
    assert (await opened.post("revoke", client, token=fresh["access_token"])).status_code == 200
    async with plain_client(opened.url) as caller:
        assert (await caller.get("/oauth/userinfo", headers=headers)).status_code == 401


async def test_a_confidential_client_gets_a_secret_once(opened: Provider, browser: Browser):
    client = await registered(opened, token_endpoint_auth_method="client_secret_basic")
    assert client.secret
    tokens = await signed_in(opened, client, browser, resource=resource(opened))
    assert tokens["id_token"]
    wrong = Registered(client.client_id, "cs_wrong")
    answer = await opened.post("token", wrong, grant_type="authorization_code", code="x", resource=resource(opened))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    shown = json.dumps(await opened.asked("GET", f"clients/{client.client_id}"))
    assert client.secret not in shown


async def test_an_app_decides_whether_it_accepts_them(opened: Provider, browser: Browser):
    client = await registered(opened)
    url = opened.authorize_url(client, Pkce(), resource=resource(opened))
    await browser.approve(url)
    await opened.asked("PUT", "settings", {"dynamic_clients": False})
    assert (await browser.visit(url)).status_code == 400
    await opened.asked("PUT", "settings", {"dynamic_clients": True})
    assert (await browser.visit(url)).status_code == 303
    await opened.asked("PUT", f"clients/{client.client_id}", {"is_active": False})
    assert (await browser.visit(url)).status_code == 400, "A disabled client came back."
    other = opened.authorize_url(await registered(opened), Pkce())
    assert "resource" in (await browser.visit(other)).text
    away = opened.authorize_url(await registered(opened), Pkce(), resource="https://elsewhere.example")
    assert (await browser.visit(away)).status_code == 400


async def test_a_dynamic_client_gets_no_more_than_the_settings_allow(opened: Provider, browser: Browser):
    await opened.scope("orders:write")
    client = await registered(
        opened, scope="openid orders:write", grant_types=["authorization_code", "client_credentials"]
    )
    url = opened.authorize_url(client, Pkce(), resource=resource(opened), scope="openid orders:write")
    assert landed((await browser.visit(url)).headers["location"])["error"] == "invalid_scope"
    shown = await opened.asked("GET", f"clients/{client.client_id}")
    assert shown["grant_types"] == ["authorization_code"]
    async with owner_of(opened.app).client(opened.app) as console:
        changed = await console.put(f"/oauth/clients/{client.client_id}", json={"first_party": True})
        assert changed.status_code == 400
        changed = await console.put(
            f"/oauth/clients/{client.client_id}", json={"redirect_uris": ["https://x.example/"]}
        )
        assert changed.json()["code"] == "OAUTH_CLIENT_DYNAMIC"


WRONG: dict[str, tuple[Any, str]] = {
    "no JSON": (b"redirect_uris", "invalid_client_metadata"),
    "a list": ([], "invalid_client_metadata"),
    "no address": ({"token_endpoint_auth_method": "none"}, "invalid_redirect_uri"),
    "http elsewhere": ({**PUBLIC, "redirect_uris": ["http://club.example/"]}, "invalid_redirect_uri"),
    "a script": ({**PUBLIC, "redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
    "a fragment": ({**PUBLIC, "redirect_uris": [CALLBACK + "#x"]}, "invalid_redirect_uri"),
    "eleven": ({**PUBLIC, "redirect_uris": [f"{CALLBACK}/{i}" for i in range(11)]}, "invalid_redirect_uri"),
    "a method": ({**PUBLIC, "token_endpoint_auth_method": "tls_client_auth"}, "invalid_client_metadata"),
    "implicit": ({**PUBLIC, "grant_types": ["implicit"]}, "invalid_client_metadata"),
    "for itself": ({**PUBLIC, "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
    "a response type": ({**PUBLIC, "response_types": ["token"]}, "invalid_client_metadata"),
    "keys elsewhere": ({**PUBLIC, "jwks_uri": "https://club.example/jwks"}, "invalid_client_metadata"),
    "no keys": ({**PUBLIC, "token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
    "too long": ({**PUBLIC, "x": "x" * 4096}, "invalid_client_metadata"),
    "a script as site": ({**PUBLIC, "client_uri": "javascript:alert(1)"}, "invalid_client_metadata"),
    "nested": (b'{"jwks":' * 2000, "invalid_client_metadata"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_metadata_are_told(opened: Provider, name: str):
    body, error = WRONG[name]
    answer = await register(opened, body)
    assert (answer.status_code, answer.json()["error"]) == (400, error), answer.text


async def test_registration_takes_json_alone_and_any_origin(opened: Provider):
    async with plain_client(opened.url) as caller:
        answer = await caller.post("/oauth/register", data={"client_name": "x"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    answer = await register(opened, PUBLIC, Origin="https://inspector.example")
    assert answer.status_code == 201
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_the_operator_may_close_registration_without_a_credential(opened: Provider):
    settings = {"base_url": opened.url, "oauth_dynamic_registration": False}
    async with stale_node(opened.app.server, **settings) as services:
        feature = services.features.get(OAuthFeature)
        routes: Any = SimpleNamespace(table=lambda: [one for group in feature.endpoints for one in group.table()])
        async with serving(application(routes)) as url, plain_client(url) as caller:
            refused = await caller.post("/oauth/register", json=PUBLIC)
            assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
            assert refused.headers["www-authenticate"] == "Bearer"
            for path in ("oauth-authorization-server", "openid-configuration"):
                assert "registration_endpoint" not in (await caller.get(f"/.well-known/{path}")).json()
            # A secret key is the initial access token of its app, whatever the operator has set.
            key = {"Authorization": f"Bearer {opened.app.secret_key}"}
            assert (await caller.post("/oauth/register", json=PUBLIC, headers=key)).status_code == 201
    async with plain_client(opened.url) as caller:
        metadata = (await caller.get("/.well-known/openid-configuration")).json()
    assert metadata["registration_endpoint"] == f"{opened.url}/oauth/register"


async def test_too_many_registrations_from_one_address_have_to_wait(opened: Provider):
    answers = [await register(opened, PUBLIC) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [201] * 10 + [429]
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert int(answers[-1].headers["retry-after"]) > 60
    await forget_registrations(opened)


async def test_a_secret_key_registers_a_client_of_its_app(provider: Provider, browser: Browser):
    await provider.scope("stock:read")
    body = {"redirect_uris": [CALLBACK], "scope": "openid stock:read", "grant_types": ["authorization_code"]}
    answer = await register(provider, body, Authorization=f"Bearer {provider.app.secret_key}")
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["client_secret_expires_at"], made["scope"]) == (0, "openid stock:read")
    client = Registered(made["client_id"], made["client_secret"])
    assert (await signed_in(provider, client, browser, scope="openid stock:read"))["scope"] == "openid stock:read"
    shown = await provider.asked("GET", f"clients/{client.client_id}")
    assert (shown["source"], shown["is_dynamic"], shown["name"]) == ("registration", False, "club.example")
    for key in ("sk_wrong", provider.app.secret_key[:-1] + ("A" if provider.app.secret_key[-1] != "A" else "B")):
        refused = await register(provider, body, Authorization=f"Bearer {key}")
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    unknown = await register(provider, {**body, "scope": "nothing"}, Authorization=f"Bearer {provider.app.secret_key}")
    assert unknown.json()["error"] == "invalid_client_metadata"


@pytest.fixture
async def site() -> AsyncIterator[Receiver]:
    """Where a client's document is."""
    async with Receiver.listening() as receiver:
        yield receiver


def put(site: Receiver, document: Any, *, path: str = "/client.json", status: int = 200, headers: str = "") -> str:
    """Publish a document and return its URL."""
    url = site.url(path)
    fields = {"client_id": url, "client_name": "Desk", "redirect_uris": [LOOPBACK], **document}
    body = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()
    site.answers[path] = head + body
    return url


async def test_a_client_is_known_by_its_document(opened: Provider, browser: Browser, site: Receiver):
    url = put(site, {}, headers="Cache-Control: max-age=3600\r\n")
    client, pkce, to = Registered(url, None), Pkce(), resource(opened)
    parameters = {"resource": to, "redirect_uri": LOOPBACK, "scope": "openid profile"}
    request_id = await browser.begin(opened.authorize_url(client, pkce, **parameters))
    async with plain_client(opened.url) as caller:
        path = f"/v1/public/oauth/clients/{quote(url, safe='')}/login-options"
        options = await caller.get(path, params={"request_id": request_id})
        assert options.json()["client"]["name"] == "Desk", options.text
    await browser.sign_in()
    info = (await browser.consent("info", request_id)).json()
    assert (info["client"]["client_id"], info["client"]["is_verified"]) == (url, False)
    back = landed((await browser.consent("approve", request_id)).json()["redirect_to"], LOOPBACK)
    tokens = await redeem(opened, client, back["code"], pkce, redirect_uri=LOOPBACK)
    assert tokens["scope"] == "openid profile"
    await browser.begin(opened.authorize_url(client, Pkce(), **parameters))
    assert len(site.received) == 1, "The document was not cached."
    async with owner_of(opened.app).client(opened.app) as console:
        shown = await console.get(f"/oauth/clients/{quote(url, safe='')}")
        assert (shown.json()["source"], shown.json()["is_dynamic"]) == ("document", True)


async def test_requests_at_once_read_a_document_once(opened: Provider, browser: Browser, site: Receiver):
    client = Registered(put(site, {}), None)
    url = opened.authorize_url(client, Pkce(), resource=resource(opened), redirect_uri=LOOPBACK)
    answers = await asyncio.gather(*(browser.visit(url) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {303}
    assert len(site.received) == 1


BAD: dict[str, dict[str, Any]] = {
    "another client_id": {"client_id": "https://other.example/client.json"},
    "a secret": {"client_secret": "x"},
    "a method with a secret": {"token_endpoint_auth_method": "client_secret_post"},
    "another origin": {"redirect_uris": ["https://other.example/callback"]},
    "no addresses": {"redirect_uris": None},
}


@pytest.mark.parametrize("name", BAD)
async def test_a_document_that_is_not_valid_gets_a_page(opened: Provider, browser: Browser, site: Receiver, name: str):
    client = Registered(put(site, BAD[name]), None)
    url = opened.authorize_url(client, Pkce(), resource=resource(opened), redirect_uri=LOOPBACK)
    answer = await browser.visit(url)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    put(site, {})
    assert (await browser.visit(url)).status_code == 303, "An error was cached."


async def test_what_is_no_document_is_not_read(opened: Provider, browser: Browser, site: Receiver):
    async def status(client_id: str) -> int:
        parameters = {"resource": resource(opened), "redirect_uri": LOOPBACK}
        return (
            await browser.visit(opened.authorize_url(Registered(client_id, None), Pkce(), **parameters))
        ).status_code

    for path in ("/", "", "/a/../client.json", "/a/%2e%2E/client.json", "/client.json#x"):
        assert await status(site.url("") + path) == 400
    assert await status(site.url("").replace("http://", "http://user@") + "/client.json") == 400
    assert await status("http://192.0.2.1/client.json") == 400
    assert await status("https://192.0.2.1/client.json") == 400
    assert site.received == []
    for code in (302, 404, 500):
        await forget_registrations(opened)
        assert await status(put(site, {}, path=f"/{code}", status=code, headers="Location: /client.json\r\n")) == 400
    put(site, {"x": "x" * 20_000}, path="/long")
    assert await status(site.url("/long")) == 400


async def test_unused_dynamic_clients_are_deleted(opened: Provider, browser: Browser):
    used, unused = await registered(opened), await registered(opened)
    await browser.approve(opened.authorize_url(used, Pkce(), resource=resource(opened)))
    await browser.visit(opened.authorize_url(unused, Pkce(), resource=resource(opened)))
    server: Server = opened.app.server
    long_ago = "now() - interval '31 days'"
    await run_sql(server, f"update pilotis.oauth_registrations set last_used_at = {long_ago}")
    await run_sql(server, f"update pilotis.oauth_clients set created_at = {long_ago} where is_dynamic")
    await run_sql(server, f"update pilotis.oauth_requests set expires_at = {long_ago}")
    database = Database(databases.address(server.data_dir), size=1, statement_seconds=PATIENCE)
    async with database.connection() as connection:
        await flow_store.delete_expired(connection)
        await client_store.delete_unused_dynamic(connection)
        rows = await connection.fetch("select client_id from pilotis.oauth_registrations")
    await database.close()
    left = {row["client_id"] for row in rows}
    assert used.client_id in left
    assert unused.client_id not in left


async def test_twenty_first_requests_at_once_make_one_client(opened: Provider, browser: Browser):
    client = await registered(opened)
    url = opened.authorize_url(client, Pkce(), resource=resource(opened))
    answers = await asyncio.gather(*(browser.visit(url) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {303}
