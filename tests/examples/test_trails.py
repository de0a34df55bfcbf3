"""`examples/trails`, opened by its one command: two members and a visitor with a link, and a stranger."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, FilePayload, expect

from tests.examples.opened import Visitor, opened
from tests.support import App
from tests.test_project import Command, command  # noqa: F401 - a fixture

PASSWORD = "correct horse battery"
HOSTILE = "<img src=x onerror=\"document.title = 'owned'\">"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
POINTS = "Car park, 47.2005, 11.4302\nHut, 47.2202, 11.4387\nTop, 47.2334, 11.4675"
HERE = {"latitude": 47.2, "longitude": 11.43}


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "trails") as running:
        assert "Filled waypoints with 28 rows." in running.output
        yield running.place("Site")


class Walker(Visitor):
    async def sign_up(self, name: str) -> None:
        await self.page.goto(f"{self.site}/#/sign-up")
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(PASSWORD)
        await self.press("Sign up")
        await expect(self.page.get_by_role("navigation", name="Main")).to_contain_text(name)

    async def finds(self, *titles: str) -> None:
        await expect(self.page.get_by_role("region", name="Trails").get_by_role("heading")).to_have_text(titles)

    async def shows(self, heading: str) -> None:
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)


async def test_two_members_find_and_share_trails(browser: Browser, site: str) -> None:
    ada, bob = await Walker.come(browser, site, 1200, 900), await Walker.come(browser, site, 375, 812)
    await ada.page.goto(site)
    await expect(ada.page.locator("output")).to_have_text("6 trails")
    await ada.picture("trails")
    # Words, place, difficulty and order at once.
    await ada.page.get_by_label("Words").fill("cake")
    await ada.finds("River path to the mill")
    await ada.page.get_by_label("Words").fill("ridge")
    await ada.page.get_by_label("Order").select_option("Longest")
    await ada.finds("Larch ridge above the Inn", "Seven towers")
    await ada.page.get_by_label("Difficulty").select_option("hard")
    await ada.finds("Seven towers")
    await ada.page.get_by_label("Near").select_option("Innsbruck")
    await expect(ada.page.locator("output")).to_have_text("0 trails")
    await ada.page.get_by_label("Words").fill("")
    await ada.page.get_by_label("Difficulty").select_option("")
    await ada.finds("Larch ridge above the Inn", "Glacier view")

    await ada.sign_up("ada")
    await bob.sign_up("bob")
    await ada.page.get_by_role("link", name="New trail").click()
    await ada.page.get_by_label("Title").fill("Secret valley")
    await ada.page.get_by_label("What it is like").fill(HOSTILE)
    await ada.page.get_by_label("Way points").fill(POINTS)
    await ada.press("Save")
    await ada.shows("Secret valley")
    await expect(ada.page.locator(".facts")).to_contain_text("private")
    await expect(ada.page.locator(".facts")).to_contain_text("km")
    photo = FilePayload(name="valley.png", mimeType="image/png", buffer=PICTURE)
    await ada.page.get_by_label("Add photos").set_input_files([photo])
    await expect(ada.page.get_by_role("img", name="valley.png")).to_have_js_property("naturalWidth", 1)
    address = ada.page.url.partition("#/")[2]

    # Private, by the link, and shared.
    await bob.page.goto(f"{site}/#/{address}")
    await expect(bob.page.get_by_role("alert")).to_have_text("There is no such trail, or it is private.")
    await bob.page.goto(await ada.page.locator("code").text_content() or "")
    await bob.shows("Secret valley")
    await expect(bob.page.get_by_role("img", name="valley.png")).to_have_js_property("naturalWidth", 1)
    await expect(bob.page.get_by_text("You came by a link")).to_be_visible()
    await ada.page.get_by_label("Share with").fill("bob")
    await ada.press("Share")
    await expect(ada.page.get_by_role("list", name="Shared with")).to_contain_text("bob")
    await bob.page.goto(f"{site}/#/{address}")
    await bob.page.get_by_label("Your comment").fill("Is the hut open?")
    await bob.press("Comment")
    comments = ada.page.get_by_role("region", name="Comments")
    await expect(comments).to_contain_text("Is the hut open?")
    await ada.page.evaluate("scrollTo(0, 0)")
    await ada.picture("trails-own")
    await bob.page.evaluate("scrollTo(0, 0)")
    await bob.picture("trails-phone")
    assert await bob.page.evaluate("document.documentElement.scrollWidth") <= 375
    await bob.page.goto(f"{site}/#/")
    await expect(bob.page.locator("output")).to_have_text("7 trails")
    await bob.picture("trails-phone-list")
    await ada.press("End sharing with bob")
    await expect(ada.page.get_by_role("list", name="Shared with")).to_be_hidden()
    await bob.page.reload()
    await expect(bob.page.locator("output")).to_have_text("6 trails")

    await ada.page.get_by_role("link", name="Edit").click()
    await ada.page.get_by_label("Title").fill("Open valley")
    await ada.page.get_by_label("everybody may find it").check()
    await ada.press("Save")
    await ada.shows("Open valley")
    await bob.page.reload()
    await expect(bob.page.locator("output")).to_have_text("7 trails")
    await ada.page.get_by_role("complementary").get_by_role("button", name="Delete").click()
    await ada.shows("Where do we walk?")
    await bob.page.reload()
    await expect(bob.page.locator("output")).to_have_text("6 trails")
    assert (await ada.page.title(), await bob.page.title()) == ("Trails", "Trails")
    for walker in (ada, bob):
        await walker.leave()


async def test_a_stranger_finds_no_private_trail(app: App, site: str) -> None:
    async with app.client() as client:

        async def call(who: str | None, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
            if who:
                headers["Authorization"] = f"Bearer {tokens[who]}"
            return await client.request(method, f"/v1/public/{path}", json=body, headers=headers)

        async def made(who: str, table: str, **data: Any) -> dict[str, Any]:
            answer = await call(who, "POST", f"tables/{table}/data", {"data": data})
            assert answer.status_code == 201, answer.text
            return dict(answer.json())

        tokens: dict[str, str] = {}
        for name in ("author", "friend", "stranger"):
            body = {"login_id": name, "password": PASSWORD}
            tokens[name] = (await call(None, "POST", "app-members/signup", body)).json()["access_token"]
            await made(name, "profiles", username=name)
        slug = "private-one"
        trail = {"slug": slug, "title": "Hidden", "text": "x", "difficulty": "easy", "km": 3, "place": HERE}
        own = await made("author", "trails", **trail, author="author")
        await made("author", "waypoints", trail=slug, name="Start", place=HERE, position=0)
        share = await made("author", "shares", trail=slug, **{"with": "friend"})
        said = await made("friend", "comments", trail=slug, author="friend", text="Nice")
        files, sent = "storages/files/photos", {"file_size": 4, "mime_type": "image/png"}
        permit = (await call("author", "POST", f"{files}/presigned-url/path/{slug}/a.png", sent)).json()
        await client.put(permit["upload_url"], content=b"mine", headers=permit["headers"])
        photo = (await call("author", "POST", f"{files}/complete-upload", {"file_id": permit["file_id"]})).json()

        async def seen(who: str | None, **headers: str) -> list[int]:
            many = []
            for table in ("trails", "waypoints", "comments"):
                where = {"where": {"slug" if table == "trails" else "trail": slug}}
                answer = await call(who, "POST", f"tables/{table}/data/query", where, **headers)
                many.append(answer.json()["total_count"] if answer.status_code == 200 else 0)
            answer = await call(who, "POST", f"{files}/items/{photo['id']}/signed-url", {}, **headers)
            return [*many, answer.status_code]

        by_link = {"X-Capability": f"trail={own['data']['secret']}"}
        assert await seen("author") == await seen("friend") == [1, 1, 1, 200]
        assert await seen("stranger") == await seen(None) == [0, 0, 0, 404]
        # By the link all of this trail, which no list has; by a guess nothing.
        assert await seen(None, **by_link) == await seen("stranger", **by_link) == [0, 1, 1, 200]
        assert (await call(None, "GET", f"tables/trails/data/{own['id']}", **by_link)).status_code == 200
        assert await seen(None, **{"X-Capability": "trail=" + "x" * 32}) == [0, 0, 0, 404]
        for who in ("stranger", None):
            words = {"table_id": "trails", "query": "hidden", "fields": ["title"]}
            assert (await call(who, "POST", "search", words)).json()["total_count"] == 0
            near = {"table_id": "trails", "field": "place", "near": {"center": HERE, "max_distance": 1000}}
            titles = [row["data"]["title"] for row in (await call(who, "POST", "geo", near)).json()["data"]]
            assert "Hidden" not in titles
            answer = await call(who, "POST", "autocomplete", {"table_id": "trails", "query": "hid", "field": "title"})
            assert answer.json()["suggestions"] == []
        shared = (await call("friend", "GET", f"tables/trails/data/{own['id']}")).json()
        assert "secret" not in shared["data"]

        for who, method, path, data in (
            ("friend", "PATCH", f"tables/trails/data/{own['id']}", {"title": "Mine"}),
            ("friend", "PATCH", f"tables/trails/data/{own['id']}", {"is_public": True}),
            ("friend", "POST", "tables/shares/data", {"trail": slug, "with": "stranger"}),
            ("friend", "POST", "tables/waypoints/data", {"trail": slug, "name": "x", "place": HERE, "position": 1}),
            ("friend", "POST", "tables/comments/data", {"trail": slug, "author": "author", "text": "x"}),
            ("stranger", "POST", "tables/shares/data", {"trail": slug, "with": "stranger"}),
            ("stranger", "POST", "tables/comments/data", {"trail": slug, "author": "stranger", "text": "x"}),
            ("stranger", "DELETE", f"tables/comments/data/{said['id']}", None),
            ("stranger", "DELETE", f"tables/shares/data/{share['id']}", None),
            ("stranger", "POST", "tables/trails/data", {**trail, "slug": "another-one", "author": "author"}),
            ("author", "PATCH", f"tables/trails/data/{own['id']}", {"author": "friend"}),
            ("author", "PATCH", f"tables/trails/data/{own['id']}", {"secret": "y" * 32}),
        ):
            answer = await call(who, method, path, None if data is None else {"data": data}, **by_link)
            assert answer.status_code in {400, 401, 403, 404}, (who, method, path, data, answer.text)
        for who in ("friend", "stranger", None):
            for method, path, given in (
                ("POST", f"{files}/presigned-url/path/{slug}/b.png", sent),
                ("POST", f"{files}/presigned-url/path/{slug}/a.png", {**sent, "overwrite": True}),
                ("DELETE", f"{files}/items/{photo['id']}", None),
            ):
                answer = await call(who, method, path, given, **by_link)
                assert answer.status_code in {401, 403, 404}, (who, method, path, answer.text)
