"""Mail in the console: what is kept here is read and used, texts are changed, and sending is set up."""

from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.smtp_server import PASSWORD, USER, SmtpServer
from tests.mail.world import account, call, mails, sign_up
from tests.support import App, Server

NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 860}


async def test_the_mailbox_shows_a_mail_as_its_recipient_sees_it(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    member = await sign_up(app, "ada", "ada@example.com", language="en")
    await mails(app, 1)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/mail")
        await expect(page.get_by_role("note")).to_contain_text("No mail leaves this server")
        await page.get_by_role("button", name="ada@example.com").click()
        panel = page.get_by_role("complementary", name="Mail")
        letter = panel.get_by_role("article")
        code = await letter.locator(".bigcode").inner_text()
        assert len(code) == 6
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-mail")
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-mail-phone")
        await page.set_viewport_size(WIDE)
        # The button leads where the mail's does: the page takes the password that was chosen.
        async with page.context.expect_page() as opened:
            await letter.get_by_role("link", name="Confirm address").click()
        confirm = await opened.value
        await confirm.get_by_label("Password").fill("correct horse")
        await confirm.get_by_role("button", name="Confirm address").click()
        await expect(confirm.get_by_role("status")).to_contain_text("Your address is confirmed.")
        await page.get_by_label("Purpose").select_option("reset_password")
        await expect(page.get_by_text("No matching mails")).to_be_visible()
    assert (await account(app, member["access_token"]))["email"] == "ada@example.com"


async def test_a_mail_that_was_not_delivered_is_sent_again(server: Server, app: App, visit: Opening) -> None:
    told = {"RCPT": b"550 5.7.1 not <b>now</b>\r\n"}
    async with SmtpServer(reply=lambda command: told.get(command)).listening() as smtp, visit("about:blank") as page:
        await call(app, "PUT", "/mail-settings", json={"smtp_url": smtp.url(), "mail_from": "cafes@example.com"})
        await sign_up(app, "ada", "ada@example.com")
        await mails(app, 1, state="bounced")
        await sign_in(page, server, f"/apps/{app.app_id}/mail?state=bounced")
        await page.get_by_role("button", name="ada@example.com").click()
        panel = page.get_by_role("complementary", name="Mail")
        await expect(panel).to_contain_text("550 5.7.1 not <b>now</b>")
        told.clear()
        await panel.get_by_role("button", name="Send again").click()
        await expect(page.get_by_text("Queued again.")).to_be_visible()
        await mails(app, 1, state="sent")


async def test_sending_is_set_up_and_tried(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with SmtpServer().listening() as smtp, visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/mail/settings")
        await page.get_by_role("button", name="Use an SMTP server of the app").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Host").fill("127.0.0.1")
        await dialog.get_by_label("Port").fill(str(smtp.port))
        await dialog.get_by_label("User name").fill(USER)
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_label("Sender").fill("a@b@c")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("mail_from")
        await dialog.get_by_label("Sender").fill("Cafes <cafes@example.com>")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Save").click()
        await page.get_by_role("button", name="Send a test to me").click()
        await expect(page.get_by_text("has taken the mail to first@example.com")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-mail-settings")
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-mail-settings-phone")
        await page.set_viewport_size(WIDE)
        await page.get_by_role("button", name="Remove the SMTP server").click()
        await page.get_by_role("dialog").get_by_role("button", name="Remove the SMTP server").click()
        await expect(page.get_by_role("note")).to_contain_text("No mail leaves this server")
        await page.get_by_role("link", name="Suppressions").click()
        await page.get_by_role("button", name="Suppress an address").click()
        await page.get_by_role("dialog").get_by_label("Email").fill("gone@example.com")
        await page.get_by_role("dialog").get_by_role("button", name="Suppress an address").click()
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_text("Every address gets mail")).to_be_visible()


async def test_a_text_is_written_seen_and_the_shipped_one_restored(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit("about:blank", color_scheme="dark") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/mail/templates?purpose=reset_password")
        preview = page.get_by_role("region", name="Preview")
        await expect(preview.get_by_role("article")).to_contain_text("Choose a new password")
        text = page.get_by_label("Paragraphs")
        await text.fill("No link.")
        await expect(page.get_by_role("alert")).to_contain_text("{{link}}")
        await text.fill("Come back to {{app.name}}!\n\n{{link}}")
        await page.get_by_label("Label of the link").fill("Back")
        await expect(preview.get_by_role("article")).to_contain_text("Come back to")
        await expect(preview.locator(".sample")).to_have_text("Back")
        assert await obstacles(page, axe) == []
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_label("Language")).to_contain_text("English · own text")
        await keep_picture(page, "console-mail-templates-dark")
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-mail-templates-dark-phone")
        await page.set_viewport_size(WIDE)
        await page.get_by_role("button", name="Restore the shipped text").click()
        await page.get_by_role("dialog").get_by_role("button", name="Restore the shipped text").click()
        await expect(preview.get_by_role("article")).to_contain_text("Choose a new password")
        await page.get_by_label("Language").select_option("ja")
        await expect(preview.get_by_role("article")).to_contain_text("パスワード")
