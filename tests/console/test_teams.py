"""Teams in the console: one is created, filled, and found at its member."""

from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.world import MEMBERS, sign_up
from tests.support import App, Server


async def test_a_team_is_created_filled_and_found_at_its_member(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    ada = await sign_up(app, "ada")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await page.get_by_role("link", name="Teams").click()
        await page.get_by_label("Members create teams").check()
        await page.get_by_role("button", name="New team").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("Night owls")
        await dialog.get_by_label("Slug").fill("No slug")
        await expect(dialog.get_by_role("alert")).to_contain_text("3 to 40")
        await dialog.get_by_label("Slug").fill("night-owls")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New team").click()
        panel = page.get_by_role("complementary", name="Team")
        await panel.get_by_role("button", name="Add a member").click()
        await dialog.get_by_role("button", name="ada").click()
        await dialog.get_by_label("Roles").fill("owner editor")
        await dialog.get_by_role("button", name="Save").click()
        await expect(panel.get_by_text("editor", exact=True)).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-team")
        await page.set_viewport_size({"width": 390, "height": 844})
        await keep_picture(page, "console-team-phone")
        await page.set_viewport_size({"width": 1280, "height": 860})
        async with app.client(ada["access_token"]) as client:
            (own,) = (await client.get(f"{MEMBERS}/teams")).json()["teams"]
            assert own["roles"] == ["owner", "editor"]
            assert (await client.post(f"{MEMBERS}/teams", json={"name": "Mine"})).status_code == 201
        await panel.get_by_role("button", name="Remove from the team").click()
        await dialog.get_by_role("button", name="Remove", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("A team keeps at least one owner.")
        await dialog.get_by_role("button", name="Cancel").click()
        await panel.get_by_role("link", name="ada").click()
        member = page.get_by_role("complementary", name="Member")
        await member.get_by_role("link", name="Night owls").click()
        await panel.get_by_role("button", name="Delete team").click()
        await dialog.get_by_label("Night owls").fill("Night owls")
        await dialog.get_by_role("button", name="Delete team").click()
        await expect(page.get_by_text("Team deleted.")).to_be_visible()
        await expect(page.get_by_text("1 team", exact=True)).to_be_visible()
