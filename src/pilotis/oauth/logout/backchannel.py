"""Logout tokens: each client that received tokens in a session is notified when the session ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.pool import Database
from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingRequest
from pilotis.jobs.kinds import DiscardError, Job, JobKind
from pilotis.jobs.queue import Jobs
from pilotis.kit import rs256
from pilotis.kit.errors import UnavailableError
from pilotis.kit.ids import uuid7
from pilotis.oauth import client_store
from pilotis.oauth.keys import SigningKeys

LOGOUT_TYPE = "logout+jwt"
LIFETIME_SECONDS = 120
_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_SECONDS = 5.0
_MAX_BYTES = 4096
_GAPS = (5.0, 60.0, 300.0, 1800.0)


class EndedSession(msgspec.Struct, frozen=True):
    """A session that ended, and a client that received tokens in it."""

    client_id: str
    session_id: UUID
    member_id: str


class LogoutNotTakenError(UnavailableError):
    """503: a client did not accept a logout token; the job is retried."""

    code = "LOGOUT_NOT_TAKEN"
    message = "The client did not accept the logout token."


class BackchannelLogout:
    """Sends logout tokens; each attempt uses a new one."""

    def __init__(
        self, database: Database, jobs: Jobs, keys: SigningKeys, issuer: str, outgoing: Callable[[], Outgoing]
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._keys = keys
        self._issuer = issuer
        self._outgoing = outgoing
        self.kind: JobKind[EndedSession] = JobKind(
            name="oauth.logout", queue="calls", payload=EndedSession, run=self._send, gaps=_GAPS, seconds=30.0
        )

    async def enqueue(self, connection: Connection, app_id: UUID, ended: EndedSession) -> None:
        """Enqueue the notification of a client that wants one; it is sent after the caller's transaction commits."""
        row = await client_store.lock_client(connection, app_id, ended.client_id)
        if row is not None and row.backchannel_logout_uri is not None:
            await self._jobs.enqueue(connection, self.kind, app_id, ended, subject=ended.client_id)

    async def _send(self, job: Job[EndedSession]) -> None:
        ended = job.payload
        row = await client_store.client(self._database, job.app_id, ended.client_id)
        if row is None or not row.is_active or row.backchannel_logout_uri is None:
            raise DiscardError("The client no longer receives logout tokens.")
        token = rs256.sign(await self._keys.signing(), LOGOUT_TYPE, self._claims(job.app_id, ended))
        request = OutgoingRequest(
            url=row.backchannel_logout_uri,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode({"logout_token": token}).encode(),
        )
        job.require_lease()
        answer = await self._outgoing().send(
            request, reach=Reach.SERVER, seconds=_SECONDS, max_bytes=_MAX_BYTES, tenant=job.app_id
        )
        if answer.status == 400:
            raise DiscardError("The client rejected the logout token.")
        if answer.status not in {200, 204}:
            raise LogoutNotTakenError(f"The client answered {answer.status}.")

    def _claims(self, app_id: UUID, ended: EndedSession) -> dict[str, object]:
        """Return the claims of a logout token (section 2.4), without a nonce: it must not pass for an ID token."""
        now = int(time.time())
        return {
            "iss": self._issuer,
            "aud": ended.client_id,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "jti": str(uuid7()),
            "sub": ended.member_id,
            "sid": str(ended.session_id),
            "app_id": str(app_id),
            "events": {_EVENT: {}},
        }
