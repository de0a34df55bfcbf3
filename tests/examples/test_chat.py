"""`examples/chat`, opened by its one command: two members in a workspace, and a stranger outside of it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from tests.examples.opened import Visitor, opened
from tests.support import App
from tests.test_project import Command, command  # noqa: F401 - a fixture

PASSWORD = "correct horse battery"
HOSTILE = "<img src=x onerror=\"document.title = 'owned'\">"


@pytest.fixture
def site(command: Command, app: App) -> Iterator[str]:  # noqa: F811
    with opened(command, app, "chat") as running:
        yield running.place("Site")


class Talker(Visitor):
    async def sign_up(self, name: str) -> None:
        await self.page.get_by_label("Name").fill(name)
        await self.page.get_by_label("Password").fill(PASSWORD)
        await self.press("Sign up")

    async def say(self, text: str) -> None:
        await self.page.get_by_label("Message to").fill(text)
        await self.press("Send")

    @property
    def messages(self) -> Any:
        return self.page.get_by_role("list", name="Messages").get_by_role("listitem")


async def test_two_members_talk(browser: Browser, site: str) -> None:
    ada, bob = await Talker.come(browser, site, 1200, 900), await Talker.come(browser, site, 375, 812)
    await ada.page.goto(site)
    await ada.sign_up("ada")
    await ada.page.get_by_label("Name of a new workspace").fill("Night owls")
    await ada.press("Make a workspace")
    await ada.say("Who is awake?")
    await expect(ada.messages).to_have_count(1, timeout=8000)
    await ada.page.get_by_label("New room").fill("owners")
    await ada.page.get_by_label("for owners alone").check()
    await ada.press("Add")
    await expect(ada.page.get_by_role("heading", level=1)).to_have_text("# owners")
    await ada.press("Invite")
    invitation = ada.page.locator("#invitation")
    await expect(invitation).to_contain_text("/join/")

    await bob.page.goto(await invitation.text_content() or "")
    await bob.sign_up("bob")
    await expect(bob.page.get_by_role("heading", level=1)).to_have_text("Join Night owls")
    await bob.press("Join")
    await expect(bob.page.get_by_role("heading", level=1)).to_have_text("# general")
    await expect(bob.page.get_by_role("link", name="owners")).to_have_count(0)
    await bob.say(HOSTILE)
    await bob.say("I am.")
    await expect(bob.messages).to_have_count(3)

    # What is unread of the other room.
    await ada.page.reload()
    await expect(ada.page.get_by_role("link", name="general").locator("b")).to_have_text("2")
    await ada.page.get_by_role("link", name="general").click()
    await expect(ada.messages).to_have_count(3)
    await expect(ada.page.get_by_role("list", name="Here now")).to_contain_text("bob")
    await bob.page.get_by_label("Message to").fill("and")
    await expect(ada.page.locator(".typing")).to_have_text("bob is writing …")
    await ada.picture("chat")
    await bob.picture("chat-phone")
    # Each changes its own alone; the owner deletes what others have written.
    await expect(ada.messages.nth(1).get_by_role("button", name="Edit")).to_have_count(0)
    await expect(bob.messages.nth(0).get_by_role("button")).to_have_count(0)
    await ada.messages.nth(1).get_by_role("button", name="Delete").click()
    await expect(bob.messages).to_have_count(2)
    await bob.messages.nth(1).get_by_role("button", name="Edit").click()
    await bob.page.get_by_label("Your message", exact=True).fill("I am, at last.")
    await bob.press("Save")
    await expect(ada.messages.nth(1)).to_contain_text("I am, at last.")
    assert await ada.page.title() == "Team chat"
    assert await bob.page.evaluate("document.documentElement.scrollWidth") <= 375
    for talker in (ada, bob):
        await talker.leave()


async def test_a_stranger_hears_nothing(app: App, site: str) -> None:
    async with app.client() as client:

        async def call(who: str | None, method: str, path: str, body: Any = None) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[who]}"} if who else {}
            return await client.request(method, f"/v1/public/{path}", json=body, headers=headers)

        tokens = {}
        for name in ("owner", "guest", "stranger"):
            made = await client.post("/v1/public/app-members/signup", json={"login_id": name, "password": PASSWORD})
            tokens[name] = made.json()["access_token"]
            await call(name, "POST", "tables/profiles/data", {"data": {"username": name}})
        team = (await call("owner", "POST", "app-members/teams", {"name": "Ours"})).json()["team_id"]
        rooms = {}
        for room, private in (("general", False), ("private", True)):
            data = {"team": team, "name": room, "owners_only": private}
            rooms[room] = (await call("owner", "POST", "tables/rooms/data", {"data": data})).json()["id"]
            text = {"room": rooms[room], "author": "owner", "text": "Hello"}
            assert (await call("owner", "POST", "tables/messages/data", {"data": text})).status_code == 201
        link = await call("owner", "POST", f"app-members/teams/{team}/invitations", {"link": True})
        await call("guest", "POST", "app-members/invitations/accept", {"token": link.json()["token"]})

        async def heard(who: str | None) -> int:
            answer = await call(who, "POST", "tables/messages/data/query", {})
            return answer.json()["total_count"] if answer.status_code == 200 else 0

        assert [await heard(who) for who in ("owner", "guest", "stranger", None)] == [2, 1, 0, 0]
        for who, room in (("stranger", "general"), ("stranger", "private"), ("guest", "private"), (None, "general")):
            text = {"room": rooms[room], "author": who or "owner", "text": "Let me in"}
            answer = await call(who, "POST", "tables/messages/data", {"data": text})
            assert answer.status_code in {400, 401, 403}, answer.text
            message = {"event": "typing", "payload": {}}
            answer = await call(who, "POST", f"realtime/channels/room:{rooms[room]}/messages", message)
            assert answer.status_code in {401, 403}, answer.text
        # In the name of another, in a room of one's own making, and a link that was used up.
        forged = {"room": rooms["general"], "author": "owner", "text": "x"}
        assert (await call("guest", "POST", "tables/messages/data", {"data": forged})).status_code == 403
        own = {"team": team, "name": "mine"}
        assert (await call("guest", "POST", "tables/rooms/data", {"data": own})).status_code == 403
        again = await call("stranger", "POST", "app-members/invitations/accept", {"token": link.json()["token"]})
        assert again.status_code == 404
