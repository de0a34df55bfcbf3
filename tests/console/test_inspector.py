"""The live streams of an app in the console: who listens to what, and what a member would be told."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.chromium import keep_picture, looks
from tests.console import owner_of
from tests.console.conftest import Opening, obstacles, sign_in
from tests.console.in_use import NARROW, WIDE
from tests.realtime.listening import listening, patched
from tests.realtime.test_channels import declare
from tests.support import App, Server

MINE = {"$creator": {"$member": "id"}}
OWN = {"read": MINE, "create": {"$member": {}}, "update": MINE}


@pytest.mark.parametrize(("theme", "language"), looks(("light", "en")))
async def test_streams_are_shown_and_one_listens_as_a_member(
    server: Server, app: App, visit: Opening, axe: str, theme: str, language: str
) -> None:
    if language != "en":
        pytest.skip("the words are those of the screens' test")
    table = await app.table({"text": "string"}, title="notes")
    async with owner_of(app).client(app) as console:
        assert (await console.put(f"/tables/{table}/rules", json={"rules": OWN})).status_code == 200
    await declare(app, {"pattern": "room:{room}", "listen": True, "presence": True})
    ada, bob = await app.member("ada"), await app.member("bob")
    row = await app.row(table, {"text": "first"}, ada["access_token"])
    found: dict[str, list[str]] = {}
    async with app.client(ada["access_token"]) as client, visit("about:blank", color_scheme=theme) as page:
        subscription = {"id": "mine", "table_id": table, "where": {"text": {"$ne": "hidden"}}}
        channels = [{"name": "room:42", "presence": {"state": {}}}]
        await sign_in(page, server, f"/apps/{app.app_id}/activity/live")
        await expect(page.get_by_text("Nobody is listening")).to_be_visible()
        async with listening(client, subscription, channels=channels) as told:
            opened = page.get_by_role("row", name="notes, room:42")
            await expect(opened).to_contain_text("ada")
            await patched(app, table, row, ada["access_token"], text="second")
            await told.until(lambda events: any(event == "change" for event, _ in events))
            await opened.get_by_role("button").click()
            panel = page.get_by_role("complementary", name="Stream")
            await expect(panel).to_contain_text('{"text":{"$ne":"hidden"}}')
            await expect(panel).to_contain_text("1 change")
            await expect(panel).to_contain_text("visible to others")
            for size, name in ((WIDE, ""), (NARROW, "-phone")):
                await page.set_viewport_size(size)
                found[f"stream{name}"] = await obstacles(page, axe)
                await keep_picture(page, f"console-live-stream-{theme}{name}")
            await page.set_viewport_size(WIDE)
            # What bob would be told is what bob may see.
            await page.get_by_role("button", name="Listen").click()
            await page.get_by_label("As", exact=True).select_option("bob")
            await page.get_by_role("button", name="Start").click()
            heard = page.get_by_role("list", name="What the stream was told")
            await expect(heard).to_contain_text("ready")
            await patched(app, table, row, ada["access_token"], text="of ada")
            await app.row(table, {"text": "of bob"}, bob["access_token"])
            await expect(heard).to_contain_text("of bob")
            await expect(heard).not_to_contain_text("of ada")
            for size, name in ((WIDE, ""), (NARROW, "-phone")):
                await page.set_viewport_size(size)
                found[f"listen{name}"] = await obstacles(page, axe)
                await keep_picture(page, f"console-live-listen-{theme}{name}")
                assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
            await page.set_viewport_size(WIDE)
            await page.get_by_role("button", name="Stop").click()
            # The console sees all; a condition keeps some, and one that is wrong is said.
            await page.get_by_label("As", exact=True).select_option("console")
            await page.get_by_label("Condition").fill('{"nothing": 1}')
            await page.get_by_role("button", name="Start").click()
            await expect(page.get_by_text("nothing", exact=False).last).to_be_visible()
            await expect(page.locator(".notice.bad")).to_be_visible()
            await page.get_by_label("Condition").fill('{"text": "both"}')
            await page.get_by_role("button", name="Start").click()
            await expect(heard).to_contain_text("ready")
            await patched(app, table, row, ada["access_token"], text="both")
            await expect(heard).to_contain_text("enter")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_text("Nobody is listening")).to_be_visible()
    async with owner_of(app).client(app) as console:
        log = (await console.get("/audit-log", params={"action": "member"})).json()["data"]
    assert bob["member_id"] in {entry["target"] for entry in log if entry["action"] == "member.act_as"}
    assert {name: said for name, said in found.items() if said} == {}
