"""Branches in the console: created, seen by a coloured bar, compared with the app, merged."""

from playwright.async_api import expect

from tests.branches.previews import branch_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.test_administration import pictures
from tests.support import App, Server


async def test_a_branch_is_created_compared_and_merged(server: Server, app: App, visit: Opening, axe: str) -> None:
    await app.table({"name": "string"}, title="cafes")
    async with visit("about:blank", width=1200) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/branches")
        await page.get_by_role("button", name="New branch").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("pr-17")
        await dialog.get_by_label("rows", exact=True).check()
        await pictures(page, "branch-new")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Create branch").click()
        link = page.get_by_role("link", name="pr-17", exact=True)
        await expect(link).to_be_visible()
        await expect(page.get_by_role("cell", name="rows")).to_be_visible()
        await pictures(page, "branches")
        await link.click()
        bar = page.get_by_role("link", name="Branch pr-17")
        await expect(bar).to_be_visible()
        await pictures(page, "branch-bar")
        await bar.click()
        await expect(page.get_by_role("heading", name="Branches")).to_be_visible()


async def test_what_a_merge_would_do_is_shown_before(server: Server, app: App, visit: Opening, axe: str) -> None:
    old = await app.table({"name": "string"}, title="cafes")
    branch = await branch_of(app, "next")
    await branch.table({"stars": "number"}, title="reviews")
    async with branch.client() as client:
        assert (await client.delete(f"/v1/public/tables/{old}")).status_code == 200
    async with visit("about:blank", width=1200) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/branches")
        await page.get_by_role("button", name="Compare").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_text("reviews")).to_be_visible()
        await expect(dialog.get_by_text("dropped", exact=True)).to_be_visible()
        assert await obstacles(page, axe) == []
        await pictures(page, "branch-merge")
        await dialog.get_by_role("button", name="Merge").click()
        await expect(page.get_by_text("1 change applied.")).to_be_visible()
    async with app.client() as client:
        tables = (await client.get("/v1/public/tables")).json()["tables"]
    assert {table["title"] for table in tables} == {"cafes", "reviews"}
