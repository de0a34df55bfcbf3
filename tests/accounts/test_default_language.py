"""Mails and pages are in the member's language, else in the browser's, else in the app's."""

import httpx

from tests.console import owner_of
from tests.mail.world import call, mails, post, sign_up, verified
from tests.support import App, assert_error


async def test_the_app_decides_where_neither_the_member_nor_the_browser_does(app: App, other_app: App):
    await call(app, "PATCH", "/account-settings", json={"default_language": "ko"})
    await sign_up(app, "ada", "ada@example.com")
    assert [mail["language"] for mail in await mails(app, 1)] == ["ko"]
    await post(app, "/signup", {"login_id": "bob", "password": "correct horse", "email": "bob@example.com"}, **FRENCH)
    await post(
        app,
        "/signup",
        {"login_id": "eve", "password": "correct horse", "email": "eve@example.com", "language": "de"},
        **FRENCH,
    )
    found = {mail["recipient"]: mail["language"] for mail in await mails(app, 3)}
    assert found == {"ada@example.com": "ko", "bob@example.com": "fr", "eve@example.com": "de"}
    await sign_up(other_app, "ada", "ada@example.com")
    assert [mail["language"] for mail in await mails(other_app, 1)] == ["en"]


async def test_every_kind_of_mail_and_the_pages_follow(app: App):
    settings = {"default_language": "ja", "methods": {"email_code": True}}
    await call(app, "PATCH", "/account-settings", json=settings)
    await verified(app, "ada", "ada@example.com")
    await post(app, "/password-reset", {"email": "ada@example.com"})
    await post(app, "/email-sign-in", {"email": "ada@example.com"})
    assert {mail["language"] for mail in await mails(app, 3)} == {"ja"}
    sent = await owner_message(app)
    assert (await call(app, "GET", f"/mail/{sent}"))["language"] == "ja"
    async with httpx.AsyncClient() as client:
        page = f"{app.server.url}/account/{app.app_id}/sign-in"
        for headers, query, language in (({}, {}, "ja"), (FRENCH, {}, "fr"), (FRENCH, {"lang": "de"}, "de")):
            answer = await client.get(page, headers=headers, params=query)
            assert f'<html lang="{language}">' in answer.text


async def test_only_a_language_that_is_shipped(app: App):
    async with owner_of(app).client(app) as client:
        answer = await client.patch("/account-settings", json={"default_language": "tlh"})
    assert_error(answer, 400, "VALIDATION_FAILED")


async def owner_message(app: App) -> str:
    async with owner_of(app).client(app) as client:
        answer = await client.post("/mail/send", json={"to": "bob@example.com", "subject": "Hi", "text": "Hello."})
    assert answer.status_code in {200, 202}, answer.text
    found: str = answer.json()["mail_id"]
    return found


FRENCH = {"Accept-Language": "fr"}
