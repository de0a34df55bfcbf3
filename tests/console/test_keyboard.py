"""A whole journey by the keyboard alone, and a server that answers late."""

import asyncio
import re

from playwright.async_api import Locator, Page, Route, expect

from tests.console.conftest import EMAIL, PASSWORD, Opening, sign_in
from tests.console.rows import cell, fill, until_stored
from tests.support import App, Server

_STEPS = 80


async def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the target has the focus, as somebody without a mouse does."""
    await expect(target).to_be_visible()
    for _ in range(_STEPS):
        if await target.evaluate("(element) => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {target}")


async def press(page: Page, target: Locator, key: str = "Enter") -> None:
    await tab_to(page, target)
    await page.keyboard.press(key)


async def test_a_table_is_made_and_filled_by_the_keyboard_alone(server: Server, app: App, visit: Opening) -> None:
    async with visit(f"{server.url}/console/apps/{app.app_id}/tables") as page:
        await tab_to(page, page.get_by_label("Email"))
        await page.keyboard.type(EMAIL)
        await tab_to(page, page.get_by_label("Password"))
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await press(page, page.get_by_role("button", name="New table").first)
        dialog = page.get_by_role("dialog")
        await tab_to(page, dialog.get_by_label("Name", exact=True))
        await page.keyboard.type("boats")
        await tab_to(page, dialog.get_by_label("Name of column 1"))
        await page.keyboard.type("name")
        await press(page, dialog.get_by_role("button", name="Create table"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("boats")
        await press(page, page.get_by_role("button", name="New row").first)
        panel = page.get_by_role("complementary", name="New row")
        await tab_to(page, panel.get_by_label("name"))
        await page.keyboard.type("Heron")
        await press(page, panel.get_by_role("button", name="Create row"))
        await expect(cell(page, 1, 1)).to_have_text("Heron")
        # The grid is one stop; within it its own keys move.
        await tab_to(page, page.locator("input[aria-label^='name, ']"))
        await page.keyboard.press("Control+Home")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Control+a")
        await page.keyboard.type("Egret")
        await page.keyboard.press("Enter")
        await expect(cell(page, 1, 1)).to_have_text("Egret")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("combobox", name="Search or jump to")).to_be_focused()
        await page.keyboard.type("people")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/settings/people"))


async def test_a_late_answer_shows_where_it_will_stand(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    released = asyncio.Event()

    async def late(route: Route) -> None:
        await released.wait()
        await route.continue_()

    async with visit("about:blank") as page:
        await page.route("**/data/query", late)
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(page.locator("[aria-busy=true]").first).to_be_visible()
        await expect(page.get_by_role("link", name="Schema")).to_be_visible()
        released.set()
        await expect(cell(page, 1, 1)).to_have_text("thing")
        # A change that is answered late is shown at once, and the next one can begin.
        answered = asyncio.Event()

        async def slow(route: Route) -> None:
            await answered.wait()
            await route.continue_()

        await page.route("**/data/*-*", slow)
        await cell(page, 1, 1).click()
        await page.keyboard.type("oars")
        await page.keyboard.press("Enter")
        await expect(cell(page, 1, 1)).to_have_text("oars")
        answered.set()
        await until_stored(app, table_id, "name", ["oars"])


async def test_on_a_mac_its_own_key_does_what_ctrl_does_elsewhere(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": name} for name in ("first", "second", "third")])
    async with visit("about:blank") as page:
        await page.add_init_script("Object.defineProperty(navigator, 'platform', { value: 'MacIntel' })")
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 1).click()
        await page.keyboard.press("Control+ArrowDown")
        await expect(page.locator("input[aria-label^='name, ']")).to_have_attribute("aria-label", re.compile("second"))
        await page.keyboard.press("Meta+ArrowDown")
        await expect(page.locator("input[aria-label^='name, ']")).to_have_attribute("aria-label", re.compile("third"))
        await cell(page, 1, 1).click(button="right")
        await expect(page.get_by_role("menuitem", name="Copy")).to_contain_text("⌘C")
        await page.keyboard.press("Escape")
        await cell(page, 1, 1).click()
        await page.keyboard.type("changed")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Undo ⌘Z")).to_be_visible()
        await page.keyboard.press("Meta+z")
        await expect(cell(page, 1, 1)).to_have_text("first")
        await expect(page.locator(".find")).to_contain_text("⌘K")
        await page.keyboard.press("Meta+k")
        await expect(page.get_by_role("combobox", name="Search or jump to")).to_be_focused()
