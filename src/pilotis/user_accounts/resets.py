"""Forgotten passwords of console users: a link by mail, where the server has an SMTP server.

Whatever is asked for an address inserts one job, which looks the user up: neither the answer nor its time tells whether
there is one.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from pilotis.db.pool import Database
from pilotis.jobs.kinds import SERVER, Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit.languages import Language
from pilotis.mail.service import OperatorMail
from pilotis.security.rate_limits import HOUR_SECONDS, RateLimits
from pilotis.security.sessions.service import CONSOLE
from pilotis.users.service import UserInactiveError, UserNotFoundError, Users
from pilotis.users.types import normalised

_PER_ADDRESS = 5


class ResetJob(msgspec.Struct, frozen=True):
    """A link that was asked for."""

    email: str
    language: Language


class UserResets:
    """Mails links for new passwords."""

    def __init__(
        self, database: Database, users: Users, jobs: Jobs, rate_limits: RateLimits, mail: OperatorMail, base_url: str
    ) -> None:
        self._database = database
        self._users = users
        self._jobs = jobs
        self._rate_limits = rate_limits
        self._mail = mail
        self._base_url = base_url
        self.kind = JobKind(
            name="users.reset", queue="mail", payload=ResetJob, run=self._run, gaps=(30.0, 120.0, 600.0)
        )

    async def ask(self, email: str, language: Language | None) -> None:
        """Mail a link for a new password, if there is such a console user."""
        async with self._database.transaction(CONSOLE) as connection:
            await self._jobs.enqueue(connection, self.kind, SERVER, ResetJob(normalised(email), language or "en"))

    async def _run(self, job: Job[ResetJob]) -> None:
        asked = job.payload
        if not self._mail.is_set_up:
            return
        if job.attempt == 1:
            async with self._database.transaction(CONSOLE) as connection:
                key = f"user-reset:{asked.email}"
                if not await self._rate_limits.permits(connection, key, _PER_ADDRESS, HOUR_SECONDS):
                    return
        try:
            made = await self._users.new_reset_token(asked.email)
        except (UserNotFoundError, UserInactiveError):
            return
        job.require_lease()
        link = f"{self._base_url}/setup/reset#{made.token}"
        lifetime = timedelta(seconds=self._users.limits.password_reset_seconds)
        await self._mail.send("reset_password", asked.email, asked.language, link, lifetime)
