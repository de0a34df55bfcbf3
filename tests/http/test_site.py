"""The pages, in a real browser without a network, and their policies."""

import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Error as BrowserError
from playwright.async_api import Page, async_playwright, expect

from pilotis.server import endpoint_table
from tests.support import Server
from tests.waiting import PATIENCE, until

PASSWORD = "correct horse battery"
PAGES = ["/", "/docs", "/setup"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without a console user."""
    own = Server(tmp_path_factory.mktemp("fresh") / "data").start()
    yield own
    own.stop()


@pytest_asyncio.fixture
async def page(fresh: Server) -> AsyncIterator[Page]:
    """A page on a phone; anything it says on the console or asks of others is an error."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE * 1000
        )
        opened = await browser.new_page(viewport={"width": 390, "height": 844})
        opened.set_default_timeout(PATIENCE * 1000)
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("request", lambda sent: sent.url.startswith((fresh.url, "data:")) or complaints.append(sent.url))
        yield opened
        await browser.close()
    # Chromium itself reports answers of 4xx, which the form is there to show.
    assert [said for said in complaints if "the server responded with a status of 4" not in said] == []


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_lets_nothing_in(fresh: Server, path: str):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', answer.text)
    assert [address for address in addresses if not re.match(r"[/#]|data:,", address)] == []
    assert not re.search(r"@import|url\(|style=|\son\w+=", answer.text)


async def test_the_reference_has_every_endpoint(fresh: Server):
    async with httpx.AsyncClient(base_url=fresh.url) as client:
        text = (await client.get("/docs")).text
    endpoints = [endpoint for endpoint in endpoint_table() if endpoint.tag != "Pages"]
    assert text.count("<article") == len(endpoints)
    assert text.count("curl ") == len(endpoints)
    for endpoint in endpoints:
        assert f"</span>{endpoint.path}</a></h3>" in text
    anchors = re.findall(r'<article id="([^"]+)"', text)
    assert len(set(anchors)) == len(anchors)


@in_browser
async def test_the_reference_is_searched(fresh: Server, page: Page):
    await page.goto(f"{fresh.url}/docs")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    every = await page.locator("article:visible").count()
    await page.keyboard.press("/")
    await page.keyboard.type("signup")
    await expect(page.locator("article:visible")).to_have_count(2)
    await page.fill("#search", "no route has this")
    await expect(page.locator("#none")).to_be_visible()
    await page.fill("#search", "")
    await expect(page.locator("article:visible")).to_have_count(every)


@in_browser
async def test_a_link_without_its_token_says_what_to_do(fresh: Server, page: Page):
    await page.goto(f"{fresh.url}/setup")
    assert "start Pilotis again" in await page.locator("#no-token").inner_text()
    assert not await page.locator("form").is_visible()


@in_browser
async def test_the_first_console_user_is_made_behind_the_link(fresh: Server, page: Page):
    """With a wrong token first, then a short password, then right; by the keyboard alone."""
    status = page.locator("#status")
    await page.goto(f"{fresh.url}/setup#wrong")
    # By itself, but only with the page's first frame.
    await expect(page.locator("#email")).to_be_focused()
    await page.keyboard.type("ada@example.com")
    await page.keyboard.press("Tab")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await status.get_by_text("new link").wait_for()
    assert "used up, expired" in await status.inner_text()

    await page.goto("about:blank")
    await page.goto(f"{fresh.url}/setup#{fresh.setup_token}")
    assert fresh.setup_token not in page.url
    await expect(page.locator("#email")).to_be_focused()
    await page.keyboard.type("ada@example.com")
    await page.keyboard.press("Tab")
    await page.keyboard.type("short")
    await page.keyboard.press("Enter")
    await expect(page.locator("#password:invalid")).to_have_count(1)
    await page.fill("#password", PASSWORD)
    done = status.get_by_text("You can now sign in as ada@example.com")

    async def sent() -> bool:
        """Whether the form is under way: the browser's own hint about the short password may swallow the first key."""
        await page.press("#password", "Enter")
        with contextlib.suppress(BrowserError):
            await status.locator("p").first.wait_for(timeout=2000)
        return bool(await status.inner_text())

    await until(sent)
    await done.wait_for()
    assert not await page.locator("form").is_visible()
    assert fresh.setup_token not in fresh.logs()

    async with httpx.AsyncClient(base_url=fresh.url) as client:
        credentials = {"email": "ada@example.com", "password": PASSWORD}
        assert (await client.post("/v1/auth/signin", json=credentials)).status_code == 200
