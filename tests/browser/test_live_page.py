"""The page of the guide to live rows, in a real browser: its list follows what others write."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.test_resumable_upload import Quiet
from tests.realtime.listening import patched
from tests.serving import serving
from tests.support import App

GUIDE = Path(__file__).parents[2] / "docs" / "realtime.md"


@pytest.fixture
def link(app: App, tmp_path: Path) -> Iterator[str]:
    """The address of the page, with the app's own server and key."""
    (page,) = re.findall(r"```html\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    page = page.replace("http://127.0.0.1:8787", app.server.url).replace("pk_…", app.public_key)
    (tmp_path / "index.html").write_text(f"<!doctype html><title>Tickets</title>{page}")
    with serving(functools.partial(Quiet, directory=tmp_path)) as url:
        yield f"{url}/"


async def test_the_page_of_the_guide_stays_true(app: App, browser: Browser, link: str):
    table = await app.table({"subject": "string", "state": "string"}, title="tickets")
    first = await app.row(table, {"subject": "first", "state": "open"})
    page = await browser.new_page()
    await page.goto(link)
    items = page.locator("#list li")
    await expect(items).to_have_text(["first"])
    second = await app.row(table, {"subject": "second", "state": "open"})
    await expect(items).to_have_text(["first", "second"])
    await patched(app, table, first, state="closed")
    await expect(items).to_have_text(["second"])
    # The connection breaks, and what happens meanwhile is told afterwards.
    await page.context.set_offline(True)
    await patched(app, table, second, subject="changed")
    await app.row(table, {"subject": "third", "state": "open"})
    await page.context.set_offline(False)
    await expect(items).to_have_text(["changed", "third"], timeout=15_000)
    await page.close()
