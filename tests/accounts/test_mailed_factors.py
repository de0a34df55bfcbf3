"""A code by mail as the second factor: beside a password or a vendor, never beside another mail."""

import asyncio
from typing import Any

from tests.accounts.authenticator import code, enrolled, finish
from tests.accounts.test_gate import settings
from tests.console import client_of, second_node
from tests.mail.world import MEMBERS, NEW_PASSWORD, PASSWORD, mails, post, sign_in, sign_up, token_of, verified
from tests.support import App, assert_error

ADA = "ada@example.com"
FACTORS = ["passkey", "totp", "recovery_code", "email_code"]


async def required(app: App, **more: Any) -> dict[str, Any]:
    """Ada, of an app that requires a second factor and accepts a mailed code."""
    ada = await verified(app, "ada", ADA)
    await settings(app, second_factor="required", second_factors=FACTORS, **more)
    return ada


async def waiting(app: App, password: str = PASSWORD) -> str:
    error = assert_error(await sign_in(app, "ada", password), 401, "SECOND_FACTOR_REQUIRED")
    assert error["factors"] == ["email_code"]
    return str(error["ticket"])


async def mailed(app: App, ticket: str, number: int) -> str:
    """Ask for a code, and return it from the newest of so many mails."""
    answer = await post(app, "/second-factor/start", {"ticket": ticket, "method": "email_code"})
    assert (answer.status_code, answer.json()) == (200, {"ticket": ticket, "options": None})
    return str((await mails(app, number, purpose="sign_in"))[0]["code"])


def wrong(right: str) -> str:
    return "000000" if right != "000000" else "111111"


async def test_a_mailed_code_admits_at_level_one_and_serves_once(app: App, other_app: App):
    await required(app)
    ticket = await waiting(app)
    number = await mailed(app, ticket, 1)
    assert_error(await finish(app, ticket, email_code=wrong(number)), 401, "INVALID_SECOND_FACTOR")
    assert_error(await finish(other_app, ticket, email_code=number), 401, "INVALID_SECOND_FACTOR")
    other = await waiting(app)
    assert_error(await finish(app, other, email_code=number), 401, "INVALID_SECOND_FACTOR")
    again = await mailed(app, ticket, 2)
    # The newer code has replaced the older one.
    if again != number:
        assert_error(await finish(app, ticket, email_code=number), 401, "INVALID_SECOND_FACTOR")
    signed_in = await finish(app, ticket, email_code=again)
    assert signed_in.status_code == 200, signed_in.text
    assert_error(await finish(app, ticket, email_code=again), 401, "INVALID_SECOND_FACTOR")
    async with app.client(signed_in.json()["access_token"]) as client:
        assert (await client.get("/v1/public/tables")).status_code == 200
        (session, *_) = (await client.get(f"{MEMBERS}/me/sessions")).json()["sessions"]
    assert session["methods"] == ["password", "email_code"]


async def test_of_twenty_at_once_on_two_nodes_one_wins(app: App):
    await required(app)
    ticket = await waiting(app)
    number = await mailed(app, ticket, 1)
    body = {"ticket": ticket, "email_code": number}
    async with second_node(app.server) as node, client_of(node, **{"X-Public-Key": app.public_key}) as other:
        here = [finish(app, ticket, email_code=number) for _ in range(10)]
        there = [other.post(f"{MEMBERS}/second-factor", json=body) for _ in range(10)]
        answers = await asyncio.gather(*here, *there)
    assert sorted(answer.status_code for answer in answers).count(200) == 1
    assert {answer.status_code for answer in answers} <= {200, 401, 429}


async def test_five_tries_of_a_ticket_and_ten_of_a_member(app: App):
    await required(app)
    ticket = await waiting(app)
    number = await mailed(app, ticket, 1)
    for _ in range(5):
        assert_error(await finish(app, ticket, email_code=wrong(number)), 401, "INVALID_SECOND_FACTOR")
    assert_error(await finish(app, ticket, email_code=number), 401, "INVALID_SECOND_FACTOR")
    other = await waiting(app)
    number = await mailed(app, other, 2)
    statuses = [(await finish(app, other, email_code=wrong(number))).status_code for _ in range(5)]
    assert set(statuses) == {401}
    assert_error(await finish(app, await waiting(app), email_code=number), 429, "RATE_LIMITED")


async def test_after_a_mail_it_is_no_second_factor(app: App):
    """A05: neither a sign-in by mail nor a password that a mail has set gets around the factor by another mail."""
    await required(app, methods={"email_code": True})
    asked = (await post(app, "/email-sign-in", {"email": ADA})).json()
    (mail,) = await mails(app, 1, purpose="sign_in")
    by_mail = await post(app, "/email-sign-in/confirm", {"ticket": asked["ticket"], "code": mail["code"]})
    async with app.client(by_mail.json()["access_token"]) as client:
        assert_error(await client.get("/v1/public/tables"), 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
    ticket = await waiting(app)
    number = await mailed(app, ticket, 2)
    await post(app, "/password-reset", {"email": ADA})
    (reset,) = await mails(app, 1, purpose="reset_password")
    assert (
        await post(app, "/password-reset/confirm", {"token": token_of(reset), "password": NEW_PASSWORD})
    ).status_code == 200
    # A06: what was begun with the old password has ended.
    assert_error(await finish(app, ticket, email_code=number), 401, "INVALID_SECOND_FACTOR")
    signed_in = await sign_in(app, "ada", NEW_PASSWORD)
    async with app.client(signed_in.json()["access_token"]) as client:
        assert_error(await client.get("/v1/public/tables"), 403, "SECOND_FACTOR_ENROLMENT_REQUIRED")
        body = {"current_password": NEW_PASSWORD, "new_password": PASSWORD}
        assert (await client.patch(f"{MEMBERS}/me/password", json=body)).status_code == 200
    # Whoever knows the password that was chosen knows more than the mail has said.
    await waiting(app)


async def test_it_is_for_members_without_a_stronger_factor_in_apps_that_accept_it(app: App):
    ada = await verified(app, "ada", ADA)
    await settings(app, second_factor="optional", second_factors=FACTORS)
    assert (await sign_in(app, "ada", PASSWORD)).status_code == 200
    secret, _ = await enrolled(app, ada["access_token"])
    error = assert_error(await sign_in(app, "ada", PASSWORD), 401, "SECOND_FACTOR_REQUIRED")
    assert error["factors"] == ["totp", "recovery_code"]
    begun = await post(app, "/second-factor/start", {"ticket": error["ticket"], "method": "email_code"})
    assert_error(begun, 401, "INVALID_SECOND_FACTOR")
    # A factor that the app has ceased to accept is not asked for, nor taken, nor set up.
    await settings(app, second_factors=["passkey", "email_code"], second_factor="required")
    assert_error(await finish(app, error["ticket"], totp=code(secret, 1)), 401, "INVALID_SECOND_FACTOR")
    await waiting(app)
    bob = await sign_up(app, "bob")
    assert_error(await post(app, "/me/totp", None, bob["access_token"]), 403, "LOGIN_DISABLED")
