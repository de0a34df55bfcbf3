"""A page of the app lets the server's account pages sign its members in, by the client or by one script tag."""

import functools
import json
import tomllib
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from pilotis.kit.languages import LANGUAGES
from tests.browser.test_client import PAGE
from tests.browser.test_resumable_upload import Quiet
from tests.chromium import keep_picture
from tests.clients.test_client import SOURCE
from tests.hosting.sites import new_site
from tests.mail.world import PASSWORD, call, sign_up
from tests.security.test_accounts import guessed
from tests.serving import serving
from tests.support import App
from tests.waiting import PATIENCE

SHOP = """<!doctype html><html lang="LANGUAGE"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Shop</title>
<body style="font:1rem/1.5 system-ui;margin:0;padding:1rem"><header style="display:flex;justify-content:space-between">
<b>Shop</b><script src="API/sdk/v1/account.js" data-key="KEY"></script></header>
<script>
globalThis.told = [];
addEventListener("pilotis-member", ({ detail }) => told.push(detail.member && detail.member.login_id));
</script>"""


@pytest.fixture
def site(tmp_path: Path, app: App) -> Iterator[tuple[str, Path]]:
    """The address of the app's own pages, and their folder."""
    begin = "Object.fromEntries(new URLSearchParams(location.search))"
    text = PAGE.replace(begin, json.dumps({"api": app.server.url, "key": app.public_key}))
    (tmp_path / "index.html").write_text(
        text.replace("(event.reason ?", "(event.error ? ` ${event.error.code}` : event.reason ?")
    )
    with serving(functools.partial(Quiet, directory=tmp_path)) as url:
        yield url, tmp_path


@pytest_asyncio.fixture
async def tabs(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(locale="en-US", viewport={"width": 1200, "height": 800})
    context.set_default_timeout(PATIENCE * 1000)
    yield context
    await context.close()


async def permit(app: App, *addresses: str) -> None:
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": list(addresses)})


async def enter(page: Page, name: str = "ada") -> None:
    """Sign in on the account page that is open."""
    await page.get_by_label("Login ID or e-mail address").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()


async def test_the_browser_comes_back_signed_in(tabs: BrowserContext, site: tuple[str, Path], app: App):
    url, _ = site
    await permit(app, f"{url}/")
    ada = await sign_up(app, "ada")
    page = await tabs.new_page()
    address = f"{url}/?cart=7#part"
    await page.goto(address)
    await page.wait_for_function("globalThis.ready")
    await page.evaluate("client.members.signInWithPage({ language: 'en' }); 0")
    await page.wait_for_url("**/account/**/sign-in?**")
    await enter(page)
    await page.wait_for_url(f"{url}/**")
    await page.wait_for_function("globalThis.ready && events.length")
    # The address has neither code nor state, and is the one that was left.
    assert page.url == address
    assert await page.evaluate("events") == ["signed_in"]
    assert (await page.evaluate("client.members.me()"))["member_id"] == ada["member_id"]
    assert await page.evaluate("Object.keys(sessionStorage)") == []
    await page.reload()
    await page.wait_for_function("globalThis.ready")
    assert (await page.evaluate("client.members.me()"))["member_id"] == ada["member_id"]
    assert await page.evaluate("events") == []


async def test_a_code_that_this_browser_has_not_asked_for_signs_nobody_in(
    tabs: BrowserContext, site: tuple[str, Path], app: App
):
    """Neither somebody else's nor one that was used: the page stays as it was, and says why."""
    url, _ = site
    await permit(app, f"{url}/")
    await sign_up(app, "ada")
    page = await tabs.new_page()
    address = f"{url}/?cart=7"
    await page.goto(address)
    await page.wait_for_function("globalThis.ready")
    await page.evaluate("client.members.signInWithPage(); 0")
    await page.wait_for_url("**/account/**/sign-in?**")
    async with page.expect_request(lambda request: request.url.startswith(f"{url}/?code=")) as back:
        await enter(page)
    stolen = (await back.value).url
    await page.wait_for_function("globalThis.ready && events.length")
    await page.evaluate("client.members.signOut()")
    # Another browser is led to the address with the code.
    await page.goto(stolen)
    await page.wait_for_function("globalThis.ready")
    assert await page.evaluate("client.members.session()") is None
    assert await page.evaluate("events") == []
    assert "code=" in page.url
    # The way is this browser's, but the code is none.
    await page.goto(address)
    way = {"verifier": "v" * 43, "after": address}
    await page.evaluate(
        "([name, way]) => sessionStorage.setItem(name, way)", [f"pilotis:{app.public_key}:mine", json.dumps(way)]
    )
    await page.goto(f"{address}&code=wrong&state=mine")
    await page.wait_for_function("globalThis.ready && events.length")
    assert await page.evaluate("events") == ["sign_in_failed INVALID_CODE"]
    assert await page.evaluate("client.members.session()") is None
    assert page.url == address


async def test_a_device_of_two_members_needs_no_puzzle_while_others_guess(
    tabs: BrowserContext, site: tuple[str, Path], app: App
):
    url, _ = site
    page = await tabs.new_page()
    await page.goto(f"{url}/?cart=7")
    await page.wait_for_function("globalThis.ready")
    sign_in = """async ([login_id, password]) => {
      try { return (await client.members.signIn({ login_id, password })).member_id } catch (error) { return error.code }
    }"""
    members = {}
    for name in ("ada", "bob"):
        members[name] = (await sign_up(app, name))["member_id"]
        assert await page.evaluate(sign_in, [name, PASSWORD]) == members[name]
        await page.evaluate("client.members.signOut()")
    for name in members:
        await guessed(app, name)
    # Who asks from elsewhere solves one; the client of this page is known, also after a reload.
    await page.reload()
    await page.wait_for_function("globalThis.ready")
    for name, member in members.items():
        assert await page.evaluate(sign_in, [name, PASSWORD]) == member
    kept = await page.evaluate(f"localStorage['pilotis:{app.public_key}:devices']")
    assert json.loads(kept).keys() == set(members.values())
    await page.evaluate(f"delete localStorage['pilotis:{app.public_key}:devices']")
    assert await page.evaluate(sign_in, ["ada", PASSWORD]) == "CHALLENGE_REQUIRED"


def shop(site: tuple[str, Path], app: App, language: str) -> str:
    """The address of a page with the script of the sign-in."""
    text = SHOP.replace("LANGUAGE", language).replace("API", app.server.url).replace("KEY", app.public_key)
    (site[1] / "shop.html").write_text(text)
    return f"{site[0]}/shop.html"


async def test_one_script_tag_gives_a_page_its_sign_in(tabs: BrowserContext, site: tuple[str, Path], app: App):
    address = shop(site, app, "en")
    await permit(app, address)
    await sign_up(app, "ada")
    page = await tabs.new_page()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for width in (375, 1200):
            await page.set_viewport_size({"width": width, "height": 200})
            await page.goto(address)
            await expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
            await keep_picture(page, f"account-script-out-{width}-{scheme}")
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/account/**/sign-in?**")
    await enter(page)
    await page.wait_for_url(address)
    name = page.get_by_role("link", name="ada")
    await expect(name).to_have_attribute("href", f"{app.server.url}/account/{app.app_id}/account?lang=en")
    await expect(page.get_by_role("button", name="Sign in")).to_be_hidden()
    assert await page.evaluate("told.at(-1)") == "ada"
    for width in (375, 1200):
        await page.set_viewport_size({"width": width, "height": 200})
        await keep_picture(page, f"account-script-in-{width}")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    await expect(name).to_be_hidden()
    assert await page.evaluate("told.at(-1)") is None


async def test_on_a_site_of_the_app_the_script_tag_is_all(tabs: BrowserContext, app: App):
    site = await new_site(app)
    # In the head the page says where it stands, and in which language.
    page_text = """<!doctype html><html lang="ko"><title>Cafe</title><script src="/sdk/v1/account.js" defer></script>
<body><p>Cafe</p><pilotis-account></pilotis-account>"""
    await site.deploy({"index.html": page_text.encode()})
    address = f"http://{site.slug}.localhost:{urlsplit(app.server.url).port}/"
    await permit(app, address)
    await sign_up(app, "ada")
    page = await tabs.new_page()
    await page.goto(address)
    await expect(page.locator("pilotis-account")).to_have_count(1)
    await page.get_by_role("button", name="로그인").click()
    await page.wait_for_url("**/account/**/sign-in?**lang=ko")
    await page.locator("#login").fill("ada")
    await page.locator("#password").fill(PASSWORD)
    await page.get_by_role("button", name="로그인", exact=True).click()
    await page.wait_for_url(address)
    await expect(page.get_by_role("link", name="ada")).to_be_visible()
    await expect(page.get_by_role("button", name="로그아웃")).to_be_enabled()


async def test_the_script_says_that_a_sign_in_has_failed_and_offers_another(
    tabs: BrowserContext, site: tuple[str, Path], app: App
):
    address = shop(site, app, "de-AT")
    page = await tabs.new_page()
    await page.goto(address)
    await expect(page.get_by_role("button", name="Anmelden")).to_be_enabled()
    way = json.dumps({"verifier": "v" * 43, "after": address})
    await page.evaluate("([name, way]) => sessionStorage.setItem(name, way)", [f"pilotis:{app.public_key}:mine", way])
    await page.goto(f"{address}?code=wrong&state=mine")
    await expect(page.get_by_role("alert")).to_contain_text("Das hat nicht geklappt.")
    await expect(page.get_by_role("button", name="Anmelden")).to_be_enabled()
    # Without a server the button still says what has happened.
    await page.route("**/v1/public/account-settings", lambda route: route.fulfill(status=500, body="{}"))
    await page.goto(address)
    await page.get_by_role("button", name="Anmelden").click()
    await expect(page.get_by_role("alert")).to_contain_text("Das hat nicht geklappt.")


def test_the_script_has_the_words_of_the_account_pages():
    script = (SOURCE / "src" / "account.ts").read_text()
    for language in LANGUAGES:
        text = files("pilotis.account_pages").joinpath("languages", f"{language}.toml").read_text("utf-8")
        words = tomllib.loads(text)
        line = json.dumps(
            [words["texts"]["sign_in"], words["texts"]["sign_out"], words["errors"]["OTHER"]], ensure_ascii=False
        )
        assert f"  {language}: {line}," in script, language
