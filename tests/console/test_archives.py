"""An owner has an archive written in the console, downloads it, and makes an app of it."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.support import App, Server

PASSPHRASE = "correct horse battery"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_archive_is_made_downloaded_and_imported(
    server: Server, app: App, visit: Opening, axe: str, tmp_path: Path, scheme: str
) -> None:
    table_id = await app.table({"name": "string"}, title="goods")
    await app.row(table_id, {"name": "kept"})
    async with visit("about:blank") as page:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": 1200, "height": 800})
        await sign_in(page, server, f"/apps/{app.app_id}/settings/archives")
        await expect(page.get_by_text("No archives yet")).to_be_visible()
        assert await obstacles(page, axe) == []
        await page.get_by_role("button", name="Make an archive").click()
        dialog = page.get_by_role("dialog", name="Make an archive")
        await dialog.get_by_label("Passphrase").fill("short")
        assert await dialog.get_by_role("button", name="Make an archive").get_attribute("aria-disabled") == "true"
        await dialog.get_by_label("Passphrase").fill(PASSPHRASE)
        await keep_picture(page, f"console-archive-dialog-{scheme}")
        await dialog.get_by_role("button", name="Make an archive").click()
        await expect(page.get_by_text("1 row")).to_be_visible()
        await expect(page.get_by_text("with a passphrase")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, f"console-archives-{scheme}", full_page=True)
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Download").click()
        path = tmp_path / "app.pilotis"
        await (await downloading.value).save_as(path)

        await page.get_by_role("button", name="Choose a file").click()
        dialog = page.get_by_role("dialog", name="Import an archive")
        await dialog.locator("input[type=file]").set_input_files(path)
        await dialog.get_by_label("Passphrase").fill("another passphrase")
        await dialog.get_by_role("button", name="Import").click()
        await expect(dialog.get_by_text("not the passphrase of the archive")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, f"console-archive-import-{scheme}")
        await page.set_viewport_size({"width": 375, "height": 720})
        await keep_picture(page, f"console-archive-import-{scheme}-phone")
        await dialog.get_by_label("Passphrase").fill(PASSPHRASE)
        await dialog.get_by_label("Name").fill("Shop, a copy")
        await dialog.get_by_role("button", name="Import").click()
        await expect(dialog).to_have_count(0)
        await expect(page).to_have_title(re.compile("Shop, a copy"))
        assert app.app_id not in page.url

        await page.goto(f"{server.url}/console/apps/{app.app_id}/settings/archives")
        await expect(page.get_by_text("with a passphrase")).to_be_visible()
        await keep_picture(page, f"console-archives-{scheme}-phone", full_page=True)
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog", name="Delete this archive?").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No archives yet")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_archives_are_made_on_a_schedule_that_an_owner_sets(
    server: Server, app: App, visit: Opening, axe: str, scheme: str
) -> None:
    async with visit("about:blank") as page:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": 1200, "height": 800})
        await sign_in(page, server, f"/apps/{app.app_id}/settings/archives")
        await expect(page.get_by_text("at the times that you set")).to_be_visible()
        await page.get_by_role("button", name="Set a schedule").click()
        dialog = page.get_by_role("dialog", name="Archives on a schedule")
        save = dialog.get_by_role("button", name="Save")
        await dialog.get_by_label("How many are kept").fill("8")
        await expect(dialog.get_by_text("A number from 1 to 7.")).to_be_visible()
        assert await save.get_attribute("aria-disabled") == "true"
        await dialog.get_by_label("How many are kept").fill("3")
        await dialog.get_by_label("With secrets").check()
        assert await save.get_attribute("aria-disabled") == "true"
        await dialog.get_by_label("Passphrase").fill(PASSPHRASE)
        await dialog.get_by_label("Times").fill("* * * * *")
        await save.click()
        await expect(dialog.get_by_text("once an hour at most")).to_be_visible()
        await dialog.get_by_label("Times").fill("30 4 * * 1")
        await dialog.get_by_label("Time zone").fill("Asia/Seoul")
        assert await obstacles(page, axe) == []
        await keep_picture(page, f"console-archive-schedule-dialog-{scheme}")
        await save.click()
        await expect(page.get_by_text("30 4 * * 1")).to_be_visible()
        await expect(page.get_by_text("The newest 3 are kept.")).to_be_visible()
        await expect(page.get_by_text("The next one is made on")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, f"console-archive-schedule-{scheme}", full_page=True)

        # The passphrase stays without being typed again.
        await page.get_by_role("button", name="Change").click()
        await expect(dialog.get_by_label("Time zone")).to_have_value("Asia/Seoul")
        await dialog.get_by_label("Times").fill("@daily")
        await save.click()
        await expect(page.get_by_text("0 0 * * *")).to_be_visible()
        await expect(page.get_by_text("with a passphrase")).to_be_visible()
        await page.set_viewport_size({"width": 375, "height": 720})
        await keep_picture(page, f"console-archive-schedule-{scheme}-phone", full_page=True)
        await page.get_by_role("button", name="Delete the schedule").click()
        confirm = page.get_by_role("dialog", name="Delete the schedule?")
        await confirm.get_by_role("button", name="Delete the schedule").click()
        await expect(page.get_by_role("button", name="Set a schedule")).to_be_visible()
