"""An app's own SMTP server: what is accepted, what is sent by it, and what is not."""

from typing import Any

import pytest

from tests.backstage import run_sql
from tests.certificates import Authority
from tests.console import owner_of
from tests.mail.smtp_server import PASSWORD, SmtpServer
from tests.support import App, assert_error

FROM = "Cafes <cafes@example.com>"


async def call(app: App, method: str, path: str, **options: Any) -> Any:
    async with owner_of(app).client(app) as client:
        answer = await client.request(method, path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def use(app: App, url: str, **more: Any) -> dict[str, Any]:
    return await call(app, "PUT", "/mail-settings", json={"smtp_url": url, "mail_from": FROM, **more})


async def test_mail(app: App) -> dict[str, Any]:
    return await call(app, "POST", "/mail-settings/test")


test_mail.__test__ = False


class TestSettings:
    async def test_without_any_mails_are_stored(self, app: App):
        read = await call(app, "GET", "/mail-settings")
        assert read == {
            "source": "mailbox",
            "smtp_url": None,
            "has_password": False,
            "mail_from": None,
            "mail_reply_to": None,
            "mail_per_day": 0,
            "server_from": None,
        }
        assert await test_mail(app) == {"recipient": "first@example.com", "state": "stored", "reply": None}
        listed = await call(app, "GET", "/mail")
        assert [(one["purpose"], one["state"]) for one in listed["data"]] == [("test", "stored")]
        mail = await call(app, "GET", f"/mail/{listed['data'][0]['mail_id']}")
        assert "reach you" in mail["text"]
        assert "reach you" in mail["html"]
        entries = await call(app, "GET", "/audit-log")
        assert "mail.read" in [entry["action"] for entry in entries["data"]]

    async def test_the_password_is_never_shown_and_stays_for_the_same_server(self, app: App):
        shown = await use(app, "smtp://cafes:secret@127.0.0.1:2525")
        assert shown["smtp_url"] == "smtp://cafes@127.0.0.1:2525"
        assert shown["has_password"]
        assert (await use(app, "smtp://cafes@127.0.0.1:2525"))["has_password"]
        assert not (await use(app, "smtp://cafes@127.0.0.1:2526"))["has_password"]
        await call(app, "DELETE", "/mail-settings")
        assert (await call(app, "GET", "/mail-settings"))["source"] == "mailbox"

    @pytest.mark.parametrize(
        ("field", "value", "code"),
        [
            ("smtp_url", "http://127.0.0.1:25", "INVALID_VALUE"),
            ("smtp_url", "smtp://127.0.0.1:25/x", "INVALID_VALUE"),
            ("smtp_url", "smtp://a\r\nb@127.0.0.1", "INVALID_VALUE"),
            ("smtp_url", "smtp://169.254.169.254", "ADDRESS_NOT_ALLOWED"),
            ("smtp_url", "smtp://10.0.0.1:25", "ADDRESS_NOT_ALLOWED"),
            ("mail_from", "a@b@c", "INVALID_VALUE"),
            ("mail_from", "Cafes\r\nBcc: x@example.com <a@example.com>", "INVALID_VALUE"),
            ("mail_reply_to", "a@example.com, b@example.com", "INVALID_EMAIL"),
        ],
    )
    async def test_a18_what_is_no_server_or_sender_is_refused(self, app: App, field: str, value: str, code: str):
        body = {"smtp_url": "smtp://127.0.0.1:2525", "mail_from": FROM, field: value}
        async with owner_of(app).client(app) as client:
            error = assert_error(await client.put("/mail-settings", json=body), 400, "VALIDATION_FAILED")
        assert (error["details"][0]["field"], error["details"][0]["code"]) == (field, code)


class TestSending:
    @pytest.mark.parametrize("is_tls_from_start", [False, True])
    async def test_by_tls_with_a_password(self, app: App, authority: Authority, is_tls_from_start: bool):
        tls = authority.context("127.0.0.1")
        async with SmtpServer(tls=tls, is_tls_from_start=is_tls_from_start).listening() as smtp:
            await use(app, smtp.url(), mail_reply_to="desk@example.com")
            assert await test_mail(app) == {"recipient": "first@example.com", "state": "sent", "reply": "2.0.0 taken"}
            # The second uses the connection of the first.
            assert (await test_mail(app))["state"] == "sent"
        first, second = smtp.taken
        assert first.is_encrypted
        assert second.connection == first.connection
        assert (first.sender, first.recipients) == ("cafes@example.com", ["first@example.com"])
        assert first.message["From"] == FROM
        assert first.message["Reply-To"] == "desk@example.com"
        assert first.message["Auto-Submitted"] == "auto-generated"
        assert first.message["Message-ID"].endswith("@example.com>")
        assert "reach you" in first.part("plain")
        assert "reach you" in first.part("html")

    async def test_without_tls_on_loopback(self, app: App):
        async with SmtpServer().listening() as smtp:
            await use(app, smtp.url())
            assert (await test_mail(app))["state"] == "sent"

    async def test_a_wrong_password_is_told(self, app: App, authority: Authority):
        async with SmtpServer(tls=authority.context("127.0.0.1")).listening() as smtp:
            await use(app, smtp.url(user="cafes:wrong"))
            failed = await test_mail(app)
        assert failed["state"] == "failed"
        assert "5.7.8" in failed["reply"]
        assert smtp.taken == []

    async def test_a18_a_certificate_of_another_name_gets_no_password(self, app: App, authority: Authority):
        async with SmtpServer(tls=authority.context("other.example.com")).listening() as smtp:
            await use(app, smtp.url())
            assert (await test_mail(app))["state"] == "failed"
        assert "AUTH" not in smtp.commands

    async def test_a18_a_greeting_of_ten_megabytes_is_not_read(self, app: App):
        async with SmtpServer(greeting=b"220-" + b"x" * 10_000_000 + b"\r\n220 x\r\n").listening() as smtp:
            await use(app, smtp.url())
            failed = await test_mail(app)
        assert (failed["state"], failed["reply"]) == ("failed", "Response too long")

    async def test_no_password_is_in_the_database(self, app: App):
        await use(app, f"smtp://cafes:{PASSWORD.replace('@', '%40').replace(':', '%3A')}@127.0.0.1:2525")
        stored = await run_sql(app.server, "select s::text from pilotis.mail_settings s where app_id = $1", app.app_id)
        assert "word" not in stored


async def test_suppressions_are_known_by_hashes(app: App, other_app: App):
    one = await call(app, "POST", "/mail/suppressions", json={"address": "First@Example.com"})
    assert one == await call(app, "POST", "/mail/suppressions", json={"address": "first@example.com"})
    assert (await call(app, "GET", "/mail/suppressions"))["data"] == [one]
    await test_mail(app)
    assert (await call(app, "GET", "/mail", params={"state": "suppressed"}))["total_count"] == 1
    await test_mail(other_app)
    assert (await call(other_app, "GET", "/mail", params={"state": "suppressed"}))["total_count"] == 0
    await call(app, "DELETE", f"/mail/suppressions/{one['address_hash']}")
    async with owner_of(app).client(app) as client:
        gone = await client.delete(f"/mail/suppressions/{one['address_hash']}")
        assert_error(gone, 404, "SUPPRESSION_NOT_FOUND")
        bad = await client.post("/mail/suppressions", json={"address": "a@b, c@d"})
        assert_error(bad, 400, "VALIDATION_FAILED")
