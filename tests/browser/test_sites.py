"""Real sites in a real browser: Vite's starter for React, built here, and the pages of this project's documentation."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, expect

from tests import shared
from tests.browser.test_guestbook import visit
from tests.chromium import PICTURES, keep_picture
from tests.hosting.sites import Site, new_site
from tests.hosting.test_cli import run, written
from tests.support import App, Server, plain_client
from tests.waiting import until

PROJECT = Path(__file__).parent / "vite"
SIZES = {"": {"width": 1280, "height": 800}, "-phone": {"width": 390, "height": 844}}
NEEDS_NPM = pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm, which brings Vite")


class Traffic:
    """What the server answered a page: the status of each path, as it came over the network."""

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        self._paths: dict[str, str] = {}

    async def watch(self, page: Page) -> None:
        """Begin to watch a page."""
        devtools = await page.context.new_cdp_session(page)
        # A revalidated answer is shown to pages as the 200 that the browser had kept.
        devtools.on("Network.requestWillBeSent", self._sent)
        devtools.on("Network.responseReceivedExtraInfo", self._answered)
        await devtools.send("Network.enable")

    def _sent(self, event: dict[str, Any]) -> None:
        self._paths[event["requestId"]] = urlsplit(event["request"]["url"]).path

    def _answered(self, event: dict[str, Any]) -> None:
        self.statuses[self._paths.get(event["requestId"], "")] = event["statusCode"]


@asynccontextmanager
async def visitor(browser: Browser, url: str, **options: Any) -> AsyncIterator[Page]:
    """A page at an address; nothing may go to its console."""
    async with visit(browser, url, **options) as visiting:
        yield visiting.page


async def screenshots(browser: Browser, url: str, name: str) -> None:
    """Keep pictures of a page, which must not scroll sideways on a phone."""
    for size, viewport in SIZES.items():
        for scheme in ("light", "dark") if PICTURES else ("light",):
            async with visitor(browser, url, viewport=viewport, color_scheme=scheme) as page:
                await page.wait_for_load_state("networkidle")
                width = await page.evaluate("document.documentElement.scrollWidth")
                assert width <= viewport["width"], f"{url} scrolls sideways."
                dark = "-dark" if scheme == "dark" else ""
                await keep_picture(page, f"site-{name}{size}{dark}")


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vite's starter for React as its generator leaves it, with our routes and what npm installs."""
    folder = tmp_path_factory.mktemp("vite")
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    shared.install_npm(folder)
    starter = folder / "node_modules" / "create-vite" / "template-react"
    for name in ("index.html", "vite.config.js", "public", "src"):
        source = starter / name
        if source.is_dir():
            shutil.copytree(source, folder / name, dirs_exist_ok=True)
        else:
            shutil.copy(source, folder / name)
    shutil.copytree(PROJECT / "src", folder / "src", dirs_exist_ok=True)
    return folder


def build(project: Path) -> dict[str, bytes]:
    """Build the project and return the files of the site."""
    shared.install([project / "node_modules" / ".bin" / "vite", "build"], project)
    return read(project / "dist")


def read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def name_site(site: Site, folder: Path, directory: str) -> None:
    """Write the file by which the commands know a site."""
    settings = {"url": site.app.server.url, "public_key": site.app.public_key, "storage": site.id}
    lines = [f'{name} = "{value}"' for name, value in {**settings, "directory": directory}.items()]
    (folder / ".pilotis.toml").write_text("\n".join(lines))


@NEEDS_NPM
async def test_a_react_application(browser: Browser, app: App, project: Path) -> None:
    site = await new_site(app, promote_mode="manual")
    first = await site.deploy(build(project))
    assert first["production_deployment_id"] is None
    url, qa = site.storage["url"], site.storage["qa_url"]
    async with visitor(browser, qa) as page:
        await expect(page.get_by_role("heading", name="Get started")).to_be_visible()
    assert (await site.get("/")).status_code == 404
    await site.promote()

    async with app.client() as client:
        meta = {"path": "/cafes/blue-door", "title": "Blue Door", "description": "Espresso", "image": "/favicon.svg"}
        assert (await client.put(f"{site.path}/page-metas", json=meta)).status_code == 200
    traffic = Traffic()
    async with visitor(browser, url) as page:
        await traffic.watch(page)
        await page.get_by_role("link", name="Cafes").click()
        await expect(page.get_by_role("heading", name="All cafes")).to_be_visible()
        await page.get_by_role("link", name="Blue Door").click()
        await expect(page.get_by_role("heading", name="Cafe blue-door")).to_be_visible()
        # A link from elsewhere, a reload, and an address that no route knows.
        await page.goto(f"{url}/cafes/blue-door", wait_until="networkidle")
        await expect(page.get_by_role("heading", name="Cafe blue-door")).to_be_visible()
        assert await page.title() == "Blue Door"
        source = (await site.get("/cafes/blue-door")).text
        assert '<meta property="og:title" content="Blue Door">' in source
        assert f'<meta property="og:image" content="{url}/favicon.svg">' in source
        assert f'<meta property="og:url" content="{url}/cafes/blue-door">' in source
        assert traffic.statuses["/cafes/blue-door"] == 200
        asked = set(traffic.statuses)
        traffic.statuses.clear()
        await page.goto(f"{url}/cafes/blue-door", wait_until="networkidle")
        assert traffic.statuses["/cafes/blue-door"] == 304
        # What has a hash in its name is not even asked for again.
        assert not [path for path in traffic.statuses if path.startswith("/assets/")], asked
        await page.goto(f"{url}/no/such/page")
        await expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()
    await screenshots(browser, url, "react")

    cafes = project / "src" / "Cafes.jsx"
    cafes.write_text(cafes.read_text().replace("Edition 1", "Edition 2"))
    build(project)
    name_site(site, project, "dist")
    async with visitor(browser, url) as page:
        # A page that was open before the deployment can still load its chunks.
        said = await run(site, project, "deploy", "--message", "Second edition")
        assert said == f"Version 2 deployed: {qa}\n"
        changes = (await site.send("GET", "/deployments")).json()["deployments"][0]["changes"]
        assert changes["changed"] == 1, changes
        assert changes["added"] == changes["removed"] == 2, changes
        assert await edition(browser, qa) == "Edition 2"
        assert await edition(browser, url) == "Edition 1"
        assert (await run(site, project, "promote")).startswith("Version 2 is production")
        await page.get_by_role("link", name="Cafes").click()
        await expect(page.get_by_text("Edition 1")).to_be_visible()
    assert await edition(browser, url) == "Edition 2"
    assert (await run(site, project, "rollback")).startswith("Version 1 is production")
    assert await edition(browser, url) == "Edition 1"
    assert await edition(browser, qa) == "Edition 2"


async def edition(browser: Browser, url: str) -> str:
    """The edition that a site shows on a page below its root."""
    async with visitor(browser, f"{url}/cafes") as page:
        return await page.get_by_text("Edition").inner_text()


async def documentation(server: Server) -> dict[str, bytes]:
    """This project's documentation as static files: every page that the server links to."""
    files: dict[str, bytes] = {}
    # The style sheet in each page names the fonts.
    fonts = [f"/docs/fonts/plex-{name}.woff2" for name in ("sans", "mono")]
    waiting, seen = ["/", *fonts], {"/", *fonts}
    async with plain_client(server.url) as client:
        while waiting:
            path = waiting.pop()
            answer = await client.get(path)
            assert answer.status_code == 200, path
            is_page = answer.headers["content-type"].startswith("text/html")
            name = "index.html" if path == "/" else path[1:] + (".html" if is_page else "")
            files[name] = answer.content
            new = {urlsplit(link).path for link in links(answer.content)} - seen if is_page else set()
            seen |= new
            waiting += new
    return files


def links(page: bytes) -> list[str]:
    """The links of a page to others of its site."""
    return re.findall(r'href="(/[^"]*)"', page.decode())


async def test_the_documentation(browser: Browser, app: App, tmp_path: Path) -> None:
    site = await new_site(app, promote_mode="manual", not_found_mode="404")
    files = await documentation(app.server)
    assert {"index.html", "docs.html", "docs/guides.html", "docs/guides/hosting.html", "openapi.json"} <= files.keys()
    # The server would compress megabytes, and the browser lay them out.
    files |= {name: files[name][:100_000] for name in ("docs.html", "openapi.json")}
    await site.deploy({**files, "404.html": b"<!doctype html><title>Lost</title><h1>There is no such page</h1>"})
    url, qa = site.storage["url"], site.storage["qa_url"]
    async with visitor(browser, f"{qa}/docs/guides") as page:
        await page.get_by_role("main").get_by_role("link", name="Web hosting").click()
        await expect(page.get_by_role("heading", name="Web hosting", level=1)).to_be_visible()
        assert urlsplit(page.url).path == "/docs/guides/hosting"
    await site.promote()

    linked = {urlsplit(link).path for name, data in files.items() if name.endswith(".html") for link in links(data)}
    for path in sorted(linked):
        assert (await site.get(path)).status_code == 200, path
    assert (await site.get("/docs/guides/hosting.html")).headers["location"] == "/docs/guides/hosting"
    assert b"no such page" in (await site.get("/docs/guides/nothing")).content
    assert f"<loc>{url}/docs/guides/hosting</loc>" in (await site.get("/sitemap.xml")).text
    async with app.client() as client:
        meta = {"path": "/docs/guides/hosting", "title": "Hosting with Pilotis", "description": "Sites & more"}
        assert (await client.put(f"{site.path}/page-metas", json=meta)).status_code == 200

    # From now on pages are sent compressed.
    await until(lambda: is_compressed(site, "/docs"))
    traffic = Traffic()
    async with visitor(browser, url) as page:
        await traffic.watch(page)
        for path in ("/docs/guides/hosting", "/docs", "/docs/guides/hosting", "/docs"):
            before = traffic.statuses.pop(path, None)
            await page.goto(f"{url}{path}", wait_until="networkidle")
            assert traffic.statuses[path] == (304 if before else 200), path
        await page.goto(f"{url}/docs/guides/hosting#metadata-of-pages")
        await expect(page.get_by_role("heading", name="Metadata of pages")).to_be_in_viewport()
        assert await page.title() == "Hosting with Pilotis"
    source = (await site.get("/docs/guides/hosting")).text
    assert '<meta property="og:description" content="Sites &amp; more">' in source
    await screenshots(browser, f"{url}/docs/guides/hosting", "documentation")

    edited = files["docs/guides.html"].replace(b"<h1>Guides</h1>", b"<h1>All guides</h1>")
    written(tmp_path / "public", {**files, "docs/guides.html": edited})
    name_site(site, tmp_path, "public")
    assert (await run(site, tmp_path, "deploy")).startswith("Version 2 deployed")
    changes = (await site.send("GET", "/deployments")).json()["deployments"][0]["changes"]
    assert changes == {"added": 0, "changed": 1, "removed": 1}
    for address, title in ((qa, "All guides"), (url, "Guides")):
        async with visitor(browser, f"{address}/docs/guides") as page:
            await expect(page.get_by_role("main").get_by_role("heading", level=1)).to_have_text(title)
    await run(site, tmp_path, "promote")
    assert edited == (await site.get("/docs/guides")).content
    await run(site, tmp_path, "rollback")
    assert files["docs/guides.html"] == (await site.get("/docs/guides")).content


async def is_compressed(site: Site, path: str) -> bool:
    return "content-encoding" in (await site.get(path, accept_encoding="br")).headers
