"""The screens of an app in use in both themes: nothing is in the way of anybody."""

import pytest

from tests.console.conftest import ARTIFACTS, Opening, obstacles, sign_in
from tests.console.furnished import Furnished
from tests.console.in_use import CLIPPED, NARROW, WIDE, nothing, screens_of
from tests.support import App, Server


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_no_screen_in_use_is_in_anybodys_way(
    server: Server, in_use: tuple[App, Furnished], visit: Opening, axe: str, theme: str
) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    app, content = in_use
    found: dict[str, list[str]] = {}
    async with visit("about:blank", color_scheme=theme) as page:
        await sign_in(page, server, "/profile")
        async for name in screens_of(page, app, content):
            await page.set_viewport_size(WIDE)
            found[name] = await obstacles(page, axe)
            await page.screenshot(path=ARTIFACTS / f"console-in-use-{name}-{theme}.png")
            await page.set_viewport_size(NARROW)
            await page.screenshot(path=ARTIFACTS / f"console-in-use-{name}-{theme}-phone.png")
            found[name] += await page.evaluate(CLIPPED)
    nothing(found)
