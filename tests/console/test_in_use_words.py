"""The screens of an app in use in long words and in Korean, at three widths: no word is cut off."""

import re

import pytest
from playwright.async_api import Route

from tests.chromium import keep_picture
from tests.console.conftest import Opening, sign_in
from tests.console.furnished import Furnished
from tests.console.in_use import BETWEEN, CLIPPED, NARROW, WIDE, nothing, screens_of
from tests.support import App, Server

# English with every word in brackets and longer by two fifths, as translations are.
STRETCHED = """
import plain from "./en.js?plain";
const longer = (text) => text && `⟦${text}${" ·lorem".repeat(Math.ceil((text.length * 0.4) / 7))}⟧`;
const stretch = (value) => typeof value === "string" ? longer(value)
  : typeof value === "function" ? (...given) => longer(String(value(...given)))
  : Array.isArray(value) ? value.map((one, at) => at < 2 ? stretch(one) : one)
  : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, stretch(one)]));
export default stretch(plain);
"""


@pytest.mark.parametrize("words", ["stretched", "korean"])
async def test_words_of_any_length_have_room(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, words: str
) -> None:
    app, content = in_use

    async def stretched(route: Route) -> None:
        await route.fulfill(body=STRETCHED, content_type="text/javascript")

    found: dict[str, list[str]] = {}
    async with visit("about:blank", locale="ko-KR" if words == "korean" else "en-US") as page:
        if words == "stretched":
            await page.route(re.compile(r"/strings/en\.js$"), stretched)
        await sign_in(page, server, "/profile")
        async for name in screens_of(page, app, content):
            for size, device in ((WIDE, ""), (BETWEEN, "-between"), (NARROW, "-phone")):
                await page.set_viewport_size(size)
                found[name + device] = await page.evaluate(CLIPPED)
                await keep_picture(page, f"console-in-use-{name}-{words}{device}")
    nothing(found)
