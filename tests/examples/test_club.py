"""The club: a project that `pilotis dev` runs, used by a visitor, two members and an editor in Chromium."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests import cluster_template
from tests.commands import run_beside
from tests.functions.support import require_sandboxes
from tests.test_dev import Running
from tests.waiting import PATIENCE

pytestmark = pytest.mark.embedded("a project has a server of its own")
EXAMPLE = Path(__file__).parents[2] / "examples" / "club"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    require_sandboxes()
    project = tmp_path_factory.mktemp("club") / "club"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns(".pilotis"))
    cluster_template.copy_to(project / ".pilotis" / "data", {})
    running = Running(project)
    yield running
    running.stop()


class Console:
    """The developer, in the console's routes."""

    def __init__(self, club: Running) -> None:
        self.app_id = club.place("Console").rpartition("/")[2]
        url = club.place("Server")
        email, password = club.place("Sign in").split(", ")
        user = httpx.post(f"{url}/v1/auth/signin", json={"email": email, "password": password}).json()
        headers = {"Authorization": f"Bearer {user['access_token']}"}
        self.client = httpx.AsyncClient(base_url=f"{url}/v1/apps/{self.app_id}", headers=headers)


@pytest_asyncio.fixture
async def people(browser: Browser) -> AsyncIterator[dict[str, Page]]:
    """Three people, each with a browser of their own."""
    contexts: list[BrowserContext] = [await browser.new_context() for _ in range(3)]
    for context in contexts:
        context.set_default_timeout(PATIENCE * 1000)
    yield dict(zip(("visitor", "ada", "bea"), [await context.new_page() for context in contexts], strict=True))
    for context in contexts:
        await context.close()


class Late:
    """The next answer to requests of a page, which is held up on its way until it is released."""

    def __init__(self) -> None:
        self.is_held, self.release, self.is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @classmethod
    async def answer_of(cls, page: Page, address: str) -> Self:
        late = cls()

        async def hold(route: Route) -> None:
            answer = await route.fetch()
            late.is_held.set()
            await late.release.wait()
            await route.fulfill(response=answer)
            late.is_over.set()

        await page.route(address, hold, times=1)
        return late


async def say(page: Page, hint: str, text: str, button: str) -> None:
    await page.get_by_placeholder(hint).first.fill(text)
    await page.get_by_role("button", name=button).first.click()


async def test_the_club(club: Running, people: dict[str, Page], tmp_path: Path):
    console = Console(club)
    storage = {"name": "avatars", "upload_access": "AppMember", "delete_access": "Creator"}
    assert (await console.client.post("/storages/files", json=storage)).status_code == 201
    visitor, ada, bea = people.values()
    for name, page in people.items():
        page.on("pageerror", lambda error: print(error))
        await page.goto(club.place("Site"))
        if name != "visitor":
            await page.get_by_placeholder("Password").fill("correct horse battery")
            await say(page, "Name", name, "Join")
            await expect(page.get_by_placeholder("A note")).to_be_visible()
    # Editors alone write posts.
    await expect(ada.get_by_placeholder("A post")).to_be_hidden()
    members = (await console.client.get("/members?search=ada")).json()["data"]
    changed = await console.client.patch(f"/members/{members[0]['member_id']}", json={"roles": ["editor"]})
    assert changed.status_code == 200, changed.text
    await ada.reload()
    await say(ada, "A post", "We meet <i>on Friday</i>", "Publish")
    for page in people.values():
        await expect(page.get_by_text("We meet <i>on Friday</i>")).to_be_visible()
    # Members comment, and are seen with their picture.
    late = await Late.answer_of(visitor, "**/tables/posts/data/query")
    await bea.get_by_label("Picture").set_input_files({"name": "me.png", "mimeType": "image/png", "buffer": PNG})
    await bea.get_by_role("button", name="Show my picture").click()
    await late.is_held.wait()
    await expect(visitor.get_by_placeholder("A comment")).to_have_count(0)
    await say(bea, "A comment", "I bring cake", "Say")
    comments = [page.get_by_role("article").filter(has_text="bea: I bring cake") for page in (bea, visitor)]
    await expect(comments[0]).to_be_visible()
    # What was read before the comment comes after it.
    late.release.set()
    await late.is_over.wait()
    comment = comments[1]
    await expect(comment).to_be_visible()
    await expect(comment.locator("img")).to_have_js_property("naturalWidth", 1)
    # A note is seen by those with whom it is shared.
    await say(bea, "A note", "The key is under the mat", "Keep")
    await expect(bea.locator("#notes article")).to_have_count(1)
    await expect(ada.locator("#notes article")).to_have_count(0)
    await say(bea, "A member's name", "ada", "Share")
    await expect(ada.locator("#notes article")).to_have_text("The key is under the mat")
    await say(bea, "A member's name", "nobody", "Share")
    await expect(bea.get_by_role("status")).not_to_be_empty()
    # The day's digest.
    home = {"XDG_CONFIG_HOME": str(club.project.parent / "config"), "PILOTIS_URL": club.place("Server")}
    done = await run_beside("workflows", "run", "digest", "--follow", PILOTIS_APP=console.app_id, **home)
    assert '"posts": 1, "comments": 1' in done.stdout, done.stdout + done.stderr
    await bea.get_by_role("button", name="Sign out").click()
    await expect(bea.get_by_placeholder("Password")).to_be_visible()
    await say(bea, "E-mail address", "bea@example.com", "I have forgotten my password")
    await expect(bea.get_by_role("status")).to_be_empty()
    await console.client.aclose()


def test_it_is_as_short_as_it_says():
    place = {"site": "club.js", "functions/digest": "index.ts", "workflows": "digest.yaml"}
    lines = sum(len((EXAMPLE / folder / name).read_text().splitlines()) for folder, name in place.items())
    assert f"have {lines} lines" in (EXAMPLE / "README.md").read_text()
