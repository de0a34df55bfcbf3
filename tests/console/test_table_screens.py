"""The screens of a table: schema changes, import and export, saved filters, pinned columns, a phone, calls."""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.backstage import run_sql
from tests.chromium import PICTURES, keep_picture
from tests.console import owner_of, the_log
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.rows import cell, fill, stored, until_stored
from tests.console.test_administration import pictures
from tests.functions.support import Functions
from tests.hosting.sites import zipped
from tests.support import App, Server
from tests.waiting import until
from tests.whole import sample
from tests.workflows.support import Workflows


async def test_a_schema_is_changed_after_a_review(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "12"}, {"name": "twelve"}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}/schema")
        await page.get_by_label("Type of name").select_option("int")
        await page.get_by_role("button", name="Drop stock").click()
        await page.get_by_role("button", name="Add column").click()
        await page.get_by_label("Name of the new column").fill("colour")
        await page.get_by_role("button", name="Review 3 changes").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("string → int")
        await dialog.get_by_role("button", name="Change schema").click()
        # One row does not fit: the dialog says so, and leads to it.
        await dialog.get_by_role("link", name="Show these rows").click()
        await expect(cell(page, 1, 1)).to_have_text("twelve")
        await expect(page.get_by_text("1 row found")).to_be_visible()


async def test_a_file_is_imported_by_a_mapping_and_exported_as_filtered(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [])
    content = 'Name,cost,colour\n"a ""quoted"", thing",1.5,red\nsecond,not a number,blue\nthird,3,green\n'
    async with visit("about:blank", accept_downloads=True) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Import").first.click()
        dialog = page.get_by_role("dialog")
        file = {"name": "things.csv", "mimeType": "text/csv", "buffer": content.encode()}
        await dialog.locator("input[type=file]").set_input_files([file])
        await expect(dialog.get_by_label("Column for Name")).to_have_value("name")
        await dialog.get_by_label("Column for cost").select_option("price")
        await expect(dialog.get_by_label("Column for colour")).to_have_value("")
        await dialog.get_by_role("button", name="Import rows").click()
        await expect(dialog.get_by_text("2 rows created.")).to_be_visible()
        await expect(dialog.get_by_text("1 line was skipped.")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(cell(page, 1, 1)).to_have_text('a "quoted", thing')
        assert [row.get("price") for row in await stored(app, table_id)] == [1.5, 3]
        await page.goto(f"{page.url}?where=%7B%22price%22%3A3%7D")
        await page.get_by_role("button", name="Export").click()
        async with page.expect_download() as download:
            await page.get_by_role("dialog").get_by_role("button", name="Export", exact=True).click()
        saved = (await (await download.value).path()).read_text("utf-8")
        assert [line.split(",")[0] for line in saved.splitlines()] == ["name", "third"]


async def test_a_table_is_made_dropped_and_restored(server: Server, app: App, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        await page.get_by_role("button", name="New table").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill("boats")
        await dialog.get_by_label("Name of column 1").fill("length")
        await dialog.get_by_label("Type of length").select_option("number")
        await dialog.get_by_role("button", name="Create table").click()
        await expect(page.get_by_role("heading", name="boats")).to_be_visible()
        await page.get_by_role("link", name="Settings").last.click()
        await page.get_by_role("button", name="Drop table").click()
        await page.get_by_role("dialog").get_by_role("button", name="Drop table").click()
        await expect(page.get_by_text("No tables yet")).to_be_visible()
        await page.goto(f"{server.url}/console/apps/{app.app_id}/settings/trash")
        await page.get_by_role("button", name="Restore").click()
        await expect(page.get_by_text("The trash is empty")).to_be_visible()


async def test_bad_weather_is_told_and_passes(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing", "price": 1}])
    refusal = {"code": "QUERY_TIMEOUT", "message": "The query took too long.", "request_id": "r-1"}
    async with visit("about:blank") as page:
        await page.route("**/data/query", lambda route: route.fulfill(status=400, json=refusal))
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        failure = page.get_by_role("alert")
        await expect(failure).to_contain_text("The query took too long.")
        await expect(failure).to_contain_text("QUERY_TIMEOUT")
        await expect(failure).to_contain_text("r-1")
        await page.unroute("**/data/query")
        await failure.get_by_role("button", name="Try again").click()
        await expect(cell(page, 1, 2)).to_have_text("1")
        # A change that does not arrive turns back, and says so; the next one arrives.
        await page.route("**/data/*-*", lambda route: route.abort())
        await cell(page, 1, 2).click()
        await page.keyboard.type("2")
        await page.keyboard.press("Enter")
        await expect(page.locator(".toast.bad")).to_contain_text("Pilotis cannot be reached")
        await expect(cell(page, 1, 2)).to_have_text("1")
        await page.unroute("**/data/*-*")
        await cell(page, 1, 2).click()
        await page.keyboard.type("3")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        assert (await stored(app, table_id))[0]["price"] == 3


@pytest.mark.parametrize("theme", ["light", "dark"] if PICTURES else ["dark"])
async def test_the_screens_of_a_table_keep_nobody_out(
    server: Server, app: App, visit: Opening, axe: str, theme: str
) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "sold": bool(number % 2)} for number in range(30)])
    screens = {
        "tables": "tables",
        **{tab: f"tables/{table_id}/{tab}" for tab in ("schema", "indexes", "api", "settings")},
    }
    async with visit("about:blank", color_scheme=theme) as page:
        found = {}
        for name, path in sample({"grid": f"tables/{table_id}", **screens}.items(), 0.34):
            await sign_in(page, server, f"/apps/{app.app_id}/{path}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.wait_for_load_state("networkidle")
            found[name] = await obstacles(page, axe)
            await keep_picture(page, f"console-{name}-{theme}")
        assert {name: said for name, said in found.items() if said} == {}


async def test_a_filter_is_saved_for_every_browser(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number} for number in range(5)])
    where = "?where=%7B%22price%22%3A%7B%22%24gte%22%3A3%7D%7D"
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}{where}")
        await page.get_by_role("button", name="Saved", exact=True).click()
        await page.get_by_role("menuitem", name="Save this filter").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("dear things")
        await page.get_by_role("dialog").get_by_role("button", name="Save").click()
        await expect(page.get_by_role("button", name="dear things")).to_be_visible()
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await page.get_by_role("button", name="Saved", exact=True).click()
        await page.get_by_role("menuitem", name="dear things").click()
        await expect(page.get_by_text("2 rows found")).to_be_visible()
        await page.get_by_role("button", name="dear things").click()
        await page.get_by_role("menuitem", name="Remove dear things").click()
        await expect(page.get_by_role("button", name="dear things")).to_be_hidden()
        await expect(page.get_by_role("button", name="Saved", exact=True)).to_be_visible()


async def test_a_pinned_column_stays_in_view_and_is_edited(server: Server, app: App, visit: Opening) -> None:
    table_id = await fill(app, [{"name": "thing", "stock": 1}])
    async with visit("about:blank", width=900) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await cell(page, 1, 3).click(button="right")
        await page.get_by_role("menuitem", name="Column stock").click()
        await page.get_by_role("menuitem", name="Pin column").click()
        await expect(cell(page, 1, 1)).to_have_text("1")
        await expect(cell(page, 1, 2)).to_have_text("thing")
        await cell(page, 1, 2).click()
        await page.keyboard.press("End")
        await expect(cell(page, 1, 2)).to_be_hidden()
        box = await cell(page, 1, 1).bounding_box()
        grid = await page.get_by_role("grid").locator("xpath=ancestor::*[contains(@class, 'grid')][1]").bounding_box()
        assert box is not None
        assert grid is not None
        assert box["x"] - grid["x"] < 60
        await page.keyboard.press("Home")
        await page.keyboard.press("Control+ArrowLeft")
        await page.keyboard.type("12")
        await page.keyboard.press("Enter")
        await expect(cell(page, 1, 1)).to_have_text("12")
        await until_stored(app, table_id, "stock", [12])
        await page.reload()
        await expect(cell(page, 1, 1)).to_have_text("12")


async def test_a_column_is_sorted_filtered_hidden_found_and_changed_by_its_header(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    rows = [{"name": f"thing {number}", "price": number, "stock": number % 2} for number in range(5)]
    table_id = await fill(app, rows)
    async with visit("about:blank") as page:

        async def choose(action: str, column: str = "price") -> None:
            await page.get_by_role("columnheader", name=column).click(button="right")
            await page.get_by_role("menuitem", name=re.compile(f"^{action}")).click()

        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await choose("Sort descending")
        await expect(cell(page, 1, 2)).to_have_text("4")
        await choose("Sort ascending", "stock")
        await choose("Then sort descending")
        await expect(page.get_by_text("sorted by stock, ascending, then by price, descending")).to_be_visible()
        shown = [await cell(page, row, 2).inner_text() for row in range(1, 6)]
        assert shown == ["4", "2", "0", "3", "1"]
        assert "sort=stock.asc%2Cprice.desc" in page.url or "sort=stock.asc,price.desc" in page.url
        # The header does the same with the shift key: the other way, then not at all.
        await page.get_by_role("columnheader", name="price").get_by_role("button").first.click(modifiers=["Shift"])
        await expect(page.get_by_text("sorted by stock, ascending", exact=True)).to_be_visible()
        await page.get_by_role("columnheader", name="price").get_by_role("button").first.click(modifiers=["Shift"])
        await expect(page.get_by_text("sorted by stock, ascending, then by price, ascending")).to_be_visible()
        await keep_picture(page, "console-sorted-by-two")
        await choose("Sort descending")
        await choose("Filter by this column")
        condition = page.get_by_role("dialog", name="Filter")
        await expect(condition.get_by_label("Column")).to_have_value("price")
        # Fields are no items of a menu.
        assert await obstacles(page, axe) == []
        await condition.get_by_label("Condition").select_option(label="at most")
        await condition.get_by_label("Value").fill("2")
        await condition.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("3 rows found")).to_be_visible()
        await choose("Filter by this column", "name")
        await condition.get_by_label("Value").fill("1")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("1 row found")).to_be_visible()
        await choose("Hide column")
        await expect(page.get_by_role("columnheader", name="price")).to_have_count(0)
        await page.get_by_role("button", name="7/11").click()
        columns = page.get_by_role("dialog", name="Columns")
        await columns.get_by_label("Find a column").fill("PRI")
        await expect(columns.get_by_role("checkbox")).to_have_count(1)
        await columns.get_by_role("button", name="Show all").click()
        await expect(page.get_by_role("columnheader", name="price")).to_be_visible()
        assert await obstacles(page, axe) == []
        # All that are found; one column stays, as rows are shown in some.
        await columns.get_by_label("Find a column").fill("")
        await columns.get_by_role("button", name="Hide all").click()
        await expect(page.get_by_role("button", name="1/11")).to_be_visible()
        await columns.get_by_role("button", name="Show all").click()
        await page.keyboard.press("Escape")
        await choose("Change the column")
        await expect(page.get_by_label("Type of price")).to_be_focused()


async def test_the_command_for_a_first_table_can_be_pasted(server: Server, app: App, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        command = page.locator(".empty pre")
        await expect(command).to_contain_text(app.public_key)
        await expect(command).to_contain_text(f"{server.url}/v1/public/tables")
        await expect(command).not_to_contain_text("$")


async def test_a_phone_shows_rows_as_cards(server: Server, app: App, visit: Opening, axe: str) -> None:
    table_id = await fill(app, [{"name": f"thing {number}", "price": number} for number in range(500)])
    async with visit("about:blank", width=390, height=844) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}")
        await expect(page.get_by_role("button", name="thing 0 price 0")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-cards-light-phone")
        assert await page.locator(".cardrows li").count() < 30
        await page.locator(".cardrows").evaluate("list => list.scrollTo(0, list.scrollHeight)")
        await page.get_by_role("button", name="thing 499").click()
        panel = page.get_by_role("complementary", name="Row 500")
        await expect(panel).to_contain_text("thing 499")
        await keep_picture(page, "console-card-open-light-phone")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_each_call_of_a_table_has_its_languages_and_its_run_button_beside_it(
    server: Server, app: App, visit: Opening
) -> None:
    table_id = await fill(app, [{"name": "thing"}])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}/api")
        heading = page.get_by_role("heading", name="List rows")
        run = page.get_by_role("button", name="Run").first
        await expect(run).to_be_visible()
        above, button = await heading.bounding_box(), await run.bounding_box()
        assert above is not None
        assert button is not None
        # Below its heading, not on top of the page.
        assert above["y"] + above["height"] <= button["y"] <= above["y"] + 120
        await page.get_by_role("button", name="Python").first.click()
        await expect(page.get_by_role("region", name="Code").first).to_contain_text("import ")


async def shown(page: Page, language: str, place: int = 0) -> str:
    """The text of a call in a language, as the button beside it copies it."""
    await page.get_by_role("button", name=language, exact=True).nth(place).click()
    call = page.locator(".call").nth(place)
    await call.get_by_role("button", name="Copy").click()
    return await page.evaluate("navigator.clipboard.readText()")


async def pasted(command: str, folder: Path, **variables: str) -> Any:
    """The answer of a command that is pasted into a shell whose environment has the tokens."""
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", command, cwd=folder, env=os.environ | variables, stdout=-1, stderr=-1
    )
    output, said = await shell.communicate()
    assert shell.returncode == 0, said.decode()
    return json.loads(output)


@pytest.mark.usefixtures("sandboxes")
async def test_each_object_says_how_it_is_called_and_the_command_can_be_pasted(
    server: Server, app: App, visit: Opening, tmp_path: Path
) -> None:
    functions, workflows = Functions(app), Workflows(app)
    async with functions.console, workflows.console, owner_of(app).client(app) as console:
        function = await functions.made("greet", "export default (given, ctx) => [given.name, ctx.caller]")
        assert (
            await functions.console.patch(f"{functions.base}/{function}", json={"invoke_access": "AppMember"})
        ).json()
        step = {"step_type": "function", "id": "greet", "function_id": "greet"}
        workflow = await workflows.made([step])
        site = (await console.post("/storages/webs", json={"name": "Shop"})).json()["id"]
        storage = {"name": "Photos", "read_access": "Public", "upload_access": "Public"}
        files = (await console.post("/storages/files", json=storage)).json()["id"]
    member = await app.member("otter")
    tokens = {
        "ACCESS_TOKEN": member["access_token"],
        "SECRET_KEY": app.secret_key,
        "CONSOLE_TOKEN": app.console["access_token"],
    }
    (tmp_path / "dist.zip").write_bytes(zipped({"index.html": b"<h1>Shop</h1>"}))
    (tmp_path / "boat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    screens = {
        f"functions/{function}/call": "/v1/public/functions/greet/invoke",
        f"sites/{site}/ci": site,
        f"workflows/{workflow}/call": workflow,
    }
    answers = {}
    allowed = ["clipboard-read", "clipboard-write"]
    async with visit("about:blank", permissions=allowed) as page:
        for path, address in screens.items():
            await sign_in(page, server, f"/apps/{app.app_id}/{path}")
            key = app.public_key if "workflows" not in path else "CONSOLE_TOKEN"
            for language in ("JavaScript", "Python", "curl"):
                text = await shown(page, language)
                assert server.url in text
                assert address in text
                assert re.search(key, text, re.IGNORECASE) or "consoleToken" in text
            answers[path.partition("/")[0]] = await pasted(text, tmp_path, **tokens)
        await sign_in(page, server, f"/apps/{app.app_id}/files/{files}")
        await page.get_by_role("button", name="API").click()
        uploaded = await pasted(await shown(page, "curl", 2), tmp_path)
        listed = await pasted(await shown(page, "curl", 0), tmp_path)
    assert answers["functions"]["result"] == ["Ada", {"type": "member", "id": member["member_id"]}]
    assert answers["sites"]["deployment"]["storage_id"] == site
    assert answers["workflows"]["execution_id"]
    assert [file["name"] for file in listed["files"]] == ["boat.png"], uploaded


async def test_a_call_of_a_table_is_tried_as_a_member(server: Server, app: App, visit: Opening) -> None:
    table_id = await app.table({"text": "string"}, access_level="Creator")
    member = await app.member("otter")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}/api")
        create = page.locator(".call").filter(has_text="Create a row")
        await expect(create.get_by_role("region", name="Code")).to_contain_text("Authorization")
        run = create.get_by_role("button", name="Run")
        await expect(run).to_have_attribute("aria-disabled", "true")
        async with page.expect_response("**/token") as asked:
            await page.get_by_label("Run as").select_option(label="otter")
            await run.click()
        assert (await (await asked.value).json())["expires_in"] == 300
        await expect(create.get_by_role("status")).to_contain_text("201")
        # The token goes on for other calls.
        await page.locator(".call").filter(has_text="List rows").get_by_role("button", name="Run").click()
        await expect(page.locator(".call").first.get_by_role("status")).to_contain_text("Hello")
    async with app.client(app.secret_key) as client:
        rows = (await client.get(f"/v1/public/tables/{table_id}/data")).json()["data"]
    assert [row["created_by"] for row in rows] == [member["member_id"]]
    assert [entry["target"] for entry in await the_log(app, action="member.run_as")] == [member["member_id"]]


async def test_a_row_of_a_list_is_pressed_anywhere(server: Server, app: App, visit: Opening) -> None:
    """With the middle button or Ctrl it opens in a tab of its own, and it covers nothing else."""
    await fill(app, [])
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        title = await page.locator(".list .main").first.inner_text()
        last = page.locator(".list tbody tr").first.get_by_role("cell").last
        async with page.context.expect_page() as opened:
            await last.click(button="middle")
        await expect((await opened.value).get_by_role("heading", level=1)).to_have_text(title)
        async with page.context.expect_page() as opened:
            await last.click(modifiers=["ControlOrMeta"])
        await expect((await opened.value).get_by_role("heading", level=1)).to_have_text(title)
        await last.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(title)
        await page.go_back()
        await page.get_by_role("link", name="Members").first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Members")


async def test_a_column_refers_to_rows_that_are_named_chosen_and_opened(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    authors = await app.table({"name": "string", "born": "int"}, title="writers of books")
    books = await app.table({"title": "string", "author": "uuid"}, title="books")
    ada = (await app.row(authors, {"name": "Ada"}))["id"]
    await app.row(authors, {"name": "Eve"})
    await app.row(books, {"title": "Notes", "author": ada})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{books}/schema")
        await page.get_by_label("What author refers to").select_option(label="→ writers of books")
        await page.get_by_label("When what author refers to is deleted").select_option("cascade")
        await page.get_by_role("button", name="Review 1 change").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("→ writers of books, delete along")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "reference-review")
        await dialog.get_by_role("button", name="Change schema").click()
        await expect(page.get_by_text("Schema changed.")).to_be_visible()
        # The grid shows the name of the row, the panel leads to it, and offers others.
        await page.goto(f"{server.url}/console/apps/{app.app_id}/tables/{books}")
        await expect(cell(page, 1, 2)).to_have_text("Ada")
        await cell(page, 1, 2).dblclick()
        await page.keyboard.press("Escape")
        await page.goto(f"{page.url.partition('?')[0]}?row={(await stored_rows(app, books))[0]['id']}")
        panel = page.locator("aside.panel")
        await expect(panel).to_contain_text("Ada")
        await panel.get_by_role("button", name="Actions for author").click()
        await panel.get_by_role("menuitem", name="Edit").click()
        await panel.get_by_role("button", name="author: Eve").click()
        await keep_picture(page, "reference-choice")
        await panel.get_by_role("button", name="Save", exact=True).click()
        await expect(cell(page, 1, 2)).to_have_text("Eve")
        await panel.get_by_role("button", name="Actions for author").click()
        await panel.get_by_role("menuitem", name="Open the row of writers of books").click()
        await expect(panel).to_contain_text("Referred to by")
        await expect(panel.get_by_role("link", name="books author 1")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "referrers")
        await panel.get_by_role("link", name="books author 1").click()
        await expect(cell(page, 1, 1)).to_have_text("Notes")


async def test_columns_refer_to_keys_and_members(server: Server, app: App, visit: Opening, axe: str) -> None:
    schema = {"sku": {"type": "string", "unique": True}, "member": {"type": "string", "unique": True}}
    products = await app.table(schema, title="products")
    prices = await app.table({"amount": "int", "product": "string", "seller": "string"}, title="prices")
    seller = (await app.guest())["member_id"]
    row = (await app.row(products, {"sku": "cup-1"}))["id"]
    await app.row(prices, {"amount": 5, "product": "cup-1", "seller": seller})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{prices}/schema")
        await page.get_by_role("button", name="Reference, product").click()
        await page.get_by_label("What product refers to").select_option(label="→ products by sku")
        await page.get_by_role("button", name="Reference, seller").click()
        await page.get_by_label("What seller refers to").select_option(label="→ members")
        await page.get_by_label("When what seller refers to is deleted").select_option("set_null")
        await keep_picture(page, "reference-kinds")
        await page.get_by_role("button", name="Review 2 changes").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("→ products by sku, keep that row")
        await expect(dialog).to_contain_text("→ members, become null")
        await dialog.get_by_role("button", name="Change schema").click()
        await expect(page.get_by_text("Schema changed.")).to_be_visible()
        await expect(page.get_by_role("button", name="Review changes")).to_be_disabled()
        # From the product its prices are found by its number, from a price its seller.
        await page.goto(f"{server.url}/console/apps/{app.app_id}/tables/{products}?row={row}")
        await page.locator("aside.panel").get_by_role("link", name="prices product 1").click()
        await expect(cell(page, 1, 1)).to_have_text("5")
        price = (await stored_rows(app, prices))[0]["id"]
        await page.goto(f"{server.url}/console/apps/{app.app_id}/tables/{prices}?row={price}")
        panel = page.locator("aside.panel")
        await panel.get_by_role("button", name="Actions for seller").click()
        await panel.get_by_role("menuitem", name="Open the member").click()
        await expect(page).to_have_url(re.compile(f"members.member={seller}"))
        # The table of profiles is named in the settings.
        await page.goto(f"{server.url}/console/apps/{app.app_id}/settings")
        await page.get_by_label("Profiles of members").select_option(label="products by member")
        await until(lambda: profile_key(app))
        assert await obstacles(page, axe) == []
        await keep_picture(page, "profiles")


async def profile_key(app: App) -> str | None:
    query = "select profile_key from pilotis.tables where app_id = $1::text::uuid and profile_key is not null"
    return await run_sql(app.server, query, app.app_id)


async def stored_rows(app: App, table_id: str) -> list[dict[str, Any]]:
    async with app.client(app.secret_key) as client:
        return (await client.get(f"/v1/public/tables/{table_id}/data")).json()["data"]


async def test_checks_of_values_are_set_and_removed(server: Server, app: App, visit: Opening, axe: str) -> None:
    table_id = await app.table({"price": "number", "state": "string"}, title="priced")

    async def schema() -> dict[str, Any]:
        async with app.client() as client:
            return (await client.get(f"/v1/public/tables/{table_id}")).json()["schema"]

    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table_id}/schema")
        await page.get_by_role("button", name="Checks, price").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Smallest value").fill("cheap")
        await expect(dialog.get_by_text("Enter numbers.")).to_be_visible()
        await dialog.get_by_label("Smallest value").fill("0.5")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "checks-number")
        await dialog.get_by_role("button", name="Use these checks").click()
        await page.get_by_role("button", name="Checks, state").click()
        await dialog.get_by_label("Allowed values").fill("open\nclosed")
        await dialog.get_by_role("button", name="Use these checks").click()
        await page.get_by_role("button", name="Review 2 changes").click()
        await expect(dialog).to_contain_text("enum open, closed")
        await dialog.get_by_role("button", name="Change schema").click()
        await expect(page.get_by_text("Schema changed.")).to_be_visible()
        await keep_picture(page, "checks")
        assert await obstacles(page, axe) == []
        assert await schema() == {
            "price": {"type": "number", "min": 0.5},
            "state": {"type": "string", "enum": ["open", "closed"]},
        }
        await page.get_by_role("button", name="min 0.5, price").click()
        await dialog.get_by_label("Smallest value").fill("")
        await dialog.get_by_role("button", name="Use these checks").click()
        await page.get_by_role("button", name="Review 1 change").click()
        await dialog.get_by_role("button", name="Change schema").click()
        await until(
            lambda: schema_is(schema, {"price": "number", "state": {"type": "string", "enum": ["open", "closed"]}})
        )


async def schema_is(read: Callable[[], Awaitable[dict[str, Any]]], expected: dict[str, Any]) -> bool:
    return await read() == expected


async def test_values_are_made_normalized_and_unique(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank", width=1440) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        await page.get_by_role("button", name="New table").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name", exact=True).fill("contacts")
        await dialog.get_by_label("Name of column 1").fill("mail")
        await dialog.get_by_label("unique").first.check()
        await dialog.get_by_role("button", name="Create table").click()
        await expect(page.get_by_role("heading", name="contacts")).to_be_visible()
        (table,) = await tables(app)
        assert [key["name"] for key in table["unique"]] == ["mail"]
        base = f"{server.url}/console/apps/{app.app_id}/tables/{table['id']}"
        async with app.client() as client:
            new = {"name": "edited", "data_type": "date"}
            await client.post(f"/v1/public/tables/{table['id']}/columns", json=new)
        await page.goto(f"{base}/schema")
        await page.get_by_role("button", name="Checks, mail").click()
        await dialog.get_by_label("Cut off white space around it").check()
        await dialog.get_by_label("Make its letters small").check()
        assert await obstacles(page, axe) == []
        await pictures(page, "normalize")
        await dialog.get_by_role("button", name="Use these checks").click()
        await page.get_by_role("button", name="Checks, edited").click()
        await dialog.get_by_label("Set to the time of each change").check()
        await dialog.get_by_role("button", name="Use these checks").click()
        await page.get_by_label("Default: edited").fill('{"$now": true}')
        await page.get_by_role("button", name="Review 2 changes").click()
        await expect(dialog).to_contain_text("normalize trim, lower")
        await expect(dialog).to_contain_text("on_update $now")
        await dialog.get_by_role("button", name="Change schema").click()
        await expect(page.get_by_text("Schema changed.")).to_be_visible()
        (table,) = await tables(app)
        assert table["schema"] == {
            "mail": {"type": "string", "normalize": ["trim", "lower"]},
            "edited": {"type": "date", "default": {"$now": True}, "on_update": {"$now": True}},
        }
        row = await app.row(table["id"], {"mail": " Ada@X "}, (await app.member())["access_token"])
        # A file changes the rows that have its keys.
        await page.goto(base)
        await page.get_by_role("button", name="Import").first.click()
        file = {"name": "c.csv", "mimeType": "text/csv", "buffer": b"mail,edited\nADA@x,\nbob@x,\n"}
        await dialog.locator("input[type=file]").set_input_files([file])
        await dialog.get_by_label("Rows that are there already").select_option("mail")
        assert await obstacles(page, axe) == []
        await pictures(page, "import-by-key")
        await dialog.get_by_role("button", name="Import rows").click()
        await expect(dialog.get_by_text("1 row created. 1 row changed.")).to_be_visible()
        # A key that could not be built says so, with the rows.
        failed = '{"state": "failed", "conflicts": 2, "pairs": ["' + f"{row['id']} {row['id']}" + '"]}'
        await run_sql(
            server,
            "update pilotis.tables set unique_keys = jsonb_build_array(unique_keys -> 0 || $2::text::jsonb) "
            "where table_id = $1::text::uuid",
            table["id"],
            failed,
        )
        await page.goto(f"{base}/indexes")
        await expect(page.get_by_text("not built: 2 rows are not unique")).to_be_visible()
        assert await obstacles(page, axe) == []
        await pictures(page, "key-failed")
        await page.get_by_role("link", name="Show").click()
        await expect(page.get_by_text("ada@x")).to_be_visible()
        await expect(page.get_by_text("bob@x")).to_have_count(0)


async def tables(app: App) -> list[dict[str, Any]]:
    async with app.client() as client:
        return (await client.get("/v1/public/tables")).json()["tables"]
