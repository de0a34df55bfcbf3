"""The events of functions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType

SCOPE = "functions:read"


class DeployedEvent(msgspec.Struct, frozen=True):
    """Data of an event about a version that calls now run."""

    function_id: UUID
    version: int


class FailedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of an event about a failed call, with its `error` and `error_code`. `version` is `draft` for a draft."""

    function_id: UUID
    version: int | str
    execution_id: UUID
    error: str | None
    error_code: str | None


_ID = UUID("0199c0de-0000-7000-8000-0000000000f1")

DEPLOYED = EventType(
    name="function.deployed",
    scope=SCOPE,
    data=DeployedEvent,
    description="A version of a function became the active one, by a deploy or by its activation.",
    example=DeployedEvent(_ID, 2),
)
FAILED = EventType(
    name="function.failed",
    scope=SCOPE,
    data=FailedEvent,
    description="A call of a function failed or took too long. There is at most one event a minute for each function.",
    example=FailedEvent(
        function_id=_ID,
        version=2,
        execution_id=UUID("0199c0de-0000-7000-8000-0000000000e1"),
        error="The order has no total.",
        error_code="FUNCTION_ERROR",
    ),
)
EVENT_TYPES: tuple[EventType[Any], ...] = (DEPLOYED, FAILED)


def subject_of(function_id: UUID) -> str:
    """Return the subject of a function's events."""
    return f"functions/{function_id}"
