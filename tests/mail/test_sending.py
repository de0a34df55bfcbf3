"""The queue: mails of an app by a real SMTP server in good and bad weather."""

from typing import Any

from tests.backstage import run_sql
from tests.certificates import Authority
from tests.console import owner_of
from tests.mail.smtp_server import SmtpServer
from tests.mail.world import call, mails, sign_up
from tests.support import App
from tests.waiting import until

FROM = "Cafes <cafes@example.com>"
ADA = "ada@example.com"


async def use(app: App, url: str) -> None:
    await call(app, "PUT", "/mail-settings", json={"smtp_url": url, "mail_from": FROM})


async def in_state(app: App, state: str) -> dict[str, Any]:
    """Wait until the app's only mail has a state."""

    async def look() -> dict[str, Any] | None:
        found = (await call(app, "GET", "/mail"))["data"]
        return found[0] if found and found[0]["state"] == state else None

    return await until(look)


async def test_a_mail_is_sent_and_its_text_deleted(app: App, authority: Authority):
    async with SmtpServer(tls=authority.context("127.0.0.1")).listening() as smtp:
        await use(app, smtp.url())
        await sign_up(app, "ada", ADA, language="fr")
        mail = await in_state(app, "sent")
    (taken,) = smtp.taken
    assert taken.is_encrypted
    assert taken.recipients == [ADA]
    assert taken.message["Content-Language"] == "fr"
    assert taken.message["Message-ID"] == f"<{mail['mail_id']}@example.com>"
    assert "#mv_" in taken.part("plain")
    assert "#mv_" in taken.part("html")
    assert (mail["attempts"], mail["reply"]) == (1, "2.0.0 taken")
    whole = await call(app, "GET", f"/mail/{mail['mail_id']}")
    assert (whole["text"], whole["link"], whole["code"]) == (None, None, None)
    statement = "select body from pilotis.mail_messages where app_id = $1"
    assert await run_sql(app.server, statement, app.app_id) is None


async def test_a_refused_recipient_bounces_and_is_suppressed(app: App):
    def reply(command: str) -> bytes | None:
        return b"550 5.1.1 nobody here\r\n" if command == "RCPT" else None

    async with SmtpServer(reply=reply).listening() as smtp:
        await use(app, smtp.url())
        await sign_up(app, "ada", ADA)
        mail = await in_state(app, "bounced")
        assert mail["reply"] == "550 5.1.1 nobody here"
        assert [one["reason"] for one in (await call(app, "GET", "/mail/suppressions"))["data"]] == ["bounced"]
        await sign_up(app, "other", ADA)
        await in_state(app, "suppressed")
    assert smtp.taken == []


async def test_a_deferred_mail_is_sent_later_under_the_same_id(app: App):
    """Also one whose connection died after the text, which the relay may have taken."""
    told = {"RCPT": b"451 4.7.1 later\r\n"}
    async with SmtpServer(reply=lambda command: told.get(command)).listening() as smtp:
        await use(app, smtp.url())
        await sign_up(app, "ada", ADA)
        mail = await in_state(app, "deferred")
        assert (mail["reply"], mail["attempts"]) == ("451 4.7.1 later", 1)
        told.clear()
        told["TEXT"] = b""
        await call(app, "POST", f"/mail/{mail['mail_id']}/retry")
        await until(lambda: smtp.taken)
        await in_state(app, "deferred")
        told.clear()
        await call(app, "POST", f"/mail/{mail['mail_id']}/retry")
        await in_state(app, "sent")
    first, second = smtp.taken
    assert first.message["Message-ID"] == second.message["Message-ID"]


async def test_nothing_is_sent_after_its_proof_has_expired(app: App):
    async with SmtpServer(reply=lambda command: b"451 later\r\n" if command == "MAIL" else None).listening() as smtp:
        await use(app, smtp.url())
        await sign_up(app, "ada", ADA)
        mail = await in_state(app, "deferred")
        statement = "update pilotis.mail_messages set expires_at = now(), state = 'queued' where app_id = $1"
        await run_sql(app.server, statement, app.app_id)
        job = "update pilotis.jobs set run_at = now() where app_id = $1 and kind = 'mail.send'"
        await run_sql(app.server, job, app.app_id)
        smtp.reply = lambda _: None
        await in_state(app, "expired")
        assert smtp.taken == []
        async with owner_of(app).client(app) as client:
            again = await client.post(f"/mail/{mail['mail_id']}/retry")
    assert (again.status_code, again.json()["code"]) == (409, "MAIL_NOT_RETRYABLE")


async def test_a_relay_that_is_away_defers(app: App):
    async with SmtpServer().listening() as smtp:
        url = smtp.url()
    await use(app, url)
    await sign_up(app, "ada", ADA)
    assert (await in_state(app, "deferred"))["reply"] == "The connection was refused or lost."


async def test_mails_are_stored_again_without_a_relay(app: App):
    await sign_up(app, "ada", ADA)
    (mail,) = await mails(app, 1)
    assert mail["state"] == "stored"
