"""The consent screen in a real browser: what a member sees, and what a hostile client cannot make of it."""

import contextlib
import json
import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Error, Page, Request, Route, expect

from pilotis.kit.crypto import from_base64url
from tests.accounts.authenticator import enrolled
from tests.accounts.test_gate import settings
from tests.browser.test_guestbook import HOSTILE
from tests.chromium import chromium, keep_picture
from tests.console import owner_of
from tests.console.conftest import axe, obstacles  # noqa: F401 - a fixture
from tests.mail.world import mails
from tests.oauth.browsing import CALLBACK, PASSWORD, Pkce, Provider, Registered, landed, redeem
from tests.oauth.test_logos import picture
from tests.oauth.vendors import CLIENT_ID, SECRET, vendors
from tests.support import App

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
    """Sign in on the app's page, to which the consent page leads."""
    await page.locator("#login").fill(login_id)
    await page.locator("#password").fill(password)
    await page.locator("form[data-form=sign-in] button").click()


async def test_a_member_signs_in_agrees_and_is_sent_back(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    await visitor.open(provider.authorize_url(club, pkce, scope="openid profile offline_access"))
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"Sign in to app \d+"))
    await expect(page.get_by_text("To continue to Coffee club.")).to_be_visible()
    await sign_in(page, password="wrong")
    await expect(page.get_by_role("status")).to_contain_text("wrong")
    await sign_in(page)
    await expect(page.locator("#consent-title")).to_have_text(re.compile("Coffee club wants to use your app"))
    await expect(page.locator("#consent-who")).to_have_text("Signed in as ada")
    # The code is gone from the address, and nothing of it stays in the browser but what makes it known.
    assert "code=" not in page.url
    assert await page.evaluate("Object.keys(localStorage).filter((name) => !name.endsWith(':devices'))") == []
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
    await expect(page.get_by_text("Coffee club asks you to sign in again.")).to_be_visible()
    await sign_in(page)
    await page.get_by_label("Code of your authenticator app").fill(codes[0])
    visitor.landed = None
    await page.get_by_role("button", name="Confirm").click()
    await page.wait_for_url(CALLBACK + "**")
    tokens = await redeem(provider, club, landed(visitor.landed or "")["code"], pkce)
    claims = json.loads(from_base64url(tokens["id_token"].split(".")[1]) or b"")
    assert (claims["acr"], claims["amr"]) == (level, ["pwd", "mfa"])


async def test_a_visitor_without_an_account_creates_one(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    await visitor.open(provider.authorize_url(club, pkce))
    await page.get_by_role("link", name="Create an account").click()
    await expect(page.get_by_text("To continue to Coffee club.")).to_be_visible()
    await page.get_by_label("Login ID", exact=True).fill("new visitor")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account").click()
    await expect(page.locator("#consent-title")).to_have_text(re.compile("Coffee club wants to use your app"))
    await page.click("#allow")
    await page.wait_for_url(CALLBACK + "**")
    assert (await redeem(provider, club, landed(visitor.landed or "")["code"], pkce))["id_token"]
    async with provider.app.client() as client:
        body = {"login_id": "new visitor", "password": PASSWORD}
        assert (await client.post("/v1/public/app-members/signin", json=body)).status_code == 200


async def test_every_way_to_sign_in_leads_to_the_consent(provider: Provider, club: Registered, visitor: Visitor):
    """A puzzle that the app asks for, a mailed code, and a mailed link that opens in another tab."""
    page, app = visitor.page, provider.app
    await settings(app, challenge_on=["signin"], methods={"email_code": True, "email_link": True})
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(page)
    await expect(page.locator("#consent-who")).to_have_text("Signed in as ada")
    await page.click("#other-account")
    for step in ("code", "link"):
        await page.get_by_role("button", name="Sign in by mail").click()
        await page.get_by_label("E-mail address").fill("eve@example.com")
        await page.get_by_role("button", name="Send the mail").click()
        await expect(page.get_by_text("If eve@example.com can sign in here")).to_be_visible()
        mail = (await mails(app, 1 if step == "code" else 2))[0]
        if step == "code":
            await page.get_by_label("Code").fill(mail["code"])
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.locator("#consent-who")).to_have_text("Signed in as eve@example.com")
            await page.click("#other-account")
        else:
            tab = await page.context.new_page()
            await tab.goto(mail["link"])
            await tab.get_by_role("button", name="Sign in").click()
            await expect(tab.locator("#consent-who")).to_have_text("Signed in as eve@example.com")


async def test_who_has_to_prove_more_first_learns_what(provider: Provider, club: Registered, visitor: Visitor):
    page = visitor.page
    await settings(provider.app, email_verification="required")
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(page)
    await expect(page.locator("#problem-text")).to_contain_text("Confirm your e-mail address first.")
    await settings(provider.app, email_verification="off", second_factor="required")
    await visitor.open(provider.authorize_url(club, Pkce()))
    await sign_in(page)
    await expect(page.locator("#problem-text")).to_have_text("Set up a second factor in your account first.")


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
    url = answer.url
    # The page leads to the sign-in by itself.
    await page.wait_for_url("**/account/**")

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
    await expect(page.locator("form[data-form=sign-in] button")).to_have_text("로그인")
    await sign_in(page)
    await expect(page.locator("#scopes")).to_contain_text("본인 확인")
    await expect(page.locator("#allow")).to_have_text("허용")
    assert await page.locator("html").get_attribute("lang") == "ko"
    await context.close()
    # A client may say what its user reads.
    english = await browser.new_context(locale="en-GB")
    page = await english.new_page()
    await page.goto(provider.authorize_url(club, Pkce(), ui_locales="ko-KR en"))
    await expect(page.locator("form[data-form=sign-in] button")).to_have_text("로그인")
    await sign_in(page)
    await expect(page.locator("#allow")).to_have_text("허용")
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


# What the two pages have in common: of the page, of the card, of the button that goes on.
LOOK = """() => {
    const of = (place, ...names) => {
        const style = getComputedStyle([...document.querySelectorAll(place)].find((one) => one.offsetParent));
        return names.map((name) => style[name]);
    };
    return [
        ...of("main", "backgroundColor", "borderRadius", "padding", "maxWidth", "marginTop", "fontFamily"),
        ...of("h1", "fontSize", "color", "fontWeight"),
        ...of("form[data-form=sign-in] button, #allow", "backgroundColor", "color", "borderRadius", "font"),
        getComputedStyle(document.body).backgroundColor,
        document.querySelector("main > .logo")?.getAttribute("src"),
        document.querySelector("footer")?.textContent,
    ];
}"""
THEME = {"accent": "#7a1fa2", "background": "#f4e9d8", "radius": 12, "font": "serif"}
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenverleih der Stadt Wien und aller Umlandgemeinden"


@pytest.mark.parametrize("look", ["plain", "themed"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_every_screen_and_looks_as_the_account_pages(
    provider: Provider,
    browser: Browser,
    axe: str,  # noqa: F811
    scheme: str,
    size: str,
    look: str,
):
    await provider.scope("orders:read", title="See your orders", description="What you ordered, and when")
    client = await provider.client(
        name="Coffee club" if look == "plain" else LONG,
        scopes=["openid", "profile", "orders:read", "offline_access"],
        client_uri="https://club.example/",
        policy_uri="https://club.example/privacy",
    )
    if look == "themed":
        async with owner_of(provider.app).client(provider.app) as console:
            theme = {**THEME, "texts": {"en": {"footer": "{app} GmbH, 1 Example Street"}}}
            for answer in (
                await console.patch("", json={"name": LONG}),
                await console.patch("/account-settings", json={"theme": theme}),
                await console.put("/account-settings/logo", content=picture(size=(400, 100))),
            ):
                assert answer.is_success, answer.text
    context = await browser.new_context(viewport=SIZES[size], color_scheme=scheme, locale="en-GB")
    page = await context.new_page()
    await page.goto(provider.authorize_url(client, Pkce(), scope="openid profile orders:read offline_access"))
    await expect(page.get_by_text(re.compile("To continue to "))).to_be_visible()
    await keep_picture(page, f"sign-in-{size}-{scheme}-{look}", full_page=True)
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen = await page.evaluate(LOOK)
    await sign_in(page)
    await expect(page.locator("#allow")).to_be_visible()
    await keep_picture(page, f"consent-{size}-{scheme}-{look}", full_page=True)
    assert await page.evaluate(LOOK) == seen
    assert (f"{LONG} GmbH, 1 Example Street" in seen) == (look == "themed")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await obstacles(page, axe) == []
    over = page.url
    await page.route("https://club.example/**", lambda route: route.fulfill(body="back"))
    await page.click("#deny")
    await page.wait_for_url(f"{CALLBACK}**")
    await page.goto(over)
    await expect(page.get_by_text("This request has ended")).to_be_visible()
    await keep_picture(page, f"consent-over-{size}-{scheme}-{look}")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") in seen
    await context.close()


async def test_a_member_signs_in_at_a_vendor_from_the_page(provider: Provider, club: Registered, visitor: Visitor):
    page, pkce = visitor.page, Pkce()
    with vendors() as vendor:
        for name in ("GITHUB", "KAKAO"):
            body = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options(name)}
            await provider.asked("PUT", f"social/{name}", body)
        await visitor.open(provider.authorize_url(club, pkce, scope="openid profile"))
        buttons = page.locator("[data-page=sign-in] [data-vendors] button")
        await expect(buttons).to_have_text(["Continue with GitHub", "Continue with Kakao"])
        await buttons.last.click()
        await expect(page.locator("#consent-who")).to_have_text("Signed in as Ada")
        await page.click("#allow")
        await page.wait_for_url(f"{CALLBACK}**")
    assert visitor.landed is not None
    tokens = await redeem(provider, club, landed(visitor.landed)["code"], pkce)
    assert tokens["token_type"] == "Bearer"


async def test_a_code_that_this_browser_did_not_ask_for_signs_nobody_in(
    provider: Provider, club: Registered, visitor: Visitor
):
    page = visitor.page
    request = await page.context.request.get(provider.authorize_url(club, Pkce()), max_redirects=0)
    await visitor.open(f"{request.headers['location']}&code=sc_forged&state=forged")
    # It is not even sent: the visitor signs in.
    await expect(page.get_by_text("To continue to Coffee club.")).to_be_visible()
    assert "forged" not in page.url


async def test_no_request_of_another_app_takes_a_member_over(
    provider: Provider, club: Registered, other_app: App, visitor: Visitor
):
    """A code goes only to a consent page about a request to the member's own app."""
    request = await visitor.page.context.request.get(provider.authorize_url(club, Pkce()), max_redirects=0)
    own = request.headers["location"]
    body = {"code_challenge": Pkce().challenge, "state": "x"}
    async with provider.app.client() as client:
        ada = {"login_id": "ada", "password": PASSWORD}
        token = (await client.post("/v1/public/app-members/signin", json=ada)).json()["access_token"]
    eve = (await other_app.member())["access_token"]
    for app, who, uri, status in (
        (provider.app, token, own, 200),
        (other_app, eve, own, 400),
        (provider.app, token, own.partition("?")[0], 400),
        (provider.app, token, f"{own}&request_id=req_x", 400),
        (provider.app, token, f"{own}#x", 400),
        (provider.app, token, own.replace("/oauth/consent", "/oauth/consent/x"), 400),
        (provider.app, token, own.replace("http", "https", 1), 400),
    ):
        async with app.client(who) as client:
            answer = await client.post("/v1/public/app-members/me/sign-in-code", json={**body, "redirect_uri": uri})
            assert answer.status_code == status, (uri, answer.text)
