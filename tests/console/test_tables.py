"""Rows in the grid: its keys, filters and JSON, selections and what is hostile."""

import asyncio
import json
import re

import pytest
from playwright.async_api import Route, expect

from tests.console.conftest import Opening, sign_in
from tests.console.rows import cell, fill, has_field, stored, until_stored
from tests.support import App, Server
from tests.waiting import until

HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202etxt.exe"


async def test_a_value_is_corrected_and_taken_back_by_the_keyboard(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number} for number in range(3)])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 2, 2).click()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Control+a")
        await page.keyboard.type("twelve")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("Enter a number")
        await page.keyboard.press("Control+a")
        await page.keyboard.type("12.50")
        await page.keyboard.press("Enter")
        await expect(cell(page, 2, 2)).to_have_text("12.50")
        await expect(page.get_by_text("Saved")).to_be_visible()
        assert '"price":12.50' in (await raw(app, table_id))
        await page.keyboard.press("Control+z")
        await expect(cell(page, 2, 2)).to_have_text("1")
        # The grid shows a change before it has arrived.
        await until_stored(app, table_id, "price", [0, 1, 2])
        # A change is undone also while its answer is awaited, and not one before it.
        held = asyncio.Event()

        async def hold(route: Route) -> None:
            answer = await route.fetch()
            await held.wait()
            await route.fulfill(response=answer)

        await page.route("**/data/*", hold, times=1)
        for row, price in [(1, "7"), (3, "9")]:
            await cell(page, row, 2).click()
            await page.keyboard.type(price)
            await page.keyboard.press("Enter")
        await page.keyboard.press("Control+z")
        await expect(cell(page, 3, 2)).to_have_text("2")
        await page.keyboard.press("Control+z")
        await expect(cell(page, 1, 2)).to_have_text("0")
        held.set()
        await until_stored(app, table_id, "price", [0, 1, 2])
        await expect(page.get_by_text("Saved")).to_have_count(0)
        # What is typed into a cell replaces it; Escape gives up.
        await cell(page, 1, 1).click()
        await page.keyboard.type("other")
        await page.keyboard.press("Escape")
        await expect(cell(page, 1, 1)).to_have_text("thing 0")
        # Null is another thing than no value at all.
        await cell(page, 1, 3).click()
        await expect(cell(page, 1, 3)).to_have_class(re.compile("absent"))
        await page.keyboard.press("Delete")
        await expect(cell(page, 1, 3)).to_have_text("null")
        await until(lambda: has_field(app, table_id, "stock"))
        assert (await stored(app, table_id, name="thing 0"))[0]["stock"] is None


async def raw(app: App, table_id: str) -> str:
    async with app.client(app.secret_key) as client:
        return (await client.get(f"/v1/public/tables/{table_id}/data")).text


async def test_hangul_is_composed_in_a_cell(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 1).click()
        session = await page.context.new_cdp_session(page)
        for text in ("ㅎ", "하", "한"):
            await session.send("Input.imeSetComposition", {"text": text, "selectionStart": 1, "selectionEnd": 1})
        await session.send("Input.insertText", {"text": "한"})
        await page.keyboard.press("Enter")
        await expect(cell(page, 1, 1)).to_have_text("한")


async def test_a_colleague_who_changes_the_same_row_is_not_overwritten(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [{"name": "thing", "price": 1}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(cell(page, 1, 2)).to_have_text("1")
        async with app.client(app.secret_key) as client:
            row_id = (await client.get(f"/v1/public/tables/{table_id}/data")).json()["data"][0]["id"]
            await client.patch(f"/v1/public/tables/{table_id}/data/{row_id}", json={"data": {"price": 2}})
        await cell(page, 1, 2).click()
        await page.keyboard.type("3")
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("alertdialog")
        await expect(dialog).to_contain_text("Someone else changed this row")
        await expect(cell(page, 1, 2)).to_have_text("2")
        await dialog.get_by_role("button", name="Save mine").click()
        await expect(cell(page, 1, 2)).to_have_text("3")
        await expect(dialog).to_be_hidden()
        await until_stored(app, table_id, "price", [3])


async def test_a_refused_value_turns_back(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 1).click()
        # A required column takes no null.
        await page.keyboard.press("Delete")
        await expect(page.locator(".toast.bad")).to_be_visible()
        await expect(cell(page, 1, 1)).to_have_text("thing")


async def test_far_rows_come_when_they_are_scrolled_to(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}"} for number in range(3000)])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 1).click()
        await page.keyboard.press("Control+ArrowDown")
        await expect(page.locator("[role=row][aria-rowindex='3001']")).to_contain_text("thing 2999")
        assert await page.locator("[role=row]").count() < 60
        await page.keyboard.press("Control+Home")
        await expect(cell(page, 1, 1)).to_have_text("thing 0")


async def test_a_filter_is_drawn_written_and_shared(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number} for number in range(20)])
    # On a busy machine Chromium reports a refused inline style while the test fills the editor; the cause is not known.
    async with visit("about:blank", expected="Applying inline style") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Filter", exact=True).click()
        await page.get_by_label("Column", exact=True).select_option("price")
        await page.get_by_label("Condition").select_option("atLeast")
        await page.get_by_label("Value").fill("15")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("5 rows found")).to_be_visible()
        assert await page.evaluate("new URL(location).searchParams.get('where')") == '{"price":{"$gte":15}}'
        await page.get_by_role("button", name="JSON").click()
        # CodeMirror, which stands in the place of a plain text box once it has arrived.
        area = page.locator(".cm-content")
        await expect(area).to_contain_text("$gte")
        assert json.loads(await area.inner_text()) == {"price": {"$gte": 15}}
        await area.fill('{"$or": [{"price": 1}, {"name": {"$endsWith": " 2"}}]}')
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await expect(page.locator(".chip")).to_have_count(2)
        await page.go_back()
        await expect(page.get_by_text("5 rows found")).to_be_visible()


async def test_a_day_is_the_whole_day_where_the_viewer_is(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string", "due": "date", "born": "date"}, title="orders")
    # In Berlin the day begins an hour before that of UTC.
    moments = ["2026-12-11T22:59:00Z", "2026-12-11T23:00:00Z", "2026-12-12T11:00:00+01:00", "2026-12-12T23:00:00Z"]
    for number, due in enumerate(moments):
        await app.row(table, {"name": f"order {number}", "due": due, "born": f"2026-12-{11 + number}"})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}")
        await expect(page.get_by_text("4 rows")).to_be_visible()

        async def filtered(column: str, day: str) -> None:
            await page.get_by_role("button", name="Filter", exact=True).click()
            await page.get_by_label("Column", exact=True).select_option(column)
            await expect(page.get_by_label("Condition")).to_have_value("on")
            await page.get_by_label("Value").fill(day)
            await page.get_by_role("button", name="Apply").click()

        await filtered("due", "2026-12-12")
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await expect(page.locator(".chip")).to_contain_text("on")
        await expect(page.locator(".chip")).to_contain_text("Dec 12, 2026")
        await page.reload()
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await expect(page.locator(".chip")).to_contain_text("Dec 12, 2026")
        await page.get_by_role("button", name="Remove filter").click()
        # What is stored as a day has no zone.
        await filtered("born", "2026-12-12")
        await expect(page.get_by_text("1 row found")).to_be_visible()
        await page.get_by_role("button", name="Remove filter").click()
        # The picker has a time and a zone.
        await page.get_by_role("button", name="Filter", exact=True).click()
        await page.get_by_label("Column", exact=True).select_option("due")
        await page.get_by_role("button", name="Calendar").click()
        await page.get_by_label("Value").fill("2026-12-12")
        await page.get_by_label("Time", exact=True).fill("11:00:00")
        await expect(page.get_by_label("Value")).to_have_value("2026-12-12T11:00:00+01:00")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("1 row found")).to_be_visible()


async def test_rows_are_selected_edited_and_deleted_together(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}"} for number in range(10)])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 2, 1).hover()
        await page.get_by_label("Select row 2", exact=True).check()
        await page.get_by_label("Select row 5", exact=True).click(modifiers=["Shift"])
        await expect(page.get_by_text("4 selected")).to_be_visible()
        await page.get_by_role("button", name="Edit a field").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Column").select_option("stock")
        await dialog.get_by_label("Value").fill("7")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("4 rows changed.")).to_be_visible()
        assert len(await stored(app, table_id, stock=7)) == 4
        await cell(page, 1, 1).hover()
        await page.get_by_label("Select row 1", exact=True).check()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete rows").click()
        await expect(page.get_by_text("9 rows", exact=True)).to_be_visible()


async def test_hostile_rows_are_shown_as_text(server: Server, app: App, visit: Opening) -> None:
    extras = {"deep": HOSTILE}
    table_id = await fill(app, [{"name": HOSTILE, "extras": extras}, {"name": "x" * 100_000, "secret": HOSTILE}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(cell(page, 1, 1)).to_contain_text("<img src=x")
        await expect(cell(page, 1, 1)).to_contain_text("⟨U+202E⟩")
        assert len(await cell(page, 2, 1).inner_text()) < 210
        await expect(cell(page, 2, 6)).to_have_text("••••••••")
        await cell(page, 1, 1).click(button="right")
        await page.get_by_role("menuitem", name="Open row").click()
        await expect(page.get_by_role("complementary", name="Row 1")).to_contain_text("<img src=x")
        assert await page.locator("main img").count() == 0
        assert "owned" not in await page.title()


# As in Safari before 18.4, Firefox before 135 and Chrome before 114.
WITHOUT_RAW_JSON = """
delete JSON.rawJSON;
const parse = JSON.parse;
JSON.parse = (text, revive) => parse(text, revive && function (key, value) { return revive.call(this, key, value); });
"""


@pytest.mark.parametrize("browser_has", ["raw JSON", "no raw JSON"])
async def test_a_new_row_and_json_are_written_in_the_panel(
    server: Server, app: App, visit: Opening, browser_has: str
) -> None:
    table_id = await fill(app, [])
    async with visit("about:blank") as page:
        if browser_has == "no raw JSON":
            await page.add_init_script(WITHOUT_RAW_JSON)
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(page.get_by_text("No rows yet")).to_be_visible()
        await page.get_by_role("button", name="New row").first.click()
        panel = page.get_by_role("complementary", name="New row")
        await panel.get_by_label("price").fill("9007199254740993.10")
        await panel.get_by_role("button", name="Create row").click()
        await expect(panel.get_by_role("alert")).to_contain_text("name")
        await panel.get_by_label("name").fill("thing")
        await panel.get_by_role("button", name="Create row").click()
        await expect(cell(page, 1, 2)).to_have_text("9007199254740993.10")
        await cell(page, 1, 7).click()
        await page.keyboard.press("Enter")
        await expect(page.locator(".cm-content")).to_be_focused()
        area = page.get_by_role("textbox", name="extras", exact=True)
        await area.fill('{"crew": 4')
        await expect(page.get_by_text("This is not JSON")).to_be_visible()
        await area.fill('{"crew": 12345678901234567890.10}')
        await page.get_by_role("complementary").get_by_role("button", name="Save").click()
        await expect(cell(page, 1, 7)).to_have_text('{"crew":12345678901234567890.10}')

        async def digits() -> bool:
            async with app.client() as client:
                text = (await client.get(f"/v1/public/tables/{table_id}/data")).text
            return "9007199254740993.10" in text and "12345678901234567890.10" in text

        await until(digits)
