"""Invitations of members in the console: one is mailed, sent again, and revoked."""

from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console import owner_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.world import call, mails, post, token_of
from tests.support import App, Server, assert_error


async def test_a_member_is_invited_again_and_no_more(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with owner_of(app).client(app) as console:
        team = (await console.post("/teams", json={"name": "Night owls"})).json()["team_id"]
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await page.get_by_role("button", name="Invite").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("E-mail address").fill("bob@example.com")
        await dialog.get_by_label("Roles").fill("No role")
        await expect(dialog.get_by_role("alert")).to_contain_text("is no role")
        await dialog.get_by_label("Roles").fill("author editor")
        await dialog.get_by_label("Team").select_option("Night owls")
        await dialog.get_by_label("Roles in the team").fill("owner")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-invite")
        await dialog.get_by_role("button", name="Invite").click()
        await expect(page.get_by_text("bob@example.com has been invited.")).to_be_visible()
        (made,) = (await call(app, "GET", "/members/invitations"))["data"]
        assert (made["roles"], made["team_id"], made["team_roles"]) == (["author", "editor"], team, ["owner"])
        (first,) = await mails(app, 1, purpose="invitation")
        await page.get_by_role("link", name="Invitations").click()
        await expect(page.get_by_role("cell", name="bob@example.com Open · expires in 7 days")).to_be_visible()
        assert await obstacles(page, axe) == []
        for theme in ("light", "dark"):
            await page.emulate_media(color_scheme=theme)
            await keep_picture(page, f"console-invitations-{theme}")
            await page.set_viewport_size({"width": 390, "height": 844})
            await keep_picture(page, f"console-invitations-{theme}-phone")
            await page.set_viewport_size({"width": 1280, "height": 860})
        await page.get_by_role("button", name="Send again: bob@example.com").click()
        second = (await mails(app, 2, purpose="invitation"))[0]
        old, new = ({"token": token_of(mail)} for mail in (first, second))
        assert_error(await post(app, "/invitations/read", old), 401, "TOKEN_EXPIRED")
        assert (await post(app, "/invitations/read", new)).json()["team"] == "Night owls"
        await page.get_by_role("button", name="Withdraw the invitation for bob@example.com").click()
        await expect(page.get_by_role("cell", name="bob@example.com Revoked")).to_be_visible()
        assert_error(await post(app, "/invitations/read", new), 401, "TOKEN_EXPIRED")
        await page.get_by_label("State").select_option("Open")
        await expect(page.get_by_text("No invitations")).to_be_visible()
