"""The aggregation playground: the documents after each stage, and what is wrong with one."""

from playwright.async_api import Page, expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.support import App, Server

SALES = [("tea", 4.5, 2), ("cake", 6, 3), ("tea", 4.5, 1)]


async def add_stage(page: Page, name: str, text: str) -> None:
    await page.get_by_role("button", name="Add stage").click()
    await page.get_by_role("menuitem", name=name).click()
    await page.get_by_label(name, exact=True).fill(text)


async def test_stages_show_their_documents_and_what_is_wrong(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table = await app.table({"item": "string", "price": "number", "quantity": "int"}, title="sales")
    for item, price, quantity in SALES:
        await app.row(table, {"item": item, "price": price, "quantity": quantity})
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/aggregate")
        await expect(page.get_by_text("3 documents")).to_be_visible()
        await add_stage(page, "$match", '{"quantity": {"$lt": 3}}')
        first = page.get_by_role("listitem", name="Stage 1")
        await expect(first.get_by_text("2 documents")).to_be_visible()
        await add_stage(page, "$group", '{"_id": "$item", "revenue": {"$sum": {"$multiply": ["$price", "$quantity"]}}}')
        second = page.get_by_role("listitem", name="Stage 2")
        await expect(second.get_by_role("row").filter(has_text="tea")).to_contain_text("13.5")
        await expect(second.get_by_text("1 document", exact=True)).to_be_visible()
        assert await obstacles(page, axe) == []
        # Without the first stage the cake counts as well.
        await first.get_by_role("checkbox", name="Use stage 1").uncheck()
        await expect(second.get_by_role("row").filter(has_text="cake")).to_contain_text("18")
        request = page.get_by_role("region", name="Request")
        await expect(request).not_to_contain_text("$match")
        await page.get_by_label("$group", exact=True).fill('{"_id": ')
        await expect(second.get_by_role("alert")).to_be_visible()
        await page.get_by_label("$group", exact=True).fill('{"_id": {"$nothing": 1}}')
        await expect(second.get_by_role("alert")).to_contain_text("$nothing")
        assert await obstacles(page, axe) == []
        # What is written stays while one looks at the rows.
        await page.get_by_role("navigation", name="sales").get_by_role("link", name="Rows").click()
        await page.get_by_role("link", name="Aggregate").click()
        await expect(page.get_by_label("$group", exact=True)).to_have_value('{"_id": {"$nothing": 1}}')
        await keep_picture(page, "console-aggregate")


async def test_numbers_keep_every_digit(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"item": "string", "serial": "int", "price": "number"}, title="sales")
    large, exact = "9007199254740993", "0.12345678901234567891"
    async with app.client() as client:
        for serial, price in ((large, exact), ("9223372036854775807", "20000000000000000000.01")):
            row = f'{{"data": {{"item": "tea", "serial": {serial}, "price": {price}}}}}'
            answer = await client.post(
                f"/v1/public/tables/{table}/data", content=row, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 201, answer.text
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}/aggregate")
        await expect(page.get_by_text("2 documents")).to_be_visible()
        for text in (large, exact, "9223372036854775807", "20000000000000000000.01"):
            await expect(page.get_by_role("cell", name=text, exact=True)).to_be_visible()
        # A condition with as many digits finds its row, and its neighbour, which is the same in 64-bit floats, none.
        await add_stage(page, "$match", f'{{"serial": {large}}}')
        first = page.get_by_role("listitem", name="Stage 1")
        await expect(first.get_by_text("1 document", exact=True)).to_be_visible()
        await expect(page.get_by_role("region", name="Request")).to_contain_text(f'"serial": {large}')
        await page.get_by_label("$match", exact=True).fill('{"serial": 9007199254740992}')
        await expect(first.get_by_text("No documents")).to_be_visible()
        await first.get_by_role("checkbox", name="Use stage 1").uncheck()
        group = '{"_id": null, "sum": {"$sum": "$price"}, "most": {"$max": "$serial"}, "all": {"$push": "$serial"}}'
        await add_stage(page, "$group", group)
        second = page.get_by_role("listitem", name="Stage 2")
        for text in ("20000000000000000000.13345678901234567891", "9223372036854775807"):
            await expect(second.get_by_role("cell", name=text, exact=True)).to_be_visible()
            await expect(second.get_by_role("cell", name=text, exact=True)).to_have_class("r")
        await expect(second.get_by_role("row").filter(has_text=large)).to_be_visible()
