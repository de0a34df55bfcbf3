"""The reference with the values of the app that was open in the console, and its examples that can be run."""

import asyncio
import json
import re

from playwright.async_api import Locator, Page, Route, expect

from tests.console.conftest import Opening, obstacles, sign_in
from tests.support import App, Server


def example(page: Page, operation: str) -> Locator:
    return page.locator(f"#{operation} .shown")


def values(page: Page) -> Locator:
    return page.locator("#values")


async def prune(page: Page, *operations: str) -> None:
    """Keep these examples alone: the page has 60,000 elements, in all of which to look takes seconds."""
    await page.evaluate(
        "(kept) => document.querySelectorAll('article').forEach((one) => kept.includes(one.id) || one.remove())",
        operations,
    )


async def open_reference(page: Page, server: Server, app: App, *operations: str) -> None:
    await sign_in(page, server, f"/apps/{app.app_id}")
    await expect(page.get_by_role("region", name="First steps")).to_be_visible()
    await page.goto(f"{server.url}/docs")
    await prune(page, *operations)
    await expect(values(page).get_by_role("combobox", name="App", exact=True)).to_have_value(app.app_id)


async def test_examples_have_the_apps_key_and_show_the_real_answer(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    hostile = "<img src=x onerror=document.title='owned'>"
    other = await app.table({"text": "string"}, title=hostile)
    table = await app.table({"name": "string"}, title="boats")
    await app.row(table, {"name": hostile})
    async with visit("about:blank") as page:
        await open_reference(page, server, app, "listRows", "listPublicKeys")
        await values(page).get_by_role("combobox", name="Table", exact=True).select_option("boats")
        listing = example(page, "listRows")
        await expect(listing.locator("pre:visible").first).to_contain_text(f"PUBLIC_KEY='{app.public_key}'")
        await listing.get_by_role("button", name="Python").click()
        await expect(listing.locator("pre:visible").first).to_contain_text(f'TABLE_ID = "{table}"')
        await listing.get_by_role("button", name="JavaScript").click()
        await expect(listing.locator("pre:visible").first).to_contain_text(f'const PUBLIC_KEY = "{app.public_key}";')
        async with page.expect_request(re.compile(f"/v1/public/tables/{table}/data")) as sent:
            await listing.get_by_role("button", name="Run").click()
        # As a page of the app would ask: without the console's token.
        assert "authorization" not in await (await sent.value).all_headers()
        await expect(listing.get_by_role("status")).to_contain_text("Answer 200")
        await expect(listing.get_by_role("status")).to_contain_text(hostile)
        await values(page).get_by_role("combobox", name="Table", exact=True).select_option(other)
        await listing.get_by_role("button", name="Run").click()
        await expect(listing.get_by_role("status")).to_contain_text('"total_count": 0')
        # What the console's users may do is asked for with the console's session, whose token is not shown.
        keys = example(page, "listPublicKeys")
        await keys.get_by_role("button", name="Run").click()
        await expect(keys.get_by_role("status")).to_contain_text(app.public_key)
        assert "eyJ" not in await keys.inner_text()
        assert await page.title() == "API reference · Pilotis"
        assert await obstacles(page, axe) == []


async def test_what_changes_something_is_asked_for_and_nothing_is_deleted(
    server: Server, app: App, visit: Opening
) -> None:
    table = await app.table({"name": "string", "rating": "number"}, title="boats")
    pressed = asyncio.Event()

    async def slow(route: Route) -> None:
        if route.request.frame.url.endswith("/docs"):
            await pressed.wait()
        await route.continue_()

    async with visit("about:blank") as page:
        await page.route(re.compile(r"/keys/public\?limit=1$"), slow)
        await open_reference(page, server, app, "createRow", "getRow", "deleteRow")
        creating = example(page, "createRow")
        # The values of the app are not asked for, although they arrive after the button was pressed.
        await creating.get_by_role("button", name="Run").click()
        pressed.set()
        await expect(creating).to_contain_text("This sends a real POST")
        body = creating.get_by_label("Body")
        await expect(body).to_be_focused()
        await body.fill('{"data": {"name": "Heron"')
        await creating.get_by_role("button", name="Send POST").click()
        await expect(creating.get_by_role("status")).to_contain_text("The body is not JSON")
        await body.fill('{"data": {"name": "Heron"}}')
        await creating.get_by_role("button", name="Send POST").click()
        await expect(creating.get_by_role("status")).to_contain_text("Answer 201")
        # The status is there before the body.
        await expect(creating.get_by_role("status")).not_to_have_attribute("aria-busy", "true")
        row = json.loads(await creating.get_by_role("status").locator("code").inner_text())["id"]
        # A value that only one example needs is asked for beside it.
        reading = example(page, "getRow")
        await reading.get_by_role("button", name="Run").click()
        await reading.get_by_label("ROW_ID").fill(row)
        await reading.get_by_role("button", name="Send GET").click()
        await expect(reading.get_by_role("status")).to_contain_text("Heron")
        deleting = example(page, "deleteRow").get_by_role("button", name="Run")
        await expect(deleting).to_have_attribute("aria-disabled", "true")
        await deleting.click(force=True)
    async with app.client() as client:
        rows = (await client.get(f"/v1/public/tables/{table}/data")).json()["data"]
    assert [one["data"] for one in rows] == [{"name": "Heron"}]


async def test_without_the_console_values_are_typed(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string"}, title="boats")
    async with visit(f"{server.url}/docs") as page:
        await prune(page, "listRows", "signUpMember")
        await expect(values(page).get_by_role("link", name="Open your app in the console")).to_be_visible()
        listing = example(page, "listRows")
        await listing.get_by_role("button", name="Run").click()
        await listing.get_by_label("PUBLIC_KEY").fill(app.public_key)
        await listing.get_by_role("button", name="Send GET").click()
        await expect(listing).to_contain_text("TABLE_ID: enter a value first.")
        await listing.get_by_label("TABLE_ID").fill(table)
        await listing.get_by_role("button", name="Send GET").click()
        await expect(listing.get_by_role("status")).to_contain_text('"total_count": 0')
        # A member who signs up here acts in what follows.
        joining = example(page, "signUpMember")
        await joining.get_by_role("button", name="Run").click()
        await joining.get_by_role("button", name="Send POST").click()
        await expect(joining.get_by_role("status")).to_contain_text("Answer 201")
        await expect(values(page).get_by_label("ACCESS_TOKEN")).not_to_have_value("")
        await values(page).get_by_label("TABLE_ID").fill("not-a-table")
        await listing.get_by_role("button", name="Run").click()
        await expect(listing.get_by_role("status")).to_contain_text("Answer 4")
