"""Every screen of the console in Firefox and WebKit beside Chromium: where everything is, and what it is called.

Run by `python -m tests.long engines`, which takes minutes. Pictures of each screen are in `tests/artifacts`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.conftest import PASSWORD, new_app
from tests.console.conftest import EMAIL, sign_in
from tests.console.furnished import Furnished, furnish
from tests.console.in_use import LOADS_NOTHING
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webdriver import ENGINES

SIZE = {"width": 1280, "height": 814}
# Scrollbars take room in some engines, and letters are not equally wide.
TOLERANCE = 24
EDGE = 10
CONTROLS = "button, a[href], input:not([type=file]), select, textarea, [role=grid] [role=columnheader]"
# How the columns of a table share what is left over is each engine's own affair (CSS 2.2, section 17.5.2.2), so only
# the heights of what is in a table are compared; of long lists only the beginning, since lines are not equally high.
BOXES = f"""
const isShown = (one) => {{
    const box = one.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && box.top < 500 && getComputedStyle(one).visibility === "visible";
}};
const all = document.querySelectorAll("h1, h2, h3, th, dialog, aside, .strip, .slab, {CONTROLS}");
return [...all].filter(isShown).map((one) => {{
    const box = one.getBoundingClientRect();
    const height = Math.min(box.height, 500);
    const [left, width] = one.closest("table") ? [0, 0] : [box.left, box.width];
    return [one.tagName.toLowerCase() + "." + one.className, left, box.top, width, height].map((part) =>
        typeof part === "number" ? Math.round(part) : part);
}});
"""
SETTLED = f"""
return ({LOADS_NOTHING})() && !!document.querySelector("h1")?.textContent && document.fonts.status === "loaded";
"""


@pytest.fixture(scope="module")
async def in_use(server: Server, console: dict[str, str], sandboxes: None) -> AsyncIterator[tuple[App, Furnished]]:
    app = new_app(server, console)
    async with Receiver.listening() as receiver:
        yield app, await furnish(app, receiver)


@pytest.fixture(scope="module")
async def in_chromium(browser: Browser, in_use: tuple[App, Furnished]) -> dict[str, list[Any]]:
    """The boxes of each screen in Chromium."""
    app, furnished = in_use
    found = {}
    context = await browser.new_context(viewport=SIZE, locale="en-US")
    page = await context.new_page()
    await sign_in(page, app.server, f"/apps/{app.app_id}")
    for name, path in furnished.screens.items():
        await page.goto(f"{app.server.url}/console/apps/{app.app_id}{path}")
        await until(lambda: page.evaluate(f"() => {{{SETTLED}}}"))
        await asyncio.sleep(0.5)
        found[name] = await page.evaluate(f"() => {{{BOXES}}}")
    await context.close()
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ENGINES)
async def test_every_screen_is_as_in_chromium(
    in_use: tuple[App, Furnished], in_chromium: dict[str, list[Any]], engine: str
) -> None:
    app, furnished = in_use
    base = f"{app.server.url}/console/apps/{app.app_id}"
    wrong: list[str] = []
    async with ENGINES[engine]() as window:
        width, height = await window.run("return [innerWidth, innerHeight];")
        await window.resize(1280 + SIZE["width"] - width, 900 + SIZE["height"] - height)
        await window.open(base)
        await window.type("input", "Email", EMAIL)
        await window.type("input", "Password", PASSWORD)
        await window.click("button", "Sign in")
        await window.find("h1", "Overview")
        for name, path in furnished.screens.items():
            await window.open(f"{base}{path}")
            await window.until(lambda: window.run(SETTLED), f"{name} does not settle")
            await asyncio.sleep(0.5)
            found = await window.run(BOXES)
            wrong += [f"{name}: {one}" for one in differences(in_chromium[name], found)]
            wrong += [f"{name}: nameless {one}" for one in await window.nameless(CONTROLS)]
            await window.keep_picture(name)
        wrong += await window.complaints()
    assert wrong == [], "\n".join(wrong)


def differences(expected: list[Any], found: list[Any]) -> list[str]:
    if [one[0] for one in expected] != [one[0] for one in found]:
        names = [Counter(one[0] for one in boxes) for boxes in (expected, found)]
        more, fewer = names[1] - names[0], names[0] - names[1]
        # One at the lower edge is seen by one engine only, and a live log has grown meanwhile.
        return [f"other elements: {dict(more)} in place of {dict(fewer)}"] if (more | fewer).total() > EDGE else []
    return [
        f"{one} is at {other[1:]}"
        for one, other in zip(expected, found, strict=True)
        if any(abs(a - b) > TOLERANCE for a, b in zip(one[1:], other[1:], strict=True))
    ]
