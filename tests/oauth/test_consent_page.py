"""The consent screen in a real browser: what a member sees, and what a hostile client cannot make of it."""

import contextlib
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Error, Page, Request, Route, expect

from pilotis.kit.crypto import from_base64url
from tests.accounts.authenticator import enrolled
from tests.browser.test_guestbook import HOSTILE
from tests.chromium import chromium, keep_picture
from tests.console import owner_of
from tests.oauth.browsing import CALLBACK, PASSWORD, Pkce, Provider, Registered, landed, redeem
from tests.oauth.test_logos import picture
from tests.oauth.vendors import CLIENT_ID, SECRET, vendors

SIZES = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A real browser, in place of the one that follows redirects over HTTP."""
    async with chromium() as running:
        yield running


class Visitor:
    """A browser whose visits to the client's address are caught."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.landed: str | None = None
        self.errors: list[str] = []

    async def open(self, chromium_url: str) -> None:
        """Visit an address; one that redirects to the client's ends where no name leads."""
        with contextlib.suppress(Error):
            await self.page.goto(chromium_url)


@pytest.fixture
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    context = await browser.new_context(viewport=SIZES["wide"], locale="en-GB")
    page = await context.new_page()
    found = Visitor(page)

    async def catch(route: Route) -> None:
        await route.fulfill(status=200, content_type="text/html", body="<title>back</title>")

    await context.route("https://club.example/**", catch)

    def seen(request: Request) -> None:
        if request.url.startswith(CALLBACK):
            found.landed = request.url

    page.on("request", seen)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("console", lambda one: found.errors.append(one.text) if "Content Security" in one.text else None)
    yield found
    assert found.errors == []
    await context.close()


async def sign_in(page: Page, login_id: str = "ada", password: str = PASSWORD) -> None:
    await page.fill("#login-id", login_id)
    await page.fill("#password", password)
    await page.click("#sign-in-button")


async def test_a_member_signs_in_agrees_and_is_sent_back(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    await visitor.open(provider.authorize_url(club, pkce, scope="openid profile offline_access"))
    await expect(page.locator("#sign-in-title")).to_have_text(re.compile(r"Sign in to app \d+"))
    await sign_in(page, password="wrong")
    await expect(page.locator("#sign-in-error")).to_have_text("The login ID or the password is wrong.")
    await sign_in(page)
    await expect(page.locator("#consent-title")).to_have_text(re.compile("Coffee club wants to use your app"))
    await expect(page.locator("#leads")).to_contain_text("club.example")
    await expect(page.locator("#scopes li")).to_have_count(3)
    await page.click("#allow")
    await page.wait_for_url(CALLBACK + "**")
    assert visitor.landed is not None
    assert (await redeem(provider, club, landed(visitor.landed)["code"], pkce))["id_token"]
    # Signed in with the provider now, and nothing new to agree to: the page is not seen again.
    visitor.landed = None
    await visitor.open(provider.authorize_url(club, Pkce()))
    assert "code" in landed(visitor.landed or "")


async def test_a_member_declines(provider: Provider, club: Registered, visitor: Visitor):
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(visitor.page)
    await visitor.page.click("#deny")
    await visitor.page.wait_for_url(CALLBACK + "**")
    assert landed(visitor.landed or "")["error"] == "access_denied"


async def test_a_second_factor_is_asked_for_where_the_client_needs_two(
    provider: Provider, club: Registered, visitor: Visitor
):
    page, pkce, app = visitor.page, Pkce(), provider.app
    async with owner_of(app).client(app) as console:
        assert (await console.patch("/account-settings", json={"second_factor": "optional"})).status_code == 200
    async with app.client() as client:
        signed_in = await client.post("/v1/public/app-members/signin", json={"login_id": "ada", "password": PASSWORD})
    # A browser that is signed in with one factor before the member has another one.
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(page)
    await page.click("#allow")
    await page.wait_for_url(CALLBACK + "**")
    _, codes = await enrolled(app, signed_in.json()["access_token"])
    level = "urn:pilotis:level:2"
    silent = provider.authorize_url(club, Pkce(), acr_values=level, prompt="none")
    visitor.landed = None
    await visitor.open(silent)
    assert landed(visitor.landed or "")["error"] == "login_required"
    await visitor.open(provider.authorize_url(club, pkce, acr_values=f"other {level}"))
    await expect(page.locator("#sign-in-why")).to_contain_text("asks you to sign in again")
    await sign_in(page)
    await expect(page.locator("#factor-title")).to_have_text("Confirm that it is you")
    await keep_picture(page, "consent-factor")
    await page.fill("#factor-code", "000000")
    await page.click("#factor-button")
    await expect(page.locator("#factor-error")).to_contain_text("wrong or was used before")
    await page.fill("#factor-code", codes[0])
    visitor.landed = None
    await page.click("#factor-button")
    await page.wait_for_url(CALLBACK + "**")
    tokens = await redeem(provider, club, landed(visitor.landed or "")["code"], pkce)
    claims = json.loads(from_base64url(tokens["id_token"].split(".")[1]) or b"")
    assert (claims["acr"], claims["amr"]) == (level, ["pwd", "mfa"])


async def test_a_visitor_without_an_account_creates_one(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    await visitor.open(provider.authorize_url(club, pkce))
    await page.click("#switch")
    await expect(page.locator("#sign-in-title")).to_have_text(re.compile(r"Create an account at app \d+"))
    await expect(page.locator("#password")).to_have_attribute("autocomplete", "new-password")
    for login_id, password, told in (
        ("ada", PASSWORD, "This login ID is taken. Choose another one."),
        ("new visitor", "short", "Choose another login ID or a longer password."),
    ):
        await sign_in(page, login_id, password)
        await expect(page.locator("#sign-in-error")).to_have_text(told)
    # And back again, and once more.
    await page.click("#switch")
    await expect(page.locator("#sign-in-button")).to_have_text("Sign in")
    await expect(page.locator("#sign-in-error")).to_be_hidden()
    await page.click("#switch")
    await sign_in(page, "new visitor", PASSWORD)
    await expect(page.locator("#consent-title")).to_have_text(re.compile("Coffee club wants to use your app"))
    await page.click("#allow")
    await page.wait_for_url(CALLBACK + "**")
    assert (await redeem(provider, club, landed(visitor.landed or "")["code"], pkce))["id_token"]
    async with provider.app.client() as client:
        body = {"login_id": "new visitor", "password": PASSWORD}
        assert (await client.post("/v1/public/app-members/signin", json=body)).status_code == 200
    # Where nobody signs in with a password, nobody signs up.
    async with owner_of(provider.app).client(provider.app) as console:
        settings = (await console.get("/auth-settings")).json() | {"allow_id_password_login": False}
        changed = await console.put("/auth-settings", json=settings)
        assert changed.status_code == 200, changed.text
    await visitor.open(provider.authorize_url(club, Pkce(), prompt="login"))
    await expect(page.locator("#sign-in-error")).to_be_visible()
    await expect(page.locator("#switch")).to_be_hidden()


async def test_a_scope_that_is_not_required_may_be_left_out(provider: Provider, club: Registered, visitor: Visitor):
    pkce = Pkce()
    await visitor.open(provider.authorize_url(club, pkce, scope="openid profile email"))
    await sign_in(visitor.page)
    await visitor.page.uncheck("input[name=email]")
    await visitor.page.click("#allow")
    await visitor.page.wait_for_url(CALLBACK + "**")
    tokens = await redeem(provider, club, landed(visitor.landed or "")["code"], pkce)
    assert tokens["scope"] == "openid profile"


async def test_hostile_names_stay_text(provider: Provider, visitor: Visitor):
    await provider.scope("x", title=HOSTILE[:100], description=HOSTILE)
    client = await provider.client(name=HOSTILE[:100], scopes=["openid", "x"])
    await visitor.open(provider.authorize_url(client, Pkce(), scope="openid x"))
    await sign_in(visitor.page)
    await expect(visitor.page.locator("#consent-title")).to_contain_text("<script>")
    await expect(visitor.page.locator("#scopes")).to_contain_text("<img")
    assert await visitor.page.title() != "owned"
    assert await visitor.page.locator("#consent script, #consent img").count() == 0


async def test_the_page_is_in_no_frame(provider: Provider, club: Registered, visitor: Visitor):
    page = visitor.page
    answer = await page.goto(provider.authorize_url(club, Pkce()))
    assert answer is not None
    headers = await answer.all_headers()
    policy = headers["content-security-policy"]
    for directive in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"):
        assert directive in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    url = page.url

    async def framing(route: Route) -> None:
        await route.fulfill(status=200, content_type="text/html", body=f'<iframe src="{url}"></iframe>')

    await page.context.route("https://evil.example/", framing)
    visitor.errors.clear()
    await page.goto("https://evil.example/")
    frame = page.frames[-1]
    assert await frame.locator("#main").count() == 0
    visitor.errors.clear()


async def test_an_expired_request_is_explained(provider: Provider, club: Registered, visitor: Visitor):
    page = visitor.page
    await page.goto(f"{provider.url}/oauth/consent?request_id=req_unknown")
    await expect(page.locator("h1")).to_have_text("This request has ended")
    await page.goto(provider.authorize_url(Registered("cl_x", None), Pkce()))
    await expect(page.locator("h1")).to_have_text("This sign-in cannot continue")


async def test_it_speaks_korean(provider: Provider, club: Registered, browser: Browser):
    context = await browser.new_context(locale="ko-KR")
    page = await context.new_page()
    await page.goto(provider.authorize_url(club, Pkce(), scope="openid profile"))
    await expect(page.locator("#sign-in-button")).to_have_text("로그인")
    await sign_in(page)
    await expect(page.locator("#scopes")).to_contain_text("본인 확인")
    await expect(page.locator("#allow")).to_have_text("허용")
    assert await page.locator("html").get_attribute("lang") == "ko"
    await context.close()
    # A client may say what its user reads.
    english = await browser.new_context(locale="en-GB")
    page = await english.new_page()
    await page.goto(provider.authorize_url(club, Pkce(), ui_locales="ko-KR en"))
    assert urlsplit(page.url).query.endswith("lang=ko")
    await expect(page.locator("#sign-in-button")).to_have_text("로그인")
    await english.close()


async def test_a_clients_logo_is_shown(provider: Provider, club: Registered, visitor: Visitor):
    async with owner_of(provider.app).client(provider.app) as console:
        answer = await console.put(f"/oauth/clients/{club.client_id}/logo", content=picture())
        assert answer.status_code == 200, answer.text
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(visitor.page)
    logo = visitor.page.locator("#consent [data-initial=client] img")
    await expect(logo).to_be_visible()
    assert await logo.evaluate("one => one.naturalWidth") == 256
    await expect(visitor.page.locator("#consent [data-initial=app]")).to_have_text("A")
    await keep_picture(visitor.page, "consent-logo")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_every_screen(provider: Provider, visitor: Visitor, browser: Browser, scheme: str, size: str):
    await provider.scope("orders:read", title="See your orders", description="What you ordered, and when")
    client = await provider.client(
        scopes=["openid", "profile", "orders:read", "offline_access"],
        client_uri="https://club.example/",
        policy_uri="https://club.example/privacy",
    )
    context = await browser.new_context(viewport=SIZES[size], color_scheme=scheme, locale="en-GB")
    page = await context.new_page()
    await page.goto(provider.authorize_url(client, Pkce(), scope="openid profile orders:read offline_access"))
    await expect(page.locator("#sign-in-button")).to_be_visible()
    await keep_picture(page, f"sign-in-{size}-{scheme}")
    await sign_in(page)
    await expect(page.locator("#allow")).to_be_visible()
    await keep_picture(page, f"consent-{size}-{scheme}")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await context.close()


async def test_a_member_signs_in_at_a_vendor_from_the_page(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    with vendors() as vendor:
        for name in ("GITHUB", "KAKAO"):
            body = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options(name)}
            await provider.asked("PUT", f"social/{name}", body)
        await visitor.open(provider.authorize_url(club, pkce, scope="openid profile"))
        await expect(page.locator("#social-sign-in button")).to_have_text(
            ["Continue with GitHub", "Continue with Kakao"]
        )
        for size, measures in SIZES.items():
            for theme in ("light", "dark"):
                await page.set_viewport_size(measures)
                await page.emulate_media(color_scheme=theme)
                await keep_picture(page, f"consent-social-{size}-{theme}")
        await page.click("[data-provider=KAKAO]")
        await expect(page.locator("#consent-who")).to_have_text("Signed in as Ada")
        # The code is gone from the address, and nothing of it stays in the tab.
        assert "code=" not in page.url
        assert await page.evaluate("sessionStorage.length") == 0
        await page.click("#allow")
        await page.wait_for_url(f"{CALLBACK}**")
    assert visitor.landed is not None
    tokens = await redeem(provider, club, landed(visitor.landed)["code"], pkce)
    assert tokens["token_type"] == "Bearer"


async def test_a_code_that_another_tab_began_signs_nobody_in(provider: Provider, club: Registered, visitor: Visitor):
    page = visitor.page
    await visitor.open(provider.authorize_url(club, Pkce()))
    await expect(page.locator("#sign-in")).to_be_visible()
    await visitor.open(f"{page.url}&code=xc_forged&state=forged")
    await expect(page.locator("#sign-in")).to_be_visible()
    await expect(page.locator("#sign-in-error")).to_be_hidden()
    assert "forged" not in page.url
