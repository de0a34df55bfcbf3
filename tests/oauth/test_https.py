"""The provider answers by https alone, but where the server is reached on loopback."""

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from pilotis.oauth.errors import HttpsRequiredError
from pilotis.oauth.feature import OAuthFeature
from pilotis.oauth.https import Https
from tests.http.bare import application, serving
from tests.oauth.browsing import Provider
from tests.services import stale_node
from tests.waiting import PATIENCE


def request(scheme: str = "http", client: str = "203.0.113.1", forwarded: str | None = None) -> Any:
    headers = {} if forwarded is None else {b"x-forwarded-proto": forwarded.encode()}
    server = SimpleNamespace(trusted_proxies=frozenset({"10.0.0.1"}))
    return SimpleNamespace(scope={"scheme": scheme, "client": (client, 1)}, headers=headers, server=server)


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8090", "http://localhost", "http://app.localhost", "http://[::1]"]
)
def test_on_loopback_http_is_enough(base_url: str):
    Https(base_url, allow_http=False).check(request())


def test_elsewhere_it_is_not():
    https = Https("https://api.example.com", allow_http=False)
    https.check(request("https"))
    https.check(request(client="10.0.0.1", forwarded="https"))
    for refused in (request(), request(forwarded="https"), request(client="10.0.0.1", forwarded="http")):
        with pytest.raises(HttpsRequiredError):
            https.check(refused)
    Https("http://api.example.com", allow_http=True).check(request())


async def test_every_route_asks_for_https_and_none_redirects(provider: Provider):
    base_url = "http://api.example.com"
    async with stale_node(provider.app.server, base_url=base_url) as services:
        feature = services.features.get(OAuthFeature)
        routes: Any = SimpleNamespace(table=lambda: [one for group in feature.endpoints for one in group.table()])
        behind_proxy = application(routes, trusted_proxies=frozenset({"127.0.0.1"}))
        async with serving(behind_proxy) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE) as caller:
            for name in ("token", "par", "introspect", "revoke", "userinfo", "register"):
                answer = await caller.post(f"/oauth/{name}", data={"token": "x"})
                assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), name
                assert "`X-Forwarded-Proto: https`" in answer.json()["error_description"]
            for name in ("authorize", "end-session", "consent"):
                answer = await caller.get(f"/oauth/{name}?client_id=x&redirect_uri=https://club.example/callback")
                assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8"), name
                assert "X-Forwarded-Proto" in answer.text
            # What a trusted proxy says counts.
            by_proxy = await caller.post("/oauth/revoke", headers={"X-Forwarded-Proto": "https"}, data={"token": "x"})
            assert by_proxy.json()["error"] == "invalid_client"
            metadata = (await caller.get("/.well-known/openid-configuration")).json()
            assert metadata["issuer"] == base_url


async def test_an_apps_api_says_who_issues_its_tokens(provider: Provider):
    await provider.scope("orders:read")
    url = f"{provider.url}/.well-known/oauth-protected-resource/apps/{provider.app.app_id}"
    async with httpx.AsyncClient() as client:
        found = await client.get(url, headers={"Origin": "https://any.example"})
        assert found.headers["access-control-allow-origin"] == "*"
        assert found.json()["resource"] == f"{provider.url}/apps/{provider.app.app_id}"
        assert (found.json()["authorization_servers"], found.json()["scopes_supported"]) == (
            [provider.url],
            ["orders:read"],
        )
        await provider.asked("PUT", "settings", {"is_provider": False})
        assert (await client.get(url)).status_code == 404
