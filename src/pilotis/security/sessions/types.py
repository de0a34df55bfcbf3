"""What is stored of sessions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec


class Session(msgspec.Struct, frozen=True):
    """A session of a member or, with the nil app, of a console user: its subject. The times are the database's."""

    app_id: UUID
    session_id: UUID
    subject: str
    refresh_id: UUID
    refreshed_at: datetime
    created_at: datetime
    expires_at: datetime
    address: str | None
    user_agent: str | None


class BegunSession(Session, frozen=True):
    """A session that has just begun; `emitted` tells whether the same statement wrote its event."""

    emitted: bool = False


class Device(msgspec.Struct, frozen=True):
    """A session as its member sees it: by which methods it began, and with how many factors."""

    session_id: UUID
    user_agent: str | None
    methods: list[str]
    level: int
    created_at: datetime
    refreshed_at: datetime
    expires_at: datetime
