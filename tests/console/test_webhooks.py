"""Webhooks in the console: from a new one to a delivery that failed, is looked at, and is sent again."""

import json

from playwright.async_api import expect

from tests.acceptance import test_dead_jobs
from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.mail.world import call
from tests.receiver import Receiver
from tests.support import App, Server
from tests.waiting import until
from tests.webhooks import world

GONE = world.status(410, body=b"<script>alert(1)</script>")


async def test_a_webhook_is_made_tested_and_its_deliveries_are_sent_again(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table = await app.table({"text": "string"}, title="notes", access_level="Public")
    async with Receiver.listening() as receiver, visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks?new=1")
        dialog = page.get_by_role("dialog", name="New webhook")
        await dialog.get_by_label("Address").fill(receiver.url("/hook"))
        await dialog.get_by_label("Name").fill("Fulfilment")
        await dialog.get_by_label("notes").check()
        # A pattern stands before its events, also within another one.
        events = dialog.get_by_role("group", name="Events")
        offered = [text.strip() for text in await events.locator("label").all_text_contents()]
        assert offered[0] == "*"
        assert len(offered) == len(set(offered))
        for pattern in ("row.*", "team.*", "team.member.*"):
            assert offered[offered.index(pattern) + 1].startswith(pattern[:-1])
        assert offered.index("team.*") < offered.index("team.created") < offered.index("team.member.*")
        await events.get_by_label("team.member.*", exact=True).check()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-webhook-new")
        await dialog.get_by_role("button", name="New webhook").click()
        secret = page.get_by_role("dialog", name="The webhook is ready")
        await expect(secret.locator(".secret code")).to_contain_text("whsec_")
        await secret.get_by_role("button", name="I have saved it").click()
        await expect(page.get_by_text("No deliveries")).to_be_visible()
        (made,) = (await call(app, "GET", "/webhooks"))["data"]
        assert made["event_types"] == ["row.*", "team.member.*"]

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
        await keep_picture(page, "console-webhook")
        await page.set_viewport_size({"width": 390, "height": 844})
        await keep_picture(page, "console-webhook-phone")


async def test_a_disabled_webhook_is_enabled_and_what_failed_arrives(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    table = await app.table({"text": "string"}, title="notes", access_level="Public")
    async with Receiver.listening({"/hook": GONE}) as receiver, visit("about:blank") as page:
        webhook = await world.create(app, receiver.url("/hook"))
        await app.row(table, {"text": "first"})
        await webhook.status("disabled")
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks/{webhook.id}")
        await expect(page.get_by_text("disabled", exact=True)).to_be_visible()
        resend = page.get_by_role("button", name="Resend 1 failed delivery")
        # While it is disabled the reason is said, and nothing is queued.
        await resend.click()
        dialog = page.get_by_role("dialog", name="Resend 1 failed delivery")
        await dialog.get_by_role("button", name="Resend", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("disabled")
        await dialog.get_by_role("button", name="Cancel").click()

        receiver.answers.clear()
        await page.get_by_role("checkbox", name="Active").check()
        await expect(page.get_by_text("disabled", exact=True)).to_have_count(0)
        await resend.click()
        await keep_picture(page, "console-webhook-resend")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Resend", exact=True).click()
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_text("1 delivery will be sent.")).to_be_visible()
        await until(lambda: len(receiver.received) == 2)
        # The screen follows without being asked.
        await expect(page.get_by_role("cell", name="delivered 200")).to_be_visible()
        await expect(resend).to_have_count(0)

        # One that was delivered can be delivered once more.
        await page.get_by_role("row").filter(has_text="row.created").get_by_role("button").click()
        panel = page.get_by_role("complementary", name="Delivery")
        await panel.get_by_role("button", name="Deliver again").click()
        await until(lambda: len(receiver.received) == 3)
        await expect(panel.get_by_role("heading", name="Attempt 3")).to_be_visible()
        assert len({(one.headers["idempotency-key"], one.body) for one in receiver.received}) == 1


async def test_the_health_of_webhooks_counts_what_was_delivered(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"text": "string"}, title="notes", access_level="Public")
    async with Receiver.listening({"/gone": GONE}) as receiver, visit("about:blank") as page:
        fine = await world.create(app, receiver.url("/fine"), name="Fine")
        gone = await world.create(app, receiver.url("/gone"), name="Gone")
        quiet = await world.create(app, receiver.url("/quiet"), ["member.created"], name="Quiet")
        for number in range(3):
            await app.row(table, {"text": str(number)})
        await fine.ended(3)
        await gone.ended(1)
        sent = {name: sum(one.path == f"/{name}" for one in receiver.received) for name in ("fine", "gone")}
        assert sent["fine"] == 3
        failed = len([one for one in await gone.logs() if one["status"] == "failed"])
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks")
        health = {
            name: page.get_by_role("row").filter(has=page.get_by_role("link", name=name)).locator(".health")
            for name in ("Fine", "Gone", "Quiet")
        }
        said = "Deliveries by hour in the last day: {} succeeded, {} failed"
        await expect(health["Fine"].get_by_role("img", name=said.format(3, 0))).to_be_visible()
        await expect(health["Fine"].locator(".num")).to_have_text("3")
        await expect(health["Gone"].get_by_role("img", name=said.format(0, failed))).to_be_visible()
        await expect(health["Gone"].locator(".pill")).to_have_text(str(failed))
        await expect(health["Quiet"].get_by_role("img", name=said.format(0, 0))).to_be_visible()
        for webhook, numbers in ((fine, ["3", "0", "0"]), (gone, ["0", str(failed), "0"]), (quiet, ["0", "0", "0"])):
            await page.goto(f"{server.url}/console/apps/{app.app_id}/webhooks/{webhook.id}")
            shown = page.locator(".numbersline dd")
            await expect(shown.first).to_be_visible()
            assert (await shown.all_inner_texts())[:3] == numbers


async def test_a_dead_job_is_tried_again_and_another_deleted(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    reason = {"code": "TIMEOUT", "message": "The warehouse did not answer."}
    job = await test_dead_jobs.dead(server, app, "functions.call", json.dumps(reason))
    other = await test_dead_jobs.dead(server, app, "hosting.unpack")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/webhooks/jobs")
        row = page.get_by_role("row").filter(has_text="functions.call")
        await expect(row).to_contain_text("The warehouse did not answer.")
        await row.get_by_role("button", name="Try again").click()
        await expect(row).to_have_count(0)
        # Its queue has no server: it waits, due now, with all its attempts before it.
        assert await test_dead_jobs.state(server, job) == ("waiting", 0, True)
        await page.get_by_role("button", name="Delete").click()
        assert await obstacles(page, axe) == []
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No failed jobs")).to_be_visible()
        assert await test_dead_jobs.state(server, other) is None


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
