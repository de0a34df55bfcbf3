"""Mails that the app's own side sends, to members and to addresses."""

import asyncio
from typing import Any

from tests.console import owner_of
from tests.functions.support import Functions
from tests.mail.smtp_server import SmtpServer
from tests.mail.world import call, mails, sign_up, verified
from tests.support import App, assert_error
from tests.waiting import until

MESSAGE = {"subject": "News", "text": "Hello <you>,\nall of you.\n\nBye"}


async def send(app: App, expected: int = 202, **fields: Any) -> dict[str, Any]:
    async with owner_of(app).client(app) as client:
        answer = await client.post("/mail/send", json={**MESSAGE, **fields})
    assert answer.status_code == expected, answer.text
    return answer.json()


async def test_to_a_member_and_to_an_address(app: App):
    ada = await verified(app, "ada", "ada@example.com")
    sent = await send(app, member_id=ada["member_id"])
    assert sent["state"] == "stored"
    mail = await call(app, "GET", f"/mail/{sent['mail_id']}")
    assert (mail["recipient"], mail["purpose"], mail["text"]) == ("ada@example.com", "message", MESSAGE["text"])
    assert "Hello &lt;you&gt;,<br>" in mail["html"]
    sent = await send(app, to="bob@example.com", html="<h1>News</h1>", language="fr")
    mail = await call(app, "GET", f"/mail/{sent['mail_id']}")
    assert (mail["html"], mail["language"]) == ("<h1>News</h1>", "fr")
    await call(app, "POST", "/mail/suppressions", json={"address": "bob@example.com"})
    assert (await send(app, to="Bob@example.com"))["state"] == "suppressed"


async def test_a09_one_recipient_and_one_line_of_subject(app: App, other_app: App):
    eve = await sign_up(app, "eve")
    for fields in (
        {"to": "a@example.com, b@example.com"},
        {"to": "a@example.com\r\nBcc: b@example.com"},
        {"to": "a@b@example.com"},
        {"to": '"a b"@example.com'},
        {"to": "a@example.com", "subject": "News\r\nBcc: b@example.com"},
        {"to": "a@example.com", "member_id": eve["member_id"]},
        {"to": "a@example.com", "text": "x" * 64_001},
        {},
    ):
        await send(app, 400, **fields)
    assert (await send(app, 409, member_id=eve["member_id"]))["code"] == "MEMBER_HAS_NO_EMAIL"
    foreign = await sign_up(other_app, "foreign")
    assert (await send(app, 404, member_id=foreign["member_id"]))["code"] == "MEMBER_NOT_FOUND"
    assert (await call(app, "GET", "/mail"))["total_count"] == 0
    async with app.client() as client:
        answer = await client.post(f"/v1/apps/{app.app_id}/mail/send", json={"to": "a@example.com", **MESSAGE})
        assert_error(answer, 401, "TOKEN_REQUIRED")


async def test_it_goes_by_smtp_once_also_if_the_request_is_repeated(app: App):
    async with SmtpServer().listening() as smtp:
        await call(app, "PUT", "/mail-settings", json={"smtp_url": smtp.url(), "mail_from": "club@example.com"})
        async with owner_of(app).client(app) as client:
            body, key = {"to": "ada@example.com", **MESSAGE}, {"Idempotency-Key": "one"}
            first, second = [(await client.post("/mail/send", json=body, headers=key)).json() for _ in range(2)]
        assert first == second
        await mails(app, 1, state="sent")
        await until(lambda: smtp.taken)
        await asyncio.sleep(0)
        texts = [taken.part("plain").strip().replace("\r\n", "\n") for taken in smtp.taken]
        assert texts == [MESSAGE["text"]]


async def test_a_function_sends_with_the_scope_alone(app: App, functions: Functions):
    source = """
    export default async (mail, ctx) => {
      const body = JSON.stringify(mail);
      const headers = { "content-type": "application/json" };
      const answer = await ctx.api.fetch(`/v1/apps/${ctx.appId}/mail/send`, { method: "POST", body, headers });
      return answer.status;
    };
    """
    await functions.made("teller", source, scopes=["mail:send"])
    await functions.made("mute", source, scopes=["rows:read"])
    mail = {"to": "ada@example.com", **MESSAGE}
    assert await functions.value("mute", mail) == 403
    assert await functions.value("teller", mail) == 202
    assert (await mails(app, 1))[0]["recipient"] == "ada@example.com"
