"""Saved views and the diagram of the tables in the console."""

import json
from typing import Any

from playwright.async_api import Page, expect

from tests.chromium import keep_picture, looks
from tests.console import user_with
from tests.console.conftest import Opening, obstacles, replace_code, sign_in
from tests.console.in_use import NARROW
from tests.support import App, Server, plain_client
from tests.views.support import save

TOTALS = [
    {"$match": {"price": {"$gte": {"$param": "least"}}}},
    {"$group": {"_id": "$item", "sum": {"$sum": "$price"}}},
    {"$sort": {"sum": -1}},
]


async def sales(app: App) -> str:
    table = await app.table({"item": "string", "price": "number"}, title="sales")
    for item, price in (("tea", 4.5), ("cake", 6), ("tea", 1)):
        await app.row(table, {"item": item, "price": price})
    return table


async def test_a_view_is_written_saved_tried_and_deleted(server: Server, app: App, visit: Opening, axe: str) -> None:
    table = await sales(app)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables")
        await page.get_by_role("navigation", name="Tables").get_by_role("link", name="Views").click()
        await expect(page.get_by_role("heading", name="No views yet")).to_be_visible()
        assert await obstacles(page, axe) == []
        await page.get_by_role("button", name="New view").click()
        await page.get_by_label("Name", exact=True).fill("totals")
        await page.get_by_label("Reads rows as").select_option("app")
        await page.get_by_role("button", name="Add parameter").click()
        await page.get_by_label("Name of parameter 1").fill("least")
        await page.get_by_label("Type of parameter 1").select_option("number")
        default = page.get_by_label("Default of parameter 1")
        await default.fill("much")
        await expect(default).to_have_attribute("aria-invalid", "true")
        await default.fill("0.12345678901234567891")
        create = page.get_by_role("button", name="New view")
        editor = page.locator(".cm-content")
        await expect(editor).to_have_attribute("aria-label", "Pipeline")
        await replace_code(editor, '[{"$sort": {"prize": 1}}]')
        await create.click()
        # What the server says is wrong stands above, with its place.
        await expect(page.get_by_role("alert")).to_contain_text("pipeline[0].$sort.prize")
        assert await obstacles(page, axe) == []
        await replace_code(editor, "[{")
        await expect(create).to_have_attribute("aria-disabled", "true")
        await replace_code(editor, json.dumps(TOTALS))
        await create.click()
        await expect(page.get_by_role("heading", name="totals", level=1)).to_be_visible()
        await expect(default).to_have_value("0.12345678901234567891")
        call = page.get_by_role("complementary", name="Call")
        await call.get_by_label("least").fill("2")
        await expect(call.get_by_text(f"{server.url}/v1/public/views/totals?least=2")).to_be_visible()
        await call.get_by_role("button", name="Run").click()
        await expect(call.get_by_role("status")).to_contain_text('"sum": 4.5')
        await expect(call.get_by_role("status")).to_contain_text("200")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-view")
        await page.set_viewport_size(NARROW)
        assert await obstacles(page, axe) == []
        assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await keep_picture(page, "console-view-phone", full_page=True)
        await page.set_viewport_size({"width": 1280, "height": 860})
        # A change has to be saved before it can be tried, and stays while one looks elsewhere.
        await page.get_by_label("Who may call it").select_option("nobody")
        await expect(call.get_by_role("button", name="Run")).to_have_attribute("aria-disabled", "true")
        await page.get_by_role("navigation", name="Sections").get_by_role("link", name="Members").click()
        await page.go_back()
        await expect(page.get_by_label("Who may call it")).to_have_value("nobody")
        await page.get_by_role("button", name="Save").click()
        await call.get_by_role("button", name="Run").click()
        await expect(call.get_by_role("status")).to_contain_text("RULE_DENIED")
        # The API tab of the table has the call.
        await page.goto(f"{server.url}/console/apps/{app.app_id}/tables/{table}/api")
        await expect(page.get_by_role("heading", name="Call the view totals")).to_be_visible()
        await page.goto(f"{server.url}/console/apps/{app.app_id}/views")
        await page.get_by_role("link", name="totals").click()
        await page.get_by_role("button", name="Delete view").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete view").click()
        await expect(page.get_by_role("heading", name="No views yet")).to_be_visible()


async def test_a_viewer_looks_at_views_and_changes_none(server: Server, app: App, visit: Opening, axe: str) -> None:
    table = await sales(app)
    params = {"least": {"type": "number", "default": 9007199254740993}}
    rule = {"$member": {"roles": {"$arrayContains": "staff"}}}
    view = await save(
        app, name="totals", table_id=table, pipeline=TOTALS, params=params, run_as="app", read=rule, cache_seconds=90
    )
    viewer = await user_with(app, "viewer")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/views", viewer.email)
        row = page.get_by_role("row").filter(has_text="totals")
        await expect(row).to_contain_text("sales")
        await expect(row).to_contain_text("the app")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-views")
        await expect(page.get_by_role("button", name="New view")).to_have_attribute("aria-disabled", "true")
        await row.get_by_role("link").click()
        await expect(page.get_by_label("Default of parameter 1")).to_have_value("9007199254740993")
        await expect(page.get_by_label("Rule", exact=True)).to_have_value(json.dumps(rule, indent=2))
        await expect(page.get_by_role("button", name="Save")).to_have_attribute("aria-disabled", "true")
        assert await obstacles(page, axe) == []
    assert view["params"] == params


async def shop(app: App) -> dict[str, str]:
    """Tables of a shop that refer to each other, one to itself, and one that stands alone."""
    ids: dict[str, str] = {}

    async def table(title: str, *refers: str, then: str = "restrict", **columns: Any) -> None:
        schema: dict[str, Any] = {"name": "string", **columns}
        for name in refers:
            schema[f"{name}_id"] = {"type": "uuid", "references": {"table": name, "on_delete": then}}
        ids[title] = await app.table(schema, title=title)

    await table("customers", email="string")
    await table("products", price="number", **{f"option_{n}": "string" for n in range(10)})
    await table("orders", "customers", placed="date")
    await table("order_items", "orders", "products", then="cascade", count="int")
    await table("reviews", "products", "customers", then="set_null", stars="int")
    await table("categories", "categories", then="set_null")
    await table("settings", value="object")
    return ids


async def test_the_diagram_shows_what_refers_to_what(server: Server, app: App, visit: Opening, axe: str) -> None:
    ids = await shop(app)
    for theme, _ in looks(("dark", "en")):
        async with visit("about:blank", color_scheme=theme) as page:
            await sign_in(page, server, f"/apps/{app.app_id}/diagram")
            plan = page.get_by_role("group", name="Tables and their references")
            cards = plan.get_by_role("article")
            await expect(cards).to_have_count(len(ids))
            await expect(plan.locator("path.edge")).to_have_count(6)
            item = cards.filter(has=page.get_by_role("link", name="order_items", exact=True))
            await expect(item.get_by_text("refers to orders; on deletion: delete along")).to_be_attached()
            await expect(cards.filter(has_text="option_0").first).to_contain_text("4 more")
            assert await obstacles(page, axe) == []
            assert await overlaps(page) == []
            # What refers stands to the right of what it refers to.
            left = {title: (await box(page, ids[title]))["x"] for title in ids}
            assert left["order_items"] > left["orders"] > left["customers"]
            # By the keyboard, in the direction of the arrow.
            await plan.get_by_role("link", name="customers").focus()
            await expect(plan.locator("g.on")).to_have_count(2)
            assert await obstacles(page, axe) == []
            await page.keyboard.press("ArrowRight")
            assert await page.evaluate("document.activeElement.dataset.table") in {ids["orders"], ids["reviews"]}
            await page.keyboard.press("ArrowLeft")
            await keep_picture(page, f"console-diagram-{theme}")
            await page.get_by_role("button", name="Smaller").click()
            assert (await box(page, ids["orders"]))["width"] < 220
            await page.set_viewport_size(NARROW)
            await page.reload()
            await expect(cards).to_have_count(len(ids))
            assert await obstacles(page, axe) == []
            assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
            await keep_picture(page, f"console-diagram-{theme}-phone")
            await plan.get_by_role("link", name="customers").focus()
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(f"{server.url}/console/apps/{app.app_id}/tables/{ids['customers']}/schema")


async def test_sixty_tables_are_laid_out(server: Server, app: App, visit: Opening) -> None:
    async with plain_client(server.url, **{"X-Public-Key": app.public_key}) as client:
        for number in range(60):
            schema: dict[str, Any] = {f"column_{n}": "string" for n in range(number % 5)}
            if number % 3:
                schema["up"] = {"type": "uuid", "references": {"table": f"table {number // 3:02}"}}
            if number % 7 == 1:
                schema["aside"] = {"type": "uuid", "references": {"table": f"table {number - 1:02}"}}
            body = {"title": f"table {number:02}", "schema": schema, "access_level": "Public"}
            made = await client.post("/v1/public/tables", json=body)
            assert made.status_code == 201, made.text
    async with visit("about:blank", width=1280) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/diagram")
        await expect(page.get_by_role("article")).to_have_count(60)
        assert await overlaps(page) == []
        await keep_picture(page, "console-diagram-60")


async def box(page: Page, table: str) -> dict[str, float]:
    found = await page.locator(f"article:has([data-table='{table}'])").bounding_box()
    assert found
    return dict(found)  # type: ignore[call-overload]


async def overlaps(page: Page) -> list[str]:
    """The pairs of tables that stand one over the other."""
    return list(
        await page.evaluate("""() => {
            const boxes = [...document.querySelectorAll("article.entity")].map((one) =>
                [one.querySelector("a").textContent, one.getBoundingClientRect()]);
            return boxes.flatMap(([name, a], at) => boxes.slice(at + 1)
                .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
                .map(([other]) => `${name} over ${other}`));
        }""")
    )
