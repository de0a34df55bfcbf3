"""What is stored of authorization requests, consents, and browsers in which members are signed in."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import msgspec


class SignIn(msgspec.Struct, frozen=True):
    """When a member has proved last who it is, how (`amr` is the method) and with how many factors.

    `asked_at` is the database's time when it was asked.
    """

    created_at: datetime
    amr: str
    level: int
    asked_at: datetime

    @property
    def age(self) -> timedelta:
        """How long ago the member signed in, by the database's clock."""
        return self.asked_at - self.created_at


class BrowserSession(SignIn, frozen=True):
    """The session of a member that is signed in with the provider in a browser."""

    session_id: UUID
    member_id: str
    nickname: str | None


class WaitingRequest(msgspec.Struct, frozen=True):
    """An authorization request that awaits a decision, or was decided recently; `request` is JSON."""

    client_id: str
    request: str
    member_id: str | None
    browser_hash: bytes | None
    pushed_hash: bytes | None
    state: str
    created_at: datetime
    expires_at: datetime
    is_expired: bool


class StoredConsent(msgspec.Struct, frozen=True):
    """A member's consent to a client; `is_stale` is true if its use has not been recorded for a minute."""

    consent_id: UUID
    scopes: list[str]
    is_stale: bool


class AddedConsent(msgspec.Struct, frozen=True):
    """A consent after scopes were added, and whether it `grew`."""

    consent_id: UUID
    scopes: list[str]
    grew: bool


class ConsentOfClient(msgspec.Struct, frozen=True):
    """A member's consent with its client."""

    consent_id: UUID
    scopes: list[str]
    granted_at: datetime
    last_used_at: datetime | None
    client_id: str
    name: str
    description: str
    logo_url: str | None
    client_uri: str | None
    policy_uri: str | None
    tos_uri: str | None


class DeletedConsent(msgspec.Struct, frozen=True):
    """The client and the scopes of a consent that was deleted."""

    client_id: str
    scopes: list[str]
