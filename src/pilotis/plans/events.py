"""Events about quotas."""

from __future__ import annotations

import msgspec

from pilotis.events.types import EventType


class QuotaEvent(msgspec.Struct, frozen=True):
    """Data of an event about a quota: what was used of it, the limit, and when it begins again."""

    quota: str
    used: int
    limit: int
    hard: bool
    resets_at: str


_EXAMPLE = QuotaEvent("requests", 80_000, 100_000, True, "2026-02-01T00:00:00.000Z")
QUOTA_WARNING = EventType(
    name="quota.warning",
    data=QuotaEvent,
    description="The app has used 80 % of a quota; once a month and quota.",
    example=_EXAMPLE,
)
QUOTA_EXCEEDED = EventType(
    name="quota.exceeded",
    data=QuotaEvent,
    description="The app has used up a quota; past a hard one it can store nothing more.",
    example=msgspec.structs.replace(_EXAMPLE, used=100_000),
)
EVENT_TYPES = (QUOTA_WARNING, QUOTA_EXCEEDED)
