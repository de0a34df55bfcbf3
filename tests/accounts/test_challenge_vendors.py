"""A vendor's token passes once, and what the vendor does not confirm is closed unless the app says otherwise."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.accounts.challenge_vendors import SECRET, ChallengeVendors, challenge_vendors
from tests.accounts.test_challenges import ask_for, puzzle, solution, up
from tests.backstage import run_sql
from tests.certificates import Authority
from tests.conftest import first_console_user, new_app
from tests.console import owner_of
from tests.functions.support import Functions
from tests.mail.world import PASSWORD, call, post, sign_up
from tests.security.test_accounts import guessed
from tests.support import App, Server, assert_error

SITE_KEY = "0x4AAAAAAAB-c_d"


@pytest.fixture(scope="module")
def vendors(authority: Authority) -> Iterator[ChallengeVendors]:
    with challenge_vendors(authority) as running:
        yield running


@pytest.fixture(scope="module")
def server_(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, vendors: ChallengeVendors
) -> Iterator[Server]:
    environment = {"PILOTIS_OUTGOING_CA_FILE": str(authority.ca_file), "PILOTIS_OUTGOING_PROXY": vendors.url}
    running = Server(tmp_path_factory.mktemp("challenges") / "data", environment=environment).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def console(server_: Server) -> dict[str, str]:
    return first_console_user(server_)


@pytest.fixture
def app(server_: Server, console: dict[str, str], vendors: ChallengeVendors) -> App:
    vendors.mood = ""
    vendors.asked.clear()
    return new_app(server_, console)


@pytest.fixture
def other_app(server_: Server, console: dict[str, str]) -> App:
    return new_app(server_, console)


async def choose(app: App, provider: str = "turnstile", **fields: Any) -> dict[str, Any]:
    challenge = {"provider": provider, "site_key": SITE_KEY, "secret": SECRET, **fields}
    return await call(app, "PATCH", "/account-settings", json={"challenge": challenge, "challenge_on": ["signup"]})


async def refused(app: App, body: dict[str, Any]) -> str:
    async with owner_of(app).client(app) as client:
        answer = await client.patch("/account-settings", json={"challenge": body})
    return assert_error(answer, 400, "VALIDATION_FAILED")["details"][0]["field"]


@pytest.mark.parametrize(
    ("provider", "host"),
    [
        ("turnstile", "challenges.cloudflare.com"),
        ("hcaptcha", "api.hcaptcha.com"),
        ("recaptcha", "www.google.com"),
    ],
)
async def test_the_vendor_of_the_app_is_asked_and_a_token_passes_once(
    app: App, vendors: ChallengeVendors, provider: str, host: str
):
    await choose(app, provider)
    assert_error(await up(app, "ada"), 403, "CHALLENGE_REQUIRED")
    assert vendors.asked == []
    assert_error(await up(app, "ada", "wrong"), 403, "CHALLENGE_REQUIRED")
    # Nor does a puzzle that Pilotis sets.
    assert_error(await up(app, "ada", solution(await puzzle(app))), 403, "CHALLENGE_REQUIRED")
    token = vendors.token(f"{provider}-token")
    assert (await up(app, "ada", token)).status_code == 201
    assert vendors.asked[-1] == {"host": host, "secret": SECRET, "response": token, "remoteip": "127.0.0.1"}
    assert_error(await up(app, "bob", token), 403, "CHALLENGE_REQUIRED")
    # Even of a vendor that confirms it again.
    assert_error(await up(app, "bob", vendors.token(token)), 403, "CHALLENGE_REQUIRED")
    assert (await up(app, "bob", vendors.token(f"{provider}-other"))).status_code == 201


@pytest.mark.parametrize("mood", ["away", "slow", "huge", "broken", "strange", "redirecting", "picky"])
async def test_a_vendor_that_does_not_answer_is_closed_unless_the_app_opens(
    app: App, vendors: ChallengeVendors, mood: str
):
    await choose(app)
    vendors.mood = mood
    assert_error(await up(app, "ada", vendors.token(f"{mood}-closed")), 403, "CHALLENGE_REQUIRED")
    await call(app, "PATCH", "/account-settings", json={"challenge": {"open_when_unreachable": True}})
    answer = await up(app, "ada", vendors.token(f"{mood}-open"))
    # What a token might provoke opens nothing; nor is a token dispensable.
    assert answer.status_code == (403 if mood == "picky" else 201), answer.text
    assert_error(await up(app, "bob"), 403, "CHALLENGE_REQUIRED")
    assert_error(await up(app, "bob", "x" * 9000), 403, "CHALLENGE_REQUIRED")


async def test_a_guessed_password_takes_a_token_of_the_vendor(app: App, vendors: ChallengeVendors, server_: Server):
    await sign_up(app, "ada")
    await choose(app)
    await ask_for(app)
    await guessed(app, "ada")
    entry = {"login_id": "ada", "password": PASSWORD}
    assert_error(await post(app, "/signin", entry), 403, "CHALLENGE_REQUIRED")
    answer = await post(app, "/signin", entry, **{"X-Challenge-Token": vendors.token("guessed")})
    assert answer.status_code == 200, answer.text


async def test_the_secret_is_told_to_nobody_and_not_to_another_vendor(app: App, server_: Server):
    assert await refused(app, {"provider": "hcaptcha", "secret": SECRET}) == "challenge.site_key"
    assert await refused(app, {"provider": "hcaptcha", "site_key": SITE_KEY}) == "challenge.secret"
    assert await refused(app, {"site_key": SITE_KEY}) == "challenge.provider"
    assert await refused(app, {"provider": "turnstile", "site_key": '"><script>', "secret": SECRET})
    await choose(app, "hcaptcha")
    found = await call(app, "GET", "/account-settings")
    assert found["challenge"] == {
        "provider": "hcaptcha",
        "site_key": SITE_KEY,
        "has_secret": True,
        "open_when_unreachable": False,
    }
    async with app.client() as client:
        public = (await client.get("/v1/public/account-settings")).json()
    assert public["challenge"] == {"provider": "hcaptcha", "site_key": SITE_KEY}
    async with owner_of(app).client(app) as client:
        assert SECRET not in (await client.get("/audit-log")).text
    stored = await run_sql(
        server_, f"select encode(secret, 'escape') from pilotis.challenge_secrets where app_id = '{app.app_id}'"
    )
    assert stored
    assert SECRET not in stored
    assert await refused(app, {"provider": "turnstile", "site_key": SITE_KEY}) == "challenge.secret"
    # One key alone changes while the vendor stays.
    changed = await call(app, "PATCH", "/account-settings", json={"challenge": {"site_key": "other"}})
    assert (changed["challenge"]["site_key"], changed["challenge"]["has_secret"]) == ("other", True)
    changed = await call(app, "PATCH", "/account-settings", json={"challenge": {"provider": "proof_of_work"}})
    assert (changed["challenge"]["site_key"], changed["challenge"]["has_secret"]) == (None, False)
    assert await refused(app, {"provider": "hcaptcha", "site_key": SITE_KEY}) == "challenge.secret"


async def test_another_app_is_not_touched(app: App, other_app: App, vendors: ChallengeVendors):
    await choose(app)
    await ask_for(other_app, "signup")
    assert_error(await up(other_app, "ada", vendors.token("foreign")), 403, "CHALLENGE_REQUIRED")
    assert (await up(other_app, "ada", solution(await puzzle(other_app)))).status_code == 201
    assert (await up(app, "ada", "foreign")).status_code == 201


async def test_pages_permit_the_vendor_of_the_app_and_nobody_else(app: App):
    async def policy() -> dict[str, list[str]]:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{app.server.url}/account/{app.app_id}/sign-up")
        parts = answer.headers["content-security-policy"].split("; ")
        return {name: [one for one in sources if "://" in one] for name, *sources in map(str.split, parts)}

    assert [sources for sources in (await policy()).values() if sources] == []
    assert "frame-src" not in await policy()
    await choose(app, "turnstile")
    cloudflare = ["https://challenges.cloudflare.com"]
    found = {name: sources for name, sources in (await policy()).items() if sources}
    assert found == {"script-src": cloudflare, "frame-src": cloudflare}
    await choose(app, "recaptcha")
    found = {name: sources for name, sources in (await policy()).items() if sources}
    google = "https://www.google.com/recaptcha/"
    assert found == {
        "script-src": [google, "https://www.gstatic.com/recaptcha/"],
        "frame-src": [google, "https://recaptcha.google.com/recaptcha/"],
    }
    await choose(app, "hcaptcha")
    found = {name: sources for name, sources in (await policy()).items() if sources}
    both = ["https://hcaptcha.com", "https://*.hcaptcha.com"]
    assert found == dict.fromkeys(("script-src", "style-src", "connect-src", "frame-src"), both)


VERIFY = """
export default ({ token, on, address }) => {
  if (token === "throws") throw new Error("no");
  if (token === "gives") return { roles: ["admin"] };
  return token === `${on}@${address}` ? {} : { reject: { message: "You look like a robot." } };
};
"""


async def test_a_function_of_the_app_verifies(app: App, vendors: ChallengeVendors, functions: Functions):
    await choose(app)
    hook = await functions.made("hook", VERIFY)
    await call(app, "PATCH", "/account-settings", json={"hooks": {"verify_challenge": hook}})
    assert_error(await up(app, "ada"), 403, "CHALLENGE_REQUIRED")
    answer = await up(app, "ada", vendors.token("of the vendor"))
    assert assert_error(answer, 403, "REJECTED_BY_HOOK")["message"] == "You look like a robot."
    for token in ("throws", "gives"):
        assert_error(await up(app, "ada", token), 503, "HOOK_FAILED")
    assert (await up(app, "ada", "signup@127.0.0.1")).status_code == 201
    assert_error(await up(app, "bob", "signup@127.0.0.1"), 403, "CHALLENGE_REQUIRED")
    assert vendors.asked == []
    await ask_for(app, "guest", "reset", "mail")
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
    for action, path, body in (
        ("guest", "", None),
        ("mail", "/email-sign-in", {"email": "ada@example.com"}),
        ("reset", "/password-reset", {"email": "ada@example.com"}),
    ):
        assert_error(await post(app, path, body, **{"X-Challenge-Token": "other"}), 403, "REJECTED_BY_HOOK")
        answer = await post(app, path, body, **{"X-Challenge-Token": f"{action}@127.0.0.1"})
        assert answer.status_code in {201, 202}, answer.text
    async with owner_of(app).client(app) as client:
        assert_error(await client.delete(f"/functions/{hook}"), 409, "USED_AS_HOOK")
