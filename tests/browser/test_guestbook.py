"""`examples/guestbook` in a real browser, from another origin than the server's."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.chromium import keep_picture
from tests.support import App
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\"> & \"so on\""


@pytest.fixture
def link(app: App) -> Iterator[str]:
    """The address of the page, as its own little server prints it."""
    program = ROOT / "examples" / "guestbook" / "serve.py"
    command = [sys.executable, str(program), "--port", "0", "--url", app.server.url, "--public-key", app.public_key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        yield re.search(r"http://\S+", serving.stdout.readline())[0]
        serving.send_signal(signal.SIGINT)
        assert serving.wait(PATIENCE) == 0


class Visitor:
    """A separate browser context with the page open. Only messages that a test expects may appear on the console."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    async def sign_in(self) -> None:
        await self.page.get_by_role("button", name="Sign in as a guest").click()
        await expect(self.page.get_by_label("Your name")).to_be_focused()

    async def write(self, name: str, text: str) -> None:
        await self.page.get_by_label("Your name").fill(name)
        await self.page.get_by_label("Your entry").fill(text)
        await self.page.get_by_role("button", name="Sign the guestbook").click()
        await expect(self.page.get_by_label("Your entry")).to_have_value("")

    @property
    def texts(self):
        return self.page.locator("#entries li p")

    async def stored(self) -> dict[str, str]:
        return await self.page.evaluate("JSON.parse(Object.values(localStorage)[0])")


@contextlib.asynccontextmanager
async def visit(browser: Browser, link: str, *, expected: tuple[str, ...] = (), **options) -> AsyncIterator[Visitor]:
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    visitor = Visitor(context, await context.new_page())
    await visitor.page.goto(link)
    yield visitor
    await context.close()
    unexpected = [text for text in visitor.complaints if not any(status in text for status in expected)]
    assert not unexpected


# Chromium itself logs every answer of 4xx; before signing in the table answers 401.
SIGNED_OUT = ("status of 401",)


async def test_guests_write_and_read_entries(browser: Browser, link: str, app: App) -> None:
    async with visit(browser, link, expected=SIGNED_OUT, viewport={"width": 1100, "height": 900}) as ada:
        await expect(ada.page.get_by_text("Sign in to read the book.")).to_be_visible()
        await ada.sign_in()
        await expect(ada.page.get_by_text("Nobody has written yet.")).to_be_visible()
        await ada.write("Ada", "What a fine evening. 정말 좋은 밤이에요.\nThank you for having us!")
        await ada.write("<b>Mallory</b>", HOSTILE)
        await expect(ada.texts).to_have_count(2)

        await ada.page.reload()
        await expect(ada.page.get_by_role("heading", name="2 entries")).to_be_visible()
        assert await ada.texts.all_text_contents() == [
            HOSTILE,
            "What a fine evening. 정말 좋은 밤이에요.\nThank you for having us!",
        ]
        assert await ada.page.locator("#entries strong").all_text_contents() == ["<b>Mallory</b>", "Ada"]
        assert await ada.page.locator("#entries :is(script, img, b)").count() == 0
        assert await ada.page.title() == "Guestbook"
        await expect(ada.page.get_by_text("yours", exact=True)).to_have_count(2)

        async with visit(browser, link, expected=SIGNED_OUT, viewport={"width": 375, "height": 812}) as bob:
            await bob.sign_in()
            assert (await bob.stored())["member_id"] != (await ada.stored())["member_id"]
            assert (await bob.stored())["member_id"].startswith("guest_")
            await expect(bob.texts).to_have_count(2)
            await bob.write("Bob", "I came by bicycle.")
            await expect(bob.texts.first).to_have_text("I came by bicycle.")
            await expect(bob.page.get_by_text("yours", exact=True)).to_have_count(1)
            width = await bob.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 375, "The page scrolls sideways on a phone."
            await keep_picture(bob.page, "guestbook-phone", full_page=True)

        # Her page is live.
        await expect(ada.texts).to_have_text(["I came by bicycle.", HOSTILE, re.compile("What a fine evening")])
        await expect(ada.page.get_by_role("heading", name="3 entries")).to_be_visible()
        await keep_picture(ada.page, "guestbook", full_page=True)

    async with app.client(app.secret_key) as client:
        table = re.search(r"table=([\w-]+)", link)[1]
        rows = (await client.get(f"/v1/public/tables/{table}/data")).json()
    assert [row["data"]["name"] for row in rows["data"]] == ["Ada", "<b>Mallory</b>", "Bob"]


async def test_an_expired_access_token_is_refreshed(browser: Browser, link: str) -> None:
    async with visit(browser, link, expected=SIGNED_OUT) as ada:
        await ada.sign_in()
        before = await ada.stored()
        # What an expired token is to the server: one that is not valid any more.
        await ada.page.evaluate(
            """() => {
                const [name, value] = Object.entries(localStorage)[0];
                localStorage.setItem(name, JSON.stringify({ ...JSON.parse(value), access_token: "gone" }));
            }"""
        )
        await ada.page.reload()
        await ada.write("Ada", "Still here.")
        await expect(ada.texts).to_have_text(["Still here."])
        after = await ada.stored()
        assert after["member_id"] == before["member_id"]
        assert after["refresh_token"] != before["refresh_token"]


async def test_a_session_that_is_over_leads_back_to_signing_in(browser: Browser, link: str, app: App) -> None:
    async with visit(browser, link, expected=SIGNED_OUT) as ada:
        await ada.sign_in()
        async with httpx.AsyncClient(base_url=app.server.url) as client:
            headers = {
                "X-Public-Key": app.public_key,
                "Authorization": f"Bearer {(await ada.stored())['access_token']}",
            }
            assert (await client.post("/v1/public/app-members/signout", headers=headers)).status_code == 200
        await ada.page.reload()
        await expect(ada.page.get_by_role("status")).to_have_text(
            "You have been signed out. Sign in again as a new guest."
        )
        await ada.sign_in()
        await ada.write("Ada", "Back again.")
        await expect(ada.texts).to_have_text(["Back again."])


async def test_older_entries_come_on_request(browser: Browser, link: str, app: App) -> None:
    table = re.search(r"table=([\w-]+)", link)[1]
    rows = [{"name": "Ada", "text": f"entry {number}", "guest": "-"} for number in range(25)]
    async with app.client(app.secret_key) as client:
        made = await client.post(f"/v1/public/tables/{table}/data/bulk", json={"data": rows})
        assert made.status_code == 201, made.text
    async with visit(browser, link, expected=SIGNED_OUT) as ada:
        await ada.sign_in()
        older = ada.page.get_by_role("button", name="Show older entries")
        await expect(ada.texts).to_have_count(10)
        await older.click()
        await expect(ada.texts).to_have_count(20)
        await older.click()
        await expect(ada.texts).to_have_count(25)
        await expect(older).to_be_hidden()
        assert await ada.texts.all_text_contents() == [f"entry {number}" for number in reversed(range(25))]
