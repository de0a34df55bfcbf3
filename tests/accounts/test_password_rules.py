"""Passwords that are guessed first are not chosen, where the app says so; those that exist go on."""

from typing import Any

import httpx
import pytest

from pilotis.kit.common_passwords import is_common
from tests.mail.conftest import BREACHED_PASSWORD
from tests.mail.world import MEMBERS, PASSWORD, call, mails, post, sign_in, sign_up, token_of, verified
from tests.support import App, assert_error


@pytest.mark.parametrize("password", ["123456", "password", "Password", "qwertyuiop"])
def test_the_commonest_are_known(password: str):
    assert is_common(password)


@pytest.mark.parametrize("password", ["", PASSWORD, "0" * 300, "\x00", "ü"])
def test_others_are_not(password: str):
    assert not is_common(password)


def assert_common(answer: httpx.Response, field: str = "password") -> None:
    details = assert_error(answer, 400, "VALIDATION_FAILED")["details"]
    assert [(one["field"], one["code"]) for one in details] == [(field, "PASSWORD_TOO_COMMON")]


async def check(app: App) -> None:
    await call(app, "PATCH", "/account-settings", json={"password_check": True})


class TestRules:
    async def test_at_first_nothing_is_checked_and_passwords_that_exist_go_on(self, app: App):
        await sign_up(app, "ada")
        async with app.client() as client:
            body = {"login_id": "bob", "password": "password123"}
            assert (await client.post(f"{MEMBERS}/signup", json=body)).status_code == 201
        await check(app)
        assert (await sign_in(app, "bob", "password123")).status_code == 200

    @pytest.mark.parametrize(
        ("password", "more"),
        [
            ("password123", {}),
            ("PASSWORD123", {}),
            ("lovelace-1815", {}),
            ("Ada-Lovelace", {"nickname": "ada-lovelace"}),
            ("ada-1815-lovelace", {"email": "ada-1815-lovelace@example.com"}),
            (BREACHED_PASSWORD, {}),
        ],
    )
    async def test_a_sign_up_is_refused(self, app: App, password: str, more: dict[str, Any]):
        await check(app)
        assert_common(await post(app, "/signup", {"login_id": "Lovelace-1815", "password": password, **more}))
        # What no list has is fine: also if breaches cannot be asked.
        assert (await post(app, "/signup", {"login_id": "ada", "password": PASSWORD})).status_code == 201

    async def test_so_are_changes_and_resets(self, app: App):
        ada = await verified(app, "ada-lovelace", "ada@example.com")
        await check(app)
        async with app.client(ada["access_token"]) as client:
            for password in ("iloveyou1", "ada-lovelace", BREACHED_PASSWORD):
                body = {"current_password": PASSWORD, "new_password": password}
                assert_common(await client.patch(f"{MEMBERS}/me/password", json=body), "new_password")
        await post(app, "/password-reset", {"email": "ada@example.com"})
        (mail,) = await mails(app, 1, purpose="reset_password")
        body = {"token": token_of(mail), "password": "iloveyou1"}
        assert_common(await post(app, "/password-reset/confirm", body))
        # The link still works.
        done = await post(app, "/password-reset/confirm", {**body, "password": "battery staple"})
        assert done.status_code == 200
