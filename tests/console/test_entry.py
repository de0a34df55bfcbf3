"""Ways into the console: the first-run link, signing in, an invitation; and a session that ends at work."""

import re
from collections.abc import Iterator

import pytest
from playwright.async_api import Page, expect

from tests.conftest import PASSWORD
from tests.console.conftest import EMAIL, Opening, sign_in
from tests.support import App, Server, plain_client


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without a console user."""
    own = Server(tmp_path_factory.mktemp("fresh") / "data").start()
    yield own
    own.stop()


async def sign_out(page: Page) -> None:
    await page.get_by_role("button", name="Profile").click()
    await page.get_by_role("menuitem", name="Sign out").click()


async def test_the_first_link_ends_signed_in(fresh: Server, visit: Opening) -> None:
    """With a wrong token first; by the keyboard alone, on a phone."""
    assert f"Its console is at {fresh.url}/console" in fresh.output
    async with visit("about:blank", width=390, height=844) as page:
        failed: list[str] = []
        page.on("response", lambda answer: answer.status >= 400 and failed.append(f"{answer.status} {answer.url}"))
        await page.goto(f"{fresh.url}/console")
        await expect(page.get_by_text("This link has no token")).to_be_visible()
        # A first visit is no failure, which a browser would list in red.
        assert failed == []
        await page.goto("about:blank")
        await page.goto(f"{fresh.url}/setup#wrong")
        await expect(page.get_by_label("Email")).to_be_focused()
        await page.keyboard.type("ada@example.com")
        await page.keyboard.press("Tab")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("has been used")
        await page.goto("about:blank")
        await page.goto(f"{fresh.url}/setup#{fresh.setup_token}")
        await expect(page.get_by_label("Email")).to_be_focused()
        assert fresh.setup_token not in page.url
        await page.keyboard.type("ada@example.com")
        await page.keyboard.press("Tab")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Apps")).to_be_visible()
        await expect(page.get_by_role("link", name="first app")).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # A reload finds the session by its cookie; scripts see none of it.
        await page.reload()
        await expect(page.get_by_role("link", name="first app")).to_be_visible()
        assert await page.evaluate("document.cookie") == ""
        assert "eyJ" not in await page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })")
        # The first key that signs tokens is created here, too, which serves all apps.
        await page.get_by_role("link", name="first app").click()
        await expect(page.get_by_role("navigation", name="Sections")).to_be_visible()
        await page.goto(f"{page.url}/oauth/keys")
        await page.get_by_role("button", name="Become a provider").click()
        await page.get_by_role("button", name="Create signing key").click()
        await expect(page.get_by_role("row").filter(has_text="signs now")).to_be_visible()
    assert fresh.setup_token not in fresh.logs()


async def test_signing_in_leads_to_where_one_was_going(server: Server, app: App, visit: Opening) -> None:
    path = f"/apps/{app.app_id}/keys"
    async with visit(f"{server.url}/console{path}") as page:
        await page.get_by_label("Email").fill(EMAIL)
        await page.get_by_label("Password").fill("wrong horse")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("wrong")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Keys", level=1)).to_be_visible()
        assert page.url == f"{server.url}/console{path}"
        visited: list[str] = []
        page.on("framenavigated", lambda frame: visited.append(frame.url))
        await sign_out(page)
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        # A page that knows nothing of the former user is loaded, and this is the only way that is taken.
        assert visited == [f"{server.url}/console/sign-in"]
        await page.reload()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_signing_out_asks_before_what_was_typed_is_lost(server: Server, app: App, visit: Opening) -> None:
    table = await app.table({"name": "string"}, title="orders")
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/tables/{table}?row=new")
        await page.locator("#new-name").fill("Heron")
        await sign_out(page)
        dialog = page.get_by_role("dialog", name="Sign out and lose what is not saved?")
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#new-name")).to_have_value("Heron")
        # Without an answer, the session may go on, and so nothing is left.
        await page.route("**/v1/auth/session", lambda route: route.abort())
        await sign_out(page)
        await dialog.get_by_role("button", name="Sign out").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
        await page.unroute("**/v1/auth/session")
        await dialog.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_session_that_ends_at_work_loses_nothing(server: Server, app: App, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings")
        await page.get_by_label("Name", exact=True).fill("Boat rental")
        async with plain_client(server.url) as client:
            # From elsewhere: every session of the user but that one ends.
            tokens = (await client.post("/v1/auth/signin", json={"email": EMAIL, "password": PASSWORD})).json()
            body = {"current_password": PASSWORD, "new_password": PASSWORD}
            headers = {"Authorization": f"Bearer {tokens['access_token']}"}
            changed = await client.put("/v1/auth/me/password", json=body, headers=headers)
            assert changed.status_code == 200
        await page.get_by_role("button", name="Save").click()
        dialog = page.get_by_role("dialog", name="Sign in again")
        await expect(dialog).to_be_visible()
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Saved")).to_be_visible()
        async with plain_client(server.url) as client:
            read = await client.get(f"/v1/apps/{app.app_id}", headers=headers)
        assert read.json()["name"] == "Boat rental"
    app.console.update(tokens)


async def test_an_invitation_is_accepted_by_a_newcomer(server: Server, app: App, visit: Opening) -> None:
    email = f"{app.app_id[-12:]}@example.com"
    async with visit("about:blank") as page:
        await sign_in(page, server, f"/apps/{app.app_id}/settings/people")
        await page.get_by_role("button", name="Invite").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Email").fill(email)
        await dialog.get_by_label("Role").select_option("viewer")
        await dialog.get_by_role("button", name="Create link").click()
        link = await dialog.get_by_text(re.compile(r"/setup#")).inner_text()
    async with visit(link.strip()) as page:
        await page.get_by_label("Email").fill(email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Create console user").click()
        # Who was invited only to look at an app creates none.
        await expect(page.get_by_role("link", name=re.compile("app ")).first).to_be_visible()
        await expect(page.get_by_role("button", name="New app")).to_have_count(0)
        await page.get_by_role("link", name=re.compile("app ")).first.click()
        await expect(page.get_by_text("Viewer")).to_be_visible()
        # What the role may not do is there, with the reason.
        await page.goto(f"{server.url}/console/apps/{app.app_id}/keys")
        button = page.get_by_role("button", name="New public key")
        await expect(button).to_have_attribute("aria-disabled", "true")
        await expect(button).to_have_attribute("title", re.compile("viewer"))


async def test_a_browser_that_is_too_old_is_told_so(server: Server, visit: Opening) -> None:
    async with visit("about:blank") as page:
        await page.add_init_script("delete HTMLElement.prototype.popover")
        for language, told in (("en", "needs Safari 17, Firefox 128, Chrome 120"), ("ko", "Safari 17, Firefox 128")):
            await page.goto(f"{server.url}/console")
            await expect(page.locator(".noscript")).to_contain_text(told)
            await expect(page.get_by_role("link")).to_have_attribute("href", "/docs")
            assert await page.locator("html").get_attribute("lang") == language
            await page.evaluate("localStorage.setItem('pilotis.language', 'ko')")


async def test_a_text_is_copied_where_a_page_has_no_clipboard(server: Server, app: App, visit: Opening) -> None:
    """As over plain http from another machine; also out of a dialog, which lets nothing else have the focus."""
    async with visit("about:blank", permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.add_init_script(
            "window.real = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', { value: undefined })"
        )
        await sign_in(page, server, f"/apps/{app.app_id}/keys")
        dialog = page.get_by_role("dialog")
        await page.get_by_role("button", name="New secret key").click()
        await dialog.get_by_label("Name").fill("build")
        await dialog.get_by_role("button", name="New secret key").click()
        key = await dialog.locator(".secret code").inner_text()
        await dialog.get_by_role("button", name="Copy").click()
        await expect(dialog.get_by_role("button", name="Copied")).to_be_focused()
        assert await page.evaluate("real.readText()") == key
        # And where that is not allowed either, the user learns it.
        await page.evaluate("document.execCommand = () => false")
        await dialog.get_by_role("button", name="Copied").click()
        await expect(page.get_by_text("This browser does not allow copying here.")).to_be_visible()
