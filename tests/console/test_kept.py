"""What is typed in the console is not lost, and what is shown once is not dismissed by accident."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.console.conftest import Opening, replace_code, sign_in
from tests.functions.support import Functions
from tests.support import App, Server

BROKEN = "export default (payload) => {\n  return payload.price *;\n};\n"
WORKING = "export default (payload) => payload.price * 2;\n"


async def go(page: Page, name: str) -> None:
    """Follow a link of the rail."""
    await page.get_by_role("navigation", name="Sections").get_by_role("link", name=name).click()


async def test_a_new_row_and_a_schema_stay_while_one_looks_elsewhere(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string", "due": "date"}, title="orders")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}")
        new = page.get_by_role("button", name="New row").first
        await new.focus()
        await new.press("Enter")
        # The focus goes to the first field, and Escape leaves the panel.
        field = page.locator("#new-name")
        await expect(field).to_be_focused()
        await field.fill("Heron")
        await field.press("Escape")
        await expect(field).to_have_count(0)
        await go(page, "Members")
        await expect(page.get_by_role("heading", name="Members", level=1)).to_be_visible()
        await page.go_back()
        await new.click()
        await expect(field).to_have_value("Heron")
        await page.get_by_role("button", name="Create row").click()
        await expect(page.get_by_text("Row created.")).to_be_visible()
        assert await page.evaluate("document.activeElement.tagName") != "BODY"
        await new.click()
        await expect(field).to_have_value("")

        await page.get_by_role("link", name="Schema").click()
        column = page.get_by_label("Name of name")
        await column.fill("title")
        await go(page, "Members")
        await expect(page.get_by_role("heading", name="Members", level=1)).to_be_visible()
        await page.go_back()
        await expect(column).to_have_value("title")
        await expect(page.get_by_role("button", name="Review 1 change")).to_be_visible()
        await page.get_by_role("button", name="Discard").click()
        await expect(column).to_have_value("name")


async def test_escape_closes_no_dialog_with_text_in_it(server: Server, app: App, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await page.get_by_role("button", name="New member").first.click()
        dialog = page.get_by_role("dialog", name="New member")
        login = dialog.get_by_label("Login")
        await login.fill("grace")
        # Chromium closes a dialog at the second Escape, whatever becomes of the first one's event.
        await login.press("Escape")
        await login.press("Escape")
        await expect(dialog.get_by_role("status")).to_contain_text("What you typed is still here")
        await expect(login).to_have_value("grace")
        await login.fill("")
        await login.press("Escape")
        await expect(dialog).to_have_count(0)


@pytest.mark.parametrize("copied", [False, True])
async def test_a_secret_is_not_dismissed_before_it_was_kept(
    server: Server, app: App, visit: Opening, copied: bool
) -> None:
    async with visit("about:blank", permissions=["clipboard-write", "clipboard-read"]) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/keys")
        await page.get_by_role("button", name="New secret key").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("import")
        await page.get_by_role("dialog").get_by_role("button", name="New secret key").click()
        dialog = page.get_by_role("dialog", name="import is ready")
        await expect(dialog).to_contain_text("Reads and changes everything except people and the app itself.")
        await expect(dialog.get_by_role("button", name="Cancel")).to_have_count(0)
        await dialog.press("Escape")
        await dialog.press("Escape")
        await expect(dialog.get_by_role("status")).to_contain_text("Copy it first")
        if copied:
            await dialog.get_by_role("button", name="Copy").click()
            await expect(dialog.get_by_role("button", name="Close")).to_be_visible()
            await dialog.press("Escape")
        else:
            await dialog.get_by_role("button", name="I have saved it").click()
        await expect(dialog).to_have_count(0)


@pytest.mark.usefixtures("sandboxes")
async def test_a_draft_is_continued_and_an_error_is_marked_in_its_line(
    server: Server, app: App, visit: Opening
) -> None:
    functions = Functions(app)
    async with functions.console:
        function = await functions.made("price", WORKING)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/functions/{function}")
        editor = page.locator(".cm-content")
        await replace_code(editor, WORKING.replace("* 2", "* 3"))
        await page.get_by_label("Payload").fill('{"price": 21}')
        await page.get_by_role("button", name="Run draft").click()
        await expect(page.get_by_role("region", name="Result")).to_have_text("63")
        # An answer to what was tried before is no answer to this.
        await replace_code(editor, BROKEN)
        await page.get_by_role("button", name="Run draft").click()
        await expect(page.get_by_role("alert")).to_contain_text("Show index.js, line 2")
        await expect(page.get_by_role("region", name="Result")).to_have_count(0)
        await expect(page.locator(".cm-line").nth(1).locator(".cm-lintRange-error")).not_to_have_count(0)
        # A reload loses what was typed, but not the draft that ran.
        page.on("dialog", lambda dialog: dialog.accept())
        await page.reload()
        await expect(editor).to_contain_text("* 2")
        await expect(page.get_by_role("status").filter(has_text="You have a draft of")).to_be_visible()
        await page.get_by_role("button", name="Continue the draft").click()
        await expect(editor).to_contain_text("* 3")
        await expect(page.get_by_role("button", name=re.compile("Continue"))).to_have_count(0)
