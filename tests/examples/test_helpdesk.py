"""`examples/helpdesk`, opened by its one command: a customer and an agent at one ticket, and a stranger outside."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, FilePayload, expect

from tests.examples.opened import Visitor, opened
from tests.support import App, plain_client
from tests.test_project import Command, command  # noqa: F401 - a fixture
from tests.waiting import until

HOSTILE = "<img src=x onerror=\"document.title = 'owned'\">"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
SIGN_IN = "/v1/public/app-members/email-sign-in"


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "helpdesk") as running:
        assert "Filled messages with 8 rows." in running.output
        yield running.place("Site")


class Desk:
    """The app's own side."""

    def __init__(self, app: App, site: str) -> None:
        self.app, self.site = app, f"{site}/"
        self.console = plain_client(
            f"{app.server.url}/v1/apps/{app.app_id}", Authorization=f"Bearer {app.console['access_token']}"
        )

    async def open(self) -> None:
        """Let the mailed links lead to where the tests' site is."""
        await self.console.put("/oauth/settings", json={"login_redirect_uris": [self.site]})

    async def link(self, address: str) -> str:
        """Return the link of the newest mail to an address."""

        async def newest() -> str | None:
            mails = (await self.console.get("/mail")).json()["data"]
            mine = [one for one in mails if one["recipient"] == address and one["state"] == "stored"]
            return mine[0]["mail_id"] if mine else None

        found = await until(newest)
        return str((await self.console.get(f"/mail/{found}")).json()["link"])

    async def appoint(self, address: str, *roles: str) -> None:
        """Give a member roles, or say that it is an agent."""
        found = (await self.console.get("/members", params={"email": address})).json()["data"]
        answer = await self.console.patch(f"/members/{found[0]['member_id']}", json={"roles": list(roles)})
        assert answer.status_code == 200, answer.text

    async def member(self, client: httpx.AsyncClient, address: str, *roles: str) -> dict[str, str]:
        """Sign in by mail, and return the header that says so."""
        await client.post(SIGN_IN, json={"email": address, "redirect_uri": self.site})
        token = urlsplit(await self.link(address)).fragment
        session = (await client.post(f"{SIGN_IN}/confirm", json={"token": token})).json()
        if roles:
            await self.appoint(address, *roles)
        return {"Authorization": f"Bearer {session['access_token']}"}


@pytest.fixture
async def desk(app: App, site: str) -> AsyncIterator[Desk]:
    made = Desk(app, site)
    await made.open()
    yield made
    await made.console.aclose()


class Person(Visitor):
    async def comes_back(self, desk: Desk, address: str) -> None:
        await self.page.goto(f"{self.site}/#/return")
        await self.page.get_by_label("Your e-mail address").fill(address)
        await self.press("Mail me a link")
        await expect(self.page.get_by_role("heading", level=1)).to_have_text("Look into your mail")
        await self.page.goto(await desk.link(address))
        await self.press("Continue")

    @property
    def messages(self) -> Any:
        return (
            self.page.get_by_role("list", name="Messages").get_by_role("listitem").filter(has=self.page.locator(".by"))
        )


async def test_a_customer_and_an_agent_write_to_each_other(browser: Browser, site: str, desk: Desk) -> None:
    ines, mira = await Person.come(browser, site, 375, 812), await Person.come(browser, site, 1200, 860)
    await mira.comes_back(desk, "mira@desk.example")
    await expect(mira.page.get_by_role("list", name="Your tickets")).to_contain_text("Nothing here.")
    await desk.appoint("mira@desk.example", "lead")
    await mira.page.reload()
    await mira.page.get_by_label("Your name").fill("Mira")
    await mira.press("Go to the desk")
    await expect(mira.page.get_by_role("button", name="Waiting")).to_have_text("Waiting2")

    await mira.picture("helpdesk-list")

    await ines.page.goto(site)
    await expect(ines.page.get_by_role("heading", level=1)).to_have_text("How can we help?")
    await ines.picture("helpdesk-welcome")
    await ines.page.get_by_label("Your name").fill("Ines")
    await ines.page.get_by_label("Your e-mail address").fill("ines@example.com")
    await ines.page.get_by_label("What is it about?").fill("No steam")
    await ines.page.get_by_label("Your message").fill(HOSTILE)
    await ines.press("Send")
    await expect(ines.page.get_by_role("heading", level=1)).to_have_text("Look into your mail")
    await ines.page.goto(await desk.link("ines@example.com"))
    await ines.press("Continue")
    await expect(ines.page.get_by_role("heading", level=1)).to_have_text("No steam Open")

    # It appears at the desk, with its count.
    await expect(mira.page.get_by_role("button", name="Open")).to_have_text("Open3")
    await mira.page.get_by_role("link", name="No steam").click()
    await mira.press("Take it")
    await expect(ines.page.get_by_text("Mira looks after it")).to_be_visible()
    await mira.page.get_by_label("Note for agents").fill("She has written before.")
    await mira.page.get_by_label("Answer to Ines").fill("Could you show us the lid?\nA picture helps.")
    await mira.press("Send")
    await expect(ines.page.locator("header .badge")).to_have_text("Waiting")
    await ines.page.get_by_label("Your message").fill("Here it is.")
    picture = FilePayload(name="lid.png", mimeType="image/png", buffer=PICTURE)
    await ines.page.get_by_label("Attach pictures").set_input_files([picture])
    await ines.press("Send")
    await expect(mira.messages).to_have_count(3)
    await expect(mira.page.get_by_role("link", name="lid.png").locator("img")).to_have_js_property("naturalWidth", 1)
    await expect(mira.page.locator("header .badge")).to_have_text("Open")
    await mira.picture("helpdesk")
    await ines.picture("helpdesk-phone")
    assert "written before" not in await ines.page.content()
    assert await ines.page.evaluate("document.documentElement.scrollWidth") <= 375
    assert (await ines.page.title(), await mira.page.title()) == ("Help desk", "Help desk")

    await ines.press("This is solved")
    await expect(mira.page.get_by_role("button", name="Solved").first).to_have_text("Solved2")
    await mira.press("Delete")
    await expect(mira.page.get_by_role("button", name="Solved").first).to_have_text("Solved1")
    await expect(ines.page.get_by_role("list", name="Your tickets")).to_contain_text("Nothing here.")
    for person in (ines, mira):
        await person.leave()


async def test_a_stranger_reads_no_ticket(app: App, desk: Desk) -> None:
    async with app.client() as client:

        async def call(who: str | None, method: str, path: str, body: Any = None) -> httpx.Response:
            headers = people[who] if who else {}
            return await client.request(method, f"/v1/public/{path}", json=body, headers=headers)

        people = {name: await desk.member(client, f"{name}@example.com") for name in ("ines", "eve")}
        people["mira"] = await desk.member(client, "mira@example.com", "agent")
        guest = (await client.post("/v1/public/app-members")).json()
        people["guest"] = {"Authorization": f"Bearer {guest['access_token']}"}

        ticket = {"code": "abcd-efg", "subject": "Mine", "customer": "Ines"}
        answer = await call("ines", "POST", "tables/tickets/data", {"data": ticket})
        assert answer.status_code == 201, answer.text
        made = answer.json()["id"]
        text = {"ticket": "abcd-efg", "text": "Help", "by_agent": False}
        assert (await call("ines", "POST", "tables/messages/data", {"data": text})).status_code == 201
        noted = await call(
            "mira", "PATCH", f"tables/tickets/data/{made}", {"data": {"note": "secret", "agent": "Mira"}}
        )
        assert noted.json()["data"]["note"] == "secret"
        told = await call("mira", "POST", "tables/messages/data", {"data": {**text, "by_agent": True}})
        assert told.status_code == 201, told.text

        files = "storages/files/attachments"
        sent = {"file_size": 4, "mime_type": "text/plain"}
        permit = (await call("ines", "POST", f"{files}/presigned-url/path/abcd-efg/x/a.txt", sent)).json()
        await client.put(permit["upload_url"], content=b"mine", headers=permit["headers"])
        file = (await call("ines", "POST", f"{files}/complete-upload", {"file_id": permit["file_id"]})).json()

        async def seen(who: str | None, table: str) -> int:
            answer = await call(who, "POST", f"tables/{table}/data/query", {})
            return answer.json()["total_count"] if answer.status_code == 200 else 0

        callers = ("ines", "mira", "eve", "guest", None)
        assert [await seen(who, "tickets") for who in callers] == [1, 6, 0, 0, 0]
        assert [await seen(who, "messages") for who in callers] == [2, 10, 0, 0, 0]
        for who in ("ines", "mira", "eve"):
            link = await call(who, "POST", f"{files}/items/{file['id']}/signed-url", {})
            listed = await call(who, "GET", f"{files}/items")
            found = [one["path"] for one in listed.json()["files"] if one["type"] == "file"]
            assert (link.status_code, len(found)) == ((404, 0) if who == "eve" else (200, 1)), listed.text
        assert (await client.get(file["url"])).status_code in {401, 403, 404}

        # The note: not by reading, not by trying, not in what a change answers.
        for path, body in (
            ("tables/tickets/data/query", {"where": {"note": {"$startsWith": "s"}}}),
            ("tables/tickets/data/query", {"order_by": "note"}),
            ("search", {"table_id": "tickets", "query": "secret", "fields": ["note"]}),
            ("aggregate", {"table_id": "tickets", "pipeline": [{"$group": {"_id": "$note"}}]}),
        ):
            assert (await call("ines", "POST", path, body)).status_code == 403, path
        own = await call("ines", "GET", f"tables/tickets/data/{made}")
        assert own.json()["data"] == {**ticket, "state": "open", "agent": "Mira"}
        solved = await call("ines", "PATCH", f"tables/tickets/data/{made}", {"data": {"state": "solved"}})
        assert (solved.status_code, "note" in solved.json()["data"]) == (200, False)

        denied = [
            # What a customer may not do with its own.
            ("ines", "PATCH", f"tables/tickets/data/{made}", {"data": {"state": "waiting"}}),
            ("ines", "PATCH", f"tables/tickets/data/{made}", {"data": {"agent": "Ines"}}),
            ("ines", "PATCH", f"tables/tickets/data/{made}", {"data": {"note": "x"}}),
            ("ines", "DELETE", f"tables/tickets/data/{made}", None),
            ("ines", "DELETE", f"{files}/items/{file['id']}", None),
            ("ines", "POST", "tables/messages/data", {"data": {**text, "by_agent": True}}),
            ("ines", "POST", "tables/messages/data", {"data": {**text, "author": "Mira"}}),
            ("ines", "POST", "tables/tickets/data", {"data": {**ticket, "code": "abcd-efh", "state": "solved"}}),
            # What an agent may not.
            ("mira", "POST", "tables/messages/data", {"data": text}),
            ("mira", "DELETE", f"tables/tickets/data/{made}", None),
            ("mira", "PATCH", f"tables/tickets/data/{made}", {"data": {"customer": "Eve"}}),
            ("guest", "POST", "tables/tickets/data", {"data": {**ticket, "code": "abcd-efh"}}),
            *((who, *rest) for who in ("eve", None) for rest in (
                ("GET", f"tables/tickets/data/{made}", None),
                ("GET", "tables/tickets/data/by/code/abcd-efg", None),
                ("PATCH", f"tables/tickets/data/{made}", {"data": {"state": "open"}}),
                ("POST", "tables/messages/data", {"data": text}),
                ("POST", f"{files}/presigned-url/path/abcd-efg/x/b.txt", sent),
                ("POST", f"{files}/presigned-url/path/abcd-efg/x/a.txt", {**sent, "overwrite": True}),
                ("POST", f"{files}/presigned-url", {**sent, "file_name": "b.txt"}),
                ("DELETE", f"{files}/items/{file['id']}", None),
                ("GET", f"{files}/path/abcd-efg/x/a.txt", None),
            )),
        ]  # fmt: skip
        for who, method, path, body in denied:
            answer = await call(who, method, path, body)
            assert answer.status_code in {400, 401, 403, 404}, (who, method, path, body, answer.text)
        # Nor by an account with a password, which the app does not have.
        signed_up = await call(None, "POST", "app-members/signup", {"login_id": "eve", "password": "correct horse"})
        assert signed_up.status_code == 403, signed_up.text
