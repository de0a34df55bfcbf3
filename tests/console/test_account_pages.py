"""The pages of members' accounts in a browser: from the sign-up to the deletion, in every language."""

import tomllib
import zipfile
from importlib.resources import files
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from pilotis.account_pages.pages import PAGES
from pilotis.kit.languages import LANGUAGES
from tests.accounts.authenticator import code, enrolled
from tests.accounts.test_factors import age, forget_steps
from tests.accounts.test_gate import settings
from tests.accounts.test_sign_in_codes import CHALLENGE, PAGE, exchange
from tests.chromium import PICTURES, keep_picture
from tests.console import owner_of
from tests.console.conftest import Opening, obstacles
from tests.functions.support import Functions
from tests.mail.world import MEMBERS, account, call, mails, post, sign_in, sign_up, token_of, verified
from tests.oauth.test_logos import picture
from tests.oauth.vendors import CLIENT_ID, SECRET, Person, vendors
from tests.security.test_accounts import guessed
from tests.support import App, Server
from tests.waiting import until
from tests.whole import sample

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


async def test_a_member_that_has_deleted_its_account_keeps_it(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    """On the account's page, and on the way back to the page of the app that has sent it."""
    await settings(app, deletion_grace_days=14)
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": [PAGE]})
    await sign_up(app, "ada")

    async def enter(page: Page) -> None:
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")

    async with visit(address(server, app, "sign-in")) as page:
        await page.route("https://app.example.com/**", lambda route: route.fulfill(body="back"))
        await enter(page)
        for way in ("sign-in", f"sign-in?{urlencode({'redirect_uri': PAGE, 'code_challenge': CHALLENGE})}"):
            await page.get_by_text("Delete the account").first.click()
            await expect(page.get_by_text("come back by signing in: 14.")).to_be_visible()
            await page.get_by_label("Current password").last.fill(PASSWORD)
            await press(page, "Delete the account")
            await expect(page.get_by_role("status")).to_contain_text("Sign in until then if you want to keep it.")
            await page.goto(address(server, app, way))
            await enter(page)
            await expect(page.get_by_role("heading", name="Your account will be deleted")).to_be_visible()
            assert await obstacles(page, axe) == []
            await keep_picture(page, "account-leaving", full_page=True)
            await press(page, "Keep the account")
            if way == "sign-in":
                await expect(page.get_by_role("status")).to_contain_text("Your account stays.")
                await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        await page.wait_for_url("https://app.example.com/**")
        found = parse_qs(urlsplit(page.url).query)
        assert (await exchange(app, found["code"][0])).status_code == 200


async def test_a_member_comes_back_to_the_page_that_has_sent_it(server: Server, app: App, visit: Opening) -> None:
    """With a code for the exchange, also from a second factor's page; nowhere else does the page send it."""
    await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": [PAGE]})
    await sign_up(app, "ada")
    query = urlencode({"redirect_uri": PAGE, "code_challenge": CHALLENGE, "state": "xyz"})
    async with visit("about:blank") as page:
        await page.route("https://app.example.com/**", lambda route: route.fulfill(body="back"))
        await page.goto(f"{address(server, app, 'sign-up')}?{query}")
        await page.get_by_role("link", name="I already have an account").click()
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill("correct horse")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await page.wait_for_url("https://app.example.com/**")
        found = parse_qs(urlsplit(page.url).query)
        assert found["state"] == ["xyz"]
        assert (await exchange(app, found["code"][0])).status_code == 200
        foreign = urlencode({"redirect_uri": "https://evil.example.com/", "code_challenge": CHALLENGE})
        await page.goto(f"{address(server, app, 'sign-in')}?{foreign}")
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill("correct horse")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("does not belong to this app")


async def test_the_page_opens_at_the_password_once(server: Server, app: App, visit: Opening) -> None:
    await sign_up(app, "ada")
    async with visit(address(server, app, "account?part=password")) as page:
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")
        current = page.get_by_label("Current password").first
        await expect(current).to_be_focused()
        await expect(current).to_be_in_viewport()
        await current.fill(PASSWORD)
        await page.get_by_label("New password").fill(NEW)
        await press(page, "Change password")
        await expect(page.get_by_role("status")).to_contain_text("Your password is changed")
        await press(page, "Sign out")
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill(NEW)
        await press(page, "Sign in")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        await expect(current).not_to_be_focused()


async def test_the_page_solves_the_puzzle_that_the_app_asks_for(server: Server, app: App, visit: Opening) -> None:
    await settings(app, challenge_on=["signup", "signin"])
    async with visit(address(server, app, "sign-up")) as page:
        await page.get_by_label("Login ID", exact=True).fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()


WIDGET = """
window.turnstile = {
  render(box, { sitekey, callback }) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `I am a person (${sitekey})`;
    button.onclick = () => callback(`signup ${sitekey}`);
    box.append(button);
  },
};
"""
VERIFY = """
export default ({ token, on }) => token === `${on} key-of-pages` ? {} : { reject: { message: "A robot." } };
"""


async def test_the_page_shows_the_widget_of_the_vendor_whose_script_alone_it_runs(
    server: Server, app: App, visit: Opening, functions: Functions, axe: str
) -> None:
    hook = await functions.made("hook", VERIFY)
    challenge = {"provider": "turnstile", "site_key": "key-of-pages", "secret": "secret"}
    await settings(app, challenge_on=["signup"], challenge=challenge, hooks={"verify_challenge": hook})
    async with visit("about:blank", expected="violates the following Content Security Policy") as page:
        script = "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit"
        foreign = "https://elsewhere.example/api.js"

        async def answer(route: Route) -> None:
            body = WIDGET if route.request.url == script else "window.foreign = true"
            await route.fulfill(body=body, content_type="text/javascript")

        for url in (script, foreign):
            await page.route(url, answer)
        await page.goto(address(server, app, "sign-up"))
        await page.get_by_label("Login ID", exact=True).fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_role("button", name="I am a person (key-of-pages)")).to_be_enabled()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "account-challenge")
        await press(page, "I am a person (key-of-pages)")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        added = f"""new Promise((resolve) => {{
          const script = document.createElement("script");
          script.src = "{foreign}";
          script.onload = script.onerror = (event) => resolve(event.type);
          document.head.append(script);
        }})"""
        assert await page.evaluate(added) == "error"


async def test_a_mailed_export_is_downloaded_once_by_its_page(server: Server, app: App, visit: Opening) -> None:
    ada = await verified(app, "ada", "ada@example.com")
    await post(app, "/me/export", {"by_mail": True}, ada["access_token"])
    mail, _ = await mails(app, 2)
    async with visit(mail["link"], expected="401") as page:
        assert token_of(mail) not in page.url
        async with page.expect_download() as begun:
            await press(page, "Download")
        with zipfile.ZipFile(await (await begun.value).path()) as archive:
            assert "account.json" in archive.namelist()
        await expect(page.get_by_role("status")).to_contain_text("Your data is being downloaded.")
        await page.goto("about:blank")
        await page.goto(mail["link"])
        await press(page, "Download")
        await expect(page.get_by_role("status")).to_contain_text("has expired, or it was used")


async def test_the_page_says_that_the_vendor_is_not_there(server: Server, app: App, visit: Opening) -> None:
    challenge = {"provider": "hcaptcha", "site_key": "key-of-pages", "secret": "secret"}
    await settings(app, challenge_on=["signup"], challenge=challenge)
    async with visit("about:blank") as page:
        await page.route("https://hcaptcha.com/**", lambda route: route.abort())
        await page.goto(address(server, app, "sign-up"))
        await page.get_by_label("Login ID", exact=True).fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_role("status")).to_contain_text("could not be checked that you are no robot")
        await expect(page.get_by_role("button", name="Create account", exact=True)).to_be_enabled()


async def test_the_browser_of_a_member_solves_no_puzzle_while_others_guess(
    server: Server, app: App, visit: Opening
) -> None:
    puzzles: list[str] = []
    await sign_up(app, "ada")
    async with visit(address(server, app, "sign-in")) as page:
        page.on("request", lambda request: request.url.endswith("/challenges") and puzzles.append(request.url))

        async def enter() -> None:
            await page.get_by_label("Login ID or e-mail address").fill("ada")
            await page.get_by_label("Password").fill(PASSWORD)
            await press(page, "Sign in")
            await expect(page.get_by_text("Signed in as ada")).to_be_visible()

        await enter()
        await guessed(app, "ada")
        await page.goto(address(server, app, "sign-in"))
        await enter()
        assert puzzles == []
        # Elsewhere nobody knows it; to solve one takes long here.
        await page.evaluate("localStorage.clear()")
        await page.route("**/v1/public/challenges", lambda route: route.abort())
        await page.goto(address(server, app, "sign-in"))
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")
        await expect(page.get_by_role("status")).to_contain_text("cannot be reached")
        assert len(puzzles) == 1


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


async def test_who_was_invited_to_the_app_chooses_a_password_and_is_signed_in(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    await app.table({"username": {"type": "string", "required": True}}, title="profiles")
    data = {"username": {"$input": "username", "label": "User name"}}
    on_sign_up = [{"table": "profiles", "data": data}]
    await settings(app, sign_up="invited", on_sign_up=on_sign_up, methods={"email_code": True})
    async with owner_of(app).client(app) as console:
        team = (await console.post("/teams", json={"name": "<b>Night owls</b>"})).json()["team_id"]
        body = {"email": "bob@example.com", "roles": ["author"], "team_id": team}
        assert (await console.post("/members/invitations", json=body)).status_code == 201
    (mail,) = await mails(app, 1, purpose="invitation")
    async with visit(mail["link"]) as page:
        await expect(page.get_by_text("You are invited with the address bob@example.com.")).to_be_visible()
        await expect(page.get_by_text("You also join the team “<b>Night owls</b>”.")).to_be_visible()
        await expect(page.get_by_label("Login ID")).to_have_value("bob@example.com")
        # The link stays good until it is used, and is not in the address.
        assert "mi_" not in page.url
        assert await obstacles(page, axe) == []
        await pictures(page, "account-join")
        await page.get_by_label("User name").fill("bob")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_text("Signed in as bob@example.com")).to_be_visible()
    signed_in = (await sign_in(app, "bob@example.com", PASSWORD)).json()
    own = await account(app, signed_in["access_token"])
    assert (own["email"], own["roles"], own["language"]) == ("bob@example.com", ["author"], "en")
    async with visit(mail["link"]) as page:
        await expect(page.get_by_role("status")).to_contain_text("This link was used or has expired.")
        await expect(page.get_by_label("Password")).not_to_be_visible()
        await pictures(page, "account-join-used")
    assert (await call(app, "GET", "/members/invitations"))["data"][0]["state"] == "accepted"


async def test_who_was_invited_where_nobody_has_a_password_signs_in_by_mail(
    server: Server, app: App, visit: Opening
) -> None:
    await settings(
        app, sign_up="invited", sign_up_methods=["email"], login_id_form="email", methods={"email_code": True}
    )
    async with owner_of(app).client(app) as console:
        assert (await console.post("/members/invitations", json={"email": "bob@example.com"})).status_code == 201
    (mail,) = await mails(app, 1)
    async with visit(mail["link"]) as page:
        await expect(page.get_by_text("You are invited with the address bob@example.com.")).to_be_visible()
        await expect(page.get_by_label("Password")).not_to_be_visible()
        await press(page, "Sign in by mail")
        await expect(page.get_by_label("E-mail address")).to_have_value("bob@example.com")
        await press(page, "Send the mail")
        await expect(page.get_by_label("Code")).to_be_visible()
        (code_mail,) = await mails(app, 1, purpose="sign_in")
        await page.get_by_label("Code").fill(code_mail["code"])
        await press(page, "Sign in")
        await expect(page.get_by_text("Signed in as bob@example.com")).to_be_visible()


async def fill_in(page: Page, login: str, password: str = PASSWORD) -> None:
    await page.get_by_label("Login ID or e-mail address").fill(login)
    await page.get_by_label("Password").fill(password)
    await press(page, "Sign in")


async def pictures(page: Page, name: str) -> None:
    """Pictures of both widths and themes."""
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        await keep_picture(page, f"{name}-{theme}", full_page=True)
        await page.set_viewport_size(NARROW)
        await keep_picture(page, f"{name}-{theme}-phone", full_page=True)
        await page.set_viewport_size(WIDE)
    await page.emulate_media(color_scheme="light")


async def test_a_mail_signs_in_by_its_code_or_by_its_link(server: Server, app: App, visit: Opening, axe: str) -> None:
    await settings(app, methods={"email_code": True, "email_link": True})
    async with visit(address(server, app, "sign-in")) as page:
        await press(page, "Sign in by mail")
        assert await obstacles(page, axe) == []
        await page.get_by_label("E-mail address").fill("ada@example.com")
        await press(page, "Send the mail")
        await expect(page.get_by_text("If ada@example.com can sign in here")).to_be_visible()
        assert await obstacles(page, axe) == []
        await pictures(page, "account-mailed")
        (mail,) = await mails(app, 1)
        await page.get_by_label("Code").fill("000000" if mail["code"] != "000000" else "111111")
        await press(page, "Sign in")
        await expect(page.get_by_role("status")).to_contain_text("The code is wrong")
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Sign in")
        await expect(page.get_by_text("Signed in as ada@example.com")).to_be_visible()
        # Who has no password is asked for none.
        await page.get_by_text("Delete the account").click()
        for field in await page.get_by_label("Current password").all():
            await expect(field).to_be_hidden()
        await press(page, "Sign out")
        await press(page, "Sign in by mail")
        await page.get_by_label("E-mail address").fill("ada@example.com")
        await press(page, "Send the mail")
        link = (await mails(app, 2))[0]["link"]
    async with visit("about:blank") as page:
        # A link is opened by machines too: only a person signs in by it.
        for _ in range(2):
            await page.goto(link)
            await expect(page.get_by_text("It signs you in on this device.")).to_be_visible()
            assert link.partition("#")[2] not in page.url
            await page.goto("about:blank")
        await page.goto(link)
        await press(page, "Sign in")
        await expect(page.get_by_text("Signed in as ada@example.com")).to_be_visible()
        await page.goto("about:blank")
        await page.goto(link)
        await press(page, "Sign in")
        await expect(page.get_by_role("status")).to_contain_text("was used or has expired")


async def test_a_changed_address_is_undone_by_the_mail_to_the_old_one(server: Server, app: App, visit: Opening) -> None:
    await verified(app, "ada", "ada@example.com")
    async with visit(address(server, app, "sign-in")) as page:
        await fill_in(page, "ada")
        await page.get_by_label("New e-mail address").fill("ada@example.org")
        await press(page, "Send a code")
        (mail,) = await mails(app, 1, purpose="change_email")
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Confirm")
        await expect(page.get_by_role("status")).to_contain_text("Your address is confirmed.")
        await expect(page.get_by_text("ada@example.org")).to_be_visible()
        (notice,) = await mails(app, 1, purpose="address_changed")
        await page.goto(notice["link"])
        assert (await sign_in(app, "ada@example.org", PASSWORD)).status_code == 200
        await press(page, "Get the account back")
        await expect(page.get_by_role("status")).to_contain_text("has this address again")
        await pictures(page, "account-undone")
        assert (await sign_in(app, "ada", PASSWORD)).status_code == 401
        (reset,) = await mails(app, 1, purpose="reset_password")
        assert reset["recipient"] == "ada@example.com"
        # The page is open already, so that the browser only changes the fragment.
        await page.goto(notice["link"])
        await press(page, "Get the account back")
        await expect(page.get_by_role("status")).to_contain_text("was used or has expired")


async def test_an_authenticator_app_is_set_up_and_asked_for(server: Server, app: App, visit: Opening, axe: str) -> None:
    await settings(app, second_factor="optional")
    ada = await sign_up(app, "ada")
    async with visit(address(server, app, "sign-in")) as page:
        await fill_in(page, "ada")
        await expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
        # After five minutes the page asks who it is, and goes on.
        await age(app, ada)
        await press(page, "Set up an authenticator app")
        dialog = page.get_by_role("dialog", name="Confirm that it is you")
        await dialog.get_by_label("Password").fill("wrong password")
        await dialog.get_by_role("button", name="Confirm").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("The password is wrong.")
        assert await obstacles(page, axe) == []
        await pictures(page, "account-proof")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("heading", name="Set up your authenticator app")).to_have_count(0)
        await press(page, "Set up an authenticator app")
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Confirm").click()
        picture = page.get_by_role("img", name="QR code")
        assert await picture.evaluate("(one) => one.decode().then(() => one.naturalWidth)") > 100
        assert await obstacles(page, axe) == []
        await pictures(page, "account-authenticator")
        secret = await page.locator("#key").text_content() or ""
        await page.get_by_label("Code").fill(code(secret))
        await press(page, "Confirm")
        await expect(page.locator("#codes code")).to_have_count(10)
        shown = await page.locator("#codes code").all_text_contents()
        assert len(set(shown)) == 10
        assert await obstacles(page, axe) == []
        await pictures(page, "account-recovery")
        await press(page, "I have kept them")
        await expect(page.get_by_text("Recovery codes left: 10.")).to_be_visible()
        assert await page.locator("#codes code").count() == 0
        assert await obstacles(page, axe) == []
        await pictures(page, "account-factors")
        await press(page, "Sign out")
        await forget_steps(app)
        for given in (code(secret), shown[0]):
            await fill_in(page, "ada")
            await page.get_by_label("Code of your authenticator app").fill("000000")
            await press(page, "Confirm")
            await expect(page.get_by_role("status")).to_contain_text("The code is wrong")
            await pictures(page, "account-factor")
            await page.get_by_label("Code of your authenticator app").fill(given)
            await press(page, "Confirm")
            await expect(page.get_by_text("Signed in as ada")).to_be_visible()
            await press(page, "Sign out")
        await fill_in(page, "ada")
        await page.get_by_label("Code of your authenticator app").fill(shown[1])
        await press(page, "Confirm")
        await expect(page.get_by_text("Recovery codes left: 8.")).to_be_visible()
        await press(page, "Remove the authenticator app")
        await expect(page.get_by_role("status")).to_contain_text("The authenticator app is removed.")
        await press(page, "Sign out")
        await fill_in(page, "ada")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()


async def test_a_member_sees_its_devices_and_signs_them_out(server: Server, app: App, visit: Opening, axe: str) -> None:
    ada = await sign_up(app, "ada")
    phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Mobile Safari/604"
    async with app.client(**{"user-agent": phone}) as client:
        body = {"login_id": "ada", "password": PASSWORD}
        on_phone = (await client.post(f"{MEMBERS}/signin", json=body)).json()["access_token"]

    async def status(token: str) -> int:
        async with app.client(token) as client:
            return (await client.get(f"{MEMBERS}/me")).status_code

    async with visit(address(server, app, "sign-in")) as page:
        await fill_in(page, "ada")
        rows = page.locator("#devices li")
        await expect(rows).to_have_count(3)
        await expect(rows.filter(has_text="This device").get_by_role("button")).to_have_count(0)
        assert await obstacles(page, axe) == []
        await pictures(page, "account-devices")
        await rows.filter(has_text="Safari · iPhone").get_by_role("button").click()
        await expect(page.get_by_role("status")).to_contain_text("You are signed out there.")
        assert (await status(on_phone), await status(ada["access_token"])) == (401, 200)
        await press(page, "Sign out everywhere else")
        await expect(rows).to_have_count(1)
        assert await status(ada["access_token"]) == 401


async def test_a_passkey_signs_in_and_is_a_second_factor(server: Server, app: App, visit: Opening) -> None:
    # A passkey belongs to a name, which the server's own address has not.
    origin = server.url.replace("127.0.0.1", "localhost")
    await settings(
        app, methods={"passkey": True}, passkey_domain="localhost", allowed_origins=[origin], second_factor="optional"
    )
    ada = await sign_up(app, "ada")
    await enrolled(app, ada["access_token"])
    async with visit(address(server, app, "sign-in")) as page:
        await expect(page.get_by_role("button", name="Sign in with a passkey")).to_have_count(0)
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
        key = (await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options}))["authenticatorId"]
        await page.goto(address(server, app, "sign-in").replace(server.url, origin))
        await forget_steps(app)
        await fill_in(page, "ada")
        async with app.client(ada["access_token"]) as client:
            codes = (await client.post(f"{MEMBERS}/me/recovery-codes")).json()["recovery_codes"]
        await page.get_by_label("Code of your authenticator app").fill(codes[0])
        await press(page, "Confirm")
        await press(page, "Add a passkey")
        await expect(page.get_by_role("status")).to_contain_text("The passkey is added.")
        await pictures(page, "account-passkeys")
        await press(page, "Sign out")
        await press(page, "Sign in with a passkey")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        await press(page, "Sign out")
        await fill_in(page, "ada")
        await press(page, "Use a passkey")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        await page.locator("#own-passkeys").get_by_role("button").click()
        await expect(page.get_by_role("status")).to_contain_text("The passkey is removed.")
        await press(page, "Sign out")
        await devtools.send("WebAuthn.setUserVerified", {"authenticatorId": key, "isUserVerified": False})
        await press(page, "Sign in with a passkey")
        await expect(page.get_by_role("status")).to_contain_text("No passkey was used.")


async def test_the_pages_follow_the_settings_of_accounts(server: Server, app: App, visit: Opening) -> None:
    async with visit(address(server, app, "sign-in")) as page:
        await expect(page.get_by_role("button")).to_have_text(["Sign in"])
        await settings(app, sign_up="closed", methods={"password": False, "email_link": True})
        await page.reload()
        await expect(page.get_by_role("button")).to_have_text(["Sign in by mail"])
        await expect(page.get_by_role("link")).to_have_count(0)
        email = page.get_by_role("textbox", name="E-mail address")
        for verification in ("optional", "required", "off"):
            await settings(app, email_verification=verification)
            await page.goto(address(server, app, "sign-up"))
            if verification == "off":
                await expect(email).to_have_count(0)
            else:
                await expect(email).to_have_js_property("required", verification == "required")
        await settings(app, sign_up="open", login_id_form="email", email_verification="optional")
        await settings(app, methods={"password": True})
        await page.reload()
        await expect(email).to_have_count(1)
        await email.fill("ada@example.com")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Create account")
        await expect(page.get_by_text("mailed to ada@example.com")).to_be_visible()
        (mail,) = await mails(app, 1)
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Confirm")
        await expect(page.get_by_role("status")).to_contain_text("Your address is confirmed.")


async def test_the_pages_are_in_nobodys_way(server: Server, app: App, visit: Opening, axe: str) -> None:
    async with owner_of(app).client(app) as console:
        await console.patch("", json={"name": "</script><b>Café & Söhne {{data}}"})
    found: dict[str, list[str]] = {}
    others = [("light", one) for one in (LANGUAGES if PICTURES else ("de",)) if one != "en"]
    for theme, language in [("light", "en"), ("dark", "en"), *others]:
        async with visit("about:blank", color_scheme=theme) as page:
            for name in sample(PAGES, 0.34, of=theme + language):
                await page.set_viewport_size(WIDE)
                link = "#mv_x" if name in {"verify", "reset", "undo", "invite"} else ""
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
            places = [
                one
                for one in ("{app}", "{number}", "{email}", "{name}", "{team}", "{date}", "{count}")
                if one in english[part][key]
            ]
            assert [one for one in places if one not in text] == []


async def test_the_pages_ask_for_what_rows_of_a_member_take(server: Server, app: App, visit: Opening, axe: str) -> None:
    """Beside the password, and after a mailed code that makes the member; a taken name is told by its label."""
    schema = {"username": {"type": "string", "required": True, "unique": True}, "age": {"type": "int"}}
    await app.table(schema, title="profiles")
    data = {"username": {"$input": "username", "label": "User name"}, "age": {"$input": "age", "label": "Your age"}}
    rows = [{"table": "profiles", "data": data}]
    await settings(app, on_sign_up=rows, methods={"email_code": True})
    async with visit(address(server, app, "sign-up")) as page:
        await page.get_by_label("Login ID", exact=True).fill("ada")
        await page.get_by_label("User name").fill("ada")
        await page.get_by_label("Your age").fill("36")
        await page.get_by_label("Password").fill(PASSWORD)
        assert await obstacles(page, axe) == []
        await keep_picture(page, "account-profile", full_page=True)
        await press(page, "Create account")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()
        await press(page, "Sign out")
        await press(page, "Sign in by mail")
        await page.get_by_label("E-mail address").fill("bob@example.com")
        await press(page, "Send the mail")
        (mail,) = await mails(app, 1)
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Sign in")
        await expect(page.get_by_role("heading", name="Create your account")).to_be_visible()
        await page.get_by_label("User name").fill("ada")
        await page.set_viewport_size(NARROW)
        await press(page, "Create account")
        await expect(page.get_by_role("status")).to_contain_text("User name: this is taken.")
        assert await obstacles(page, axe) == []
        await keep_picture(page, "account-profile-phone", full_page=True)
        await page.get_by_label("User name").fill("bob")
        await press(page, "Create account")
        await expect(page.get_by_text("Signed in as bob@example.com")).to_be_visible()
    async with owner_of(app).client() as client:
        found = (await client.get("/public/tables/profiles/data", headers={"X-App-Id": app.app_id})).json()["data"]
    assert [row["data"] for row in found] == [{"username": "ada", "age": 36}, {"username": "bob"}]


async def test_a_mailed_code_is_the_second_factor(server: Server, app: App, visit: Opening, axe: str) -> None:
    await verified(app, "ada", "ada@example.com")
    await settings(app, second_factor="required", second_factors=["totp", "email_code"])
    async with visit(address(server, app, "sign-in")) as page:
        await page.get_by_label("Login ID or e-mail address").fill("ada")
        await page.get_by_label("Password").fill(PASSWORD)
        await press(page, "Sign in")
        await expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
        assert await obstacles(page, axe) == []
        await keep_picture(page, "account-mail-factor", full_page=True)
        (mail,) = await mails(app, 1, purpose="sign_in")
        await page.get_by_label("Code").fill(mail["code"])
        await press(page, "Confirm")
        await expect(page.get_by_text("Signed in as ada")).to_be_visible()


async def test_a_vendor_signs_in_and_the_page_goes_on_where_it_was(
    server: Server, app: App, visit: Opening, axe: str
) -> None:
    """To the account, to the app's own page, past a second factor; a refusal and another tab's answer are harmless."""
    ways = {"is_provider": True, "login_redirect_uris": [PAGE]}
    await call(app, "PUT", "/oauth/settings", json=ways)
    query = urlencode({"redirect_uri": PAGE, "code_challenge": CHALLENGE, "state": "xyz", "lang": "en"})
    with vendors() as vendor:
        for name in ("GITHUB", "NAVER"):
            given = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options(name)}
            await call(app, "PUT", f"/oauth/social/{name}", json=given)
        async with visit(address(server, app, "sign-up?lang=de"), locale="en-US") as page:
            await expect(page.get_by_role("button")).to_have_text(
                ["Konto erstellen", "Weiter mit GitHub", "Weiter mit Naver"]
            )
            # The page has the language that it had, whatever the browser prefers.
            await press(page, "Weiter mit GitHub")
            await expect(page.get_by_text("Angemeldet als Ada")).to_be_visible()
            assert "code=" not in page.url
            await page.goto(address(server, app, "sign-in"))
            assert await obstacles(page, axe) == []
            await pictures(page, "account-vendors")
            await press(page, "Continue with GitHub")
            await expect(page.get_by_text("Signed in as Ada")).to_be_visible()
            assert await page.evaluate("sessionStorage.length") == 0
            # The last way in stays, and whoever has it sees it.
            await expect(page.get_by_role("heading", name="Connected services")).to_be_visible()
            await page.get_by_role("button", name="Remove: GitHub").click()
            await expect(page.get_by_role("status")).to_contain_text("This is the last way to sign in")
            assert await obstacles(page, axe) == []
            await pictures(page, "account-connected")
            await page.get_by_text("Download your data").click()
            async with page.expect_download() as kept:
                await press(page, "Download")
            assert (await kept.value).suggested_filename == "export.zip"
            assert zipfile.is_zipfile(await (await kept.value).path())
            await page.goto(address(server, app, "sign-in"))
            # What another tab or a stranger's link has begun signs nobody in here.
            await page.goto(f"{address(server, app, 'sign-in')}?code=xc_1&state=unknown")
            await expect(page).to_have_url(address(server, app, "sign-in"))
            vendor.person = Person(subject="1000000002", email=None)
            vendor.token_answer = (500, b"")
            await press(page, "Continue with GitHub")
            await expect(page.get_by_role("status")).to_contain_text("The sign-in there did not work.")
            vendor.token_answer = None
            # Who cancels at the vendor is told so, and may choose another way.
            vendor.declines = True
            await press(page, "Continue with GitHub")
            await expect(page.get_by_role("status")).to_contain_text("You cancelled the sign-in there.")
            await expect(page.get_by_label("Password")).to_be_editable()
            await expect(page.get_by_role("button", name="Continue with Naver")).to_be_enabled()
            await expect(page).to_have_url(address(server, app, "sign-in"))
            assert await obstacles(page, axe) == []
            await pictures(page, "account-vendor-declined")
            vendor.declines = False
            await settings(app, sign_up="closed")
            await press(page, "Continue with GitHub")
            await expect(page.get_by_role("status")).to_contain_text("Nobody can create an account here")
            vendor.person = Person()
            await page.route("https://app.example.com/**", lambda route: route.fulfill(body="back"))
            await page.goto(f"{address(server, app, 'sign-in')}?{query}")
            await press(page, "Continue with GitHub")
            await page.wait_for_url("https://app.example.com/**")
            found = parse_qs(urlsplit(page.url).query)
            assert found["state"] == ["xyz"]
            ada = (await exchange(app, found["code"][0])).json()
            await settings(app, second_factor="optional")
            _, codes = await enrolled(app, ada["access_token"])
            await page.goto(f"{address(server, app, 'sign-in')}?{query}")
            await press(page, "Continue with GitHub")
            await page.get_by_label("Code of your authenticator app").fill(codes[0])
            await press(page, "Confirm")
            await page.wait_for_url("https://app.example.com/**")


async def test_a_vendor_brings_an_invited_member_to_its_team_past_what_the_app_asks_for(
    server: Server, app: App, visit: Opening
) -> None:
    await call(app, "PUT", "/oauth/settings", json={"is_provider": True})
    await app.table({"username": {"type": "string", "required": True}}, title="profiles")
    data = {"username": {"$input": "username", "label": "User name"}}
    await settings(app, on_sign_up=[{"table": "profiles", "data": data}])
    ada = await sign_up(app, "ada", profile={"username": "ada"})
    await call(app, "PUT", "/team-settings", json={"members_create": True})
    async with app.client(ada["access_token"]) as client:
        team = (await client.post(f"{MEMBERS}/teams", json={"name": "Night owls"})).json()["team_id"]
        answer = await client.post(f"{MEMBERS}/teams/{team}/invitations", json={"link": True})
    with vendors() as vendor:
        given = {"client_id": CLIENT_ID, "client_secret": SECRET, "options": vendor.options("GITHUB")}
        await call(app, "PUT", "/oauth/social/GITHUB", json=given)
        async with visit(f"{address(server, app, 'invite')}#{answer.json()['token']}") as page:
            await press(page, "Continue with GitHub")
            await expect(page.get_by_role("heading", name="Create your account")).to_be_visible()
            await page.get_by_label("User name").fill("bob")
            await press(page, "Create account")
            await press(page, "Join")
            await expect(page.get_by_role("status")).to_contain_text("You have joined the team.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_pages_have_the_look_and_the_words_of_the_app(
    server: Server, app: App, visit: Opening, axe: str, scheme: str
) -> None:
    words = {
        "sign_in_title": "Welcome back",
        "sign_in_text": "To the shop.\nSince 1974.",
        "footer": "Shop Ltd · 1 Road",
    }
    theme = {"accent": "#7a1fa2", "background": "#f4d35e", "radius": 12, "font": "serif", "texts": {"en": words}}
    await settings(app, theme=theme, methods={"email_code": True})
    async with owner_of(app).client(app) as console:
        await console.put("/account-settings/logo", content=picture(size=(320, 80)))
    async with visit("about:blank", color_scheme=scheme) as page:
        for width, height in ((375, 812), (1200, 860)):
            await page.set_viewport_size({"width": width, "height": height})
            for name in ("sign-in", "sign-up"):
                await page.goto(address(server, app, name))
                await expect(page.locator("img.logo")).to_be_visible()
                await expect(page.get_by_text("Shop Ltd · 1 Road")).to_be_visible()
                assert await obstacles(page, axe) == []
                assert await page.evaluate("document.documentElement.scrollWidth") == width
                await keep_picture(page, f"account-theme-{name}-{width}-{scheme}", full_page=True)
        await page.goto(address(server, app, "sign-in"))
        await expect(page.get_by_role("heading", name="Welcome back")).to_be_visible()
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(244, 211, 94)") == (scheme == "light")
        assert await page.title() == f"Welcome back · {(await call(app, 'GET', ''))['name']}"
