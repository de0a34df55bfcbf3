"""Chromium, which the tests of pages drive."""

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from tests.waiting import PATIENCE

# Letters as Debian's settings draw them, whichever of the two programs it is.
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=slight"]
# Debian's Chromium without windows: even when nobody sees it, each new window of the whole one takes 1.3 seconds of a
# processor to prepare its menus.
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ARTIFACTS = Path(__file__).parent / "artifacts"


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start a browser, and end it; skips the test where there is none."""
    if PROGRAM is None:
        pytest.skip("there is no Chromium; `apt-get install chromium-headless-shell` brings it")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=PROGRAM, args=_ARGUMENTS, timeout=PATIENCE * 1000)
        yield running
        await running.close()
