"""Passkeys of console users, on a server that requires a second factor of them; in a browser at a host with a name."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.accounts.authenticator import code
from tests.accounts.security_key import FLAG, SecurityKey
from tests.backstage import run_sql
from tests.chromium import keep_picture
from tests.commands import run
from tests.conftest import PASSWORD
from tests.console.conftest import Opening, obstacles
from tests.support import Server, assert_error

NARROW = {"width": 390, "height": 844}
FACTORS = "/v1/auth/factors"


class NamedServer(Server):
    """A server at a name instead of an address."""

    @property
    def url(self) -> str:
        return self.environment["PILOTIS_BASE_URL"]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose console users need a second factor; passkeys belong to a name, so that it has one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PILOTIS_BASE_URL": f"http://localhost:{port}", "PILOTIS_CONSOLE_SECOND_FACTOR": "required"}
    data = tmp_path_factory.mktemp("strict") / "data"
    running = NamedServer(data, "--port", str(port), environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


class User:
    """A console user that speaks HTTP."""

    def __init__(self, server: Server, email: str) -> None:
        made = run("user", "create", email, "--password-stdin", *server.place, typed=f"{PASSWORD}\n")
        assert made.returncode == 0, made.stderr
        self.server, self.email = server, email
        self.signed_in(self.sign_in().json())

    def signed_in(self, tokens: dict[str, Any]) -> None:
        self.headers = {"Authorization": f"Bearer {tokens['access_token']}"}

    def sign_in(self) -> httpx.Response:
        return self.post("/v1/auth/signin", {"email": self.email, "password": PASSWORD})

    def post(self, path: str, body: Any = None) -> httpx.Response:
        """Send a request without a session."""
        return httpx.post(f"{self.server.url}{path}", json=body, headers={"Origin": self.server.url})

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return httpx.request(method, f"{self.server.url}{path}", json=body, headers={**self.headers, **headers})

    def add(self, key: SecurityKey) -> httpx.Response:
        begun = self.call("POST", f"{FACTORS}/passkeys/start").json()
        body = {"ticket": begun["ticket"], "credential": key.create(begun["options"]), "name": "Phone"}
        return self.call("POST", f"{FACTORS}/passkeys", body)

    def asked(self) -> dict[str, Any]:
        return dict(self.post("/v1/auth/passkey-sign-in/start").json())

    def by_passkey(self, key: SecurityKey, path: str = "passkey-sign-in", **signs: Any) -> httpx.Response:
        asked = self.asked()
        body = {"ticket": asked["ticket"], "credential": key.sign(asked["options"], **signs)}
        return self.post(f"/v1/auth/{path}", body)


def key_of(server: Server) -> SecurityKey:
    return SecurityKey(str(urlsplit(server.url).hostname), server.url)


def test_a_passkey_signs_in_alone_and_the_password_does_not_any_more(strict: Server) -> None:
    ada = User(strict, "ada@example.com")
    creation = ada.call("POST", "/v1/apps", {"name": "Notes"})
    assert_error(creation, 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
    made = run("app", "create", "Notes", "--owner", ada.email, "--json", *strict.place)
    assert made.returncode == 0, made.stderr
    app = json.loads(made.stdout)["app_id"]
    refused = ada.call("GET", f"/v1/apps/{app}")
    assert "profile" in assert_error(refused, 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")["message"]
    tables = ada.call("GET", "/v1/public/tables", **{"X-App-Id": app})
    assert_error(tables, 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
    key = key_of(strict)
    added = ada.add(key)
    assert added.status_code == 201, added.text
    # The session in which it was added has two factors now.
    assert ada.call("GET", f"/v1/apps/{app}").status_code == 200
    assert ada.call("POST", "/v1/apps", {"name": "More"}).status_code == 201
    waiting = assert_error(ada.sign_in(), 401, "SECOND_FACTOR_REQUIRED")
    assert waiting["factors"] == ["passkey"]
    ada.signed_in(ada.by_passkey(key).json())
    assert ada.call("GET", f"/v1/apps/{app}").status_code == 200
    assert ada.by_passkey(key, "session/passkey").json()["email"] == ada.email
    (shown,) = ada.call("GET", FACTORS).json()["passkeys"]
    assert (shown["name"], shown["last_used_at"] is None) == ("Phone", False)
    # A stolen session of before has one factor, and is asked again.
    stale = "update pilotis.sessions set level = 1 where subject = $1"
    _now(run_sql(strict, stale, ada.call("GET", "/v1/auth/me").json()["user_id"]))
    again = assert_error(ada.call("GET", f"/v1/apps/{app}"), 403, "REAUTHENTICATION_REQUIRED")
    assert again["methods"] == ["passkey"]
    for path, body in (("/v1/apps", {"name": "Third"}), (f"/v1/apps/{app}/restore", None)):
        assert_error(ada.call("POST", path, body), 403, "REAUTHENTICATION_REQUIRED")
    assert_error(ada.call("POST", "/v1/auth/reauthenticate", {"password": PASSWORD}), 403, "REAUTHENTICATION_REQUIRED")
    asked = ada.asked()
    body = {"ticket": asked["ticket"], "passkey": key.sign(asked["options"])}
    assert ada.call("POST", "/v1/auth/reauthenticate", body).status_code == 200
    assert ada.call("GET", f"/v1/apps/{app}").status_code == 200
    assert ada.call("DELETE", f"{FACTORS}/passkeys/{shown['id']}").status_code == 200
    assert ada.sign_in().status_code == 200
    assert_error(ada.by_passkey(key), 401, "INVALID_PASSKEY")


def test_a11_what_is_no_passkey_of_the_user_is_refused(strict: Server) -> None:
    bob, eve = User(strict, "bob@example.com"), User(strict, "eve@example.com")
    key, other = key_of(strict), key_of(strict)
    assert (bob.add(key).status_code, eve.add(other).status_code) == (201, 201)
    assert_error(eve.add(key), 401, "INVALID_PASSKEY")
    elsewhere = SecurityKey(key.domain, "https://evil.example")
    elsewhere.id, elsewhere._key = key.id, key._key
    assert_error(bob.by_passkey(elsewhere), 401, "INVALID_PASSKEY")
    assert_error(bob.by_passkey(key, flags=FLAG.UP), 401, "INVALID_PASSKEY")
    assert bob.by_passkey(key).status_code == 200
    assert_error(bob.by_passkey(key, count=key.count), 401, "INVALID_PASSKEY")
    asked = bob.asked()
    body = {"ticket": asked["ticket"], "credential": key.sign(asked["options"])}
    assert bob.post("/v1/auth/passkey-sign-in", body).status_code == 200
    assert_error(bob.post("/v1/auth/passkey-sign-in", body), 401, "INVALID_PASSKEY")
    # Another user's passkey proves nothing in a session, nor does a challenge for adding one sign in.
    asked = bob.asked()
    body = {"ticket": asked["ticket"], "passkey": other.sign(asked["options"])}
    assert_error(bob.call("POST", "/v1/auth/reauthenticate", body), 401, "INVALID_PASSKEY")
    begun = bob.call("POST", f"{FACTORS}/passkeys/start").json()
    body = {"ticket": begun["ticket"], "credential": key.sign(begun["options"])}
    assert_error(bob.post("/v1/auth/passkey-sign-in", body), 401, "INVALID_PASSKEY")
    run("user", "deactivate", bob.email, *strict.place)
    assert_error(bob.by_passkey(key), 403, "USER_INACTIVE")
    # The operator helps who has lost it.
    assert run("user", "reset-factors", eve.email, *strict.place).returncode == 0
    assert eve.sign_in().status_code == 200
    assert eve.call("GET", FACTORS).json()["passkeys"] == []


def test_a_team_requires_it_of_itself(server: Server) -> None:
    """On a server that does not; whoever switches it on has one."""
    carl, dora = User(server, "carl@example.com"), User(server, "dora@example.com")
    app = carl.call("POST", "/v1/apps", {"name": "Team"}).json()["app_id"]
    path, on = f"/v1/apps/{app}/account-settings", {"team_second_factor": True}
    assert_error(carl.call("PATCH", path, on), 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
    secret = carl.call("POST", f"{FACTORS}/totp").json()["secret"]
    assert carl.call("POST", f"{FACTORS}/totp/confirm", {"code": code(secret)}).status_code == 200
    assert carl.call("PATCH", path, on).json()["team_second_factor"] is True
    invited = carl.call("POST", f"/v1/apps/{app}/invitations", {"email": dora.email, "role": "owner"}).json()
    assert dora.call("POST", "/v1/invitations/accept", {"token": invited["token"]}).status_code == 200
    assert_error(dora.call("PATCH", path, {"team_second_factor": False}), 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
    assert carl.call("GET", path).status_code == 200


def _now(work: Any) -> Any:
    """Run something asynchronous to its end."""
    return asyncio.run(work)


@asynccontextmanager
async def with_authenticator(page: Page) -> Any:
    """A virtual authenticator in the browser, which verifies its user."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
    await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    yield


async def test_in_a_browser_it_is_added_signs_in_and_proves(strict: Server, visit: Opening, axe: str) -> None:
    User(strict, "fay@example.com")
    async with visit(f"{strict.url}/console/sign-in?to=/profile") as page, with_authenticator(page):
        await page.get_by_label("Email").fill("fay@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in", exact=True).click()
        page.set_default_timeout(8000)
        await page.get_by_role("button", name="Add a passkey").click()
        await expect(page.get_by_text("Not used yet")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-passkeys", full_page=True)
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-passkeys-phone", full_page=True)
        await page.evaluate("fetch('/v1/auth/session', {method: 'DELETE'})")
        await page.goto(f"{strict.url}/console/sign-in?to=/profile")
        await page.get_by_label("Email").fill("fay@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.get_by_text("the password alone is not enough")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-passkey-asked")
        await page.get_by_role("button", name="Back").click()
        await keep_picture(page, "console-passkey-sign-in")
        await page.get_by_role("button", name="Use a passkey").click()
        await expect(page.locator("p", has_text="Last used")).to_be_visible()
        stale = "update pilotis.sessions set created_at = now() - interval '2 hours', auth_time = null"
        await run_sql(strict, stale)
        await page.get_by_role("button", name="Remove Passkey of").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        proof = page.get_by_role("dialog", name="Is it still you?")
        await keep_picture(page, "console-passkey-proof")
        await proof.get_by_role("button", name="Use a passkey").click()
        await expect(page.locator("p", has_text="Last used")).to_have_count(0)
