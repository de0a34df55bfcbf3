"""Social login: six vendors, how accounts are linked, and that no one can access another member's account."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey

from tests.accounts.authenticator import enrolled, finish
from tests.mail.world import account, call, mails, sign_up
from tests.oauth.browsing import Pkce, Provider
from tests.oauth.vendors import APPLE_PEM, CLIENT_ID, SECRET, Person, Vendors, parameters, vendors
from tests.support import App, assert_error, plain_client

PAGE = "https://cafes.example/signed-in"
SIX = ["GOOGLE", "APPLE", "GITHUB", "KAKAO", "NAVER", "FACEBOOK"]
VERIFYING = ["GOOGLE", "APPLE", "GITHUB", "KAKAO"]


@pytest.fixture
def vendor() -> Iterator[Vendors]:
    with vendors() as running:
        yield running


class Page:
    """The app's own page, which signs a member in with a vendor; each has its own verifier."""

    def __init__(self, provider: Provider, name: str) -> None:
        self.provider = provider
        self.name = name
        self.pkce = Pkce()
        self.client_id = provider.settings["first_party_client_id"]

    async def ask(self, token: str | None = None, **changes: str | None) -> httpx.Response:
        query = {
            "provider": self.name,
            "redirect_uri": PAGE,
            "state": "the page's",
            "code_challenge": self.pkce.challenge,
            "code_challenge_method": "S256",
            **changes,
        }
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with plain_client(self.provider.url, **headers) as caller:
            path = f"/v1/public/oauth/clients/{self.client_id}/social-login-url"
            return await caller.get(path, params={name: value for name, value in query.items() if value is not None})

    async def url(self, token: str | None = None, **changes: str | None) -> str:
        answer = await self.ask(token, **changes)
        assert answer.status_code == 200, answer.text
        return answer.json()["url"]

    async def at_vendor(self, url: str) -> httpx.Response:
        """The member agrees at the vendor; return what the callback answers."""
        async with plain_client(self.provider.url) as browser:
            answer = await browser.get(url)
            if self.name == "APPLE":
                assert answer.status_code == 200, answer.text
                sent = answer.json()
                return await browser.post(sent["action"], data=sent["form"])
            assert answer.status_code == 302, answer.text
            return await browser.get(answer.headers["location"])

    async def back(self, token: str | None = None, **changes: str | None) -> dict[str, str]:
        """Go to the vendor and return the parameters with which the page is visited."""
        answer = await self.at_vendor(await self.url(token, **changes))
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].startswith(PAGE)
        return parameters(answer.headers["location"])

    async def exchange(self, code: str, verifier: str | None = None, **more: Any) -> httpx.Response:
        async with plain_client(self.provider.url) as caller:
            body = {"code": code, "code_verifier": verifier or self.pkce.verifier, **more}
            return await caller.post("/v1/auth/oauth/exchange", json=body)

    async def sign_in(self, token: str | None = None) -> dict[str, Any]:
        answer = await self.exchange((await self.back(token))["code"])
        assert answer.status_code == 200, answer.text
        return answer.json()


async def set_up(provider: Provider, vendor: Vendors, *names: str) -> None:
    provider.settings = await provider.asked("PUT", "settings", {"login_redirect_uris": [PAGE]})
    for name in names:
        secret = APPLE_PEM if name == "APPLE" else SECRET
        body = {"client_id": CLIENT_ID, "client_secret": secret, "options": vendor.options(name)}
        await provider.asked("PUT", f"social/{name}", body)


async def me(app: App, token: str) -> httpx.Response:
    async with app.client(token) as client:
        return await client.get("/v1/public/app-members/me")


@pytest.mark.parametrize("name", SIX)
async def test_a_member_signs_in_with_each_vendor_and_is_the_same_the_next_time(
    provider: Provider, vendor: Vendors, name: str
):
    await set_up(provider, vendor, name)
    came = await Page(provider, name).back()
    assert set(came) == {"code", "state"}
    assert came["state"] == "the page's"
    first = await Page(provider, name).sign_in()
    assert first["is_new_member"] is True
    assert first["provider"] == name
    assert (first["token_type"], first["expires_in"], first["request_id"]) == ("Bearer", 3600, None)
    assert first["nickname"] == ("Ada L" if name == "APPLE" else "Ada")
    assert (await me(provider.app, first["access_token"])).json()["member_id"] == first["member_id"]
    vendor.person = Person(name="Ada's new name", email=None)
    again = await Page(provider, name).sign_in()
    assert (again["member_id"], again["is_new_member"]) == (first["member_id"], False)
    vendor.person = Person(subject="1000000002")
    other = await Page(provider, name).sign_in()
    assert other["member_id"] != first["member_id"]


async def test_what_is_enabled_is_told_truly(provider: Provider, vendor: Vendors):
    async def told() -> tuple[list[str], list[Any]]:
        async with provider.app.client() as client:
            settings = (await client.get("/v1/public/auth-settings")).json()
            options = await client.get(
                f"/v1/public/oauth/clients/{provider.settings['first_party_client_id']}/login-options"
            )
        assert options.json()["enabled_oauth_providers"] == settings["enabled_oauth_providers"]
        return settings["enabled_oauth_providers"], options.json()["providers"]

    assert await told() == ([], [])
    await set_up(provider, vendor, "NAVER", "GOOGLE")
    listed = [{"provider": "GOOGLE", "name": "Google"}, {"provider": "NAVER", "name": "Naver"}]
    assert await told() == (["GOOGLE", "NAVER"], listed)
    await provider.asked("PUT", "social/google", {"is_enabled": False})
    assert (await told())[0] == ["NAVER"]
    assert_error(await Page(provider, "GOOGLE").ask(), 400, "PROVIDER_NOT_ENABLED")
    await provider.asked("DELETE", "social/NAVER")
    assert await told() == ([], [])


async def test_a_code_goes_to_the_apps_own_pages_alone(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE")
    page = Page(provider, "GOOGLE")
    for wrong in [f"{PAGE}/", PAGE.upper(), f"{PAGE}?x=1", "https://evil.example/signed-in", "javascript:alert(1)"]:
        assert_error(await page.ask(redirect_uri=wrong), 400, "INVALID_REDIRECT_URI")
    assert (await page.ask(redirect_uri=f"{provider.url}/oauth/consent")).status_code == 200
    for changes in [
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
    ]:
        assert_error(await page.ask(**changes), 400, "CODE_CHALLENGE_REQUIRED")
    page.client_id = "cl_" + "A" * 32
    assert_error(await page.ask(), 404, "OAUTH_CLIENT_NOT_FOUND")


async def test_a_clients_own_address_never_gets_a_members_code(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE")
    page = Page(provider, "GOOGLE")
    page.client_id = (await provider.client(redirect_uris=["https://club.example/callback"])).client_id
    assert_error(await page.ask(redirect_uri="https://club.example/callback"), 400, "INVALID_REDIRECT_URI")


async def test_a_code_is_of_no_use_without_the_verifier_and_wrong_tries_do_not_use_it_up(
    provider: Provider, vendor: Vendors
):
    await set_up(provider, vendor, "KAKAO")
    page = Page(provider, "KAKAO")
    code = (await page.back())["code"]
    assert_error(await page.exchange(code, "a" * 43), 400, "INVALID_CODE")
    assert_error(await page.exchange(code[:-1] + ("A" if code[-1] != "A" else "B")), 400, "INVALID_CODE")
    assert_error(await page.exchange("xc_nothing"), 400, "INVALID_CODE")
    assert (await page.exchange(code)).status_code == 200


async def test_a_second_use_of_a_code_ends_the_session_of_the_first(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "KAKAO")
    page = Page(provider, "KAKAO")
    code = (await page.back())["code"]
    token = (await page.exchange(code)).json()["access_token"]
    # An attacker who has only read the code can neither use it nor end the session.
    assert_error(await page.exchange(code, "a" * 43), 400, "INVALID_CODE")
    assert (await me(provider.app, token)).status_code == 200
    assert_error(await page.exchange(code), 400, "INVALID_CODE")
    assert_error(await me(provider.app, token), 401, "INVALID_TOKEN")


async def test_of_twenty_exchanges_one_wins(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "KAKAO")
    page = Page(provider, "KAKAO")
    code = (await page.back())["code"]
    answers = await asyncio.gather(*(page.exchange(code) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 19


async def test_two_first_sign_ins_at_once_make_one_member(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "NAVER")
    pages = [Page(provider, "NAVER") for _ in range(6)]
    codes = [(await page.back())["code"] for page in pages]
    answers = await asyncio.gather(*(page.exchange(code) for page, code in zip(pages, codes, strict=True)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["member_id"] for answer in answers}) == 1
    assert sum(answer.json()["is_new_member"] for answer in answers) == 1


@pytest.mark.advisory("GHSA-2cjm")
async def test_sign_ins_at_all_vendors_at_once_stay_apart(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, *SIX)
    made = await asyncio.gather(*(Page(provider, name).sign_in() for name in SIX * 3))
    assert [sign_in["provider"] for sign_in in made] == SIX * 3
    members = [sign_in["member_id"] for sign_in in made]
    assert len(set(members)) == len(SIX)
    assert members == members[: len(SIX)] * 3


async def test_a_state_counts_once_for_its_own_provider(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GITHUB", "KAKAO")
    page = Page(provider, "GITHUB")
    state = parameters(await page.url())["state"]
    async with plain_client(provider.url) as browser:
        for name, given in [("kakao", state), ("github", "ss_none"), ("github", "")]:
            answer = await browser.get(f"/v1/public/oauth/{name}/callback", params={"code": "c", "state": given})
            assert answer.status_code == 400
            assert answer.headers["content-type"].startswith("text/html")
            assert "location" not in answer.headers
    done = await page.at_vendor(url := await page.url())
    assert done.status_code == 303
    again = await page.at_vendor(url)
    assert again.status_code == 400
    assert "location" not in again.headers


async def test_what_goes_wrong_at_the_vendor_comes_back_to_the_page(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GITHUB")
    page = Page(provider, "GITHUB")
    state = parameters(await page.url())["state"]
    async with plain_client(provider.url) as browser:
        query = {"error": "access_denied", "error_description": "<b>no</b>", "state": state}
        answer = await browser.get("/v1/public/oauth/github/callback", params=query)
        assert parameters(answer.headers["location"]) == {"error": "access_denied", "state": "the page's"}
        # GitHub answers 200 to a code that it does not know.
        query = {"code": "unknown", "state": parameters(await page.url())["state"]}
        answer = await browser.get("/v1/public/oauth/github/callback", params=query)
        assert parameters(answer.headers["location"]) == {"error": "provider_error", "state": "the page's"}


@pytest.mark.parametrize(
    "told",
    [
        (200, b"[]"),
        (200, b'{"access_token": 1}'),
        (200, b"x" * 100_000),
        (500, b"{}"),
        (302, b""),
        (200, b"\xff"),
        (200, b"{}"),
        (200, b"[" * 10_000),
    ],
)
async def test_an_odd_answer_of_a_vendor_signs_nobody_in(provider: Provider, vendor: Vendors, told: tuple[int, bytes]):
    await set_up(provider, vendor, "KAKAO")
    vendor.token_answer = told
    assert (await Page(provider, "KAKAO").back())["error"] == "provider_error"


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://accounts.google.com"},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another"], "azp": "another"},
        {"exp": 1},
        {"exp": None},
        {"exp": True},
        {"iat": 99_999_999_999},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
    ],
    ids=str,
)
async def test_an_id_token_that_is_not_the_answer_to_this_request_is_refused(
    provider: Provider, vendor: Vendors, change: dict[str, Any]
):
    await set_up(provider, vendor, "GOOGLE")
    vendor.change = change
    assert (await Page(provider, "GOOGLE").back())["error"] == "provider_error"
    vendor.change = {}
    assert "code" in await Page(provider, "GOOGLE").back()


async def test_an_id_token_under_a_strangers_key_is_refused(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE")
    assert "code" in await Page(provider, "GOOGLE").back()
    # The same kid: the keys that the server has read decide, not those that the token is signed with.
    vendor.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
    assert (await Page(provider, "GOOGLE").back())["error"] == "provider_error"


async def test_a_bearer_links_the_account_to_its_member(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE", "KAKAO")
    ada = (await provider.app.member("linker"))["access_token"]
    linked = await Page(provider, "GOOGLE").sign_in(ada)
    assert linked["is_new_member"] is False
    member = (await me(provider.app, ada)).json()["member_id"]
    assert linked["member_id"] == member
    assert (await Page(provider, "GOOGLE").sign_in())["member_id"] == member
    # Another member cannot take it, and learns so.
    other = (await provider.app.member("other"))["access_token"]
    assert (await Page(provider, "GOOGLE").back(other))["error"] == "identity_taken"
    assert_error(await Page(provider, "KAKAO").ask("not a token"), 401, "INVALID_TOKEN")


async def test_an_account_taken_between_callback_and_exchange_stays_its_owners(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "GOOGLE")
    one, two = Page(provider, "GOOGLE"), Page(provider, "GOOGLE")
    codes = []
    for page, login in [(one, "first"), (two, "second")]:
        codes.append((await page.back((await provider.app.member(login))["access_token"]))["code"])
    assert (await one.exchange(codes[0])).status_code == 200
    assert_error(await two.exchange(codes[1]), 409, "IDENTITY_TAKEN")


async def test_a_link_that_another_browser_finishes_comes_to_nothing(provider: Provider, vendor: Vendors):
    """An attacker starts linking with their own token and sends the provider's URL to a victim, who agrees there."""
    await set_up(provider, vendor, "GOOGLE")
    attacker = (await provider.app.member("attacker"))["access_token"]
    page, victim = Page(provider, "GOOGLE"), Page(provider, "GOOGLE")
    came = parameters((await page.at_vendor(await page.url(attacker))).headers["location"])
    # The victim's page has another verifier; the attacker has the verifier, but not the code.
    assert_error(await victim.exchange(came["code"]), 400, "INVALID_CODE")
    assert (await victim.sign_in())["is_new_member"] is True


async def test_a_guest_becomes_the_member_and_its_sessions_end(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "KAKAO")
    guest = await provider.app.guest()
    signed_in = await Page(provider, "KAKAO").sign_in(guest["access_token"])
    assert signed_in["member_id"] == guest["member_id"]
    assert_error(await me(provider.app, guest["access_token"]), 401, "INVALID_TOKEN")
    async with provider.app.client(signed_in["access_token"]) as client:
        body = {"login_id": "again", "password": "correct horse"}
        assert_error(await client.post("/v1/public/app-members/signup", json=body), 409, "NOT_A_GUEST")


async def test_a_deactivated_member_cannot_sign_in(provider: Provider, vendor: Vendors):
    await set_up(provider, vendor, "KAKAO")
    member = (await Page(provider, "KAKAO").sign_in())["member_id"]
    page = Page(provider, "KAKAO")
    code = (await page.back())["code"]
    bearer = {"Authorization": f"Bearer {provider.app.console['access_token']}"}
    async with plain_client(provider.url, **bearer) as console:
        path = f"/v1/apps/{provider.app.app_id}/members/{member}"
        answer = await console.patch(path, json={"is_active": False})
        assert answer.status_code == 200, answer.text
    assert_error(await page.exchange(code), 403, "MEMBER_INACTIVE")


@pytest.mark.parametrize("second", ["KAKAO", "GITHUB", "APPLE"])
async def test_a_verified_address_joins_members_only_where_the_app_says_so(
    provider: Provider, vendor: Vendors, second: str
):
    await set_up(provider, vendor, "GOOGLE", second)
    vendor.person = Person(subject="11", email="Joined@Example.test")
    member = (await Page(provider, "GOOGLE").sign_in())["member_id"]
    vendor.person = Person(subject="12", email="joined@example.test")
    assert (await Page(provider, second).sign_in())["member_id"] != member
    await provider.asked("PUT", "settings", {"link_by_verified_email": True})
    # Two members have accounts with that address now, but it is the first one's.
    vendor.person = Person(subject="13", email="joined@example.test")
    assert (await Page(provider, second).sign_in())["member_id"] == member
    vendor.person = Person(subject="21", email="fresh@example.test")
    fresh = (await Page(provider, "GOOGLE").sign_in())["member_id"]
    vendor.person = Person(subject="22", email="FRESH@example.test")
    assert (await Page(provider, second).sign_in())["member_id"] == fresh


async def test_an_address_that_a_vendor_has_verified_is_the_members(provider: Provider, vendor: Vendors):
    """A01: who only claimed it keeps nothing of it, and who has verified it keeps it."""
    app = provider.app
    await set_up(provider, vendor, "GOOGLE")
    mallory = await sign_up(app, "mallory", "ada@example.com")
    await mails(app, 1)
    vendor.person = Person(subject="41", email="ada@example.com")
    ada = await Page(provider, "GOOGLE").sign_in()
    assert (await account(app, ada["access_token"]))["email"] == "ada@example.com"
    assert (await account(app, mallory["access_token"]))["pending_email"] is None
    vendor.person = Person(subject="42", email="ADA@example.com")
    other = await Page(provider, "GOOGLE").sign_in()
    assert other["member_id"] != ada["member_id"]
    assert (await account(app, other["access_token"]))["email"] is None
    # Where an address is required, one of these sessions is provisional.
    await call(app, "PATCH", "/account-settings", json={"email_verification": "required"})
    for subject, status in (("41", 200), ("42", 403)):
        vendor.person = Person(subject=subject, email="ada@example.com")
        token = (await Page(provider, "GOOGLE").sign_in())["access_token"]
        async with app.client(token) as client:
            assert (await client.get("/v1/public/tables")).status_code == status


async def test_a_vendor_is_one_factor(provider: Provider, vendor: Vendors):
    """The code was used, so that the ticket is the only way on."""
    app = provider.app
    await set_up(provider, vendor, "GOOGLE")
    await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
    vendor.person = Person(subject="51")
    first = await Page(provider, "GOOGLE").sign_in()
    _, codes = await enrolled(app, first["access_token"])
    page = Page(provider, "GOOGLE")
    code = (await page.back())["code"]
    error = assert_error(await page.exchange(code), 401, "SECOND_FACTOR_REQUIRED")
    done = await finish(app, error["ticket"], recovery_code=codes[0])
    assert done.json()["member_id"] == first["member_id"]


@pytest.mark.advisory("GHSA-m93w-4fxv-r35v")
@pytest.mark.parametrize("name", SIX)
async def test_an_address_that_nobody_verified_joins_nothing(provider: Provider, vendor: Vendors, name: str):
    """The takeover by a stranger's address: as a login_id, at a vendor that verifies none, or not verified there."""
    await set_up(provider, vendor, *dict.fromkeys(["GOOGLE", name]))
    await provider.asked("PUT", "settings", {"link_by_verified_email": True})
    vendor.person = Person(subject="31", email="victim@example.test")
    victim = (await Page(provider, "GOOGLE").sign_in())["member_id"]
    vendor.person = Person(subject="32", email="victim@example.test", is_verified=False)
    assert (await Page(provider, name).sign_in())["member_id"] != victim
    squatter = (await provider.app.member("squatted@example.test"))["member_id"]
    vendor.person = Person(subject="33", email="squatted@example.test")
    assert (await Page(provider, name).sign_in())["member_id"] != squatter


async def test_the_members_of_another_app_are_others(provider: Provider, vendor: Vendors, signing: Any):
    from tests.conftest import new_app

    await set_up(provider, vendor, "KAKAO")
    elsewhere = await Provider(new_app(*signing)).start()
    await set_up(elsewhere, vendor, "KAKAO")
    here, there = await Page(provider, "KAKAO").sign_in(), await Page(elsewhere, "KAKAO").sign_in()
    assert here["member_id"] != there["member_id"]
    assert_error(await Page(elsewhere, "KAKAO").ask(here["access_token"]), 401, "INVALID_TOKEN")


async def test_a_secret_is_shown_nowhere_and_stays_where_none_is_given(provider: Provider, vendor: Vendors):
    secret = secrets.token_urlsafe(20)
    made = await provider.asked("PUT", "social/FACEBOOK", {"client_id": "one", "client_secret": secret})
    assert made["redirect_uri"] == f"{provider.url}/v1/public/oauth/facebook/callback"
    assert made["has_secret"] is True
    changed = await provider.asked("PUT", "social/FACEBOOK", {"client_id": "two"})
    assert (changed["client_id"], changed["has_secret"]) == ("two", True)
    listed = await provider.asked("GET", "social")
    bearer = {"Authorization": f"Bearer {provider.app.console['access_token']}"}
    async with plain_client(provider.url, **bearer) as console:
        log = await console.get(f"/v1/apps/{provider.app.app_id}/audit-log")
    assert log.status_code == 200, log.text
    assert "social_provider.put" in log.text
    assert secret not in str([made, changed, listed]) + log.text + provider.app.server.logs()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("GOOGLE", {"client_secret": "s"}),
        ("GOOGLE", {"client_id": "c"}),
        ("GOOGLE", {"client_id": "c", "client_secret": "s", "options": {"issuer": "https://a.example"}}),
        ("GOOGLE", {"client_id": "c", "client_secret": "s", "options": {"trust_email": True}}),
        ("APPLE", {"client_id": "c", "client_secret": APPLE_PEM}),
        ("APPLE", {"client_id": "c", "client_secret": "s", "options": {"team_id": "T", "key_id": "K"}}),
        ("CORP", {"client_id": "c", "client_secret": "s"}),
        ("CORP", {"client_id": "c", "options": {"issuer": "ftp://a.example"}}),
        ("CORP", {"client_id": "c", "options": {"issuer": "https://a.example", "endpoints": {}}}),
        ("A", {"client_id": "c", "client_secret": "s"}),
        ("A-B", {"client_id": "c", "client_secret": "s"}),
        ("X" * 33, {"client_id": "c", "client_secret": "s"}),
        ("FACEBOOK", {"client_id": "c", "client_secret": "s", "options": {"version": "../x"}}),
        ("KAKAO", {"client_id": "c", "client_secret": "s", "scopes": ["a b"]}),
        ("KAKAO", {"client_id": "c", "client_secret": "s", "unknown": 1}),
    ],
)
async def test_a_provider_that_cannot_work_is_refused(provider: Provider, name: str, body: dict[str, Any]):
    bearer = {"Authorization": f"Bearer {provider.app.console['access_token']}"}
    async with plain_client(provider.url, **bearer) as console:
        answer = await console.put(f"/v1/apps/{provider.app.app_id}/oauth/social/{name}", json=body)
    assert_error(answer, 400, "VALIDATION_FAILED")
    assert (await provider.asked("GET", "social"))["data"] == []


async def test_the_auth_settings_cannot_claim_what_is_not_set_up(provider: Provider):
    bearer = {"Authorization": f"Bearer {provider.app.console['access_token']}"}
    body = {"allow_id_password_login": True, "allow_guest_login": True, "enabled_oauth_providers": ["GOOGLE"]}
    async with plain_client(provider.url, **bearer) as console:
        answer = await console.put(f"/v1/apps/{provider.app.app_id}/auth-settings", json=body)
    assert_error(answer, 400, "VALIDATION_FAILED")


async def test_rows_of_a_new_member_are_made_by_the_exchange_and_a_taken_name_leaves_the_code(
    provider: Provider, vendor: Vendors
):
    await set_up(provider, vendor, "KAKAO")
    schema = {"member": {"type": "string"}, "username": {"type": "string", "required": True, "unique": True}}
    await provider.app.table(schema, title="profiles")
    data = {"member": {"$member": "id"}, "username": {"$input": "username"}}
    await call(provider.app, "PATCH", "/account-settings", json={"on_sign_up": [{"table": "profiles", "data": data}]})
    async with provider.app.client() as client:
        new = {"login_id": "first", "password": "correct horse", "profile": {"username": "ada"}}
        assert (await client.post("/v1/public/app-members/signup", json=new)).status_code == 201
    page = Page(provider, "KAKAO")
    code = (await page.back())["code"]
    assert_error(await page.exchange(code), 400, "VALIDATION_FAILED")
    assert_error(await page.exchange(code, profile={"username": "ada"}), 409, "UNIQUE_VIOLATION")
    assert_error(await page.exchange(code, "x" * 43, profile={"username": "kay"}), 400, "INVALID_CODE")
    signed_in = await page.exchange(code, profile={"username": "kay"})
    assert signed_in.json()["is_new_member"] is True
    # Who is a member already needs none.
    assert (await Page(provider, "KAKAO").sign_in())["member_id"] == signed_in.json()["member_id"]
