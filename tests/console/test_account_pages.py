"""The pages of members' accounts in a browser: from the sign-up to the deletion, in every language."""

import tomllib
from importlib.resources import files

import pytest
from playwright.async_api import Page, expect

from pilotis.account_pages.pages import PAGES
from pilotis.kit.languages import LANGUAGES
from tests.chromium import PICTURES, keep_picture
from tests.console import owner_of
from tests.console.conftest import Opening, obstacles
from tests.mail.world import MEMBERS, account, mails, sign_up, token_of, verified
from tests.support import App, Server
from tests.waiting import until

NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 860}
PASSWORD, NEW = "correct horse", "battery staple"


def address(server: Server, app: App, page: str) -> str:
    return f"{server.url}/account/{app.app_id}/{page}"


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def test_a_member_signs_up_confirms_changes_and_deletes_its_account(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    async with visit(address(server, app, "sign-in")) as page:
        await page.get_by_role("link", name="Create an account").click()
        await page.get_by_label("Login ID", exact=True).fill("ada")
        await page.get_by_label("E-mail address (optional)").fill("ada@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_text("mailed to ada@example.com")).to_be_visible()
        (mail,) = await mails(app, 1)
        assert mail["language"] == "en"
        wrong = "000000" if mail["code"] != "000000" else "111111"
        await page.get_by_label("Code").fill(wrong)
        await press(page, "Confirm")
        await expect(page.get_by_role("status")).to_contain_text("The code is wrong")
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Confirm")
        await expect(page.get_by_role("status")).to_contain_text("Your address is confirmed.")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "account-own", full_page=True)
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "account-own-phone", full_page=True)
        await page.set_viewport_size(WIDE)
        await expect(page).to_have_url(address(server, app, "account"))
        await page.get_by_label("Current password").first.fill(PASSWORD)
        await page.get_by_label("New password").fill(NEW)
        await press(page, "Change password")
        await expect(page.get_by_role("status")).to_contain_text("Your password is changed")
        await press(page, "Sign out")
        await page.get_by_label("Login ID or e-mail address").fill("ada@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")
        await expect(page.get_by_role("status")).to_contain_text("wrong")
        await page.get_by_label("Password").fill(NEW)
        await press(page, "Sign in")
        await page.get_by_text("Delete the account").click()
        await page.get_by_label("Current password").last.fill(NEW)
        await press(page, "Delete permanently")
        await expect(page.get_by_role("status")).to_contain_text("Your account is deleted.")


async def test_a_forgotten_password_is_replaced_and_the_page_signs_out_when_it_is_left(
    server: Server, app: App, visit: Opening
) -> None:
    member = await sign_up(app, "ada", "ada@example.com")
    (mail,) = await mails(app, 1)
    async with visit("about:blank", locale="de-DE") as page:
        # Where the link of the mail is opened, nobody is signed in.
        await page.goto(mail["link"])
        await page.get_by_label("Passwort").fill(PASSWORD)
        await press(page, "Adresse bestätigen")
        await expect(page.get_by_role("status")).to_contain_text("Ihre Adresse ist bestätigt.")
        assert (await account(app, member["access_token"]))["email"] == "ada@example.com"
        await page.goto(address(server, app, "forgot"))
        await page.get_by_label("Benutzername oder E-Mail-Adresse").fill("ada")
        await press(page, "E-Mail senden")
        await expect(page.get_by_role("status")).to_contain_text("unterwegs")
        reset, _ = await mails(app, 2)
        await page.goto(reset["link"])
        # The token is neither in the address bar nor in the history.
        assert token_of(reset) not in page.url
        await page.get_by_label("Neues Passwort").fill(NEW)
        await press(page, "Passwort setzen")
        await expect(page.get_by_role("status")).to_contain_text("Ihr Passwort ist geändert.")
        await page.get_by_label("Benutzername oder E-Mail-Adresse").fill("ada")
        await page.get_by_label("Passwort", exact=True).fill(NEW)
        async with page.expect_response("**/signin") as signed_in:
            await press(page, "Anmelden")
        token = (await (await signed_in.value).json())["access_token"]
        await expect(page.get_by_text("Angemeldet als ada")).to_be_visible()
        await page.goto(reset["link"])
        await page.get_by_label("Neues Passwort").fill(PASSWORD)
        await press(page, "Passwort setzen")
        await expect(page.get_by_role("status")).to_contain_text("benutzt oder ist abgelaufen")

    async def is_signed_out() -> bool:
        async with app.client(token) as client:
            return (await client.get(f"{MEMBERS}/me")).status_code == 401

    await until(is_signed_out)


async def test_who_was_invited_to_a_team_by_mail_signs_in_and_joins(server: Server, app: App, visit: Opening) -> None:
    bob = await verified(app, "bob", "bob@example.com")
    ada = await sign_up(app, "ada")
    async with owner_of(app).client(app) as console:
        await console.put("/team-settings", json={"members_create": True})
    async with app.client(ada["access_token"]) as client:
        team = (await client.post(f"{MEMBERS}/teams", json={"name": "<b>Night owls</b>"})).json()["team_id"]
        await client.post(f"{MEMBERS}/teams/{team}/invitations", json={"email": "bob@example.com"})
    (mail,) = await mails(app, 1, purpose="team_invitation")
    async with visit(mail["link"]) as page:
        await page.get_by_label("Login ID or e-mail address").fill("bob")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")
        await expect(page.get_by_text("The team “<b>Night owls</b>” invites you.")).to_be_visible()
        await press(page, "Join")
        await expect(page.get_by_role("status")).to_contain_text("You have joined the team.")
    async with app.client(bob["access_token"]) as client:
        # The page had a session of its own.
        assert [one["team_id"] for one in (await client.get(f"{MEMBERS}/teams")).json()["teams"]] == [team]


async def test_the_pages_are_in_nobodys_way(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"name": "</script><b>Café & Söhne {{data}}"})
    found: dict[str, list[str]] = {}
    others = [("light", one) for one in (LANGUAGES if PICTURES else ("de",)) if one != "en"]
    for theme, language in [("light", "en"), ("dark", "en"), *others]:
        async with visit("about:blank", color_scheme=theme) as page:
            for name in PAGES:
                await page.set_viewport_size(WIDE)
                link = "#mv_x" if name in {"verify", "reset", "invite"} else ""
                await page.goto(f"{address(server, app, name)}?lang={language}{link}")
                shown = "sign-in" if name in {"account", "invite"} else name
                await expect(page.locator(f"[data-page={shown}] h1")).to_be_visible()
                await expect(page.locator("html")).to_have_attribute("lang", language)
                key = f"{name}-{language}-{theme}"
                # The words are of no weight for the rules.
                found[key] = await obstacles(page, axe) if language == "en" else []
                await keep_picture(page, f"account-{key}")
                await page.set_viewport_size(NARROW)
                await keep_picture(page, f"account-{key}-phone")
                if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    found[key].append("scrolls sideways on a phone")
                assert await page.locator("b").count() == 0
    assert {name: said for name, said in found.items() if said} == {}


async def test_without_a_key_for_this_page_it_says_so(server: Server, app: App, visit: Opening) -> None:
    async with owner_of(app).client(app) as console:
        for key in (await console.get("/keys/public")).json()["data"]:
            body = {"allowed_origins": ["https://club.example"]}
            assert (await console.patch(f"/keys/public/{key['key_id']}", json=body)).status_code == 200
    async with visit(address(server, app, "sign-in")) as page:
        await expect(page.get_by_role("status")).to_contain_text("no public key")
    async with app.client() as client:
        assert (await client.get(f"/account/{app.app_id}/nowhere")).status_code == 404


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_text_with_its_places(language: str) -> None:
    folder = files("pilotis.account_pages") / "languages"
    english, other = (tomllib.loads((folder / f"{one}.toml").read_text("utf-8")) for one in ("en", language))
    for part in ("texts", "errors"):
        assert list(other[part]) == list(english[part])
        for key, text in other[part].items():
            assert text.strip()
            places = [one for one in ("{app}", "{number}", "{email}", "{name}") if one in english[part][key]]
            assert [one for one in places if one not in text] == []
