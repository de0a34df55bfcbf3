"""Functions in the console: edited, run as a draft, compared, deployed, called, rolled back."""

import re

import pytest
from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, replace_code, sign_in
from tests.functions.support import Functions
from tests.support import App, Server

pytestmark = pytest.mark.usefixtures("sandboxes")

SOURCE = "export default (payload, ctx) => { ctx.log.warn('<b>seen</b>'); return payload.price * 2; };\n"


async def test_a_function_is_written_tried_deployed_and_looked_at(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/functions?new=1")
        dialog = page.get_by_role("dialog", name="New function")
        await dialog.get_by_label("Name").fill("order-total")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New function").click()

        # In full, with colours and line numbers.
        editor = page.locator(".cm-content")
        await expect(editor).to_have_attribute("aria-label", "index.ts")
        await replace_code(editor, SOURCE)
        await expect(editor.locator("span").filter(has_text=re.compile("^default$"))).to_be_visible()
        await page.get_by_label("Payload").fill('{"price": 21}')
        await page.get_by_role("button", name="Run draft").click()
        result = page.get_by_role("status").filter(has_text="succeeded")
        await expect(result.get_by_role("region", name="Result")).to_have_text("42")
        await expect(result).to_contain_text("<b>seen</b>")

        await page.get_by_role("button", name="Deploy", exact=True).click()
        deploying = page.get_by_role("dialog", name="Deploy")
        await expect(deploying.get_by_role("region", name="index.ts")).to_contain_text("+ export default (payload")
        await deploying.get_by_label("Description").fill("Double the price")
        await deploying.get_by_role("button", name="Deploy").click()
        await expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()

        # What is typed stays while one looks elsewhere.
        await replace_code(editor, SOURCE.replace("* 2", "* 3"))
        await page.get_by_role("link", name="Versions").click()
        await expect(page.get_by_role("row").filter(has_text="Double the price")).to_contain_text("called")
        await page.get_by_role("link", name="Code").click()
        await expect(editor).to_contain_text("payload.price * 3")
        await page.get_by_role("button", name="Deploy", exact=True).click()
        await expect(deploying.locator(".removed")).to_contain_text("* 2")
        await expect(deploying.locator(".added")).to_contain_text("* 3")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-function-diff")
        await deploying.get_by_role("button", name="Deploy").click()
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("region", name="Result")).to_have_text("63")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-function")
        await page.set_viewport_size({"width": 390, "height": 844})
        await keep_picture(page, "console-function-phone")
        await page.set_viewport_size({"width": 1280, "height": 860})

        await page.get_by_role("link", name="Versions").click()
        await page.get_by_role("row").filter(has_text="v1").get_by_role("button", name="Roll back").click()
        await page.get_by_role("dialog").get_by_role("button", name="Activate").click()
        await expect(page.get_by_role("row").filter(has_text="v1")).to_contain_text("called")

        await page.get_by_role("link", name="Calls").click()
        await page.get_by_role("row").filter(has_text="v2").get_by_role("button").first.click()
        await expect(page.get_by_role("complementary", name="Call")).to_contain_text("<b>seen</b>")
        assert await obstacles(page, axe) == []


async def test_variables_triggers_and_settings(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/functions?new=1")
        await page.get_by_role("dialog").get_by_label("Name").fill("nightly")
        await page.get_by_role("dialog").get_by_role("button", name="New function").click()
        await page.get_by_role("link", name="Variables").click()
        await page.get_by_role("button", name="New variable").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("API_KEY")
        await page.get_by_role("dialog").get_by_label("Value").fill("a secret value")
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(page.get_by_role("row").filter(has_text="API_KEY")).to_be_visible()
        assert "a secret value" not in await page.content()
        assert await obstacles(page, axe) == []

        await page.get_by_role("link", name="Triggers").click()
        await page.get_by_role("button", name="New trigger").click()
        await page.get_by_role("dialog").get_by_label("Times").fill("30 6 * * 1-5")
        await page.get_by_role("dialog").get_by_role("button", name="New trigger").click()
        await expect(page.get_by_role("row").filter(has_text="30 6 * * 1-5")).to_contain_text("6:30")
        assert await obstacles(page, axe) == []

        await page.get_by_role("navigation", name="Function").get_by_role("link", name="Settings").click()
        await page.get_by_label("Can connect to").select_option("allowlist")
        await page.get_by_label("Hosts").fill("api.example.com")
        await page.get_by_label("Time limit, in seconds").fill("5")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_label("Hosts")).to_have_value("api.example.com")
        await expect(page.get_by_label("Time limit, in seconds")).to_have_value("5")
        assert await obstacles(page, axe) == []


async def test_the_log_is_followed_and_calls_are_counted(
    server: Server, app: App, functions: Functions, visit: Opening, axe: str
) -> None:
    source = "export default (payload, ctx) => { ctx.log.warn(`<i>${payload.text}</i>`); if (payload.bad) throw 1; };\n"
    function = await functions.made("tail", source)
    call = f"{functions.base}/{function}/invoke"
    await functions.console.post(call, json={"payload": {"text": "before"}})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/functions/{function}/logs")
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        log = page.get_by_role("list", name="Live log")
        await expect(log).to_contain_text("<i>before</i>")
        # A call appears by itself, with how it ended.
        await functions.console.post(call, json={"payload": {"text": "meanwhile", "bad": True}})
        await expect(log).to_contain_text("<i>meanwhile</i>")
        await expect(log.get_by_role("listitem").last).to_contain_text("failed in")
        assert await obstacles(page, axe) == []
        await page.get_by_role("searchbox").fill("before")
        await expect(log.get_by_role("listitem")).to_have_count(1)

        await page.get_by_role("link", name="Metrics").click()
        await expect(page.get_by_text("50 %", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Table").click()
        row = page.get_by_role("region", name="Table").first.get_by_role("row").filter(has_text="1")
        await expect(row.first).to_be_visible()
        assert await obstacles(page, axe) == []
