"""The quick starts: each template of `pilotis new` runs as its page of the guide says, and is used in Chromium."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from pilotis.cli.new import TEMPLATES
from tests import shared
from tests.clients.test_clients import NEEDS_NODE, run
from tests.test_dev import Running, create, edit
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.embedded("a project has a server of its own"), NEEDS_NODE]
FOLDER = Path(__file__).parents[2] / "src" / "pilotis" / "cli" / "templates" / "projects"


@pytest_asyncio.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    made = await browser.new_page()
    made.set_default_timeout(PATIENCE * 1000)
    yield made
    await made.close()


@contextmanager
def running(folder: Path, template: str) -> Iterator[Running]:
    """A project of a template, with its packages, while `pilotis dev` runs it."""
    project = create(folder / "shop", "--template", template)
    shared.install(["npm", "install", *shared.NPM], project)
    started = Running(project, CI="1", NEXT_TELEMETRY_DISABLED="1", NO_COLOR="1")
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


def test_each_template_pins_its_packages():
    assert {"vanilla", "react", "vue", "svelte"} <= set(TEMPLATES)
    for file in FOLDER.rglob("package.json"):
        manifest = json.loads(file.read_text())
        wanted = {**manifest["dependencies"], **manifest.get("devDependencies", {})}
        assert [version for version in wanted.values() if not re.match(r"\d|file:vendor/", version)] == []
    assert list(FOLDER.rglob("package-lock.json")) == []
