"""Verification of addresses and forgotten passwords, by the mailbox."""

import asyncio
import statistics
import time
from typing import Any
from uuid import UUID

import pytest

from pilotis.accounts.feature import AccountsFeature
from pilotis.accounts.types import MailedReset
from pilotis.apps.feature import AppsFeature
from pilotis.http.api.principals import Client
from pilotis.members.invitations.types import TokenExpiredError
from tests.backstage import run_sql
from tests.console import second_node
from tests.mail.world import (
    NEW_PASSWORD,
    PASSWORD,
    account,
    mails,
    post,
    sign_in,
    sign_up,
    token_of,
    verified,
)
from tests.support import App, assert_error, plain_client

ADA = "ada@example.com"


async def ask_for_reset(app: App, **body: Any) -> None:
    answer = await post(app, "/password-reset", body)
    assert answer.status_code == 202, answer.text
    assert set(answer.json()) == {"message"}


class TestVerification:
    async def test_by_the_code_in_the_session_that_signed_up(self, app: App):
        ada = await sign_up(app, "ada", ADA)
        (mail,) = await mails(app, 1)
        assert (mail["purpose"], mail["recipient"], mail["state"]) == ("verify_email", ADA, "stored")
        assert mail["code"] in mail["text"]
        assert mail["link"] in mail["text"]
        before = await account(app, ada["access_token"])
        assert (before["email"], before["pending_email"]) == (None, ADA)
        answer = await post(app, "/me/email/confirm", {"code": mail["code"]}, ada["access_token"])
        assert answer.json() == await account(app, ada["access_token"])
        assert (answer.json()["email"], answer.json()["pending_email"]) == (ADA, None)
        # The link is the same proof.
        again = await post(app, "/email-verification", {"token": token_of(mail), "password": PASSWORD})
        assert_error(again, 401, "TOKEN_EXPIRED")

    async def test_by_the_link_with_the_session_or_with_the_password(self, app: App, other_app: App):
        ada = await sign_up(app, "ada", ADA)
        token = token_of((await mails(app, 1))[0])
        wrong = await post(app, "/email-verification", {"token": token, "password": "another one"})
        assert_error(wrong, 403, "WRONG_PASSWORD")
        eve = await sign_up(app, "eve")
        assert_error(await post(app, "/me/email/confirm", {"token": token}, eve["access_token"]), 401, "TOKEN_EXPIRED")
        elsewhere = await post(other_app, "/email-verification", {"token": token, "password": PASSWORD})
        assert_error(elsewhere, 401, "TOKEN_EXPIRED")
        assert (await post(app, "/email-verification", {"token": token, "password": PASSWORD})).status_code == 200
        assert (await account(app, ada["access_token"]))["email"] == ADA
        # Sign-in by the address instead of the login_id, in any case.
        assert (await sign_in(app, "ADA@example.com", PASSWORD)).json()["member_id"] == ada["member_id"]

    async def test_opening_the_link_uses_nothing_up(self, app: App):
        """A02: scanners open links."""
        await sign_up(app, "ada", ADA)
        mail = (await mails(app, 1))[0]
        async with plain_client(app.server.url) as client:
            path = mail["link"].partition("#")[0].removeprefix(app.server.url)
            for method in ("GET", "HEAD", "GET"):
                assert (await client.request(method, path)).status_code == 200
        body = {"token": token_of(mail), "password": PASSWORD}
        assert (await post(app, "/email-verification", body)).status_code == 200

    async def test_a_code_works_in_its_session_alone_and_five_times(self, app: App):
        """A03: codes with another's ticket, many at once, too often."""
        ada = await sign_up(app, "ada", ADA)
        eve = await sign_up(app, "eve")
        code = (await mails(app, 1))[0]["code"]
        assert_error(
            await post(app, "/me/email/confirm", {"code": code}, eve["access_token"]), 401, "INVALID_MAIL_CODE"
        )
        other = (await sign_in(app, "ada", PASSWORD)).json()
        assert_error(
            await post(app, "/me/email/confirm", {"code": code}, other["access_token"]), 401, "INVALID_MAIL_CODE"
        )
        wrong = f"{(int(code) + 1) % 10**6:06}"
        for _ in range(5):
            answer = await post(app, "/me/email/confirm", {"code": wrong}, ada["access_token"])
            assert_error(answer, 401, "INVALID_MAIL_CODE")
        late = await post(app, "/me/email/confirm", {"code": code}, ada["access_token"])
        assert_error(late, 401, "INVALID_MAIL_CODE")

    async def test_of_twenty_at_once_one_wins(self, app: App):
        ada = await sign_up(app, "ada", ADA)
        code = (await mails(app, 1))[0]["code"]
        answers = await asyncio.gather(
            *(post(app, "/me/email/confirm", {"code": code}, ada["access_token"]) for _ in range(20))
        )
        assert sorted(answer.status_code for answer in answers) == [200, *[401] * 19]

    async def test_an_expired_code_is_refused(self, app: App):
        ada = await sign_up(app, "ada", ADA)
        code = (await mails(app, 1))[0]["code"]
        await run_sql(
            app.server, "update pilotis.account_proofs set code_expires_at = now() where app_id = $1", app.app_id
        )
        answer = await post(app, "/me/email/confirm", {"code": code}, ada["access_token"])
        assert_error(answer, 401, "INVALID_MAIL_CODE")

    async def test_another_mail_has_a_ticket_and_ends_the_one_before(self, app: App):
        ada = await sign_up(app, "ada", ADA)
        first = (await mails(app, 1))[0]
        asked = await post(app, "/me/email", {"email": "ada@example.org"}, ada["access_token"])
        assert asked.status_code == 202
        ticket = asked.json()["ticket"]
        second = (await mails(app, 2))[0]
        assert second["recipient"] == "ada@example.org"
        old = await post(app, "/me/email/confirm", {"token": token_of(first)}, ada["access_token"])
        assert_error(old, 401, "TOKEN_EXPIRED")
        body = {"code": second["code"], "ticket": "x" * 43}
        assert_error(await post(app, "/me/email/confirm", body, ada["access_token"]), 401, "INVALID_MAIL_CODE")
        # The ticket also works in another session of the member.
        other = (await sign_in(app, "ada", PASSWORD)).json()
        answer = await post(app, "/me/email/confirm", {"code": second["code"], "ticket": ticket}, other["access_token"])
        assert answer.json()["email"] == "ada@example.org"
        more = await post(app, "/me/email", {"email": "Ada@Example.org"}, ada["access_token"])
        assert_error(more, 409, "EMAIL_ALREADY_VERIFIED")

    async def test_an_old_session_must_sign_in_again(self, app: App):
        ada = await sign_up(app, "ada")
        statement = "update pilotis.sessions set created_at = now() - interval '6 minutes' where subject = $1"
        await run_sql(app.server, statement, ada["member_id"])
        answer = await post(app, "/me/email", {"email": ADA}, ada["access_token"])
        assert_error(answer, 403, "REAUTHENTICATION_REQUIRED")

    async def test_the_reader_may_deny(self, app: App):
        ada = await sign_up(app, "ada", ADA)
        mail = (await mails(app, 1))[0]
        assert (await post(app, "/email-verification/deny", {"token": token_of(mail)})).status_code == 200
        answer = await post(app, "/me/email/confirm", {"code": mail["code"]}, ada["access_token"])
        assert_error(answer, 401, "INVALID_MAIL_CODE")
        assert (await account(app, ada["access_token"]))["pending_email"] is None

    @pytest.mark.parametrize(
        "email", ["a@b@c", "a b@c.d", '"a b"@c.d', "a@b.c\r\nBcc: x@y.z", "a@b.c,d@e.f", "аda@example.com", "a@-b.c"]
    )
    async def test_what_is_not_one_address_is_refused(self, app: App, email: str):
        """A09: injected headers, lists, quoted local parts, letters that look like others."""
        body = {"login_id": "ada", "password": PASSWORD, "email": email}
        error = assert_error(await post(app, "/signup", body), 400, "VALIDATION_FAILED")
        assert error["details"][0]["code"] == "INVALID_EMAIL"

    async def test_the_language_is_the_members_or_the_requests(self, app: App):
        await sign_up(app, "ada", ADA, language="ko")
        body = {"login_id": "eva", "password": PASSWORD, "email": "eva@example.com"}
        await post(app, "/signup", body, None, **{"Accept-Language": "xx, de-AT;q=0.9, en;q=0.1"})
        assert {one["recipient"]: one["language"] for one in await mails(app, 2)} == {
            ADA: "ko",
            "eva@example.com": "de",
        }


class TestPreHijacking:
    async def test_a_claim_gives_nothing_and_ends_when_the_owner_verifies(self, app: App):
        """A01: somebody signs up with another's address, whose owner comes later."""
        mallory = await sign_up(app, "mallory", ADA)
        claimed = (await mails(app, 1))[0]
        await ask_for_reset(app, email=ADA)
        ada = await sign_up(app, "ada", ADA)
        own = (await mails(app, 2))[0]
        # Ada reads both mails. The one of Mallory's account asks for Mallory's password.
        answer = await post(app, "/email-verification", {"token": token_of(claimed), "password": "whatever it is"})
        assert_error(answer, 403, "WRONG_PASSWORD")
        assert (await post(app, "/me/email/confirm", {"code": own["code"]}, ada["access_token"])).status_code == 200
        late = await post(app, "/email-verification", {"token": token_of(claimed), "password": PASSWORD})
        assert_error(late, 401, "TOKEN_EXPIRED")
        assert (await account(app, mallory["access_token"]))["email"] is None
        assert (await sign_in(app, ADA, PASSWORD)).json()["member_id"] == ada["member_id"]

    async def test_a_sign_up_with_anothers_address_tells_the_owner_alone(self, app: App):
        await verified(app, "ada", ADA)
        mallory = await sign_up(app, "mallory", "Ada@Example.com")
        mail = (await mails(app, 2))[0]
        assert (mail["purpose"], mail["recipient"], mail["link"], mail["code"]) == ("address_in_use", ADA, None, None)
        assert (await account(app, mallory["access_token"]))["pending_email"] is None

    async def test_a_login_id_is_not_anothers_address(self, app: App):
        await verified(app, "ada", ADA)
        answer = await post(app, "/signup", {"login_id": "Ada@example.com", "password": PASSWORD})
        assert_error(answer, 409, "LOGIN_ID_TAKEN")


class TestReset:
    @pytest.mark.parametrize("body", [{"login_id": "ada"}, {"email": "ADA@example.com"}, {"login_id": ADA}])
    async def test_a_link_sets_a_new_password_once(self, app: App, body: dict[str, str]):
        ada = await verified(app, "ada", ADA)
        await ask_for_reset(app, **body)
        mail = (await mails(app, 2))[0]
        assert (mail["purpose"], mail["code"]) == ("reset_password", None)
        given = {"token": token_of(mail), "password": NEW_PASSWORD}
        answers = await asyncio.gather(*(post(app, "/password-reset/confirm", given) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200, 401, 401, 401, 401]
        done = next(answer for answer in answers if answer.status_code == 200)
        assert set(done.json()) == {"message"}
        async with app.client(ada["access_token"]) as client:
            assert (await client.get("/v1/public/app-members/me")).status_code == 401
        assert_error(await sign_in(app, "ada", PASSWORD), 401, "INVALID_CREDENTIALS")
        assert (await sign_in(app, "ada", NEW_PASSWORD)).status_code == 200

    async def test_on_two_nodes_one_of_twenty_wins(self, app: App):
        """A04: the same link at once, on each node."""
        await verified(app, "ada", ADA)
        await ask_for_reset(app, email=ADA)
        token = token_of((await mails(app, 2))[0])
        async with second_node(app.server) as node:
            proofs = node.made.get(AccountsFeature).proofs
            info = await node.made.get(AppsFeature).apps.by_id(UUID(app.app_id))

            async def there() -> bool:
                try:
                    await proofs.reset(info, Client("127.0.0.1", "test"), MailedReset(token, NEW_PASSWORD))
                except TokenExpiredError:
                    return False
                return True

            async def here() -> bool:
                body = {"token": token, "password": NEW_PASSWORD}
                return (await post(app, "/password-reset/confirm", body)).status_code == 200

            done = await asyncio.gather(*(attempt() for _ in range(10) for attempt in (here, there)))
        assert sum(done) == 1

    async def test_a_link_dies_with_a_change_of_password(self, app: App):
        ada = await verified(app, "ada", ADA)
        await ask_for_reset(app, email=ADA)
        token = token_of((await mails(app, 2))[0])
        async with app.client(ada["access_token"]) as client:
            change = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
            assert (await client.patch("/v1/public/app-members/me/password", json=change)).status_code == 200
        answer = await post(app, "/password-reset/confirm", {"token": token, "password": "yet another one"})
        assert_error(answer, 401, "TOKEN_EXPIRED")

    async def test_by_the_page_of_the_mail(self, app: App):
        await verified(app, "ada", ADA)
        await ask_for_reset(app, email=ADA)
        mail = (await mails(app, 2))[0]
        async with plain_client(app.server.url) as client:
            path = mail["link"].partition("#")[0].removeprefix(app.server.url)
            shown = await client.get(path)
            assert "Choose a new password" in shown.text
        body = {"token": token_of(mail), "password": NEW_PASSWORD}
        assert (await post(app, "/password-reset/confirm", body)).status_code == 200
        assert (await sign_in(app, "ada", NEW_PASSWORD)).status_code == 200

    async def test_nobody_without_a_verified_address_gets_mail(self, app: App):
        await sign_up(app, "ada", ADA)
        await ask_for_reset(app, login_id="ada")
        await ask_for_reset(app, email=ADA)
        await ask_for_reset(app, email="nobody@example.com")
        await sign_up(app, "last", "last@example.com")
        assert [one["purpose"] for one in await mails(app, 2)] == ["verify_email", "verify_email"]

    async def test_known_and_unknown_addresses_are_answered_alike(self, app: App):
        """A07: in text and in time, because a job looks the member up."""
        await verified(app, "ada", ADA)
        seconds: dict[str, list[float]] = {ADA: [], "eve@example.com": []}
        texts = set()
        async with app.client() as client:
            for _ in range(60):
                for email, taken in seconds.items():
                    began = time.perf_counter()
                    answer = await client.post("/v1/public/app-members/password-reset", json={"email": email})
                    taken.append(time.perf_counter() - began)
                    texts.add((answer.status_code, answer.text))
        assert len(texts) == 1
        known, unknown = (statistics.median(taken) for taken in seconds.values())
        assert abs(known - unknown) < 0.3 * max(known, unknown)

    async def test_an_address_gets_five_mails_an_hour_from_one_network(self, app: App):
        await verified(app, "ada", ADA)
        for _ in range(7):
            await ask_for_reset(app, email=ADA)
        states = [one["state"] for one in await mails(app, 7, purpose="reset_password")]
        assert sorted(states) == [*["stored"] * 5, *["suppressed"] * 2]
