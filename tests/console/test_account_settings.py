"""Account settings and a member's sign-in in the console."""

import re

from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.world import PASSWORD, call, post, verified
from tests.mail.world import sign_in as member_sign_in
from tests.oauth.test_logos import picture
from tests.support import App, Server, assert_error
from tests.waiting import until

NARROW = {"width": 390, "height": 844}


async def test_settings_are_saved_as_they_are_changed(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        await page.get_by_label("A code by mail").click()
        await page.get_by_label("Second factor", exact=True).select_option("Members may set one up")
        await page.get_by_label("Second factor", exact=True).select_option("Required")
        await page.get_by_label("A code by mail is enough").click()
        await expect(page.get_by_label("A code by mail is enough")).to_be_checked()
        await page.get_by_label("Second factor", exact=True).select_option("Members may set one up")
        await page.get_by_label("Refuse common passwords").click()
        ways = page.get_by_role("group", name="Ways to sign up")
        await ways.get_by_label("As a guest").click()
        await expect(ways.get_by_label("As a guest")).not_to_be_checked()
        await expect(ways.get_by_label("As a guest")).to_be_enabled()
        await page.get_by_label("When a member deletes its account").select_option("The member chooses")
        await page.get_by_label("Time to come back").select_option("14 days")

        async def is_saved() -> bool:
            found = await call(app, "GET", "/account-settings")
            chosen = found["second_factor"], found["on_member_delete"], found["password_check"]
            assert found["sign_up_methods"] == ["password", "email", "social"]
            accepts = "email_code" in found["second_factors"]
            is_set = found["methods"]["email_code"] and found["deletion_grace_days"] == 14
            return is_set and accepts and chosen == ("optional", "ask", True)

        await until(is_saved)
        await page.get_by_label("Passkeys").click()
        await page.get_by_role("button", name="Edit", exact=True).click()
        dialog = page.get_by_role("dialog", name="Domain of passkeys")
        await dialog.get_by_label("Domain of passkeys").fill("example.com")
        await dialog.get_by_label("Pages that may ask").fill("https://app.example.com")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("code", has_text="example.com")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-accounts", full_page=True)
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-accounts-phone", full_page=True)
    assert (await call(app, "GET", "/account-settings"))["allowed_origins"] == ["https://app.example.com"]


async def test_an_owner_chooses_what_tells_people_from_robots(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        group = page.get_by_role("group", name="Only with a solved challenge")
        await group.get_by_label("A forgotten password").click()
        await expect(group.get_by_label("A forgotten password")).to_be_checked()
        await page.get_by_role("button", name="Edit challenges").click()
        dialog = page.get_by_role("dialog", name="Robots")
        await dialog.get_by_label("Challenges by").select_option("hCaptcha")
        await dialog.get_by_label("Site key").fill("key-of-pages")
        await dialog.get_by_label("Secret").fill("told to nobody")
        await dialog.get_by_label("Let everybody pass").click()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-challenge")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_role("alert")).to_be_visible()
        await dialog.get_by_label("Secret").fill("told-to-nobody")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("code", has_text="key-of-pages")).to_be_visible()
        # The secret stays where only another field is changed.
        await page.get_by_role("button", name="Edit challenges").click()
        await dialog.get_by_label("Site key").fill("other-key")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("code", has_text="other-key")).to_be_visible()
    found = await call(app, "GET", "/account-settings")
    assert found["challenge"] == {
        "provider": "hcaptcha",
        "site_key": "other-key",
        "has_secret": True,
        "open_when_unreachable": True,
    }
    assert found["challenge_on"] == ["reset"]


async def test_links_of_mails_lead_to_pages_that_are_listed(server: Server, app: App, visit: Opening, axe: str) -> None:
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": ["https://club.example/in"]})
    async with visit("about:blank", expected="400") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        await page.get_by_label("Language", exact=True).first.select_option("Japanese")
        await page.get_by_label("When a member deletes its account").select_option("Stay, without their creator")
        await page.get_by_role("button", name="Edit links").click()
        dialog = page.get_by_role("dialog", name="Links of mails")
        await dialog.get_by_label("A new password").fill("https://evil.example/reset")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-urls")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("login_redirect_uris")
        await dialog.get_by_label("A new password").fill("https://club.example/reset")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("code", has_text="https://club.example/reset")).to_be_visible()
    found = await call(app, "GET", "/account-settings")
    assert (found["default_language"], found["on_member_delete"]) == ("ja", "anonymise")
    assert found["urls"] == {"verify": None, "reset": "https://club.example/reset", "sign_in": None, "invite": None}


async def test_a_member_is_banned_and_the_ban_is_lifted(server: Server, app: App, visit: Opening, axe: str) -> None:
    ada = await verified(app, "ada", "ada@example.com")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members?member={ada['member_id']}")
        panel = page.get_by_role("complementary", name="Member")
        await expect(panel).to_contain_text("ada@example.com")
        await panel.get_by_role("button", name="Ban", exact=True).click()
        dialog = page.get_by_role("dialog", name="Ban this member?")
        await dialog.get_by_label("Reason").fill("Spam")
        await dialog.get_by_role("button", name="Ban").click()
        await expect(panel).to_contain_text("Spam")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-member-banned")
        assert_error(await member_sign_in(app, "ada", PASSWORD), 403, "MEMBER_BANNED")
        await panel.get_by_role("button", name="Lift").click()
        await expect(panel).to_contain_text("Not banned")
    answer = await post(app, "/signin", {"login_id": "ada", "password": PASSWORD})
    assert answer.status_code == 200


async def test_a_member_that_has_deleted_itself_is_kept(server: Server, app: App, visit: Opening, axe: str) -> None:
    await call(app, "PATCH", "/account-settings", json={"deletion_grace_days": 14})
    ada = await verified(app, "ada", "ada@example.com")
    async with app.client(ada["access_token"]) as client:
        left = await client.request("DELETE", "/v1/public/app-members/me", json={"password": PASSWORD})
        assert left.status_code == 200, left.text
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members?member={ada['member_id']}")
        panel = page.get_by_role("complementary", name="Member")
        await expect(panel).to_contain_text("Deletes itself")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-member-leaving")
        await panel.get_by_label("Active", exact=True).click()
        await expect(panel).not_to_contain_text("Deletes itself")
    assert (await member_sign_in(app, "ada", PASSWORD)).status_code == 200


async def test_members_are_imported_from_a_file(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/members")
        await page.get_by_role("button", name="Import", exact=True).click()
        dialog = page.get_by_role("dialog", name="Import members")
        lines = b'{"login_id": "ada"}\n{"login_id": "bob"}\n{"login_id": "ada"}\n'
        file = {"name": "members.jsonl", "mimeType": "text/plain", "buffer": lines}
        await dialog.locator("input[type=file]").set_input_files([file])
        await expect(dialog.get_by_role("status")).to_contain_text("2 members imported.")
        await expect(dialog).to_contain_text("Line 3")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-import")


async def test_rows_are_made_with_members_and_the_team_says_what_they_take(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    await app.table(
        {"member": {"type": "string"}, "username": {"type": "string", "required": True, "unique": True}},
        title="profiles",
    )
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        await page.get_by_role("button", name="Edit the rows made with a member").click()
        dialog = page.get_by_role("dialog", name="Rows made with a member")
        proposed = await dialog.get_by_label("JSON").input_value()
        await dialog.get_by_label("JSON").fill(proposed.replace("profiles", "profile"))
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("no table profile")
        await dialog.get_by_label("JSON").fill(proposed)
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.locator("code", has_text="$input username")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-member-rows", full_page=True)
        await page.goto(f"{server.url}/console/apps/{app.app_id}/members")
        await page.get_by_role("button", name="New member").first.click()
        dialog = page.get_by_role("dialog", name="New member")
        await dialog.get_by_label("Login").fill("ada")
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("username is required")
        await dialog.get_by_label("User name").fill("ada")
        await keep_picture(page, "console-new-member-profile")
        await dialog.get_by_role("button", name="Create").click()
        await expect(dialog).to_have_count(0)
    assert (await call(app, "GET", "/members"))["total_count"] == 1


async def test_the_account_pages_are_designed_beside_a_preview(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/sign-in")
        preview = page.frame_locator("iframe[title='Preview of the account pages']")
        await expect(preview.get_by_role("heading", name="Sign in to")).to_be_visible()
        assert await page.evaluate("document.activeElement.tagName") != "IFRAME", "the keys of the console go nowhere"
        await page.get_by_label("Colour of buttons and links").fill("#ffd400")
        await page.get_by_label("Colour behind the form").fill("#c9b6f2")
        await page.get_by_label("Roundness of corners").fill("14")
        await page.get_by_label("Typeface").select_option("With serifs")
        await page.get_by_label("Texts in").select_option("German")
        await page.get_by_label("Footer").fill("Muster GmbH")
        await page.get_by_label("Title of the sign-in").fill("Willkommen bei {app}")
        await expect(preview.get_by_role("heading", name=re.compile("Willkommen bei app"))).to_be_visible()
        await expect(preview.get_by_text("Muster GmbH")).to_be_visible()
        await page.get_by_label("Title of the sign-in").fill("")
        await expect(preview.get_by_role("heading", name=re.compile("Bei app .* anmelden"))).to_be_visible()
        await page.get_by_label("Title of the sign-in").fill("Willkommen bei {app}")
        await page.get_by_role("button", name="Sign-up", exact=True).click()
        await page.get_by_label("Text of the sign-up").fill("<b>Kostenlos</b>")
        await expect(preview.get_by_text("<b>Kostenlos</b>")).to_be_visible()
        await page.get_by_label("Text of the sign-up").fill("")
        await page.get_by_role("button", name="Sign-in", exact=True).click()
        # What is drawn is not saved, and what cannot be read is not saved either.
        ground = preview.locator("body")
        await expect(ground).to_have_css("background-color", "rgb(201, 182, 242)")
        assert (await call(app, "GET", "/account-settings"))["theme"]["background"] is None
        section = page.locator("section", has=page.get_by_role("heading", name="Account pages"))
        await section.get_by_role("button", name="Save", exact=True).click()
        await expect(section.get_by_role("alert")).to_contain_text("1.3:1")
        await section.get_by_role("button", name="Use #826c00").click()
        await section.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_text("Account pages saved.")).to_be_visible()
        await expect(preview.get_by_role("heading", name="Willkommen bei")).to_be_visible()
        logo = {"name": "logo.png", "mimeType": "image/png", "buffer": picture(size=(300, 90))}
        await section.locator("input[type=file]").set_input_files([logo])
        await expect(preview.locator("img.logo")).to_be_visible()
        for theme in ("light", "dark"):
            await page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
            await section.get_by_role("button", name=theme.title(), exact=True).click()
            await expect(ground).to_have_css(
                "background-color", "rgb(201, 182, 242)" if theme == "light" else re.compile(r"rgb\(\d\d, \d\d, ")
            )
            await page.set_viewport_size({"width": 1200, "height": 900})
            assert await obstacles(page, axe) == []
            await section.scroll_into_view_if_needed()
            await keep_picture(page, f"console-theme-{theme}", full_page=True)
            await page.set_viewport_size({"width": 375, "height": 812})
            await keep_picture(page, f"console-theme-phone-{theme}", full_page=True)
        await section.get_by_role("button", name="Delete the logo").click()
        await expect(preview.locator("img.logo")).to_have_count(0)
    found = await call(app, "GET", "/account-settings")
    assert found["logo_url"] is None
    assert found["theme"] == {
        "accent": "#826c00",
        "background": "#c9b6f2",
        "radius": 14,
        "font": "serif",
        "mode": "auto",
        "texts": {"de": {"footer": "Muster GmbH", "sign_in_title": "Willkommen bei {app}"}},
    }
