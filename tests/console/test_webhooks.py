"""Webhooks in the console: from a new one to a delivery that failed, is looked at, and is sent again."""

from playwright.async_api import expect

from tests.console.conftest import ARTIFACTS, Opening, obstacles, sign_in
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks import world

GONE = world.status(410, body=b"<script>alert(1)</script>")


async def test_a_webhook_is_made_tested_and_its_deliveries_are_sent_again(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    table = await app.table({"text": "string"}, title="notes", access_level="Public")
    async with Receiver.listening() as receiver, visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks?new=1")
        dialog = page.get_by_role("dialog", name="New webhook")
        await dialog.get_by_label("Address").fill(receiver.url("/hook"))
        await dialog.get_by_label("Name").fill("Fulfilment")
        await dialog.get_by_label("notes").check()
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="New webhook").click()
        secret = page.get_by_role("dialog", name="The webhook is ready")
        await expect(secret.locator(".secret code")).to_contain_text("whsec_")
        await secret.get_by_role("button", name="I have saved it").click()
        await expect(page.get_by_text("No deliveries")).to_be_visible()

        await page.get_by_role("button", name="Send a test").click()
        test = page.get_by_role("dialog", name="Send a test")
        await test.get_by_role("button", name="Send", exact=True).click()
        await expect(test.get_by_role("status")).to_contain_text("answered 200")
        await test.get_by_role("button", name="Cancel").click()

        receiver.answers["/hook"] = GONE
        await app.row(table, {"text": "‮<b>hostile</b>"})
        await until(lambda: len(receiver.received) >= 2)
        row = page.get_by_role("row").filter(has_text="row.created")
        reload = page.get_by_role("button", name="Reload")

        async def shown() -> bool:
            await reload.click()
            return await row.count() > 0

        await until(shown)
        await row.get_by_role("button").click()
        panel = page.get_by_role("complementary", name="Delivery")
        await expect(panel).to_contain_text("410")
        await expect(panel).to_contain_text("<script>alert(1)</script>")
        await expect(panel).to_contain_text("hostile")
        assert await obstacles(page, axe) == []
        await page.screenshot(path=ARTIFACTS / "console-webhook.png")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.screenshot(path=ARTIFACTS / "console-webhook-phone.png")


async def test_events_appear_while_one_looks(server: Server, app: App, visit: Opening, axe: str) -> None:
    table = await app.table({"text": "string"}, title="notes", access_level="Public")
    async with Receiver.listening() as receiver, visit("about:blank") as page:
        await world.create(app, receiver.url("/hook"))
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks/events")
        await expect(page.get_by_text("No events yet")).to_be_visible()
        await app.row(table, {"text": "seen at once\u202e"})
        event = page.get_by_role("row").filter(has_text="row.created")
        await expect(event).to_be_visible()
        await event.get_by_role("button", name="Details").click()
        details = page.get_by_role("region", name="Details")
        await expect(details).to_contain_text("seen at once⟨U+202E⟩")
        # What is read stays where it is: later events wait.
        await app.row(table, {"text": "later"})
        await expect(page.get_by_role("button", name="1 new", exact=True)).to_be_visible()
        await expect(event).to_have_count(1)
        assert await obstacles(page, axe) == []
        await page.get_by_role("button", name="1 new", exact=True).click()
        await expect(details).to_have_count(0)
        await expect(event).to_have_count(2)
        # Without the stream nothing is added.
        await page.get_by_label("Live").uncheck()
        await app.row(table, {"text": "unseen"})
        await expect(event).to_have_count(2)
        await page.get_by_label("Live").check()
        await expect(event).to_have_count(3)
