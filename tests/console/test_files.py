"""Files in the console: uploads that stop and go on, folders, previews, temporary links."""

import asyncio
import io
import re
from pathlib import Path

import httpx
from PIL import Image
from playwright.async_api import Route, expect

from tests.acceptance.test_files import put_at
from tests.chromium import keep_picture
from tests.console.conftest import Opening, obstacles, sign_in
from tests.support import App, Server, plain_client
from tests.waiting import until

LARGE = 20 * 1024 * 1024


async def new_storage(app: App, **more: object) -> str:
    headers = {"Authorization": f"Bearer {app.console['access_token']}"}
    async with plain_client(app.server.url, **headers) as client:
        made = await client.post(f"/v1/apps/{app.app_id}/storages/files", json={"name": "gallery", **more})
    assert made.status_code == 201, made.text
    return made.json()["id"]


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(file, "PNG")
    return file.getvalue()


async def test_a_picture_is_uploaded_shown_linked_and_deleted(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    storage_id = await new_storage(app, read_access="Secret")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/files/{storage_id}")
        await expect(page.get_by_text("This folder is empty")).to_be_visible()
        await page.get_by_role("button", name="New folder").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("summer")
        await page.get_by_role("dialog").get_by_role("button", name="Create folder").click()
        await page.get_by_role("button", name="summer").click()
        file = {"name": "boat.png", "mimeType": "image/png", "buffer": picture()}
        await page.locator("main input[type=file]").set_input_files([file])
        await expect(page.get_by_text("1 file uploaded")).to_be_visible()
        await page.get_by_role("button", name="boat.png", exact=True).click()
        panel = page.get_by_role("complementary", name="boat.png")
        shown = panel.get_by_role("img", name="boat.png")
        await expect(shown).to_be_visible()
        await until(lambda: shown.evaluate("image => image.naturalWidth > 0"))
        await panel.get_by_role("button", name="Create link").click()
        link = await panel.locator(".secret code").inner_text()
        async with httpx.AsyncClient(verify=False) as client:
            assert (await client.get(link)).content == picture()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-files")
        await panel.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("This folder is empty")).to_be_visible()


async def test_a_large_upload_goes_on_after_a_reload(server: Server, app: App, visit: Opening, tmp_path: Path) -> None:
    storage_id = await new_storage(app)
    file = tmp_path / "film.bin"
    file.write_bytes(bytes(LARGE))
    offsets: list[int] = []
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/files/{storage_id}")

        async def note(route):
            offset = int(route.request.headers["upload-offset"]) if route.request.method == "PATCH" else -1
            offsets.append(offset)
            # The connection is lost in the middle of the file, once.
            if offset > 0 and offsets.count(offset) == 1 and len([one for one in offsets if one >= 0]) == 2:
                await route.abort()
            else:
                await route.continue_()

        await page.route("**/v1/uploads/tus/*", note)
        await page.locator("main input[type=file]").set_input_files([file])
        await expect(page.get_by_role("button", name="Try again")).to_be_visible()
        await page.reload()
        await page.locator("main input[type=file]").set_input_files([file])
        tray = page.get_by_role("region", name="Uploads")
        await expect(tray).to_contain_text("1 file uploaded")
        await page.get_by_role("button", name="film.bin", exact=True).click()
        panel = page.get_by_role("complementary", name="film.bin")
        await expect(panel.get_by_role("button", name="Delete")).to_be_visible()
        # What has arrived is one line below all else, which unfolds and covers nothing.
        await expect(tray.get_by_role("listitem")).to_have_count(0)
        await tray.get_by_role("button", name="Details").click()
        await expect(tray.get_by_role("listitem")).to_have_count(1)
        for over in (panel, page.get_by_role("main")):
            box, foot = await over.bounding_box(), await tray.bounding_box()
            assert box is not None
            assert foot is not None
            assert box["y"] + box["height"] <= foot["y"] + 1
    sent = [offset for offset in offsets if offset >= 0]
    assert sent == [0, 8 << 20, 8 << 20, 16 << 20]


async def test_what_is_no_picture_is_shown_by_the_icon_of_its_kind(server: Server, app: App, visit: Opening) -> None:
    storage_id = await new_storage(app, read_access="Public")
    long = f"{'a name that goes on and on ' * 9}.png"
    async with visit("about:blank", expected="/files/") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/files/{storage_id}")
        await expect(page.get_by_text("This folder is empty")).to_be_visible()
        files = [
            {"name": name, "mimeType": "image/png", "buffer": content}
            for name, content in (("boat.png", picture()), (long, b"\x89PNG\r\n\x1a\nno picture"))
        ]
        await page.locator("main input[type=file]").set_input_files(files)
        rows = page.locator("main tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.filter(has_text="boat.png").locator("img")).to_have_count(1)
        broken = rows.filter(has_text="a name that goes on")
        await expect(broken.locator("img")).to_have_count(0)
        await expect(broken.locator(".thumb svg")).to_be_visible()
        # The long name takes no room from the other columns.
        assert await broken.locator("td").nth(1).evaluate("cell => cell.scrollWidth <= cell.clientWidth")
        await broken.get_by_role("button").click()
        panel = page.get_by_role("complementary")
        await expect(panel.get_by_text("This file cannot be read as an image.")).to_be_visible()
        await expect(panel.locator("img")).to_have_count(0)
        await expect(panel.get_by_text("Variant")).to_have_count(0)


async def test_no_link_is_signed_before_it_is_known_who_may_read(server: Server, app: App, visit: Opening) -> None:
    storage_id = await new_storage(app, read_access="Public")
    base = f"/v1/public/storages/files/{storage_id}"
    async with app.client() as client:
        file = await put_at(client, base, "boat.png", picture())
    listed = asyncio.Event()
    signed: list[str] = []

    async def slow(route: Route) -> None:
        await listed.wait()
        await route.continue_()

    async with visit("about:blank") as page:
        page.on("request", lambda request: request.url.endswith("/signed-url") and signed.append(request.url))
        await page.route(re.compile(f"/v1/apps/{app.app_id}/storages/files/{storage_id}$"), slow)
        await sign_in(page, server, f"/apps/{app.app_id}/files/{storage_id}?file={file['id']}")
        await expect(page.locator("main tbody tr")).to_have_count(1)
        listed.set()
        await expect(page.get_by_role("complementary").get_by_role("img", name="boat.png")).to_be_visible()
        await expect(page.locator("main tbody img")).to_have_count(1)
    assert signed == []


async def test_a_drop_that_cannot_be_read_says_so(server: Server, app: App, visit: Opening) -> None:
    storage_id = await new_storage(app)
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/files/{storage_id}")
        await expect(page.get_by_text("This folder is empty")).to_be_visible()
        # A folder that fails, and a file whose entry has no path: it is read without one.
        await page.evaluate(
            """() => {
                const drop = (items) => {
                    const event = new Event("drop", { bubbles: true, cancelable: true });
                    Object.defineProperty(event, "dataTransfer", { value: { items } });
                    document.querySelector("main .data").dispatchEvent(event);
                };
                const fail = (_, reject) => reject(new DOMException("Path does not exist", "NotFoundError"));
                const folder = { isDirectory: true, name: "gone", createReader: () => ({ readEntries: fail }) };
                drop([{ webkitGetAsEntry: () => folder, getAsFile: () => null }]);
                const file = new File(["Hello"], "note.txt", { type: "text/plain" });
                const entry = { isFile: true, name: "note.txt", file: fail };
                drop([{ webkitGetAsEntry: () => entry, getAsFile: () => file }]);
            }"""
        )
        await expect(page.get_by_text("What you dropped cannot be read.")).to_be_visible()
        await expect(page.get_by_role("button", name="note.txt", exact=True)).to_be_visible()
