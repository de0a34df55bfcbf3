"""An app's plan in the console: what it has used of each quota, what follows past one, and the limits of the plan."""

from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.branches.previews import branch_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.test_administration import pictures
from tests.plans.test_plans import run, set_plan
from tests.support import App, Server

PLAN = """
[limits]
tables = 50

[quotas]
requests = {limit = 1000000, hard = false}
row_bytes = 1000
file_bytes = 5000000000
function_seconds = 3600
mails = {limit = 0, hard = false}
"""


def bar(page: Page, name: str) -> Locator:
    """The quota of a name."""
    return page.get_by_role("listitem").filter(has=page.get_by_role("meter", name=name, exact=True))


async def fits(page: Page) -> bool:
    """Whether nothing is wider than a phone."""
    await page.set_viewport_size({"width": 375, "height": 800})
    fitting: bool = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.set_viewport_size({"width": 1200, "height": 900})
    return fitting


async def test_quotas_stand_as_bars_with_what_follows(
    server: Server, app: App, visit: Opening, axe: str, tmp_path: Path
) -> None:
    await app.table({"name": "string"}, title="cafes")
    set_plan(app, tmp_path, PLAN, "shown")
    async with visit("about:blank", width=1200) as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/plan")
        await expect(bar(page, "Tables and indexes")).to_contain_text("Used up: requests that store something are")
        await expect(bar(page, "Tables and indexes")).to_contain_text("until enough is deleted")
        await expect(page.get_by_role("link", name="Settings")).to_contain_text("a quota is used up")
        await expect(bar(page, "Requests")).to_contain_text("of 1,000,000")
        await expect(bar(page, "Requests")).to_contain_text("nothing stops. Begins again on")
        await expect(bar(page, "Files")).to_contain_text("0 B of 5 GB")
        await expect(bar(page, "Files")).not_to_contain_text("Begins again")
        await expect(bar(page, "Time of functions")).to_contain_text("0 s of 3,600 s")
        await expect(bar(page, "Mails")).not_to_contain_text("%")
        await expect(bar(page, "Mails")).to_contain_text("Exceeded: owners were told")
        row = page.get_by_role("row").filter(has_text="tables")
        await expect(row.get_by_role("cell", name="50", exact=True)).to_have_count(2)
        assert await obstacles(page, axe) == []
        assert await fits(page)
        await pictures(page, "plan")

        await page.get_by_role("link", name="All limits").click()
        await expect(page.get_by_role("row").filter(has_text="tables").get_by_text("plan: 50")).to_be_visible()

        await page.goto(f"{server.url}/console/apps/{app.app_id}")
        await expect(bar(page, "Tables and indexes")).to_contain_text("Used up")
        await expect(bar(page, "Requests")).not_to_contain_text("nothing stops")
        assert await obstacles(page, axe) == []
        assert await fits(page)
        await pictures(page, "plan-overview")
        await page.get_by_role("link", name="Details").click()
        await expect(page.get_by_role("heading", name="Limits of the plan")).to_be_visible()


@pytest.mark.parametrize("of", ["no plan", "no quotas", "a branch"])
async def test_what_stands_there_without_bars_of_its_own(
    server: Server, app: App, visit: Opening, tmp_path: Path, of: str
) -> None:
    shown = app
    if of == "a branch":
        shown = await branch_of(app)
        set_plan(app, tmp_path, "[quotas]\nmails = 5\n", "of-parent")
    elif of == "no quotas":
        set_plan(app, tmp_path, "[limits]\nviews = 3\n", "limits-only")
    else:
        run(app, "app", "plan", app.app_id, "none")
    async with visit("about:blank", width=1200) as page:
        await sign_in(page, server, f"/apps/{shown.app_id}/settings/plan")
        if of == "a branch":
            await expect(page.get_by_text("A branch shares the plan of its app.")).to_be_visible()
            await expect(bar(page, "Mails")).to_contain_text("0 of 5")
        elif of == "no quotas":
            await expect(page.get_by_text("The plan has no quotas.")).to_be_visible()
            await expect(page.get_by_role("row").filter(has_text="views")).to_contain_text("3")
        else:
            await expect(page.get_by_text("This app has no plan")).to_be_visible()
            await expect(page.get_by_text(f"pilotis app plan {app.app_id} free")).to_be_visible()
