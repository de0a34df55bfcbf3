"""`@pilotis/react`: the committed files are a build, small, and its hooks do what they say in Chromium."""

import functools
import gzip
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests import shared
from tests.browser.test_resumable_upload import Quiet
from tests.clients.test_client import FILES, client_versions
from tests.clients.test_clients import NEEDS_NODE, environment_of, run
from tests.serving import serving
from tests.support import App
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "react"
BUILT = ROOT / "src" / "pilotis" / "cli" / "templates" / "react-package"
MAX_BYTES = 2_500
pytestmark = NEEDS_NODE


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `clients/react` with its tools, and a page with its hooks."""
    folder = tmp_path_factory.mktemp("client") / "react"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copytree(FILES / client_versions()[0], folder / "client", dirs_exist_ok=True)
    (folder / "page").mkdir()
    shutil.copy(Path(__file__).parent / "hooks.tsx", folder / "page")
    shared.install(["npm", "ci", *shared.NPM], folder)
    return folder


def test_the_committed_files_are_a_build(project: Path):
    run("npm", "run", "--silent", "build", folder=project)
    for built in (project / "dist").iterdir():
        assert built.read_bytes() == (BUILT / "dist" / built.name).read_bytes(), "run `npm run serve` in clients/react"


def test_it_is_small_and_needs_react_alone():
    content = (BUILT / "dist" / "index.js").read_bytes()
    assert len(gzip.compress(content)) <= MAX_BYTES
    assert set(re.findall(r'(?:from|import)"([^"]+)"', content.decode())) == {"react"}
    manifests = [json.loads((folder / "package.json").read_text()) for folder in (SOURCE, BUILT)]
    assert len({(one["name"], one["version"], str(one["peerDependencies"])) for one in manifests}) == 1
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


@pytest_asyncio.fixture
async def page(project: Path, app: App, browser: Browser) -> AsyncIterator[Page]:
    """The page, of an app with three rows."""
    bundle = ["--bundle", "--format=esm", "--jsx=automatic", "--log-level=error", "--outfile=page/hooks.js"]
    run("node_modules/.bin/esbuild", "page/hooks.tsx", *bundle, folder=project)
    script = '<!doctype html><title>hooks</title><div id="root"></div><script type="module" src="hooks.js"></script>'
    (project / "page" / "index.html").write_text(script)
    table = await app.table({"n": "int"})
    for n in (1, 2, 3):
        await app.row(table, {"n": n})
    closed = await app.table({"n": "int"}, "AppMember")
    storage = environment_of(app)["STORAGE"]
    opened = await browser.new_page()
    opened.set_default_timeout(PATIENCE * 1000)
    opened.on("pageerror", lambda error: print(error))
    told = f"api={app.server.url}&key={app.public_key}&table={table}&closed={closed}&storage={storage}"
    with serving(functools.partial(Quiet, directory=project / "page")) as url:
        await opened.goto(f"{url}/?{told}")
        yield opened
        await opened.close()


async def test_the_hooks(page: Page, app: App):
    def told(part: str):
        return page.locator(f"#{part} output")

    async def click(name: str) -> None:
        await page.get_by_role("button", name=name, exact=True).click()

    for part in ("one", "same", "once"):
        await expect(told(part)).to_have_text("ready: 1 2 of 3")
    await expect(page.locator("#suspended")).to_have_text("1")
    await expect(page.locator("#slow")).to_have_text("1 2 3")
    await expect(page.locator("#broken")).to_have_text("MEMBER_TOKEN_REQUIRED")
    # Of two components with the same query, mounted twice each in strict mode, one asks; all lists share a stream,
    # which is opened again for each list that ends or begins.
    counts = await page.evaluate("counts")
    assert counts["POST query"] <= 6
    # More rows, and a change by another client.
    await click("more one")
    await expect(told("same")).to_have_text("ready: 1 2 3 of 3")
    await page.evaluate("client.rows(new URLSearchParams(location.search).get('table')).create({ n: 0 })")
    await expect(told("one")).to_have_text("ready: 0 1 2 3 of 4")
    await expect(told("once")).to_have_text("ready: 1 2 of 3")
    await click("reload once")
    await expect(told("once")).to_have_text("ready: 0 1 of 4")
    # A change that fails is taken back; one that works stays.
    await page.evaluate("fail(true)")
    await click("change")
    await expect(told("change")).to_have_text("error NETWORK 1")
    await expect(told("one")).to_have_text("ready: 0 1 2 3 of 4")
    await click("reset")
    await expect(told("change")).to_have_text("idle  1")
    await page.evaluate("fail(false)")
    await click("change")
    await expect(told("change")).to_have_text("ready  7")
    await expect(told("one")).to_have_text("ready: 0 2 3 7 of 4")
    # The list is kept for a moment, and then read again.
    await click("toggle")
    await expect(page.locator("#one")).to_have_count(0)
    await click("toggle")
    await expect(told("one")).to_have_text("ready: 0 2 3 7 of 4")
    await click("greet")
    await click("upload")
    await expect(told("extras")).to_have_text("error FUNCTION_NOT_FOUND ready 1 4")


async def test_the_member_and_pages_of_a_server(page: Page):
    member = page.locator("#member output")
    await expect(member).to_have_text("visitor")
    await page.get_by_role("button", name="guest").click()
    await expect(member).not_to_have_text("visitor")
    assert await member.text_content() == (await page.evaluate("client.members.me()"))["member_id"]
    await page.get_by_role("button", name="sign out").click()
    await expect(member).to_have_text("visitor")
    assert await page.evaluate("rendered()") == ["<b>1 2 3</b>", "<b>1 2 3</b>", "<b></b>"]
    key, names = await page.evaluate("options()")
    assert (key[0], key[1]["limit"], names) == ("pilotis", 2, "1 2")
