"""The job that sends a mail, with retries until what the mail is about has expired."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from pilotis.db.pool import Database
from pilotis.jobs.kinds import Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import clock, spans
from pilotis.kit.errors import NotFoundError, PilotisError
from pilotis.kit.metrics import Counter
from pilotis.mail import store
from pilotis.mail.messages import Body, build
from pilotis.mail.relays import DeferredError, RejectedError, Relays
from pilotis.mail.service import MailJob, address_hash
from pilotis.mail.settings import Sending, SettingsOfMail
from pilotis.mail.store import FullMail
from pilotis.mail.types import State
from pilotis.security.encryption.service import Secrets
from pilotis.security.encryption.types import Purpose

GAPS = (30.0, 120.0, 600.0, 3600.0, 4 * 3600.0)
"""Seconds before each further attempt."""
_UNSENT: frozenset[State] = frozenset({"queued", "deferred"})


class Sender:
    """Sends mails. At least once: if a connection is lost after the text, the relay may have taken it.

    Retries are further jobs, because a relay that does not answer is no failure of this process.
    """

    def __init__(
        self,
        database: Database,
        settings: SettingsOfMail,
        secrets: Secrets,
        jobs: Jobs,
        relays: Relays,
        metered: Callable[[UUID], None],
    ) -> None:
        """`metered` is called with the app of each mail that was sent."""
        self._metered = metered
        self._database = database
        self._settings = settings
        self._secrets = secrets
        self._jobs = jobs
        self._relays = relays
        self.attempts = Counter("pilotis_mail_attempts", "Attempts to send a mail, by its state after.", ("state",))
        # A mail may wait for a connection of its relay before its own minute begins.
        self._hook: Callable[[UUID, UUID, dict[str, Any]], Awaitable[None]] | None = None
        self.kind = JobKind(name="mail.send", queue="mail", payload=MailJob, run=self.run, seconds=600.0)

    def attach(self, hook: Callable[[UUID, UUID, dict[str, Any]], Awaitable[None]]) -> None:
        """Set what calls a function that sends mails, by the app's id and its own."""
        self._hook = hook

    async def run(self, job: Job[MailJob]) -> None:
        """Send the job's mail, and record what became of it."""
        app_id, mail_id = job.app_id, job.payload.mail_id
        mail = await store.read(self._database.of(app_id), app_id, mail_id)
        if mail is None or mail.body is None or mail.state not in _UNSENT:
            return
        try:
            sending = await self._settings.of(app_id)
        except NotFoundError:
            return
        if mail.is_expired or (sending.relay is None and sending.hook is None):
            async with job.transaction() as connection:
                await store.set_state(connection, app_id, mail_id, "expired" if mail.is_expired else "stored")
                await job.finish(connection)
            return
        job.require_lease()
        state, reply, is_unknown = await self._attempt(app_id, sending, mail)
        self.attempts.add(state)
        async with job.transaction() as connection:
            await store.record_attempt(connection, app_id, mail_id, state, reply, is_over=state == "sent")
            if is_unknown:
                await store.suppress(connection, app_id, address_hash(app_id, mail.recipient), "bounced")
            await job.finish(connection)
            if state == "deferred":
                at = clock.now() + timedelta(seconds=GAPS[mail.attempts])
                await self._jobs.enqueue(connection, self.kind, app_id, job.payload, key=str(mail_id), run_at=at)
        if state == "sent":
            self._metered(app_id)

    async def _attempt(self, app_id: UUID, sending: Sending, mail: FullMail) -> tuple[State, str, bool]:
        """Send a mail, and return its new state, the relay's reply, and whether the relay knows no such address."""
        described = {
            "pilotis.app_id": str(app_id),
            "pilotis.mail_id": str(mail.mail_id),
            "pilotis.mail.purpose": mail.purpose,
        }
        with spans.span("mail", described, kind="producer") as span:
            state, reply, is_unknown = await self._sent(app_id, sending, mail)
            if state != "sent":
                span.fail(state)
            return state, reply, is_unknown

    async def _sent(self, app_id: UUID, sending: Sending, mail: FullMail) -> tuple[State, str, bool]:
        assert mail.body is not None
        plain = (await self._secrets.app(app_id)).decrypt(Purpose.MAIL_BODY, str(mail.mail_id), mail.body)
        body = msgspec.json.decode(plain, type=Body)
        if sending.hook is not None:
            return await self._hand_over(app_id, sending.hook, mail, body)
        relay = sending.relay
        assert relay is not None
        message = build(mail.mail_id, relay.sender, relay.reply_to, mail.recipient, mail.language, mail.subject, body)
        try:
            return "sent", await self._relays.send(relay, message, mail.recipient), False
        except RejectedError as error:
            return "bounced" if error.is_bounce else "failed", str(error), error.is_unknown
        except DeferredError as error:
            return _after(mail), str(error), False

    async def _hand_over(self, app_id: UUID, function_id: UUID, mail: FullMail, body: Body) -> tuple[State, str, bool]:
        """Let the app's function send a mail, and return what `_attempt` does."""
        payload = {
            "mail_id": str(mail.mail_id),
            "purpose": mail.purpose,
            "to": mail.recipient,
            "language": mail.language,
            "member_id": mail.member_id,
            "subject": mail.subject,
            "text": body.text,
            "html": body.html,
            "link": body.link,
            "code": body.code,
        }
        if self._hook is None:
            return _after(mail), "This process runs no functions.", False
        try:
            await self._hook(app_id, function_id, payload)
        except PilotisError as error:
            return _after(mail), f"The function failed: {error.text}", False
        return "sent", "The function has taken the mail.", False


def _after(mail: FullMail) -> State:
    """Return the state of a mail that the relay did not take now."""
    if mail.attempts >= len(GAPS):
        return "failed"
    if mail.expires_at is not None and clock.now() + timedelta(seconds=GAPS[mail.attempts]) >= mail.expires_at:
        return "expired"
    return "deferred"
