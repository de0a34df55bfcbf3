"""The types of a member's own sessions."""

from __future__ import annotations

import msgspec

from pilotis.http.api.schemas import ActiveSession


class DeviceSession(ActiveSession, frozen=True, kw_only=True):
    """A session of the signed-in member.

    `methods` are how it has proved who it is, `level` with how many factors; `is_current` is the request's own.
    """

    is_current: bool
    methods: list[str]
    level: int


class DeviceSessions(msgspec.Struct, frozen=True):
    """The signed-in member's active sessions, the one used last first."""

    sessions: list[DeviceSession]


class EndedSessions(msgspec.Struct, frozen=True):
    """How many sessions were ended."""

    message: str
    sessions: int
