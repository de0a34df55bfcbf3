"""A console user's second factor: set up in the profile, asked for at sign-in and before what is dangerous."""

import pytest
from playwright.async_api import expect

from tests.accounts.authenticator import code
from tests.backstage import run_sql
from tests.chromium import keep_picture
from tests.commands import run_beside
from tests.conftest import PASSWORD
from tests.console.conftest import Opening, obstacles
from tests.support import Server

EMAIL = "factors@example.com"
NARROW = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 860}


PATIENT = 8000


# Any user that is made ends the link by which the first one signs up.
@pytest.mark.usefixtures("console")
async def test_an_authenticator_app_is_set_up_and_asked_for(server: Server, visit: Opening, axe: str) -> None:
    made = await run_beside("user", "create", EMAIL, "--password-stdin", *server.place, typed=f"{PASSWORD}\n")
    assert made.returncode == 0, made.stderr
    async with visit(f"{server.url}/console/sign-in?to=/profile") as page:
        page.set_default_timeout(PATIENT)
        await page.get_by_label("Email").fill(EMAIL)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("button", name="Set up an authenticator app")).to_be_visible()
        age = "update pilotis.sessions set created_at = now() - interval '2 hours' where subject = $1"
        user_id = await run_sql(server, "select user_id::text from pilotis.users where email = $1", EMAIL)
        await run_sql(server, age, user_id)
        await page.get_by_role("button", name="Set up an authenticator app").click()
        # The session is old: who it is has to be proved before anything happens.
        dialog = page.get_by_role("dialog", name="Is it still you?")
        await expect(dialog).to_be_visible()
        await keep_picture(page, "console-proof")
        assert await obstacles(page, axe) == []
        await dialog.get_by_label("Password").fill(PASSWORD)
        await dialog.get_by_role("button", name="Continue").click()
        dialog = page.get_by_role("dialog", name="Set up an authenticator app")
        await expect(dialog.get_by_alt_text("QR code for the authenticator app")).to_be_visible()
        secret = (await dialog.locator("code.secret").inner_text()).replace(" ", "")
        await dialog.get_by_label("Six digits").fill(code(secret))
        assert await obstacles(page, axe) == []
        await keep_picture(page, "console-totp")
        await page.set_viewport_size(NARROW)
        await keep_picture(page, "console-totp-phone")
        await page.set_viewport_size(WIDE)
        await dialog.get_by_role("button", name="Set up", exact=True).click()
        codes = page.get_by_role("dialog", name="Recovery codes")
        recovery = (await codes.locator("pre").inner_text()).split()
        assert len(recovery) == 10
        await keep_picture(page, "console-recovery-codes")
        await codes.get_by_role("button", name="I have saved it").click()
        await expect(page.get_by_text("10 recovery codes left.")).to_be_visible()
        await keep_picture(page, "console-factors")
    async with visit(f"{server.url}/console/sign-in?to=/profile") as page:
        page.set_default_timeout(PATIENT)
        await page.get_by_label("Email").fill(EMAIL)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        field = page.get_by_label("Code")
        await field.fill("000000")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await keep_picture(page, "console-second-factor")
        assert await obstacles(page, axe) == []
        await field.fill(recovery[0].lower())
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("9 recovery codes left.")).to_be_visible()
