"""Mail: what other features have sent, the mailbox, and suppressions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from html import escape
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import structlog
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import Paging
from pilotis.jobs.kinds import JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.kit.errors import ConflictError, NotFoundError, invalid
from pilotis.kit.ids import uuid7
from pilotis.kit.languages import Language
from pilotis.kit.mail_addresses import folded, is_address
from pilotis.mail import store
from pilotis.mail.composing import compose, plain_html
from pilotis.mail.messages import Body, build
from pilotis.mail.relays import DeferredError, RejectedError, Relay, Relays
from pilotis.mail.settings import Sending, SettingsOfMail
from pilotis.mail.store import FullMail, StoredMail, StoredSuppression
from pilotis.mail.templates import template_of
from pilotis.mail.types import (
    Mail,
    MailItem,
    MailMessage,
    MailPage,
    MailQuery,
    MailTest,
    Purpose,
    SentMail,
    State,
    Suppression,
    SuppressionPage,
)
from pilotis.members.administration.service import MemberNotFoundError
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose as SecretPurpose
from pilotis.security.rate_limits import RateLimits

DAY_SECONDS = 24 * 3600
_log = structlog.get_logger("pilotis.mail")


class MailNotFoundError(NotFoundError):
    """404: the app has no such mail; mails are kept for 30 days."""

    code = "MAIL_NOT_FOUND"
    message = "There is no such mail. Mails are kept for 30 days."


class NoAddressError(ConflictError):
    """409: the member has no verified address, so that no mail can be sent to it."""

    code = "MEMBER_HAS_NO_EMAIL"
    message = "This member has no verified e-mail address."


class MailNotRetryableError(ConflictError):
    """409: the mail was sent or stored, or its link has expired."""

    code = "MAIL_NOT_RETRYABLE"
    message = "This mail cannot be sent again: it was sent or stored, or what it is about has expired."


class SuppressionNotFoundError(NotFoundError):
    """404: the address is not suppressed."""

    code = "SUPPRESSION_NOT_FOUND"
    message = "There is no such suppression."


class MailJob(msgspec.Struct, frozen=True):
    """The mail that a job sends."""

    mail_id: UUID


class NewMail(NamedTuple):
    """A mail to write. `lifetime` is how long its link or code is valid: later it is not sent."""

    purpose: Purpose
    recipient: str
    language: Language
    member_id: str | None = None
    link: str | None = None
    code: str | None = None
    lifetime: timedelta | None = None
    code_lifetime: timedelta | None = None


class Writer(NamedTuple):
    """Writes mails of one app; what it needs was read before the transaction."""

    app_id: UUID
    sending: Sending
    encrypt: Callable[[SecretPurpose, str, bytes], bytes]
    jobs: Jobs
    kind: JobKind[MailJob]
    rate_limits: RateLimits
    base_url: str

    async def write(self, connection: Connection, new: NewMail) -> UUID:
        """Write a mail in the caller's transaction, and return its id. It is sent once the transaction commits.

        Where there is no SMTP server it is stored. To a suppressed address, or beyond the day's limit, it is only
        recorded.
        """
        values: dict[str, str | timedelta] = {"app.name": self.sending.app_name}
        if new.link is not None and new.lifetime is not None:
            values |= {"link": new.link, "expires": new.lifetime}
        if new.code is not None and new.code_lifetime is not None:
            values |= {"code": new.code, "code_expires": new.code_lifetime}
        own = await store.template(connection, self.app_id, new.purpose, new.language)
        composed = compose(new.language, new.purpose, values, template_of(own) if own else None)
        content = Body(composed.text, composed.html, new.link, new.code, composed.button if new.link else None)
        return (await self.write_body(connection, new, composed.subject, content))[0]

    async def write_body(
        self, connection: Connection, new: NewMail, subject: str, content: Body, mail_id: UUID | None = None
    ) -> tuple[UUID, State]:
        """Write a mail as `write` does, with a text of the caller's, and return its id and state."""
        mail_id = mail_id or uuid7()
        state, reply = await self._state(connection, new.recipient)
        body = None
        if state != "suppressed":
            body = self.encrypt(SecretPurpose.MAIL_BODY, str(mail_id), json.encode(content))
        await self._insert(connection, mail_id, new, subject, state, reply, body)
        if state == "queued":
            await self.jobs.enqueue(connection, self.kind, self.app_id, MailJob(mail_id), key=str(mail_id))
        elif state == "stored":
            _log.info(
                "mail.stored",
                purpose=new.purpose,
                url=f"{self.base_url}/console/apps/{self.app_id}/mail?mail={mail_id}",
            )
        return mail_id, state

    async def drop(self, connection: Connection, new: NewMail, reason: str) -> None:
        """Record a mail that is not sent, with the reason, for the console."""
        subject = compose(
            new.language,
            new.purpose,
            {
                "app.name": self.sending.app_name,
                "link": "",
                "code": "",
                "expires": timedelta(hours=1),
                "code_expires": timedelta(hours=1),
            },
        ).subject
        await self._insert(connection, uuid7(), new, subject, "suppressed", reason, None)

    async def _insert(
        self,
        connection: Connection,
        mail_id: UUID,
        new: NewMail,
        subject: str,
        state: State,
        reply: str | None,
        body: bytes | None,
    ) -> None:
        await store.insert(
            connection,
            self.app_id,
            mail_id,
            new.purpose,
            new.recipient,
            new.member_id,
            new.language,
            subject,
            state,
            reply,
            body,
            new.lifetime,
        )

    async def _state(self, connection: Connection, recipient: str) -> tuple[State, str | None]:
        if await store.is_suppressed(connection, self.app_id, address_hash(self.app_id, recipient)):
            return "suppressed", "The address is suppressed."
        if self.sending.hook is not None:
            return "queued", None
        if self.sending.relay is None:
            return "stored", None
        per_day = self.sending.per_day
        if per_day and not await self.rate_limits.permits(connection, f"mail:{self.app_id}", per_day, DAY_SECONDS):
            return "suppressed", f"The app has sent {per_day} mails in 24 hours, the limit mail_per_day."
        return "queued", None


class Mails:
    """An app's mails."""

    def __init__(
        self,
        database: Database,
        settings: SettingsOfMail,
        secrets: Secrets,
        jobs: Jobs,
        kind: JobKind[MailJob],
        rate_limits: RateLimits,
        relays: Relays,
        base_url: str,
        *,
        is_local: bool,
    ) -> None:
        """`is_local` tells whether the server is on a developer's machine: editors read stored mails only there."""
        self._database = database
        self._settings = settings
        self._secrets = secrets
        self._jobs = jobs
        self._kind = kind
        self._rate_limits = rate_limits
        self._relays = relays
        self._base_url = base_url
        self._is_local = is_local

    async def writer(self, app_id: UUID) -> Writer:
        """Return what writes mails of an app; raises `NotFoundError` for an app that is deleted."""
        sending = await self._settings.of(app_id)
        secrets = await self._secrets.app(app_id)
        return Writer(app_id, sending, secrets.encrypt, self._jobs, self._kind, self._rate_limits, self._base_url)

    async def send(self, app: AppInfo, actor: Actor, new: MailMessage, mail_id: UUID) -> SentMail:
        """Send a mail of the app's own; raises `MemberNotFoundError`, and `NoAddressError` for a member without one."""
        subject = new.subject.strip()
        if not subject or not subject.isprintable():
            raise invalid("subject", "subject: one line of text is expected.")
        recipient, language = new.to or "", new.language
        if new.member_id is not None:
            recipient, own = await self._address_of(app.app_id, new.member_id)
            language = language or own
        require_address("to", recipient)
        writer = await self.writer(app.app_id)
        language = language or writer.sending.language
        html = new.html or plain_html(language, subject, new.text)
        mail = NewMail("message", recipient, language, new.member_id)
        async with self._database.transaction(app.app_id) as connection:
            _, state = await writer.write_body(connection, mail, subject, Body(new.text, html), mail_id)
            await record(connection, app.app_id, actor, "mail.send", str(mail_id), member_id=new.member_id)
        return SentMail(mail_id, state)

    async def _address_of(self, app_id: UUID, member_id: str) -> tuple[str, Language | None]:
        found = await store.address_of(self._database.of(app_id), app_id, member_id)
        if found is None:
            raise MemberNotFoundError
        if found[0] is None:
            raise NoAddressError
        return found[0], found[1]

    async def test(self, app: AppInfo, actor: Actor, recipient: str) -> MailTest:
        """Send a test mail to an address at once, or store it, and return what became of it."""
        writer = await self.writer(app.app_id)
        relay = writer.sending.relay
        async with self._database.transaction(app.app_id) as connection:
            await record(connection, app.app_id, actor, "mail.test", None, recipient=recipient)
            if relay is None:
                await writer.write(connection, NewMail("test", recipient, "en"))
        if relay is None:
            return MailTest(recipient=recipient, state="stored", reply=None)
        try:
            reply = await self.send_test(relay, recipient)
        except (DeferredError, RejectedError) as error:
            return MailTest(recipient=recipient, state="failed", reply=str(error))
        return MailTest(recipient=recipient, state="sent", reply=reply)

    async def check(self, relay: Relay) -> str:
        """Connect and sign in to an SMTP server, and return its reply; raises `DeferredError`."""
        return await self._relays.check(relay)

    async def send_test(self, relay: Relay, recipient: str) -> str:
        """Send a test mail at once, and return the reply; raises `DeferredError` or `RejectedError`."""
        require_address("recipient", recipient)
        composed = compose("en", "test", {"app.name": relay.sender.name or relay.sender.address})
        body = Body(composed.text, composed.html)
        message = build(uuid7(), relay.sender, relay.reply_to, recipient, "en", composed.subject, body)
        return await self._relays.send(relay, message, recipient)

    async def page(self, app: AppInfo, query: MailQuery) -> MailPage:
        """Return a page of an app's mails, newest first, without their texts."""
        limit = app.limits.page_size(query.limit)
        rows, total = await store.page(
            self._database, app.app_id, query.state, query.purpose, query.member_id, limit, query.offset
        )
        return MailPage(data=[_item(row) for row in rows], total_count=total, limit=limit, offset=query.offset)

    async def read(self, app: AppInfo, actor: Actor, mail_id: UUID, *, is_owner: bool) -> Mail:
        """Return a mail, a stored one with its text, which is recorded in the audit log.

        Whoever reads a link can use it, so editors see texts only where the server is on their own machine.
        """
        found = await store.read(self._database.of(app.app_id), app.app_id, mail_id)
        if found is None:
            raise MailNotFoundError
        if found.state != "stored" or found.body is None or not (is_owner or self._is_local):
            return _full(found, None)
        secrets = await self._secrets.app(app.app_id)
        plain = secrets.decrypt(SecretPurpose.MAIL_BODY, str(mail_id), found.body)
        async with self._database.transaction(app.app_id) as connection:
            await record(connection, app.app_id, actor, "mail.read", found.member_id, purpose=found.purpose)
        return _full(found, msgspec.json.decode(plain, type=Body))

    async def retry(self, app: AppInfo, actor: Actor, mail_id: UUID) -> MailItem:
        """Send a mail again that was not delivered; raises `MailNotRetryableError`."""
        async with self._database.transaction(app.app_id) as connection:
            if not await store.requeue(connection, app.app_id, mail_id):
                if await store.read(connection, app.app_id, mail_id) is None:
                    raise MailNotFoundError
                raise MailNotRetryableError
            await self._jobs.enqueue(connection, self._kind, app.app_id, MailJob(mail_id), key=str(mail_id))
            await record(connection, app.app_id, actor, "mail.retry", str(mail_id))
            found = await store.read(connection, app.app_id, mail_id)
        assert found is not None
        return _item(found)

    async def suppressions(self, app: AppInfo, paging: Paging) -> SuppressionPage:
        """Return a page of an app's suppressions, newest first."""
        limit = app.limits.page_size(paging.limit)
        rows, total = await store.suppressions(self._database, app.app_id, limit, paging.offset)
        data = [_suppression(row) for row in rows]
        return SuppressionPage(data=data, total_count=total, limit=limit, offset=paging.offset)

    async def suppress(self, app: AppInfo, actor: Actor, address: str) -> Suppression:
        """Send no mail to an address any more."""
        require_address("address", address)
        hashed = address_hash(app.app_id, address)
        async with self._database.transaction(app.app_id) as connection:
            row = await store.suppress(connection, app.app_id, hashed, "manual")
            await record(connection, app.app_id, actor, "mail.suppress", hashed)
        return _suppression(row)

    async def unsuppress(self, app: AppInfo, actor: Actor, hashed: str) -> None:
        """Send mail to an address again, given by its hash."""
        async with self._database.transaction(app.app_id) as connection:
            if not await store.unsuppress(connection, app.app_id, hashed):
                raise SuppressionNotFoundError
            await record(connection, app.app_id, actor, "mail.unsuppress", hashed)


class OperatorMail(NamedTuple):
    """Mails of the server itself, to console users, by the operator's SMTP server; they are in no mailbox."""

    relay: Relay | None
    relays: Relays

    @property
    def is_set_up(self) -> bool:
        """Whether there is an SMTP server."""
        return self.relay is not None

    async def send(self, purpose: Purpose, recipient: str, language: Language, link: str, lifetime: timedelta) -> None:
        """Send a mail with a link at once, or nothing without a server; raises `DeferredError` or `RejectedError`."""
        if self.relay is None:
            return
        composed = compose(language, purpose, {"app.name": "Pilotis", "link": link, "expires": lifetime})
        await self._send(self.relay, recipient, language, composed.subject, Body(composed.text, composed.html))

    async def notify(self, recipient: str, subject: str, text: str) -> None:
        """Send a notice at once, or nothing without a server; raises `DeferredError` or `RejectedError`."""
        if self.relay is None:
            return
        await self._send(self.relay, recipient, "en", subject, Body(text, f"<p>{escape(text)}</p>"))

    async def _send(self, relay: Relay, recipient: str, language: Language, subject: str, body: Body) -> None:
        message = build(uuid7(), relay.sender, relay.reply_to, recipient, language, subject, body)
        await self.relays.send(relay, message, recipient)


def require_address(field: str, text: str) -> None:
    """Raise a 400 `INVALID_EMAIL` unless the text is one e-mail address."""
    if not is_address(text):
        raise invalid(field, f"{field}: one e-mail address is expected, such as ada@example.com.", "INVALID_EMAIL")


def address_hash(app_id: UUID, address: str) -> str:
    """Return the hash under which an app's suppressions know an address, whatever the case of its letters."""
    return hashlib.sha256(app_id.bytes + folded(address).encode()).hexdigest()


def _item(row: StoredMail) -> MailItem:
    return MailItem(**_fields(row))


def _full(row: FullMail, body: Body | None) -> Mail:
    return Mail(
        **_fields(row),
        text=body.text if body else None,
        html=body.html if body else None,
        link=body.link if body else None,
        code=body.code if body else None,
        button=body.button if body else None,
    )


def _fields(row: StoredMail) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(row, name) for name in StoredMail.__struct_fields__}
    fields["created_at"] = rfc3339(row.created_at)
    fields["sent_at"] = optional_rfc3339(row.sent_at)
    fields["expires_at"] = optional_rfc3339(row.expires_at)
    return fields


def _suppression(row: StoredSuppression) -> Suppression:
    return Suppression(address_hash=row.address_hash, reason=row.reason, created_at=rfc3339(row.created_at))
