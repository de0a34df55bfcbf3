"""The console in a real Chromium: one browser for all tests, a page for each, and nothing may complain."""

import contextlib
import os
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page

from pilotis.kit import rs256
from tests.conftest import PASSWORD, first_console_user, new_app
from tests.console.described import undescribed
from tests.console.furnished import Furnished, furnish
from tests.receiver import Receiver
from tests.shared import install_npm
from tests.support import App, Server
from tests.waiting import PATIENCE
from tests.whole import is_chosen

AXE = "axe-core@4.14.1"
EMAIL = "first@example.com"

# Chromium itself reports answers of 4xx, among them the one that tells that nobody is signed in yet, and requests that
# a test lets fail.
_EXPECTED = re.compile(r"Failed to load resource: (the server responded with a status of 4|net::ERR_FAILED)")

Opening = Callable[..., AbstractAsyncContextManager[Page]]


@pytest.fixture
def visit(browser: Browser) -> Opening:
    """Opens a page of a context of its own; whatever it says on its console, policy violations too, is an error.

    So is a request that the OpenAPI description does not have. `expected` is a part of what it may say.
    """

    @contextlib.asynccontextmanager
    async def visit(
        address: str, *, width: int = 1280, height: int = 860, expected: str = "", **options: object
    ) -> AsyncIterator[Page]:
        # What moves is drawn sixty times a second.
        options = {"locale": "en-US", "reduced_motion": "reduce", **options}
        context = await browser.new_context(
            viewport={"width": width, "height": height}, timezone_id="Europe/Berlin", **options
        )
        context.set_default_timeout(PATIENCE * 1000)
        page = await context.new_page()
        complaints: list[str] = []
        page.on(
            "console",
            lambda said: said.type in {"error", "warning"} and complaints.append(f"{said.text} {said.location['url']}"),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.extend(undescribed(request.method, request.url)))
        await page.goto(address)
        yield page
        await context.close()
        unexpected = [said for said in complaints if not _EXPECTED.match(said)]
        assert [said for said in unexpected if not expected or expected not in said] == []

    return visit


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """An app on a separate server, which has a signing key."""
    key = rs256.generate().pem().decode()
    place = tmp_path_factory.mktemp("signing") / "data"
    running = Server(place, environment={"OAUTH_RSA_PRIVATE_KEY_PEM": key}).start()
    yield new_app(running, first_console_user(running))
    running.stop()


@pytest_asyncio.fixture(scope="module")
async def in_use(server: Server, console: dict[str, str], sandboxes: None) -> AsyncIterator[tuple[App, Furnished]]:
    """An app that has something on each screen; a module that uses it changes nothing in it."""
    app = new_app(server, console)
    async with Receiver.listening() as receiver:
        yield app, await furnish(app, receiver)


async def sign_in(page: Page, server: Server, path: str, email: str = EMAIL, password: str = PASSWORD) -> None:
    """Sign in by a request, as the form does, and open a screen."""
    await page.request.post(
        f"{server.url}/v1/auth/session", data={"email": email, "password": password}, headers={"Origin": server.url}
    )
    await page.goto(f"{server.url}/console{path}")


async def replace_code(editor: Locator, code: str) -> None:
    """Paste over all of a code editor's text.

    A filled-in text would be inserted by Chromium itself, which keeps the look of the text it replaces in an inline
    style, and reports that the policy forbids it.
    """
    await editor.press("Control+a")
    await editor.evaluate(
        """(place, code) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", code);
            place.dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true}));
        }""",
        code,
    )


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that checks accessibility."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = install_npm(tmp_path_factory.mktemp("axe"), AXE)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


_asked: Counter[str] = Counter()


async def obstacles(page: Page, axe: str) -> list[str]:
    """What axe finds in a page by the rules of WCAG 2.2 AA: each rule with the first place that breaks it.

    It takes axe as long as it takes the console to open, so that a usual run looks at a third of the places.
    """
    # What fades in has too little contrast until then.
    await page.evaluate(
        """() => Promise.all(document.getAnimations()
            .filter((one) => one.effect.getComputedTiming().endTime < Infinity)
            .map((one) => one.finished.catch(() => 0)))
            .then(() => 0)"""
    )
    test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
    _asked[test] += 1
    if not is_chosen(0.33, of=f"axe {test} {_asked[test]}"):
        return []
    # By the debugger, because the page's policy lets no script in.
    if not await page.evaluate("'axe' in window"):
        session = await page.context.new_cdp_session(page)
        await session.send("Runtime.evaluate", {"expression": axe})
    found = await page.evaluate(
        """async () => (await axe.run(document, {
            runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
            resultTypes: ["violations"], preload: false, iframes: false,
        })).violations.map((rule) =>
                `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`)"""
    )
    return list(found)
