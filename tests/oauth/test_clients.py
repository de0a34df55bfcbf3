"""The scopes of an app, and the clients that console users register: what is stored, rejected and shown once."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from pilotis.apps.keys import app_of
from pilotis.kit.crypto import from_base64url, secret_hash
from tests.backstage import run_sql
from tests.conftest import new_app
from tests.console import owner_of
from tests.oauth.browsing import Browser, Pkce, Provider, signed_in
from tests.support import App, assert_error, plain_client

CALLBACK = "https://client.example/callback"


class Console:
    """The owner of an app at its OAuth routes."""

    def __init__(self, app: App, client: httpx.AsyncClient) -> None:
        self.app, self.client = app, client

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request(method, f"/oauth/{path}", json=body)

    async def scope(self, name: str, **fields: Any) -> httpx.Response:
        return await self.ask("PUT", f"scopes/{name}", {"title": name, **fields})

    async def registered(self, status: int = 201, **fields: Any) -> dict[str, Any]:
        answer = await self.ask("POST", "clients", {"name": "Shop", "redirect_uris": [CALLBACK], **fields})
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
async def console(app: App):
    async with owner_of(app).client(app) as client:
        yield Console(app, client)


async def test_a_scope_is_offered_changed_and_withdrawn(console: Console):
    made = (await console.scope("orders:read", title="Read orders", description="Your past orders")).json()
    shown = {"name", "title", "description", "is_default", "is_required", "translations", "claims"}
    assert set(made) == shown | {"created_at", "updated_at"}
    assert (made["title"], made["is_default"]) == ("Read orders", False)
    changed = (await console.scope("orders:read", title="See orders", is_default=True)).json()
    assert (changed["title"], changed["description"], changed["is_default"]) == ("See orders", "", True)
    assert changed["created_at"] == made["created_at"]
    listed = (await console.ask("GET", "scopes")).json()
    assert listed == {"data": [changed], "total_count": 1, "limit": 20, "offset": 0}
    assert (await console.ask("DELETE", "scopes/orders:read")).json()["name"] == "orders:read"
    assert_error(await console.ask("DELETE", "scopes/orders:read"), 404, "OAUTH_SCOPE_NOT_FOUND")


@pytest.mark.parametrize("name", ["openid", "offline_access", "a%20b", "a%22", "a%5Cb", "%C3%A9", "x" * 65])
async def test_a_name_that_is_no_scope_of_an_app_is_refused(console: Console, name: str):
    assert_error(await console.scope(name, title="t"), 400, "VALIDATION_FAILED")


async def test_a_client_is_registered_and_its_secret_shown_once(console: Console):
    await console.scope("orders:read")
    made = await console.registered(scopes=["openid", "orders:read"], description="d")
    secret = made.pop("client_secret")
    assert made == {
        **made,
        "app_id": console.app.app_id,
        "client_type": "confidential",
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": [CALLBACK],
        "scopes": ["openid", "orders:read"],
        "is_active": True,
        "source": "console",
        "has_secret": True,
        "secret_prefix": secret[:7],
        "previous_secret_expires_at": None,
        "last_used_at": None,
    }
    assert made["client_id"].startswith("cl_")
    assert (from_base64url(made["client_id"][3:]) or b"")[:16].hex() == console.app.app_id.replace("-", "")
    assert len(secret) == 46
    assert (await console.ask("GET", f"clients/{made['client_id']}")).json() == made
    assert (await console.ask("GET", "clients")).json()["data"] == [made]
    stored = await run_sql(
        console.app.server, "select secret_hash from pilotis.oauth_clients where client_id = $1", made["client_id"]
    )
    assert stored == secret_hash(secret)
    whole = await run_sql(
        console.app.server,
        "select count(*) from pilotis.oauth_clients c where c::text like '%' || $1 || '%'",
        secret,
    )
    assert whole == 0


async def test_a_public_client_has_no_secret(console: Console):
    made = await console.registered(
        token_endpoint_auth_method="none", redirect_uris=["com.example.app:/callback", "http://127.0.0.1/cb"]
    )
    assert (made["client_type"], made["client_secret"], made["has_secret"]) == ("public", None, False)
    path = f"clients/{made['client_id']}/regenerate-secret"
    assert_error(await console.ask("POST", path, {}), 409, "OAUTH_CLIENT_PUBLIC")


async def test_the_type_of_a_client_may_be_said_but_not_contradict(console: Console):
    made = await console.registered(token_endpoint_auth_method="none", client_type="public")
    assert made["client_type"] == "public"
    confidential = await console.registered(client_type="confidential")
    assert (confidential["client_type"], bool(confidential["client_secret"])) == ("confidential", True)
    path = f"clients/{made['client_id']}"
    changed = await console.ask("PUT", path, {"client_type": "public", "description": "d"})
    assert (changed.status_code, changed.json()["description"]) == (200, "d"), changed.text
    assert_error(await console.ask("PUT", path, {"client_type": "confidential"}), 400, "VALIDATION_FAILED")
    body = {"name": "x", "redirect_uris": ["https://club.example/cb"], "client_type": "public"}
    answer = await console.ask("POST", "clients", body)
    assert assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"] == "client_type"


async def test_a_change_leaves_what_is_absent(console: Console):
    made = await console.registered(description="d")
    del made["client_secret"]
    path = f"clients/{made['client_id']}"
    changed = (await console.ask("PUT", path, {"name": "New", "is_active": False})).json()
    assert changed == {**made, "name": "New", "is_active": False, "updated_at": changed["updated_at"]}
    assert (await console.ask("PUT", path, {})).json()["name"] == "New"
    for wrong in ({"redirect_uris": []}, {"scopes": ["nothing"]}, {"client_id": "cl_x"}, {"secret_hash": "x"}):
        assert (await console.ask("PUT", path, wrong)).status_code == 400
    assert (await console.ask("GET", path)).json()["redirect_uris"] == [CALLBACK]


async def test_a_secret_is_replaced_and_the_one_before_stays_for_a_while(console: Console):
    made = await console.registered()
    path = f"clients/{made['client_id']}/regenerate-secret"
    hashes = "select array[secret_hash, previous_secret_hash] from pilotis.oauth_clients where client_id = $1"
    second = (await console.ask("POST", path, {})).json()
    assert second["previous_secret_expires_at"] is not None
    stored = await run_sql(console.app.server, hashes, made["client_id"])
    assert stored == [secret_hash(second["client_secret"]), secret_hash(made["client_secret"])]
    third = (await console.ask("POST", path, {"overlap_seconds": 0})).json()
    assert third["previous_secret_expires_at"] is None
    stored = await run_sql(console.app.server, hashes, made["client_id"])
    assert stored == [secret_hash(third["client_secret"]), None]
    assert (await console.ask("POST", path, {"overlap_seconds": -1})).status_code == 400


@pytest.mark.share(0.34)
@pytest.mark.parametrize(
    "fields",
    [
        {"token_endpoint_auth_method": "none", "grant_types": ["client_credentials"], "redirect_uris": []},
        {"grant_types": ["refresh_token"]},
        {"grant_types": ["client_credentials", "client_credentials"]},
        {"grant_types": ["implicit"]},
        {"grant_types": []},
        {"redirect_uris": []},
        {"redirect_uris": [CALLBACK, CALLBACK]},
        {"redirect_uris": ["http://client.example/callback"]},
        {"redirect_uris": ["com.example.app:/callback"]},
        {"redirect_uris": [f"{CALLBACK}?n={n}" for n in range(21)]},
        {"post_logout_redirect_uris": ["javascript:alert(1)"]},
        {"scopes": ["nobody:made"]},
        {"name": ""},
        {"name": "x" * 101},
        {"client_secret": "mine"},
        {"is_active": False},
        {"source": "cli"},
    ],
    ids=str,
)
async def test_metadata_that_contradict_themselves_are_refused(console: Console, fields: dict[str, Any]):
    await console.registered(status=400, **fields)
    assert (await console.ask("GET", "clients")).json()["total_count"] == 0


async def test_the_fault_is_named(console: Console):
    answer = await console.registered(status=400, redirect_uris=[CALLBACK, "http://client.example/"])
    assert answer["details"][0]["field"] == "redirect_uris[1]"
    assert "localhost" in answer["details"][0]["message"]


async def test_a_scope_that_clients_may_ask_for_stays(console: Console):
    await console.scope("orders:read")
    made = await console.registered(scopes=["orders:read"])
    assert_error(await console.ask("DELETE", "scopes/orders:read"), 409, "OAUTH_SCOPE_IN_USE")
    assert (await console.ask("GET", "scopes")).json()["total_count"] == 1
    assert (await console.ask("DELETE", f"clients/{made['client_id']}")).json()["id"] == made["client_id"]
    assert (await console.ask("DELETE", "scopes/orders:read")).status_code == 200
    assert_error(await console.ask("GET", f"clients/{made['client_id']}"), 404, "OAUTH_CLIENT_NOT_FOUND")


async def test_no_client_is_left_with_a_scope_that_was_withdrawn_meanwhile(console: Console):
    for number in range(5):
        name = f"race:{number}"
        await console.scope(name)
        made, withdrawn = await asyncio.gather(
            console.ask("POST", "clients", {"name": name, "redirect_uris": [CALLBACK], "scopes": [name]}),
            console.ask("DELETE", f"scopes/{name}"),
        )
        assert (made.status_code, withdrawn.status_code) in {(201, 409), (400, 200)}


async def test_another_app_has_nothing_to_do_with_it(console: Console):
    made = await console.registered()
    other = new_app(console.app.server, console.app.console)
    async with owner_of(other).client(other) as client:
        path = f"/oauth/clients/{made['client_id']}"
        for answer in (
            await client.get(path),
            await client.put(path, json={"name": "Mine"}),
            await client.delete(path),
            await client.post(f"{path}/regenerate-secret", json={}),
        ):
            assert_error(answer, 404, "OAUTH_CLIENT_NOT_FOUND")
        assert (await client.get("/oauth/clients")).json()["total_count"] == 0
    assert (await console.ask("GET", f"clients/{made['client_id']}")).json()["name"] == "Shop"


async def test_changes_are_in_the_audit_log_without_secrets(console: Console):
    await console.scope("orders:read")
    made = await console.registered()
    again = (await console.ask("POST", f"clients/{made['client_id']}/regenerate-secret", {})).json()
    await console.ask("DELETE", f"clients/{made['client_id']}")
    log = await console.client.get("/audit-log")
    actions = Counter(entry["action"] for entry in log.json()["data"])
    for action in ("oauth_scope.put", "oauth_client.create", "oauth_client.regenerate_secret", "oauth_client.delete"):
        assert actions[action] == 1, action
    assert made["client_secret"] not in log.text
    assert again["client_secret"] not in log.text


async def test_a_repeat_with_the_same_key_registers_one_client(console: Console):
    body = {"name": "Shop", "redirect_uris": [CALLBACK]}
    headers = {"Idempotency-Key": "register-shop"}
    first, second = [await console.client.post("/oauth/clients", json=body, headers=headers) for _ in range(2)]
    assert first.json() == second.json()
    assert (await console.ask("GET", "clients")).json()["total_count"] == 1
    assert app_of("sk_" + first.json()["client_id"][3:], "sk_") is None


async def test_a_scope_is_translated_and_brings_claims_of_custom_data(provider: Provider, browser: Browser):
    await provider.asked(
        "PUT",
        "scopes/loyalty",
        {
            "title": "See your level",
            "translations": {"ko": {"title": "등급 보기", "description": "포인트"}},
            "claims": {"loyalty_level": "level", "missing": "nothing"},
        },
    )
    client = await provider.client(scopes=["openid", "loyalty"])
    await browser.sign_in()
    async with provider.app.client(browser.access_token) as member:
        await member.patch("/v1/public/app-members/me/custom-data", json={"custom_data": {"level": 7}})
    request_id = await browser.begin(provider.authorize_url(client, Pkce(), scope="openid loyalty"))
    headers = {"Authorization": f"Bearer {browser.access_token}", "Accept-Language": "ko"}
    info = await browser.http.get("/v1/oauth/consent/info", params={"request_id": request_id}, headers=headers)
    (loyalty,) = [scope for scope in info.json()["scopes"] if scope["name"] == "loyalty"]
    assert (loyalty["title"], loyalty["description"]) == ("등급 보기", "포인트")
    tokens = await signed_in(provider, client, browser, scope="openid loyalty")
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    claims = (await browser.http.get("/oauth/userinfo", headers=bearer)).json()
    assert claims.pop("sub")
    assert claims == {"loyalty_level": 7}


@pytest.mark.parametrize("name", ["sub", "email", "email_verified", "aud", "app_id"])
async def test_a_member_cannot_write_what_the_server_says(provider: Provider, name: str):
    bearer = {"Authorization": f"Bearer {provider.app.console['access_token']}"}
    async with plain_client(provider.url, **bearer) as console:
        path = f"/v1/apps/{provider.app.app_id}/oauth/scopes/mine"
        answer = await console.put(path, json={"title": "t", "claims": {name: "level"}})
    assert_error(answer, 400, "VALIDATION_FAILED")
