"""Sign-in by a mailed code or link, and changes of addresses."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.backstage import run_sql
from tests.mail.world import (
    MEMBERS,
    NEW_PASSWORD,
    PASSWORD,
    account,
    call,
    mails,
    post,
    sign_in,
    sign_up,
    token_of,
    verified,
)
from tests.support import App, assert_error

ADA = "ada@example.com"


async def allow(app: App, *methods: str, **settings: Any) -> None:
    await call(app, "PATCH", "/account-settings", json={"methods": dict.fromkeys(methods, True), **settings})


async def ask(app: App, email: str = ADA, **more: Any) -> str:
    answer = await post(app, "/email-sign-in", {"email": email, **more})
    assert answer.status_code == 202, answer.text
    assert set(answer.json()) == {"ticket", "expires_at"}
    return answer.json()["ticket"]


async def confirm(app: App, **body: Any) -> httpx.Response:
    return await post(app, "/email-sign-in/confirm", body)


async def newest(app: App, number: int, **query: Any) -> dict[str, Any]:
    return (await mails(app, number, **query))[0]


class TestSignIn:
    async def test_is_off_at_first(self, app: App):
        assert_error(await post(app, "/email-sign-in", {"email": ADA}), 403, "LOGIN_DISABLED")

    async def test_a_code_makes_a_member_and_signs_it_in_later(self, app: App):
        await allow(app, "email_code")
        ticket = await ask(app)
        mail = await newest(app, 1)
        assert (mail["purpose"], mail["recipient"], mail["link"]) == ("sign_in", ADA, None)
        assert mail["code"] in mail["text"]
        made = await confirm(app, ticket=ticket, code=mail["code"])
        assert made.status_code == 201
        assert set(made.json()) == {"member_id", "nickname", "access_token", "refresh_token"}
        shown = await account(app, made.json()["access_token"])
        assert (shown["email"], shown["login_id"], shown["is_guest"]) == (ADA, None, False)
        ticket = await ask(app, "Ada@Example.com")
        again = await confirm(app, ticket=ticket, code=(await newest(app, 2))["code"])
        assert (again.status_code, again.json()["member_id"]) == (200, made.json()["member_id"])

    async def test_a_link_leads_to_a_page_of_the_app_and_is_the_same_proof(self, app: App):
        await allow(app, "email_code", "email_link")
        page = "https://club.example.com/signed-in"
        answer = await post(app, "/email-sign-in", {"email": ADA, "redirect_uri": page})
        error = assert_error(answer, 400, "VALIDATION_FAILED")
        assert error["details"][0]["code"] == "INVALID_REDIRECT_URI"
        await call(app, "PUT", "/oauth/settings", json={"login_redirect_uris": [page]})
        ticket = await ask(app, redirect_uri=page)
        mail = await newest(app, 1)
        assert mail["link"].startswith(f"{page}#ms_")
        assert (await confirm(app, token=token_of(mail))).status_code == 201
        assert_error(await confirm(app, token=token_of(mail)), 401, "TOKEN_EXPIRED")
        assert_error(await confirm(app, ticket=ticket, code=mail["code"]), 401, "INVALID_MAIL_CODE")

    async def test_a_code_works_with_its_ticket_alone_and_five_times(self, app: App, other_app: App):
        """A03: another's ticket, another app, twenty at once, the sixth try, after its time."""
        await allow(app, "email_code")
        await allow(other_app, "email_code")
        ticket, mine = await ask(app), await ask(app, "eve@example.com")
        code = next(one["code"] for one in await mails(app, 2) if one["recipient"] == ADA)
        assert_error(await confirm(app, ticket=mine, code=code), 401, "INVALID_MAIL_CODE")
        assert_error(await confirm(other_app, ticket=ticket, code=code), 401, "INVALID_MAIL_CODE")
        answers = await asyncio.gather(*(confirm(app, ticket=ticket, code=code) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [201, *[401] * 19]
        ticket = await ask(app)
        code = (await newest(app, 3))["code"]
        for _ in range(5):
            assert_error(
                await confirm(app, ticket=ticket, code=f"{(int(code) + 1) % 10**6:06}"), 401, "INVALID_MAIL_CODE"
            )
        assert_error(await confirm(app, ticket=ticket, code=code), 401, "INVALID_MAIL_CODE")
        ticket = await ask(app)
        code = (await newest(app, 4))["code"]
        await run_sql(
            app.server, "update pilotis.account_proofs set code_expires_at = now() where app_id = $1", app.app_id
        )
        assert_error(await confirm(app, ticket=ticket, code=code), 401, "INVALID_MAIL_CODE")

    async def test_where_sign_up_is_closed_only_members_get_mail(self, app: App):
        await verified(app, "ada", ADA)
        await allow(app, "email_code", sign_up="closed")
        ticket = await ask(app, "eve@example.com")
        assert (await ask(app)) != ticket
        mail = await newest(app, 1, purpose="sign_in")
        assert mail["recipient"] == ADA
        # A mail that was written before the settings changed makes nobody either.
        await allow(app, sign_up="open")
        ticket = await ask(app, "eve@example.com")
        code = (await newest(app, 2, purpose="sign_in"))["code"]
        await allow(app, sign_up="closed")
        assert_error(await confirm(app, ticket=ticket, code=code), 403, "SIGN_UP_CLOSED")

    async def test_an_inactive_member_is_refused(self, app: App):
        ada = await verified(app, "ada", ADA)
        await allow(app, "email_code")
        ticket = await ask(app)
        code = (await newest(app, 1, purpose="sign_in"))["code"]
        await call(app, "PATCH", f"/members/{ada['member_id']}", json={"is_active": False})
        assert_error(await confirm(app, ticket=ticket, code=code), 403, "MEMBER_INACTIVE")

    async def test_a_method_that_is_switched_off_no_longer_signs_in(self, app: App):
        await allow(app, "email_code", "email_link")
        ticket = await ask(app)
        mail = await newest(app, 1)
        await call(app, "PATCH", "/account-settings", json={"methods": {"email_code": False}})
        assert_error(await confirm(app, ticket=ticket, code=mail["code"]), 401, "INVALID_MAIL_CODE")
        assert (await confirm(app, token=token_of(mail))).status_code == 201


class TestPreHijacking:
    """A01: who comes first with another's address keeps nothing when the owner proves it."""

    async def test_a_pending_claim_ends(self, app: App):
        await allow(app, "email_code")
        mallory = await sign_up(app, "mallory", ADA)
        claimed = await newest(app, 1)
        ticket = await ask(app)
        code = (await newest(app, 1, purpose="sign_in"))["code"]
        made = await confirm(app, ticket=ticket, code=code)
        assert made.json()["member_id"] != mallory["member_id"]
        late = await post(app, "/me/email/confirm", {"code": claimed["code"]}, mallory["access_token"])
        assert_error(late, 401, "INVALID_MAIL_CODE")

    @pytest.mark.parametrize("way", ["code", "reset"])
    async def test_an_account_under_the_address_is_handed_over_without_its_past(self, app: App, way: str):
        await allow(app, "email_code", login_id_form="email")
        mallory = await sign_up(app, ADA)
        asked = await post(app, "/me/email", {"email": "mallory@example.org"}, mallory["access_token"])
        assert asked.status_code == 202
        pending = next(one for one in await mails(app, 2) if one["recipient"] == "mallory@example.org")
        if way == "code":
            ticket = await ask(app)
            code = (await newest(app, 1, purpose="sign_in"))["code"]
            assert (await confirm(app, ticket=ticket, code=code)).json()["member_id"] == mallory["member_id"]
        else:
            await post(app, "/password-reset", {"email": ADA})
            token = token_of(await newest(app, 1, purpose="reset_password"))
            answer = await post(app, "/password-reset/confirm", {"token": token, "password": NEW_PASSWORD})
            assert answer.status_code == 200
            assert (await sign_in(app, ADA, NEW_PASSWORD)).status_code == 200
        for token in (mallory["access_token"], mallory["refresh_token"]):
            async with app.client(token) as client:
                assert (await client.get(f"{MEMBERS}/me")).status_code == 401
                assert (await client.post("/v1/auth/re-issue")).status_code == 401
        assert_error(await sign_in(app, ADA, PASSWORD), 401, "INVALID_CREDENTIALS")
        body = {"token": token_of(pending), "password": PASSWORD}
        assert_error(await post(app, "/email-verification", body), 401, "TOKEN_EXPIRED")


class TestChange:
    async def test_the_new_address_is_proved_and_the_old_one_told(self, app: App):
        ada = await verified(app, "ada", ADA)
        asked = await post(app, "/me/email", {"email": "ada@example.org"}, ada["access_token"])
        ticket = asked.json()["ticket"]
        mail = await newest(app, 1, purpose="change_email")
        assert mail["recipient"] == "ada@example.org"
        assert (await account(app, ada["access_token"]))["email"] == ADA
        answer = await post(app, "/me/email/confirm", {"code": mail["code"], "ticket": ticket}, ada["access_token"])
        assert answer.json()["email"] == "ada@example.org"
        notice = await newest(app, 1, purpose="address_changed")
        assert (notice["recipient"], notice["code"]) == (ADA, None)
        assert_error(await sign_in(app, ADA, PASSWORD), 401, "INVALID_CREDENTIALS")
        # A12: undo is of one who has lost the account, and all that is left of the other one is gone.
        token = token_of(notice)
        answers = await asyncio.gather(*(post(app, "/email-undo", {"token": token}) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401, 401]
        async with app.client(ada["access_token"]) as client:
            assert (await client.get(f"{MEMBERS}/me")).status_code == 401
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "INVALID_CREDENTIALS")
        reset = token_of(await newest(app, 1, purpose="reset_password"))
        answer = await post(app, "/password-reset/confirm", {"token": reset, "password": NEW_PASSWORD})
        assert answer.status_code == 200
        back = (await sign_in(app, ADA, NEW_PASSWORD)).json()
        assert (await account(app, back["access_token"]))["email"] == ADA

    async def test_undo_is_void_once_the_address_is_anothers(self, app: App):
        ada = await verified(app, "ada", ADA)
        asked = await post(app, "/me/email", {"email": "ada@example.org"}, ada["access_token"])
        code = (await newest(app, 1, purpose="change_email"))["code"]
        body = {"code": code, "ticket": asked.json()["ticket"]}
        await post(app, "/me/email/confirm", body, ada["access_token"])
        notice = await newest(app, 1, purpose="address_changed")
        eve = await sign_up(app, "eve", ADA)
        second = await newest(app, 2, purpose="verify_email")
        answer = await post(app, "/me/email/confirm", {"code": second["code"]}, eve["access_token"])
        assert answer.status_code == 200
        assert_error(await post(app, "/email-undo", {"token": token_of(notice)}), 401, "TOKEN_EXPIRED")
        assert (await account(app, ada["access_token"]))["email"] == "ada@example.org"

    async def test_an_address_is_removed_unless_it_is_the_last_way_in(self, app: App):
        await allow(app, "email_code")
        ada = await verified(app, "ada", ADA)
        async with app.client(ada["access_token"]) as client:
            answer = await client.delete(f"{MEMBERS}/me/email")
        assert answer.json() == {"message": "Address removed.", "id": ada["member_id"]}
        assert (await account(app, ada["access_token"]))["email"] is None
        assert (await newest(app, 1, purpose="address_changed"))["recipient"] == ADA
        ticket = await ask(app, "eve@example.com")
        code = (await newest(app, 1, purpose="sign_in"))["code"]
        eve = (await confirm(app, ticket=ticket, code=code)).json()
        async with app.client(eve["access_token"]) as client:
            assert_error(await client.delete(f"{MEMBERS}/me/email"), 409, "LAST_WAY_IN")
            assert (await client.put(f"{MEMBERS}/me/password", json={"password": PASSWORD})).status_code == 200
            again = await client.put(f"{MEMBERS}/me/password", json={"password": NEW_PASSWORD})
            assert_error(again, 409, "PASSWORD_ALREADY_SET")
        assert (await sign_in(app, "eve@example.com", PASSWORD)).json()["member_id"] == eve["member_id"]
        await allow(app, email_verification="required")
        async with app.client(eve["access_token"]) as client:
            assert_error(await client.delete(f"{MEMBERS}/me/email"), 409, "EMAIL_REQUIRED")
