"""Whether a consumer may receive a domain event: checked at fan-out, and again before each attempt.

A webhook with a `client_id` belongs to an OAuth client of the provider app: its `provider_app_id`, or the app of the
webhook itself. It receives an event only if the client is active and has the
event's `required_scope`, and, if the event is about a member, only while that member consents to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.events.types import Event


class Consents(Protocol):
    """Checks consent for the clients of an app; implemented by the feature that manages clients and consents."""

    async def covers(self, consumer_app_id: UUID, client_id: str, event: Event) -> bool:
        """Whether the client may receive an event now, by a webhook of the consumer app or of the event's own app."""

    async def knows(self, app_id: UUID, client_id: str) -> bool:
        """Whether the app has the client, and it is active."""

    async def link(
        self, connection: Connection, app_id: UUID, client_id: str, consumer_app_id: UUID, secret: str | None
    ) -> bool:
        """Link a client of an app to the consumer that knows its secret; return whether it is the consumer's."""


async def allowed(
    consents: Consents, app_id: UUID, client_id: str | None, event: Event, built_in: Collection[str]
) -> bool:
    """Whether a webhook of an app may receive an event.

    Without a client it receives all events of its own app; a client's receives permitted domain events only.
    """
    if client_id is None:
        return event.app_id == app_id
    return event.type not in built_in and await consents.covers(app_id, client_id, event)


def visible(event: Event, client_id: str | None) -> Event:
    """Return the event as a webhook may see it: a client does not see members and users other than its own."""
    if client_id is None or event.actor_id == event.member_id:
        return event
    return msgspec.structs.replace(event, actor_id=None)
