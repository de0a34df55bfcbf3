"""A newcomer's whole path on the account pages, with the console's mailbox in place of a mail server, step by step."""

import json
import time
from dataclasses import dataclass, field

from playwright.async_api import Page, expect

from tests.accounts.test_gate import settings
from tests.chromium import ARTIFACTS
from tests.console.conftest import Opening
from tests.console.conftest import sign_in as sign_in_to_console
from tests.support import App, Server

PASSWORD, NEW = "correct horse", "battery staple"
ADDRESS = "ada@example.com"
MAX_STEPS = {"sign up": 6, "verify": 3, "forget": 4, "reset": 3, "sign in": 3, "add a passkey": 1, "use it": 2}
"""What a person does in each part: a page opened, a field filled, a button pressed."""


@dataclass
class Walk:
    """Somebody with the account pages in one tab and the mailbox in another; counts what it does in each part."""

    pages: Page
    mailbox: Page
    part: str = ""
    steps: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    began: float = 0.0

    def begin(self, part: str) -> None:
        self.end()
        self.part, self.steps[part], self.began = part, 0, time.monotonic()

    def end(self) -> None:
        if self.part:
            self.seconds[self.part] = round(time.monotonic() - self.began, 2)

    def step(self) -> None:
        self.steps[self.part] += 1

    async def fill(self, label: str, text: str) -> None:
        self.step()
        await self.pages.get_by_label(label, exact=True).fill(text)

    async def press(self, name: str) -> None:
        self.step()
        await self.pages.get_by_role("button", name=name, exact=True).click()

    async def follow(self, name: str) -> None:
        self.step()
        await self.pages.get_by_role("link", name=name).click()

    async def says(self, text: str) -> None:
        await expect(self.pages.get_by_role("status")).to_contain_text(text)

    async def letter(self, subject: str) -> Page:
        """Open the newest mail of the mailbox."""
        self.step()
        await self.mailbox.reload()
        await self.mailbox.get_by_role("row", name=subject).get_by_role("button", name=ADDRESS).first.click()
        return self.mailbox


async def test_a_newcomer_goes_the_whole_way_in_few_steps(server: Server, app: App, visit: Opening) -> None:
    # A passkey belongs to a name, which the server's own address has not.
    origin = server.url.replace("127.0.0.1", "localhost")
    await settings(app, methods={"passkey": True}, passkey_domain="localhost", allowed_origins=[origin])
    async with visit("about:blank") as mailbox, visit(f"{origin}/account/{app.app_id}/sign-in") as pages:
        await sign_in_to_console(mailbox, server, f"/apps/{app.app_id}/mail")
        devtools = await pages.context.new_cdp_session(pages)
        await devtools.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
        await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        walk = Walk(pages, mailbox)

        walk.begin("sign up")
        await walk.follow("Create an account")
        await walk.fill("Login ID", "ada")
        await walk.fill("E-mail address (optional)", ADDRESS)
        await walk.fill("Password", PASSWORD)
        await walk.press("Create account")
        await expect(pages.get_by_text(f"mailed to {ADDRESS}")).to_be_visible()

        walk.begin("verify")
        panel = (await walk.letter("Confirm")).get_by_role("complementary", name="Mail")
        await walk.fill("Code", await panel.locator(".bigcode").inner_text())
        await walk.press("Confirm")
        await walk.says("Your address is confirmed.")
        await expect(pages.get_by_text("Signed in as ada")).to_be_visible()
        await pages.get_by_role("button", name="Sign out", exact=True).click()

        walk.begin("forget")
        await walk.follow("Forgot")
        await walk.fill("Login ID or e-mail address", ADDRESS)
        await walk.press("Send the mail")
        await walk.says("on its way")
        panel = (await walk.letter("password")).get_by_role("complementary", name="Mail")
        link = await panel.get_by_role("article").get_by_role("link").first.get_attribute("href")
        assert link is not None

        walk.begin("reset")
        walk.step()
        await pages.goto(link.replace(server.url, origin))
        await walk.fill("New password", NEW)
        await walk.press("Set password")
        await walk.says("Your password is changed.")

        walk.begin("sign in")
        await walk.fill("Login ID or e-mail address", "ada")
        await walk.fill("Password", NEW)
        await walk.press("Sign in")
        await expect(pages.get_by_text("Signed in as ada")).to_be_visible()

        walk.begin("add a passkey")
        await walk.press("Add a passkey")
        await walk.says("The passkey is added.")

        walk.begin("use it")
        await walk.press("Sign out")
        await walk.press("Sign in with a passkey")
        await expect(pages.get_by_text("Signed in as ada")).to_be_visible()
        walk.end()
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / "newcomer.json").write_text(json.dumps({"steps": walk.steps, "seconds": walk.seconds}, indent=1))
    assert {part for part, steps in walk.steps.items() if steps > MAX_STEPS[part]} == set(), walk.steps
    assert walk.steps.keys() == MAX_STEPS.keys()
