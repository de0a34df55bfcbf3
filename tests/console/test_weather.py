"""Failures: an upgrade, a limit, no response, a colleague who drops a column, an ended session; no input is lost."""

import json
import re

from playwright.async_api import Page, Route, expect

from tests.conftest import PASSWORD
from tests.console.conftest import EMAIL, Opening, obstacles, sign_in
from tests.console.rows import cell, fill, stored, until_stored
from tests.console.test_administration import pictures
from tests.console.test_screens import SCREENS
from tests.support import App, Server, plain_client
from tests.whole import sample


async def look(page: Page) -> None:
    """Make the page visible again, as if the user returned to its tab."""
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_a_tab_that_outlives_an_upgrade_offers_to_reload(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async def upgraded(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), "assets": "0123456789abcdef"})

    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings")
        name = page.get_by_label("Name", exact=True)
        await name.fill("Boat rental")
        async with page.expect_response("**/v1/console/config"):
            await look(page)
        offer = page.get_by_text("Pilotis was upgraded.")
        await expect(offer).to_be_hidden()
        await page.route("**/v1/console/config", upgraded)
        await look(page)
        await expect(offer).to_be_visible()
        await expect(name).to_have_value("Boat rental")
        assert await obstacles(page, axe) == []
        await pictures(page, "upgraded")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved")).to_be_visible()
        await page.unroute("**/v1/console/config")
        async with page.expect_navigation():
            await page.get_by_role("status").get_by_role("button", name="Reload").click()
        await expect(name).to_have_value("Boat rental")
        await expect(offer).to_be_hidden()


async def test_a_limit_says_how_long_to_wait_and_goes_on_by_itself(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    refusal = {"code": "RATE_LIMITED", "message": "Too many requests.", "request_id": "r-1"}

    async def limited(route: Route) -> None:
        await route.fulfill(status=429, json=refusal, headers={"Retry-After": "3"})

    async with visit("about:blank") as page:
        await page.route("**/data/query", limited)
        await page.clock.install()
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        failure = page.get_by_role("alert")
        await expect(failure).to_contain_text("You can try again in 3 s.")
        await expect(failure.get_by_role("button", name="Try again in ")).to_be_visible()
        await page.unroute("**/data/query")
        await page.clock.run_for(4000)
        await expect(cell(page, 1, 1)).to_have_text("thing")


async def test_silence_ends_and_what_was_typed_is_at_hand(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    allowed = ["clipboard-read", "clipboard-write"]
    async with visit("about:blank", expected="net::ERR_INTERNET_DISCONNECTED", permissions=allowed) as page:
        await page.clock.install()
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(cell(page, 1, 1)).to_have_text("thing")
        held: list[Route] = []
        await page.route("**/data/*-*", lambda route: held.append(route))
        async with page.expect_request("**/data/*-*"):
            await cell(page, 1, 1).click()
            await page.keyboard.type("another thing")
            await page.keyboard.press("Enter")
        await page.clock.run_for(100_000)
        told = page.locator(".toast.bad")
        await expect(told).to_contain_text("name: another thing was not saved. Pilotis did not answer.")
        await expect(cell(page, 1, 1)).to_have_text("thing")
        await page.unroute("**/data/*-*")
        # The message remains until the user has decided.
        await page.clock.run_for(60_000)
        await told.get_by_role("button", name="Try again").click()
        await expect(cell(page, 1, 1)).to_have_text("another thing")
        await until_stored(app, table_id, "name", ["another thing"])
        await page.context.set_offline(True)
        await expect(page.get_by_text("No connection")).to_be_visible()
        await page.context.set_offline(False)
        await expect(page.get_by_text("Connected")).to_be_visible()


async def test_a_column_that_a_colleague_drops_takes_no_typing_along(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing", "price": 1, "stock": 2}])
    async with visit("about:blank", permissions=["clipboard-read", "clipboard-write"]) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 2).click()
        await page.keyboard.type("12.75")
        async with app.client() as client:
            dropped = await client.delete(f"/v1/public/tables/{table_id}/columns/price")
            assert dropped.status_code == 200, dropped.text
        await page.keyboard.press("Enter")
        told = page.locator(".toast.bad")
        await expect(told).to_contain_text("price: 12.75 was not saved, because the column no longer exists.")
        # The grid follows the new schema, and the value can be kept.
        await expect(cell(page, 1, 2)).to_have_text("2")
        await told.get_by_role("button", name="Copy").click()
        assert await page.evaluate("navigator.clipboard.readText()") == "12.75"
        await cell(page, 1, 2).click()
        await page.keyboard.type("3")
        await page.keyboard.press("Enter")
        await until_stored(app, table_id, "stock", [3])


async def test_a_table_that_a_colleague_drops_takes_no_typing_along(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    async with visit("about:blank", permissions=["clipboard-read", "clipboard-write"]) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 1).click()
        await page.keyboard.type("another thing")
        async with app.client() as client:
            assert (await client.delete(f"/v1/public/tables/{table_id}")).status_code == 200
        await page.keyboard.press("Enter")
        told = page.locator(".toast.bad")
        await expect(told).to_contain_text("name: another thing was not saved. Table not found.")
        await told.get_by_role("button", name="Copy").click()
        assert await page.evaluate("navigator.clipboard.readText()") == "another thing"


async def test_a_session_that_ends_in_the_middle_of_an_edit_keeps_it(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing", "price": 1}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 2).click()
        await page.keyboard.type("12.75")
        async with plain_client(server.url) as client:
            tokens = (await client.post("/v1/auth/signin", json={"email": EMAIL, "password": PASSWORD})).json()
            body = {"current_password": PASSWORD, "new_password": PASSWORD}
            headers = {"Authorization": f"Bearer {tokens['access_token']}"}
            # From elsewhere: every session of the user but that one ends.
            assert (await client.put("/v1/auth/me/password", json=body, headers=headers)).status_code == 200
        app.console.update(tokens)
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Sign in again")
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Sign in").click()
        await expect(dialog).to_be_hidden()
        await until_stored(app, table_id, "price", [12.75])
        await expect(cell(page, 1, 2)).to_have_text("12.75")


async def test_cells_of_a_spreadsheet_fill_a_rectangle(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number, "stock": 1} for number in range(3)])
    async with visit("about:blank", permissions=["clipboard-read", "clipboard-write"]) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 2, 1).click()
        text = json.dumps('one\t1.5\t7\r\n"two\nlines"\tmany\t8\r\nno row\t3\t9\r\n')
        await page.evaluate(f"navigator.clipboard.writeText({text})")
        await page.keyboard.press("Control+v")
        dialog = page.get_by_role("dialog", name="Paste cells")
        await expect(dialog).to_contain_text("2 rows, into name, price, stock.")
        await expect(dialog).to_contain_text("1 cell does not fit")
        await dialog.get_by_role("button", name="Paste").click()
        await expect(page.get_by_text("2 rows changed.")).to_be_visible()
        await expect(cell(page, 2, 2)).to_have_text("1.5")
    rows = [(row["name"], row["price"], row["stock"]) for row in await stored(app, table_id)]
    assert rows == [("thing 0", 0, 1), ("one", 1.5, 7), ("two\nlines", 2, 8)]


async def test_the_calendar_keeps_the_form_of_a_date(server: Server, app: App, visit: Opening, axe: str) -> None:
    table_id = await fill(
        app, [{"name": "day", "since": "2026-01-31"}, {"name": "m", "since": "2026-01-31T09:30:00+09:00"}]
    )
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        for row in (1, 2):
            await cell(page, row, 5).click()
            await page.keyboard.press("Enter")
            calendar = page.get_by_role("group", name="Calendar")
            await expect(calendar.get_by_role("button", name="January 31, 2026")).to_have_attribute(
                "aria-pressed", "true"
            )
            if row == 1:
                assert await obstacles(page, axe) == []
            await calendar.get_by_role("button", name="Next month").click()
            await calendar.get_by_role("button", name="February 14, 2026").click()
            await page.keyboard.press("Enter")
        await until_stored(app, table_id, "since", ["2026-02-14", "2026-02-14T09:30:00+09:00"])


# The frame of every screen, and the screens that ask for nothing.
_ASKED_BEFORE = re.compile(r"/v1/(console/config|auth/session.*|apps\?.*|apps/[^/]+/attention)$")
_ASK_NOTHING = {"settings"}


async def test_each_screen_says_that_it_could_not_be_read_and_reads_it_again(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    table = f"/tables/{table_id}"
    screens = {
        **{name: path for name, path in SCREENS.items() if name not in _ASK_NOTHING},
        "tables": "/tables",
        "rows": table,
        "schema": f"{table}/schema",
        "indexes": f"{table}/indexes",
        "requests": "/activity/requests",
        "metrics": "/activity/metrics",
    }
    is_down = True

    async def answer(route: Route) -> None:
        if is_down and not _ASKED_BEFORE.search(route.request.url):
            refusal = {"code": "INTERNAL", "message": "Something failed.", "request_id": "r-9"}
            await route.fulfill(status=500, json=refusal)
        else:
            await route.continue_()

    async with visit("about:blank", expected="the server responded with a status of 500") as page:
        await sign_in(page, server, f"/apps/{app.app_id}")
        await page.route("**/v1/**", answer)
        for path in sample(screens.values(), 0.2):
            is_down = True
            await page.goto(f"{server.url}/console/apps/{app.app_id}{path}")
            told = page.get_by_role("alert").filter(has_text="Something failed.")
            await expect(told.first).to_be_visible()
            # Every part of the screen has been refused before the first is read again.
            await page.wait_for_load_state("networkidle")
            is_down = False
            while count := await told.count():
                await told.first.get_by_role("button", name="Try again").click()
                await expect(told.nth(count - 1)).to_be_hidden()
