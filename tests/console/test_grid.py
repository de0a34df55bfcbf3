"""The grid's search, its live rows, its JSON editor, and writes of many rows that can be paused."""

import asyncio
import json
import re
from urllib.parse import quote

from playwright.async_api import Route, expect

from tests.console import owner_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.rows import cell, fill, stored
from tests.support import App, Server
from tests.waiting import until
from tests.whole import times


async def test_words_are_searched_in_the_rows_that_a_filter_keeps(server: Server, app: App, visit: Opening) -> None:
    rows = [{"name": f"grey heron {number}", "price": number} for number in range(8)] + [{"name": "swift otter"}]
    table_id = await fill(app, rows)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}?where=%7B%22price%22%3A3%7D")
        await expect(page.get_by_text("1 row found")).to_be_visible()
        search = page.get_by_role("searchbox", name="Search")
        await search.fill("heron")
        await expect(page.get_by_text("best match first", exact=True)).to_be_visible()
        await expect(page.get_by_text("1 row found")).to_be_visible()
        await expect(cell(page, 1, 1)).to_have_text("grey heron 3")
        await search.fill("otter")
        await expect(page.get_by_text("No row contains these words.")).to_be_visible()
        await page.goto(f"{page.url.partition('?')[0]}?sort=price.desc")
        await search.fill("heron")
        await expect(page.get_by_text("8 rows found")).to_be_visible()
        await expect(page.get_by_text("The sort order does not apply to a search.")).to_be_visible()
        await page.reload()
        await expect(search).to_have_value("heron")
        await expect(page.get_by_text("8 rows found")).to_be_visible()
        await search.fill("albatross")
        await expect(page.get_by_text("No row contains these words.")).to_be_visible()
        await search.press("Escape")
        # The order is what it was.
        await expect(cell(page, 1, 1)).to_have_text("grey heron 7")
        # A row that a search found is edited like any other.
        await search.fill("otter")
        await expect(cell(page, 1, 1)).to_have_text("swift otter")
        await cell(page, 1, 2).click()
        await page.keyboard.type("7.5")
        await page.keyboard.press("Enter")

        async def is_stored() -> bool:
            return (await stored(app, table_id, name="swift otter"))[0].get("price") == 7.5

        await until(is_stored)


async def test_live_rows_show_what_others_change_but_not_under_an_edit(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [{"name": "thing", "price": 1}, {"name": "other", "price": 2}])
    async with app.client(app.secret_key) as client:
        first = (await client.get(f"/v1/public/tables/{table_id}/data")).json()["data"][0]["id"]

        async def change(price: int) -> None:
            path = f"/v1/public/tables/{table_id}/data/{first}"
            assert (await client.patch(path, json={"data": {"price": price}})).status_code == 200

        async with visit("about:blank") as page:
            await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
            await expect(cell(page, 1, 2)).to_have_text("1")
            await page.get_by_role("button", name="Live").click()
            await expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
            await change(5)
            await expect(cell(page, 1, 2)).to_have_text("5")
            made = await client.post(f"/v1/public/tables/{table_id}/data", json={"data": {"name": "third"}})
            assert made.status_code == 201
            await page.get_by_role("button", name="1 new row").click()
            await expect(cell(page, 3, 1)).to_have_text("third")
            # Who listens asks for nothing as long as nothing happens.
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            await asyncio.sleep(1.5)
            assert not [url for url in asked if "/data/query" in url]
            # While a user types, the row keeps the state that was read: a conflicting change is detected, not
            # overwritten.
            await cell(page, 1, 2).click()
            await page.keyboard.type("12")
            await change(6)
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("alertdialog")).to_contain_text("Someone else changed this row")
            await page.get_by_role("button", name="Keep theirs").click()
            await expect(cell(page, 1, 2)).to_have_text("6")


async def test_live_rows_count_what_changes_out_of_view(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number:03}", "price": number} for number in range(650)])
    async with app.client(app.secret_key) as client, visit("about:blank") as page:
        answer = await client.post(
            f"/v1/public/tables/{table_id}/data/query", json={"where": {"price": {"$gte": 600}}, "limit": 50}
        )
        far = [row["id"] for row in answer.json()["data"]]

        async def change(row_id: str, price: int) -> None:
            path = f"/v1/public/tables/{table_id}/data/{row_id}"
            assert (await client.patch(path, json={"data": {"price": price}})).status_code == 200

        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}?live=1")
        await expect(cell(page, 1, 2)).to_have_text("0")
        # The end is in view once, so that its rows are known.
        await page.evaluate("() => document.querySelector('.grid').scrollTo({ top: 630 * 32 })")
        await expect(page.locator("[role=row][aria-rowindex='640']")).to_contain_text("thing")
        await page.evaluate("() => document.querySelector('.grid').scrollTo({ top: 0 })")
        await expect(cell(page, 1, 2)).to_be_visible()

        async def listens() -> bool:
            async with owner_of(app).client(app) as console:
                return (await console.get("/live-streams")).json()["total_count"] == 1

        await until(listens)
        for row_id in (*far[30:33], far[30]):
            await change(row_id, 1)
        await expect(page.get_by_text("3 rows changed out of view")).to_be_visible()
        # They are read again when they come into view.
        await page.evaluate("() => document.querySelector('.grid').scrollTo({ top: 620 * 32 })")
        await expect(cell(page, 631, 1)).to_have_text("thing 630")
        await expect(cell(page, 631, 2)).to_have_text("1")
        # For a filter that no stream takes, each change of the table is a reason to read again.
        where = quote('{"name": {"$matches": "00[12]$"}}')
        await page.goto(f"{page.url.partition('?')[0]}?live=1&where={where}")
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await until(listens)
        renamed = await client.patch(f"/v1/public/tables/{table_id}/data/{far[0]}", json={"data": {"name": "new 001"}})
        assert renamed.status_code == 200
        await expect(page.get_by_text("3 rows found")).to_be_visible()


async def test_many_writes_are_paused_and_the_rows_that_failed_are_listed(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [{"name": f"thing {number}"} for number in range(1100)])
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(page.get_by_text("1,100 rows")).to_be_visible()
        # What is selected are the rows that are loaded: all after a look at each page.
        await cell(page, 1, 1).click()
        for row in range(201, 1100, 200):
            await page.evaluate("(top) => document.querySelector('.grid').scrollTo({ top })", (row + 5) * 32)
            await expect(page.locator(f"[role=row][aria-rowindex='{row + 5}']")).to_contain_text("thing")
        await page.get_by_role("checkbox", name="Select all").check()
        await page.get_by_role("button", name="Edit a field").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Column").select_option("stock")
        await dialog.get_by_label("Value").fill("7")
        await page.route("**/v1/public/batch", hold)
        async with page.expect_request("**/v1/public/batch"):
            await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_role("button", name="Pause").click()
        await until_held(held, 1)
        await held[0].continue_()
        await expect(dialog.get_by_text("Paused after 500 of 1,100")).to_be_visible()
        async with app.client(app.secret_key) as client:
            # A colleague deletes a row that is still to be written.
            found = await client.post(
                f"/v1/public/tables/{table_id}/data/query", json={"where": {"name": "thing 1050"}}
            )
            gone = found.json()["data"][0]["id"]
            assert (await client.delete(f"/v1/public/tables/{table_id}/data/{gone}")).status_code == 200
            counted = await client.post(
                f"/v1/public/tables/{table_id}/data/query", json={"where": {"stock": 7}, "limit": 0}
            )
            assert counted.json()["total_count"] == 500
        # An answer that never comes: what was written stays written, and the rest is sent again.
        await page.unroute("**/v1/public/batch")
        await page.route("**/v1/public/batch", lambda route: route.abort())
        await dialog.get_by_role("button", name="Resume").click()
        await expect(dialog.get_by_role("alert")).to_be_visible()
        await page.unroute("**/v1/public/batch")
        await dialog.get_by_role("button", name="Save").click()
        told = page.get_by_role("alertdialog", name="1 row was not changed")
        await expect(told).to_contain_text(gone)
        await told.get_by_role("button", name="Close").last.click()
        await expect(page.get_by_text("1,099 rows changed.")).to_be_visible()
    async with app.client(app.secret_key) as client:
        counted = await client.post(
            f"/v1/public/tables/{table_id}/data/query", json={"where": {"stock": 7}, "limit": 0}
        )
    assert counted.json()["total_count"] == 1099


_SCROLL = """async (steps) => {
    const grid = document.querySelector(".grid");
    for (let step = 0; step < steps; step++) {
        grid.scrollTop = (step * 397) % (grid.scrollHeight - grid.clientHeight);
        await new Promise(requestAnimationFrame);
    }
}"""


async def test_scrolling_keeps_nothing_of_the_rows_that_have_left(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number} for number in range(1000)])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(cell(page, 1, 1)).to_have_text("thing 0")
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")

        async def heap() -> float:
            await session.send("HeapProfiler.collectGarbage")
            metrics = (await session.send("Performance.getMetrics"))["metrics"]
            return next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize") / 1e6

        # A row that is kept takes about 1 kB, and each step shows others.
        steps = times(120, whole=400)
        await page.evaluate(_SCROLL, steps // 2)
        before = await heap()
        await page.evaluate(_SCROLL, steps)
        assert await heap() - before < steps / 40


async def until_held(held: list[Route], count: int) -> None:
    async def are_held() -> bool:
        return len(held) == count

    await until(are_held)


async def test_json_is_edited_where_the_program_for_it_does_not_arrive(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table_id = await fill(app, [{"name": "thing", "extras": {"crew": 3}}])
    arrives = asyncio.Event()

    async def wait(route: Route) -> None:
        await arrives.wait()
        await route.continue_()

    async with visit("about:blank") as page:
        await page.route("**/vendor/editor.js", wait)
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 7).click()
        await page.keyboard.press("Enter")
        area = page.get_by_role("textbox", name="extras", exact=True)
        await expect(area).to_be_focused()
        await area.fill('{"crew": 4')
        arrives.set()
        # What was typed, and the place to type in, go over into the full editor.
        code = page.locator(".cm-content")
        await expect(code).to_have_text('{"crew": 4')
        await expect(code).to_be_focused()
        assert await obstacles(page, axe) == []
        await page.keyboard.press("Control+End")
        await page.keyboard.type('2, "deep": [1]}')
        await page.keyboard.press("Control+Enter")
        await expect(cell(page, 1, 7)).to_have_text(re.compile(re.escape('{"crew":42,"deep":[1]}')))

        async def is_stored() -> bool:
            return (await stored(app, table_id))[0]["extras"] == json.loads('{"crew": 42, "deep": [1]}')

        await until(is_stored)


async def test_the_first_digits_of_a_wide_number_stay_in_view(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"total": "number"}, title="orders")
    await app.row(table, {"total": 123456789012345680000})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}")
        cell = page.locator(".gc.t-number").first
        await expect(cell).to_contain_text("123456789")
        hidden = await cell.evaluate(
            """(cell) => { const text = document.createRange(); text.selectNodeContents(cell);
                return cell.getBoundingClientRect().left - text.getBoundingClientRect().left; }"""
        )
        assert hidden <= 0
        assert await cell.evaluate("(cell) => getComputedStyle(cell).textOverflow") == "ellipsis"
