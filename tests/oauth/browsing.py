"""A provider app with clients, and a browser that walks through its pages as a member's would."""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx

from tests.console import owner_of
from tests.support import App, plain_client

CALLBACK = "https://club.example/callback"
PASSWORD = "correct horse"


@dataclass
class Registered:
    """A client as its program knows it."""

    client_id: str
    secret: str | None

    @property
    def basic(self) -> dict[str, str]:
        """The header with which a confidential client authenticates."""
        pair = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


@dataclass
class Pkce:
    """A verifier and its challenge (RFC 7636)."""

    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Provider:
    """An app that is a provider, and its console."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.url = app.server.url
        self.settings: dict[str, Any] = {}

    async def start(self) -> "Provider":
        self.settings = await self.asked("PUT", "settings", {"is_provider": True})
        return self

    async def asked(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        async with owner_of(self.app).client(self.app) as console:
            answer = await console.request(method, f"/oauth/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def client(self, **fields: Any) -> Registered:
        given = {"name": "Coffee club", "redirect_uris": [CALLBACK], **fields}
        made = await self.asked("POST", "clients", given)
        return Registered(made["client_id"], made["client_secret"])

    async def scope(self, name: str, **fields: Any) -> None:
        await self.asked("PUT", f"scopes/{name}", {"title": name, **fields})

    async def token(self, client: Registered, status: int = 200, **form: str) -> dict[str, Any]:
        """Ask the token endpoint as the client, by Basic or as a public one."""
        answer = await self.post("token", client, **form)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, route: str, client: Registered, **form: str) -> httpx.Response:
        public = {} if client.secret else {"client_id": client.client_id}
        async with plain_client(self.url) as caller:
            return await caller.post(
                f"/oauth/{route}", data={**public, **form}, headers=client.basic if client.secret else {}
            )

    def authorize_url(self, client: Registered, pkce: Pkce, **parameters: str | None) -> str:
        given = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": CALLBACK,
            "scope": "openid",
            "state": "the state",
            "code_challenge": pkce.challenge,
            "code_challenge_method": "S256",
            **parameters,
        }
        query = httpx.QueryParams({name: value for name, value in given.items() if value is not None})
        return f"{self.url}/oauth/authorize?{query}"


class Browser:
    """One browser: its cookies, and the member that types into the consent page."""

    def __init__(self, provider: Provider, login_id: str) -> None:
        self.provider = provider
        self.login_id = login_id
        self.http = httpx.AsyncClient(base_url=provider.url, verify=False, timeout=120)
        self.origin = {"Origin": provider.url}
        self.access_token: str | None = None

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def visit(self, url: str) -> httpx.Response:
        return await self.http.get(url)

    async def begin(self, url: str) -> str:
        """Visit the authorization endpoint and return the id of the request that the consent page is about."""
        answer = await self.visit(url)
        assert answer.status_code == 303, answer.text
        page = urlsplit(answer.headers["location"])
        assert page.path == "/oauth/consent", answer.headers["location"]
        return parse_qs(page.query)["request_id"][0]

    async def sign_in(self) -> str:
        key = {"X-Public-Key": self.provider.settings["public_key"], **self.origin}
        body = {"login_id": self.login_id, "password": PASSWORD}
        answer = await self.http.post("/v1/public/app-members/signin", json=body, headers=key)
        assert answer.status_code == 200, answer.text
        self.access_token = answer.json()["access_token"]
        return self.access_token

    async def session(self, request_id: str) -> httpx.Response:
        return await self.http.post("/oauth/consent/session", data={"request_id": request_id}, headers=self.origin)

    async def consent(self, action: str, request_id: str, **body: Any) -> httpx.Response:
        """Ask a consent route as the page does."""
        headers = {"Authorization": f"Bearer {self.access_token}", **self.origin}
        if action == "info":
            return await self.http.get("/v1/oauth/consent/info", params={"request_id": request_id}, headers=headers)
        body = {"request_id": request_id, **body}
        return await self.http.post(f"/v1/oauth/consent/{action}", json=body, headers=headers)

    async def approve(self, url: str, **body: Any) -> dict[str, str]:
        """Walk through the pages and return the parameters with which the client's address is visited."""
        answer = await self.visit(url)
        if answer.headers.get("location", "").startswith(CALLBACK):
            return landed(answer.headers["location"])
        request_id = await self.begin(url)
        found = await self.session(request_id)
        if found.status_code == 200:
            self.access_token = found.json()["access_token"]
        else:
            await self.sign_in()
        info = await self.consent("info", request_id)
        assert info.status_code == 200, info.text
        if info.json()["reauthentication_required"]:
            await self.sign_in()
        answer = await self.consent("approve", request_id, **body)
        assert answer.status_code == 200, answer.text
        return landed(answer.json()["redirect_to"])


def landed(location: str, callback: str = CALLBACK) -> dict[str, str]:
    """The parameters of an answer at the client's address."""
    assert location.startswith(callback), location
    return dict(parse_qsl(urlsplit(location).query, keep_blank_values=True))


async def signed_in(
    provider: Provider, client: Registered, browser: Browser, status: int = 200, **parameters: str
) -> dict[str, Any]:
    """The whole flow: the tokens of a member for the client."""
    pkce = Pkce()
    answer = await browser.approve(provider.authorize_url(client, pkce, **parameters))
    return await redeem(provider, client, answer["code"], pkce, status)


async def redeem(
    provider: Provider, client: Registered, code: str, pkce: Pkce, status: int = 200, **form: str
) -> dict[str, Any]:
    """Exchange a code."""
    given = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": pkce.verifier,
        **form,
    }
    return await provider.token(client, status, **given)
