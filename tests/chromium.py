"""Chromium, which the tests of pages drive."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.waiting import PATIENCE

# Letters as Debian's settings draw them, whichever of the two programs it is.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=slight"]
# Fewer processes between which a page's parts are sent. The first two features are what Playwright asks for.
_ARGUMENTS += ["--in-process-gpu"]
_ARGUMENTS += ["--enable-features=CDPScreenshotNewSurface,SkipListAccountsWithoutGaiaCookies,NetworkServiceInProcess2"]
# One process draws the pages of a context, which come one after another: to start one takes a tenth of a second.
_ARGUMENTS += ["--renderer-process-limit=1", "--disable-site-isolation-trials"]
# Debian's Chromium without windows: even when nobody sees it, each new window of the whole one takes 1.3 seconds of a
# processor to prepare its menus.
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARTIFACTS = Path(__file__).parent / "artifacts"
PICTURES = "TEST_PICTURES" in os.environ
"""Whether to see every screen in all themes and languages, and to keep pictures: `python -m tests.long pictures`."""


def looks(*usual: tuple[str, str]) -> list[tuple[str, str]]:
    """Return themes and languages in which to look at every screen: the usual ones, or with pictures all of them."""
    return [(theme, language) for theme in ("light", "dark") for language in ("en", "ko")] if PICTURES else [*usual]


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start a browser, and end it; skips the test where there is none."""
    if PROGRAM is None:
        pytest.skip("there is no Chromium; `apt-get install chromium-headless-shell` brings it")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=PROGRAM, args=_ARGUMENTS, timeout=PATIENCE * 1000)
        yield running
        await running.close()


async def keep_picture(page: Page, name: str, *, full_page: bool = False) -> None:
    """Keep a picture of a page for people to look at, where pictures are wanted."""
    if PICTURES:
        ARTIFACTS.mkdir(exist_ok=True)
        await page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=full_page)
