"""`examples/conduit`, opened by its one command: two members at once in a browser, and a stranger at the interface."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.examples.opened import Visitor, opened
from tests.support import App
from tests.test_project import Command, command  # noqa: F401 - a fixture

PASSWORD = "correct horse battery"
TITLE = "Ropes & <b>knots</b>"
HOSTILE = '<img src=x onerror="document.title = \'owned\'"> & "so on"'


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "conduit") as running:
        assert "Filled comments with 1 rows." in running.output
        yield running.place("Site")


class Reader(Visitor):
    async def open(self, address: str, title: str | None = None) -> None:
        await self.page.goto(f"{self.site}/#/{address}")
        if title is not None:
            await expect(self.page.get_by_role("heading", level=1)).to_have_text(title)

    async def sign_up(self, name: str) -> None:
        await self.open("sign-up")
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(PASSWORD)
        await self.press("Sign up")
        await expect(self.page.get_by_role("navigation", name="Main")).to_contain_text(name)

    async def publish(self, title: str, body: str, tags: str = "") -> None:
        await self.open("editor")
        await self.page.get_by_label("Title").fill(title)
        await self.page.get_by_label("Text").fill(body)
        await self.page.get_by_label("Tags").fill(tags)
        await self.press("Publish")
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(title)


async def test_two_members_write_read_and_follow(browser: Browser, site: str) -> None:
    linus, edith = await Reader.come(browser, site, 1200, 900), await Reader.come(browser, site, 375, 812)
    await linus.sign_up("linus")
    await linus.publish(TITLE, HOSTILE, "rope, sea")
    address = linus.page.url.partition("#/")[2]
    await linus.publish(TITLE, "The same title again.")
    assert linus.page.url.partition("#/")[2] != address
    await linus.open(address, TITLE)

    await edith.open("tag/rope")
    await expect(edith.page.locator("article")).to_have_count(1)
    await edith.sign_up("edith")
    await edith.open(address, TITLE)
    await edith.press("Make it a favourite")
    await expect(edith.page.get_by_role("button", name="Take back your favourite")).to_have_text("♥ 1")
    await edith.press("Follow linus")
    await expect(edith.page.get_by_role("button", name="Unfollow linus")).to_be_visible()
    await expect(edith.page.get_by_role("button", name="Delete")).to_have_count(0)
    await edith.page.get_by_label("Your comment").fill("What about bowlines?")
    await edith.press("Post comment")

    # His page has her comment, and no way to delete it.
    comment = linus.page.get_by_role("region", name="Comments").get_by_role("article")
    await expect(comment).to_contain_text("What about bowlines?")
    await expect(comment.get_by_role("button")).to_have_count(0)
    await edith.page.get_by_role("region", name="Comments").get_by_role("button", name="Delete").click()
    await expect(comment).to_have_count(0)
    await linus.page.reload()
    await expect(linus.page.get_by_role("button", name="Make it a favourite")).to_have_text("♥ 1")
    assert await linus.page.title() == "Conduit"
    await linus.picture("conduit-article")

    for list_, many in (("feed", 2), ("@linus", 2), ("@edith/favourites", 1), ("@edith", 0)):
        await edith.open(list_)
        await expect(edith.page.locator("nav a[aria-current]").last).to_be_visible()
        await expect(edith.page.get_by_role("region", name="Articles").locator("article")).to_have_count(many)
    assert await edith.page.evaluate("document.documentElement.scrollWidth") <= 375
    await edith.picture("conduit-phone")

    await linus.press("Delete")
    await expect(linus.page.get_by_role("heading", name="Popular tags")).to_be_visible()
    await edith.open("@edith/favourites")
    await expect(edith.page.get_by_text("Nothing here yet.")).to_be_visible()
    for reader in (linus, edith):
        await reader.leave()


async def test_a_stranger_writes_nothing_of_others(app: App, site: str) -> None:
    async with app.client() as client:

        async def call(method: str, path: str, body: Any = None, token: str | None = None) -> Any:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return await client.request(method, f"/v1/public/tables/{path}", json=body, headers=headers)

        tokens = {}
        for name in ("owner", "other"):
            credentials = {"login_id": name, "password": PASSWORD}
            made = await client.post("/v1/public/app-members/signup", json=credentials)
            tokens[name] = made.json()["access_token"]
            assert (await call("POST", "profiles/data", {"data": {"username": name}}, tokens[name])).status_code == 201
        article = {"slug": "mine", "title": "Mine", "body": "x", "author": "owner"}
        mine = (await call("POST", "articles/data", {"data": article}, tokens["owner"])).json()["id"]
        favourite = {"data": {"article": "mine", "by": "owner"}}
        liked = (await call("POST", "favourites/data", favourite, tokens["owner"])).json()["id"]

        denied = [
            # In the name of another, or with a second profile or the name of another.
            ("POST", "articles/data", {"data": {**article, "slug": "fake"}}),
            ("POST", "comments/data", {"data": {"article": "mine", "author": "owner", "body": "x"}}),
            ("POST", "favourites/data", {"data": {"article": "mine", "by": "owner"}}),
            ("POST", "follows/data", {"data": {"profile": "other", "by": "owner"}}),
            ("POST", "profiles/data", {"data": {"username": "second"}}),
            ("POST", "profiles/data", {"data": {"username": " OWNER "}}),
            # What is another's.
            ("PATCH", f"articles/data/{mine}", {"data": {"title": "Yours"}}),
            ("DELETE", f"articles/data/{mine}", None),
            ("DELETE", f"favourites/data/{liked}", None),
            ("POST", "profiles/data/upsert", {"key": "username", "data": {"username": "owner", "bio": "x"}}),
            # What its owner may not either.
            ("DELETE", "articles/columns/body", None),
            ("DELETE", "articles", None),
        ]
        for method, path, body in denied:
            for token in (tokens["other"], None):
                answer = await call(method, path, body, token)
                assert answer.status_code in {401, 403, 404, 409}, (path, body, answer.text)
        for changed in ({"author": "other"}, {"slug": "yours"}):
            answer = await call("PATCH", f"articles/data/{mine}", {"data": changed}, tokens["owner"])
            assert answer.status_code == 403, answer.text
        everything = await call("POST", "articles/data/delete-where", {"where": {"title": "Mine"}}, tokens["other"])
        assert everything.json()["deleted_count"] == 0
        assert (await call("GET", f"articles/data/{mine}")).json()["data"] == article
