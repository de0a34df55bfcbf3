"""APIs outside of this server: an app proves that they are its own, and clients get tokens for them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pilotis.kit.crypto import from_base64url
from tests.conftest import new_app
from tests.console import owner_of
from tests.oauth.browsing import Browser, Pkce, Provider, Registered, landed, redeem, signed_in
from tests.serving import serving
from tests.support import Server, assert_error, plain_client


@dataclass
class Api:
    """An API with a metadata document (RFC 9728)."""

    url: str = ""
    status: int = 200
    document: Any = None
    asked: list[str] = field(default_factory=list)

    def names(self, provider: Provider) -> str:
        """Let the API name the provider's app, and return the API's resource."""
        self.document = {
            "resource": f"{self.url}/orders",
            "authorization_servers": [provider.url],
            "pilotis_app_id": provider.app.app_id,
        }
        return f"{self.url}/orders"


@pytest.fixture
def api() -> Iterator[Api]:
    """The API, running in a thread."""
    made = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            body = json.dumps(made.document).encode()
            self.send_response(made.status)
            self.send_header("content-length", str(len(body)))
            if made.status == 302:
                self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as made.url:
        yield made


async def put(provider: Provider, *resources: str) -> httpx.Response:
    async with owner_of(provider.app).client(provider.app) as console:
        return await console.put("/oauth/settings", json={"resources": resources})


def audience(tokens: dict[str, Any]) -> Any:
    payload = from_base64url(tokens["access_token"].split(".")[1])
    return json.loads(payload or b"")["aud"]


async def test_a_proven_resource_becomes_the_audience(provider: Provider, club: Registered, browser: Browser, api: Api):
    resource = api.names(provider)
    assert (await put(provider, resource)).json()["resources"] == [resource]
    assert api.asked == ["/.well-known/oauth-protected-resource/orders"]
    # A resource that the app has already is not asked again.
    assert (await put(provider, resource)).status_code == 200
    assert len(api.asked) == 1
    tokens = await signed_in(provider, club, browser, resource=resource + "/")
    assert audience(tokens) == [resource, provider.url]
    assert audience(await signed_in(provider, club, browser)) == [
        f"{provider.url}/apps/{provider.app.app_id}",
        provider.url,
    ]


async def test_a_client_may_be_limited_to_a_resource(provider: Provider, api: Api):
    resource = api.names(provider)
    assert (await put(provider, resource)).status_code == 200
    await provider.scope("orders:read")
    robot = {"grant_types": ["client_credentials"], "redirect_uris": [], "scopes": ["orders:read"]}
    limited = await provider.client(**robot, resources=[resource])
    free = await provider.client(**robot)
    own = f"{provider.url}/apps/{provider.app.app_id}"
    grant = {"grant_type": "client_credentials"}
    assert audience(await provider.token(limited, **grant)) == resource
    assert (await provider.token(limited, 400, **grant, resource=own))["error"] == "invalid_target"
    assert audience(await provider.token(free, **grant)) == own
    assert audience(await provider.token(free, **grant, resource=resource)) == resource
    async with owner_of(provider.app).client(provider.app) as console:
        body = {"name": "x", **robot, "resources": ["https://other.example"]}
        assert_error(await console.post("/oauth/clients", json=body), 400, "VALIDATION_FAILED")
        # After the app has released the resource, no tokens are issued for it.
        assert (await console.put("/oauth/settings", json={"resources": []})).json()["resources"] == []
    assert (await provider.token(free, 400, **grant, resource=resource))["error"] == "invalid_target"


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"pilotis_app_id": "0199c0de-4f1c-72b7-8d9e-c2b7d9e60a38"}, 200),
        ({"pilotis_app_id": None}, 200),
        ({"authorization_servers": ["https://login.other.example"]}, 200),
        ({"authorization_servers": "all"}, 200),
        ({"resource": "https://other.example"}, 200),
        ({}, 404),
        ({}, 302),
        ({"pad": "x" * 70_000}, 200),
    ],
)
async def test_what_does_not_name_the_app_is_refused(provider: Provider, api: Api, wrong: dict[str, Any], status: int):
    resource = api.names(provider)
    api.document |= wrong
    api.status = status
    assert_error(await put(provider, resource), 400, "RESOURCE_NOT_PROVEN")
    assert (await provider.asked("GET", "settings"))["resources"] == []


async def test_a_document_that_is_no_object_is_refused(provider: Provider, api: Api):
    resource = api.names(provider)
    for wrong in ([], "x", None):
        api.document = wrong
        assert_error(await put(provider, resource), 400, "RESOURCE_NOT_PROVEN")


async def test_a_resource_belongs_to_one_app(provider: Provider, signing: tuple[Server, dict[str, str]], api: Api):
    other = await Provider(new_app(*signing)).start()
    resource = api.names(provider)
    assert (await put(provider, resource)).status_code == 200
    # If the API's operator later names another app, the first one has to release the resource before.
    api.names(other)
    assert_error(await put(other, resource), 409, "RESOURCE_TAKEN")
    assert_error(await put(other, resource + "/"), 409, "RESOURCE_TAKEN")
    assert (await put(provider)).status_code == 200
    assert (await put(other, resource)).status_code == 200


async def test_an_apps_mcp_server_is_a_resource_of_its_own(provider: Provider, club: Registered, browser: Browser):
    own, elsewhere = (f"{provider.url}/mcp/{app_id}" for app_id in (provider.app.app_id, uuid4()))
    async with plain_client(provider.url) as caller:
        well_known = f"{provider.url}/.well-known/oauth-protected-resource"
        document = (await caller.get(own.replace(provider.url, well_known))).json()
        assert (await caller.get(elsewhere.replace(provider.url, well_known))).status_code == 404
    assert (document["resource"], document["authorization_servers"]) == (own, [provider.url])
    tokens = await signed_in(provider, club, browser, resource=own + "/")
    assert audience(tokens) == [own, provider.url]
    # The code was for the app's API, so it yields no token for the MCP server.
    pkce = Pkce()
    code = (await browser.approve(provider.authorize_url(club, pkce)))["code"]
    assert (await redeem(provider, club, code, pkce, 400, resource=own))["error"] == "invalid_target"
    answer = await browser.visit(provider.authorize_url(club, pkce, resource=elsewhere))
    assert landed(answer.headers["location"])["error"] == "invalid_target"
    async with owner_of(provider.app).client(provider.app) as console:
        limited = await console.put(f"/oauth/clients/{club.client_id}", json={"resources": [own]})
        assert limited.json()["resources"] == [own]
    assert audience(await signed_in(provider, club, browser)) == [own, provider.url]


async def test_this_server_is_no_resource_outside_of_it(provider: Provider):
    for resource in (provider.url, f"{provider.url}/apps/{provider.app.app_id}", provider.url.upper()):
        assert_error(await put(provider, resource), 400, "VALIDATION_FAILED")
