"""The types of events about webhooks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType


class WebhookDisabledEvent(msgspec.Struct, frozen=True):
    """Data of the disabling of a webhook: `reason` is `GONE` for a 410, `NO_SUCCESS` after five days of failures."""

    webhook_id: UUID
    reason: str


class WebhookTestEvent(msgspec.Struct, frozen=True):
    """Data of a test."""

    message: str


_EXAMPLE_ID = UUID("0199c0de-0000-7000-8000-00000000b00c")

WEBHOOK_DISABLED = EventType(
    name="webhook.disabled",
    scope="webhooks:read",
    data=WebhookDisabledEvent,
    description="A webhook was disabled because its receiver answered 410, or only with failures for 5 days.",
    example=WebhookDisabledEvent(_EXAMPLE_ID, "NO_SUCCESS"),
)
WEBHOOK_TEST = EventType(
    name="webhook.test",
    scope="webhooks:read",
    data=WebhookTestEvent,
    description="A test was sent. Only the test route sends this event.",
    example=WebhookTestEvent("This is a test."),
)
EVENT_TYPES: tuple[EventType[Any], ...] = (WEBHOOK_DISABLED, WEBHOOK_TEST)
