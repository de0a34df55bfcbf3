"""The quick starts: each template of `pilotis new` runs as its page of the guide says, and is used in Chromium."""

import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from pilotis.cli.new import TEMPLATES
from tests import commands, shared
from tests.clients.test_clients import NEEDS_NODE, run
from tests.test_dev import Running, create, edit
from tests.waiting import PATIENCE, reserved_port, wait_until

pytestmark = [pytest.mark.embedded("a project has a server of its own"), NEEDS_NODE]
FOLDER = Path(__file__).parents[2] / "src" / "pilotis" / "cli" / "templates" / "projects"


@pytest_asyncio.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    made = await browser.new_page()
    made.set_default_timeout(PATIENCE * 1000)
    yield made
    await made.close()


@contextmanager
def running(folder: Path, template: str, **environment: str) -> Iterator[Running]:
    """A project of a template, with its packages, while `pilotis dev` runs it."""
    project = create(folder / "shop", "--template", template)
    shared.install(["npm", "install", *shared.NPM], project)
    started = Running(project, CI="1", NEXT_TELEMETRY_DISABLED="1", NO_COLOR="1", **environment)
    try:
        yield started
    finally:
        started.stop()


def address(project: Running) -> str:
    """Where the site's own server is."""
    found = wait_until(lambda: re.search(r"Local: +(http://\S+)", re.sub(r"\x1b\[[\d;]*m", "", project.output)))
    return found[1]


async def use(page: Page) -> None:
    """Read, sign in, write, call a function, sign out and up."""
    await expect(page.get_by_text("This row is from seed/notes.jsonl.")).to_be_visible()
    await page.get_by_role("button", name="Go on as a guest").click()
    await page.get_by_placeholder("What is to be done?").fill("Sweep <b>")
    await page.get_by_role("button", name="Add").click()
    note = page.get_by_role("listitem").filter(has_text="Sweep <b>")
    await note.get_by_role("checkbox").click()
    await expect(note.get_by_role("checkbox")).to_be_checked()
    # Notes of others stay as they are, and the page says why.
    await page.get_by_role("listitem").filter(has_text="Change a file").get_by_role("checkbox").click()
    await expect(page.get_by_role("alert").filter(has_text=re.compile(".+"))).to_have_count(1)
    await page.get_by_role("button", name="Call a function").click()
    await expect(page.get_by_text("Hello, Ada!")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_placeholder("Name").fill("ada")
    await page.get_by_placeholder("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Sign up").click()
    await expect(page.get_by_placeholder("What is to be done?")).to_be_visible()
    await page.reload()
    await expect(page.get_by_placeholder("What is to be done?")).to_be_visible()
    await expect(note.get_by_role("checkbox")).to_be_checked()


@pytest.mark.parametrize(
    "template",
    [
        "react",
        pytest.param("vue", marks=pytest.mark.whole),
        pytest.param("svelte", marks=pytest.mark.whole),
    ],
)
async def test_a_page_made_with_vite(template: str, tmp_path: Path, page: Page, sandboxes: None):
    with running(tmp_path, template) as project:
        await page.goto(address(project))
        await use(page)
        # Its types are those of the tables: what does not exist does not compile.
        run("npm", "run", "build", folder=project.project)
        source = next(path for path in (project.project / "src").glob("Notes.*"))
        edit(source, "create({ text", "create({ txt")
        with pytest.raises(AssertionError, match="txt"):
            run("npm", "run", "build", folder=project.project)


@pytest.mark.whole
async def test_nextjs_with_cookies(tmp_path: Path, page: Page, sandboxes: None):
    with reserved_port() as port, running(tmp_path, "next", PORT=str(port)) as project:
        await page.goto(address(project))
        await use(page)
        # The page never sees a token, and a session that must be renewed is, before the page is rendered.
        cookie = next(one for one in await page.context.cookies() if one["name"].startswith("pilotis-pk_"))
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        assert await page.evaluate("Object.keys(localStorage).concat(document.cookie)") == [""]
        session = json.loads(unquote(cookie["value"]))
        spoiled = quote(json.dumps({**session, "access_token": "x.e30.x"}))
        await page.context.add_cookies([{**cookie, "value": spoiled}])
        await page.reload()
        await expect(page.get_by_placeholder("What is to be done?")).to_be_visible()
        renewed = next(one for one in await page.context.cookies() if one["name"] == cookie["name"])
        assert json.loads(unquote(renewed["value"]))["access_token"] not in {"x.e30.x", session["access_token"]}
        # Another browser is a visitor: no client is shared by requests.
        other = await page.context.browser.new_page()
        await other.goto(address(project))
        await expect(other.get_by_placeholder("Name")).to_be_visible()
        await other.close()


@pytest.mark.whole
def test_an_expo_app_is_checked_and_bundled(tmp_path: Path):
    """What runs without a telephone: its types, and its bundle. `test_client.py` runs the client in a bare runtime."""
    project = create(tmp_path / "shop", "--template", "expo")
    shared.install(["npm", "install", *shared.NPM], project)
    types = (
        "import type { TableTypes } from '@pilotis/client';\nexport interface App { tables: { notes: TableTypes } }\n"
    )
    (project / "src" / "pilotis-types.ts").write_text(types)
    run("npm", "run", "check", folder=project)
    export = ["expo", "export", "--platform", "android", "--no-bytecode", "--no-minify"]
    run("npx", *export, folder=project, CI="1", EXPO_NO_TELEMETRY="1", EXPO_OFFLINE="1")
    (bundle,) = (project / "dist" / "_expo" / "static" / "js" / "android").iterdir()
    assert "Idempotency-Key" in bundle.read_text()


@pytest.mark.whole
async def test_fastapi_beside_pilotis(tmp_path: Path, page: Page, sandboxes: None):
    project = create(tmp_path / "shop", "--template", "python")
    run(sys.executable, "-m", "venv", "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin"
    client = tmp_path / "client"
    shutil.copytree(FOLDER.parents[4] / "clients" / "python", client)
    # The client is not in a registry yet.
    wanted = [line for line in (project / "requirements.txt").read_text().split("\n") if not line.startswith("pilotis")]
    shared.install([python / "python", "-m", "pip", "install", *shared.PIP, client, *filter(None, wanted)], tmp_path)
    path = f"{python}{os.pathsep}{os.environ['PATH']}"
    with reserved_port() as port:
        edit(project / ".pilotis.toml", "8000", str(port))
        started = Running(project, PATH=path)
        try:
            wait_until(lambda: "startup complete" in started.output)
            await page.goto(f"http://127.0.0.1:{port}")
            await expect(page.get_by_text("This row is from seed/notes.jsonl.")).to_be_visible()
            await expect(page.get_by_role("status")).to_have_text(re.compile("token|sign in", re.IGNORECASE))
            await page.get_by_role("button", name="Go on as a guest").click()
            await expect(page.get_by_role("status")).to_have_text("1 of 2 notes are open.")
            await page.get_by_role("button", name="Add a note").click()
            await expect(page.get_by_role("status")).to_have_text("2 of 3 notes are open.")
            forged = await page.request.get(
                f"http://127.0.0.1:{port}/api/summary", headers={"Authorization": "Bearer x.y.z"}
            )
            assert forged.status == 401
            assert "customer" not in (project / "pilotis_types.py").read_text()
            home = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": path}
            assert commands.run("test", folder=project, **home).returncode == 0
        finally:
            started.stop()


def test_the_recipes_of_the_guide_are_those_of_the_templates():
    guide = (FOLDER.parents[4] / "docs" / "quick-starts.md").read_text()
    sources = "\n".join(file.read_text() for file in FOLDER.rglob("*.*") if file.suffix in {".ts", ".js"})
    recipes = re.findall(r"^```(?:ts|js)\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(recipes) == 3
    assert [recipe for recipe in recipes if recipe not in sources] == []


def test_each_template_pins_its_packages():
    assert set(TEMPLATES) == {"vanilla", "react", "vue", "svelte", "next", "expo", "python"}
    for file in FOLDER.rglob("package.json"):
        manifest = json.loads(file.read_text())
        wanted = {**manifest["dependencies"], **manifest.get("devDependencies", {})}
        assert [version for version in wanted.values() if not re.match(r"\d|file:vendor/", version)] == []
    assert list(FOLDER.rglob("package-lock.json")) == []
