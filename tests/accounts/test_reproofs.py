"""Who has no password proves by a mail or a passkey that a session is still its own."""

from typing import Any

import pytest

from tests.accounts.authenticator import enrolled
from tests.accounts.security_key import SecurityKey
from tests.accounts.test_factors import age
from tests.mail.world import MEMBERS, NEW_PASSWORD, account, call, mails, post, verified
from tests.support import App, assert_error

ORIGIN = "http://localhost:5173"


async def by_mail(app: App) -> dict[str, Any]:
    """A member that has signed in by mail alone, whose session is old."""
    await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": True}})
    asked = (await post(app, "/email-sign-in", {"email": "ada@example.com"})).json()
    (mail,) = await mails(app, 1)
    body = {"ticket": asked["ticket"], "code": mail["code"]}
    ada = (await post(app, "/email-sign-in/confirm", body)).json()
    await age(app, ada)
    return ada


async def set_password(app: App, token: str) -> Any:
    async with app.client(token) as client:
        return await client.put(f"{MEMBERS}/me/password", json={"password": NEW_PASSWORD})


async def start(app: App, token: str, method: str = "email_code") -> Any:
    return await post(app, "/me/reauthenticate/start", {"method": method}, token)


class TestMail:
    async def test_a_mailed_code_is_enough_without_a_password(self, app: App):
        ada = await by_mail(app)
        assert (await account(app, ada["access_token"]))["has_password"] is False
        error = assert_error(await set_password(app, ada["access_token"]), 403, "REAUTHENTICATION_REQUIRED")
        assert error["methods"] == ["email_code"]
        ticket = (await start(app, ada["access_token"])).json()["ticket"]
        code = (await mails(app, 2))[0]["code"]
        wrong = "000000" if code != "000000" else "111111"
        body = {"ticket": ticket, "code": wrong}
        assert_error(await post(app, "/me/reauthenticate", body, ada["access_token"]), 401, "INVALID_MAIL_CODE")
        # A code works with its own ticket, and does not sign anybody in.
        other = (await start(app, ada["access_token"])).json()["ticket"]
        crossed = {"ticket": other, "code": code}
        assert_error(await post(app, "/me/reauthenticate", crossed, ada["access_token"]), 401, "INVALID_MAIL_CODE")
        signed_in = await post(app, "/email-sign-in/confirm", {"ticket": ticket, "code": code})
        assert_error(signed_in, 401, "INVALID_MAIL_CODE")
        done = await post(app, "/me/reauthenticate", {"ticket": ticket, "code": code}, ada["access_token"])
        assert done.status_code == 200, done.text
        assert (await set_password(app, done.json()["access_token"])).status_code == 200
        assert (await account(app, ada["access_token"]))["has_password"] is True
        again = await post(app, "/me/reauthenticate", {"ticket": ticket, "code": code}, ada["access_token"])
        assert_error(again, 401, "INVALID_MAIL_CODE")

    async def test_it_is_not_enough_beside_an_authenticator_app_nor_for_others(self, app: App):
        await call(app, "PATCH", "/account-settings", json={"second_factor": "optional"})
        ada = await verified(app, "ada", "ada@example.com")
        ticket = (await start(app, ada["access_token"])).json()["ticket"]
        code = (await mails(app, 2))[0]["code"]
        eve = await verified_second(app)
        stolen = await post(app, "/me/reauthenticate", {"ticket": ticket, "code": code}, eve["access_token"])
        assert_error(stolen, 401, "INVALID_MAIL_CODE")
        await enrolled(app, ada["access_token"])
        late = await post(app, "/me/reauthenticate", {"ticket": ticket, "code": code}, ada["access_token"])
        assert_error(late, 401, "INVALID_MAIL_CODE")
        assert_error(await start(app, ada["access_token"]), 403, "REAUTHENTICATION_REQUIRED")

    @pytest.mark.parametrize(
        "body",
        [
            {"code": "123456"},
            {"ticket": "x"},
            {"password": "x", "ticket": "x"},
            {"code": "123456", "totp": "123456"},
            {},
        ],
    )
    async def test_one_proof_with_its_ticket(self, app: App, body: dict[str, Any]):
        ada = (await post(app, "", None)).json()
        assert_error(await post(app, "/me/reauthenticate", body, ada["access_token"]), 400, "VALIDATION_FAILED")


async def verified_second(app: App) -> dict[str, Any]:
    answer = await post(app, "/signup", {"login_id": "eve", "password": "correct horse"})
    return answer.json()


async def test_a_passkey_is_enough_and_only_ones_own(app: App):
    settings = {"methods": {"passkey": True}, "passkey_domain": "localhost", "allowed_origins": [ORIGIN]}
    await call(app, "PATCH", "/account-settings", json=settings)
    keys = {}
    for name in ("ada", "eve"):
        member = (await post(app, "/signup", {"login_id": name, "password": "correct horse"})).json()
        key = SecurityKey("localhost", ORIGIN)
        begun = (await post(app, "/me/passkeys/start", None, member["access_token"])).json()
        body = {"ticket": begun["ticket"], "credential": key.create(begun["options"])}
        assert (await post(app, "/me/passkeys", body, member["access_token"])).status_code == 201
        await age(app, member)
        keys[name] = member["access_token"], key
    token, key = keys["ada"]
    error = assert_error(await post(app, "/me/passkeys/start", None, token), 403, "REAUTHENTICATION_REQUIRED")
    assert error["methods"] == ["password", "passkey"]
    for signer, status in ((keys["eve"][1], 401), (key, 200)):
        begun = (await start(app, token, "passkey")).json()
        body = {"ticket": begun["ticket"], "passkey": signer.sign(begun["options"])}
        answer = await post(app, "/me/reauthenticate", body, token)
        assert answer.status_code == status, answer.text
    assert_error(await post(app, "/me/reauthenticate", body, token), 401, "INVALID_PASSKEY")
    assert (await post(app, "/me/passkeys/start", None, token)).status_code == 200
