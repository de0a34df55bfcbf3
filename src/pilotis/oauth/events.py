"""The events of members' connections to OAuth clients."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import Actor

SCOPE = "members:read"


class ConnectionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of an event about a member's consent to a client: the scopes are all that it covers, or covered."""

    consent_id: UUID
    client_id: str
    member_id: str
    scopes: list[str]


_EXAMPLE = ConnectionEvent(
    consent_id=UUID("0199c0de-0000-7000-8000-00000000c075"),
    client_id="coffee-club-7f3k",
    member_id="0199c0de-0000-7000-8000-0000000000ad",
    scopes=["openid", "profile"],
)
CONNECTION_CREATED = EventType(
    name="oauth.connection.created",
    data=ConnectionEvent,
    description="A member connected an OAuth client, or granted it further scopes.",
    example=_EXAMPLE,
    scope=SCOPE,
)
CONNECTION_REVOKED = EventType(
    name="oauth.connection.revoked",
    data=ConnectionEvent,
    description="A member disconnected an OAuth client.",
    example=_EXAMPLE,
    scope=SCOPE,
)
EVENT_TYPES: tuple[EventType[Any], ...] = (CONNECTION_CREATED, CONNECTION_REVOKED)


def about(type_: EventType[ConnectionEvent], actor: Actor, connection: ConnectionEvent) -> NewEvent:
    """Return an event about a connection, which its member created, and the member or a console user ended."""
    member_id = connection.member_id
    return type_.event(connection, actor, subject=f"oauth/connections/{connection.consent_id}", member_id=member_id)
