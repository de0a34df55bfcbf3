"""Files into tables and out of them: progress, lines that are corrected, an import that is continued, guessed types."""

import asyncio
import re

from playwright.async_api import Page, Route, expect

from tests.console import owner_of, user_with
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.rows import cell, fill, stored
from tests.console.test_administration import pictures
from tests.support import App, Server


async def choose(page: Page, content: str, name: str = "things.csv") -> None:
    """Choose a file in the open dialog."""
    file = {"name": name, "mimeType": "text/csv", "buffer": content.encode()}
    await page.get_by_role("dialog").locator("input[type=file]").set_input_files([file])


async def test_rejected_lines_are_corrected_and_imported_again(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table_id = await fill(app, [])
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Import").first.click()
        dialog = page.get_by_role("dialog")
        # The lines count what is left out too: an empty one, and one of several lines.
        await choose(page, 'name;cost;price\n"first\nof two";x;1\n\nsecond;x;many\nthird;x;\n"fourth; quoted";x;4,5\n')
        await expect(dialog.get_by_label("Column for cost")).to_have_value("")
        await dialog.get_by_role("button", name="Import rows").click()
        await expect(dialog.get_by_text("2 rows created.")).to_be_visible()
        await expect(dialog.get_by_text("2 lines were skipped.")).to_be_visible()
        price = dialog.get_by_label("price in line 5")
        await expect(price).to_have_value("many")
        await expect(price).to_have_attribute("aria-invalid", "true")
        await expect(dialog.get_by_label("name in line 7")).to_have_value("fourth; quoted")
        assert await obstacles(page, axe) == []
        await pictures(page, "rejected-lines")
        await price.fill("2.50")
        await dialog.get_by_role("button", name="Import 2 corrected lines").click()
        # The one that still does not fit stays, with its line's number.
        await expect(dialog.get_by_text("3 rows created.")).to_be_visible()
        await expect(dialog.get_by_text("1 line was skipped.")).to_be_visible()
        await dialog.get_by_label("price in line 7").fill("4.5")
        await dialog.get_by_role("button", name="Import 1 corrected line").click()
        await expect(dialog.get_by_text("4 rows created.")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_text("4 rows", exact=True)).to_be_visible()
    rows = await stored(app, table_id)
    assert [(row["name"], row.get("price")) for row in rows] == [
        ("first\nof two", 1),
        ("third", None),
        ("second", 2.5),
        ("fourth; quoted", 4.5),
    ]


async def test_an_interrupted_import_continues_where_it_was(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [])
    lines = [f"thing {number},{number}" for number in range(2500)]
    content = "\n".join(["name,stock", *lines]) + "\n"
    cut = asyncio.Event()

    async def part(route: Route) -> None:
        """Import the first 2,000 lines under the page's key, as if the connection had broken then, and break it."""
        head = "\n".join(["name,stock", *lines[:2000]]) + "\n"
        async with owner_of(app).client(app) as console:
            path = f"/tables/{table_id}/import?{route.request.url.partition('?')[2]}"

            async def begun():
                yield head.encode()
                await asyncio.wait_for(cut.wait(), 120)

            sending = asyncio.create_task(console.post(path, content=begun(), headers={"Content-Type": "text/csv"}))
            key = re.search("key=([^&]+)", route.request.url)[1]
            while (answer := await console.get(f"/tables/{table_id}/imports/{key}")).json().get("created") != 2000:
                assert answer.status_code in (200, 404)
                await asyncio.sleep(0.05)
            # The page sees how far it is while it sends.
            await expect(route.request.frame.page.get_by_text("2,000 rows created, 0 lines skipped")).to_be_visible()
            sending.cancel()
        await route.abort()

    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Import").first.click()
        dialog = page.get_by_role("dialog")
        await choose(page, content)
        await page.route("**/import?*", part)
        await dialog.get_by_role("button", name="Import rows").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("Pilotis cannot be reached")
        await page.unroute("**/import?*")
        await dialog.get_by_role("button", name="Continue").click()
        await expect(dialog.get_by_text("2,500 rows created.")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_text("2,500 rows", exact=True)).to_be_visible()


async def test_a_file_becomes_a_table_with_guessed_types(server: Server, app: App, visit: Opening, axe: str) -> None:
    content = (
        "\ufeffPostal code,people,area,capital,founded,notes,id\n"
        '04524,9400000,605.2,true,1394-11-29,"a ""b"", c",1\n03722,3300000,770,false,,,2\n'
    )
    async with visit("about:blank", width=1440, height=1100) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables?new=1")
        dialog = page.get_by_role("dialog")
        await choose(page, content, "cities.csv")
        await expect(dialog.get_by_label("Name", exact=True)).to_have_value("cities")
        types = [
            ("Postal_code", "string"),
            ("people", "int"),
            ("area", "number"),
            ("capital", "boolean"),
            ("founded", "date"),
            ("notes", "string"),
            ("id_", "int"),
        ]
        for number, (name, kind) in enumerate(types):
            await expect(dialog.get_by_label(f"Name of column {number + 1}")).to_have_value(name)
            await expect(dialog.get_by_label(f"Type of {name}", exact=True)).to_have_value(kind)
        await expect(dialog.get_by_role("region", name="First rows")).to_contain_text('a "b", c')
        assert await obstacles(page, axe) == []
        await pictures(page, "new-table-file")
        # A column that is not wanted, and one of another name.
        await dialog.get_by_role("button", name="Drop id_").click()
        await dialog.get_by_label("Name of column 3").fill("km2")
        await dialog.get_by_role("button", name="Create table").click()
        await expect(page.get_by_role("dialog").get_by_text("2 rows created.")).to_be_visible()
        await page.get_by_role("dialog").get_by_role("button", name="Done").click()
        await expect(cell(page, 1, 1)).to_have_text("04524")
        await expect(cell(page, 1, 3)).to_have_text("605.2")
        await expect(page.get_by_role("heading", name="cities")).to_be_visible()


async def test_a_whole_table_is_downloaded_by_a_link(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "first", "secret": "needle"}, {"name": "second"}])
    viewer = await user_with(app, "viewer")
    for email, head in ((None, "name,price,stock,sold,since,secret,extras"), (viewer.email, "name,price")):
        async with visit("about:blank", accept_downloads=True) as page:
            await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}", **({"email": email} if email else {}))
            await page.get_by_role("button", name="Export").click()
            async with page.expect_download() as download:
                await page.get_by_role("dialog").get_by_role("button", name="Export", exact=True).click()
            saved = (await (await download.value).path()).read_text("utf-8").splitlines()
        assert saved[0].startswith(head)
        assert len(saved) == 3
        assert ("needle" in saved[1]) == (email is None)
