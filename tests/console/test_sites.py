"""Sites in the console: a folder is deployed, put live, rolled back; pages and domains."""

import io
import zipfile
from pathlib import Path

from playwright.async_api import Page, expect

from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.support import App, Server


async def new_site(page: Page, server: Server, app: App, name: str) -> None:
    await sign_in(page, server, f"/apps/{app.app_id}/sites")
    await page.get_by_role("button", name="New site").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name", exact=True).fill(name)
    await dialog.get_by_role("button", name="New site").click()
    await expect(page.get_by_text("No deployments yet")).to_be_visible()


async def deploy(page: Page, message: str) -> None:
    dialog = page.get_by_role("dialog", name="Deploy")
    await dialog.get_by_label("Description").fill(message)
    await dialog.get_by_role("button", name="Deploy").click()
    await expect(page.get_by_role("row").filter(has_text=message)).to_be_visible()


async def test_a_folder_is_deployed_changed_and_rolled_back(
    server: Server, app: App, visit: Opening, axe: str, tmp_path: Path
) -> None:
    site = tmp_path / "dist"
    (site / "assets").mkdir(parents=True)
    (site / "index.html").write_text("<title>One</title><h1>One</h1>")
    (site / "assets" / "app.js").write_text("console.log(1)")
    (site / ".hidden").write_text("not a part of the site")
    async with visit("about:blank") as page:
        await new_site(page, server, app, "Cafe guide")
        folder = page.locator("input[webkitdirectory]")
        await folder.set_input_files(site)
        await expect(page.get_by_role("dialog").get_by_text("2 files")).to_be_visible()
        await deploy(page, "first")
        first = page.get_by_role("row").filter(has_text="first")
        await expect(first).to_contain_text("Production")
        address = await page.get_by_role("link", name="Open", exact=True).get_attribute("href")
        assert address is not None

        (site / "index.html").write_text("<title>Two</title><h1>Two</h1>")
        (site / "assets" / "app.js").unlink()
        await folder.set_input_files(site)
        await deploy(page, "second")
        second = page.get_by_role("row").filter(has_text="second")
        await expect(second).to_contain_text("Production")
        await expect(second.get_by_role("button", name="~1 −1")).to_be_visible()
        await second.get_by_role("button", name="~1 −1").click()
        difference = page.get_by_role("dialog", name="Changes of version 2")
        await expect(difference.get_by_role("row").filter(has_text="assets/app.js")).to_contain_text("removed")
        await expect(difference.get_by_role("row").filter(has_text="index.html")).to_contain_text("changed")
        await difference.get_by_role("button", name="Done").click()

        await first.get_by_role("button", name="Roll back").click()
        await page.get_by_role("dialog").get_by_role("button", name="Put live").click()
        await expect(first).to_contain_text("Production")
        await expect(second).not_to_contain_text("Production")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-site")
        await page.set_viewport_size({"width": 390, "height": 844})
        await keep_picture(page, "console-site-phone")


async def test_an_archive_that_cannot_be_deployed_says_why(server: Server, app: App, visit: Opening) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writing:
        writing.writestr("index.html", "<h1>Hello</h1>")
    async with visit("about:blank") as page:
        await new_site(page, server, app, "Zips")
        picker = page.locator("input[accept*=zip]")
        await picker.set_input_files({"name": "broken.zip", "mimeType": "application/zip", "buffer": b"no archive"})
        await page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
        await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no central directory")
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await picker.set_input_files({"name": "site.zip", "mimeType": "application/zip", "buffer": archive.getvalue()})
        await deploy(page, "from an archive")
        await expect(page.get_by_role("row").filter(has_text="from an archive")).to_contain_text("ready")


async def test_pages_and_domains_of_a_site(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with visit("about:blank") as page:
        await new_site(page, server, app, "Guide")
        await page.get_by_role("link", name="Pages").click()
        await page.get_by_role("button", name="New page").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Path").fill("/menu")
        await dialog.get_by_label("Title").fill("<b>Menu</b>")
        await dialog.get_by_label("Description").fill("What there is to eat")
        await expect(dialog.locator(".sharecard")).to_contain_text("<b>Menu</b>")
        assert await obstacles(page, axe) == []
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("row").filter(has_text="/menu")).to_contain_text("<b>Menu</b>")

        await page.get_by_role("link", name="Domains").click()
        await page.get_by_role("button", name="Add a domain").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Host name").fill("www.cafes.example")
        await dialog.get_by_role("button", name="Add a domain").click()
        await expect(page.get_by_role("row").filter(has_text="www.cafes.example")).to_contain_text("not verified")
        assert await obstacles(page, axe) == []

        await page.get_by_role("navigation", name="Site").get_by_role("link", name="Settings").click()
        await page.get_by_label("Deployments to keep").fill("7")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_label("Deployments to keep")).to_have_value("7")
        assert await obstacles(page, axe) == []
