"""`examples/album` in a real browser: uploads from another origin than the server's, with progress, and shown."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, expect

from tests.acceptance.test_files import storage
from tests.browser.test_guestbook import ROOT, visit
from tests.chromium import keep_picture
from tests.support import App
from tests.waiting import PATIENCE

WIDTH, HEIGHT = 1200, 900
BYTES_PER_SECOND = 4_000_000
HOSTILE_HTML = "<title>saved</title><script>document.title = 'owned'; localStorage.owned = 'yes'</script>"
HOSTILE_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="green"/>'
    "<script>document.documentElement.setAttribute('owned', 'yes')</script></svg>"
)


def png(width: int, height: int) -> bytes:
    """A picture of noise, which does not shrink: 3 bytes a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture
async def base(app: App) -> str:
    return await storage(app)


@pytest.fixture
def link(app: App, base: str) -> Iterator[str]:
    """The address of the page, as its own little server prints it."""
    program = ROOT / "examples" / "album" / "serve.py"
    given = ["--url", app.server.url, "--public-key", app.public_key, "--storage", base.rpartition("/")[2]]
    command = [sys.executable, str(program), "--port", "0", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        yield re.search(r"http://\S+", serving.stdout.readline())[0]
        serving.send_signal(signal.SIGINT)
        assert serving.wait(PATIENCE) == 0


async def add(page: Page, name: str, mime_type: str, content: bytes) -> None:
    await page.get_by_label("Picture", exact=True).set_input_files(
        {"name": name, "mimeType": mime_type, "buffer": content}
    )
    await page.get_by_role("button", name="Add to the album").click()
    await expect(page.get_by_role("status")).to_have_text(f"{name} is in the album.")


async def slow_down(page: Page) -> None:
    """Make the network so slow that an upload takes a second and reports its progress."""
    session = await page.context.new_cdp_session(page)
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": BYTES_PER_SECOND}
    await session.send("Network.enable")
    await session.send("Network.emulateNetworkConditions", limits)


def preflights(app: App) -> int:
    requests = [json.loads(line) for line in app.server.logs().splitlines() if '"event":"request"' in line]
    return sum(request["method"] == "OPTIONS" and request["status"] == 204 for request in requests)


async def test_a_picture_is_uploaded_with_progress_and_shown(browser: Browser, link: str, app: App, base: str) -> None:
    picture = png(WIDTH, HEIGHT)
    assert urlsplit(link).netloc != urlsplit(app.server.url).netloc
    async with visit(browser, link, viewport={"width": 1100, "height": 900}) as ada:
        await expect(ada.page.get_by_text("There is no picture yet.")).to_be_visible()
        await slow_down(ada.page)
        await ada.page.evaluate(
            """() => {
                window.seen = [];
                const bar = document.getElementById("progress");
                new MutationObserver(() => seen.push(bar.value)).observe(bar, { attributeFilter: ["value"] });
            }"""
        )
        before = preflights(app)
        await add(ada.page, "사진 1.png", "image/png", picture)
        # One for each of the three steps: none of them is a simple request.
        assert preflights(app) - before >= 3
        seen = await ada.page.evaluate("seen")
        assert len(seen) >= 4, seen
        assert seen == sorted(seen)
        assert seen[0] == 0
        assert 0 < seen[1] < seen[-1] == 1

        shown = ada.page.get_by_role("img", name="사진 1.png")
        await expect(shown).to_be_visible()
        assert await shown.evaluate(
            "image => image.decode().then(() => [image.naturalWidth, image.naturalHeight])"
        ) == [
            WIDTH,
            HEIGHT,
        ]
        await expect(ada.page.get_by_role("heading", name="1 picture")).to_be_visible()
        await keep_picture(ada.page, "album", full_page=True)

        async with visit(browser, link, viewport={"width": 375, "height": 812}) as bob:
            await expect(bob.page.get_by_role("img", name="사진 1.png")).to_be_visible()
            width = await bob.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 375, "The page scrolls sideways on a phone."
            await keep_picture(bob.page, "album-phone", full_page=True)

    async with app.client() as client:
        (item,) = (await client.get(f"{base}/items")).json()["files"]
        assert (item["name"], item["mime_type"], item["size"]) == ("사진 1.png", "image/png", len(picture))
        assert (await client.get(item["url"])).content == picture


async def test_a_refused_upload_is_told(browser: Browser, link: str, app: App, base: str) -> None:
    async with visit(browser, link, expected=("status of 409",)) as ada:
        await add(ada.page, "one.png", "image/png", png(4, 3))
        page = ada.page
        await page.get_by_label("Picture", exact=True).set_input_files(
            {"name": "one.png", "mimeType": "image/png", "buffer": png(3, 4)}
        )
        await page.get_by_role("button", name="Add to the album").click()
        await expect(page.get_by_role("status")).to_have_class("wrong")
        await expect(page.get_by_role("img")).to_have_count(1)


async def test_nothing_that_was_uploaded_runs(browser: Browser, link: str, app: App, tmp_path: Path) -> None:
    async with visit(browser, link, expected=("sandboxed",)) as ada:
        await add(ada.page, "page.html", "text/html", HOSTILE_HTML.encode())
        await add(ada.page, "drawing.svg", "image/svg+xml", HOSTILE_SVG.encode())
        # Opening the page saves it.
        saving = ada.page.get_by_role("link", name="page.html")
        async with ada.page.expect_download() as download:
            await saving.click()
        assert (await (await download.value).path()).read_text() == HOSTILE_HTML
        assert await ada.page.title() == "Album"

        # Opening the drawing shows it, in a sandbox where its script does not run.
        address = await ada.page.get_by_role("link", name="drawing.svg").get_attribute("href")
        await ada.page.goto(address)
        assert await ada.page.evaluate("document.documentElement.localName") == "svg"
        assert await ada.page.evaluate("document.documentElement.hasAttribute('owned')") is False
        assert any("Blocked script execution" in text for text in ada.complaints)
        assert await ada.page.evaluate("self.origin") == "null"

        # Nor do they in a frame of another page.
        await ada.page.goto(link)
        await ada.page.evaluate(
            """url => new Promise((loaded) => {
                const frame = document.createElement("iframe");
                frame.addEventListener("load", loaded);
                frame.src = url;
                document.body.append(frame);
            }).then(() => null)""",
            address,
        )
        frame = ada.page.frames[-1]
        assert frame.url == address
        assert await frame.evaluate("document.documentElement.hasAttribute('owned')") is False
        assert await frame.evaluate("self.origin") == "null"
