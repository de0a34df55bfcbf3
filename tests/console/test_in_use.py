"""The screens of an app in use: nothing is in the way of anybody."""

import pytest
from playwright.async_api import expect

from tests.chromium import keep_picture, looks
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.furnished import Furnished
from tests.console.in_use import BETWEEN, CLIPPED, NARROW, WIDE, nothing, screens_of, stretch
from tests.support import App, Server
from tests.whole import WHOLE


# The screens without content are in the other theme. Words that have room although they are longer have it as they are.
@pytest.mark.parametrize(("theme", "language"), looks(("light", "stretched")))
async def test_no_screen_in_use_is_in_anybodys_way(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, axe: str, theme: str, language: str
) -> None:
    app, content = in_use
    found: dict[str, list[str]] = {}
    asked: set[str] = set()
    refused: list[str] = []
    async with visit("about:blank", color_scheme=theme, locale="ko-KR" if language == "ko" else "en-US") as page:
        page.on(
            "request", lambda request: asked.add(f"{request.method} {request.url}") if "/v1/" in request.url else None
        )
        if language == "stretched":
            await stretch(page)
        await sign_in(page, server, "/profile")
        page.on("response", lambda answer: refused.append(answer.url) if answer.status in {401, 403} else None)
        async for name in screens_of(page, app, content, of="anybody"):
            await page.set_viewport_size(WIDE)
            # The words are of no weight for the rules.
            found[name] = await obstacles(page, axe) if language != "ko" else []
            found[name] += await page.evaluate(CLIPPED)
            await keep_picture(page, f"console-in-use-{name}-{theme}-{language}")
            for size, device in ((BETWEEN, "-between"), (NARROW, "-phone")):
                await page.set_viewport_size(size)
                await keep_picture(page, f"console-in-use-{name}-{theme}-{language}{device}")
                found[name] += [f"{one} {device}" for one in await page.evaluate(CLIPPED)]
        await page.set_viewport_size(WIDE)
        await page.goto(f"{server.url}/console/apps/{app.app_id}{content.screens['row']}")
        await page.locator(".rowfields .value").filter(has_text="zip").click()
        await expect(page.locator(".cm-content")).to_be_focused()
        await keep_picture(page, f"console-in-use-json-{theme}-{language}")
    nothing(found)
    assert refused == []
    # `visit` has held each of them against the OpenAPI description.
    assert len(asked) > (40 if WHOLE else 10)
