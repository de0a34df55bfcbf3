"""Events about teams. No event contains a team's data, or the token of an invitation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import Actor

SCOPE = "members:read"


class TeamData(msgspec.Struct, frozen=True):
    """A team as events describe it."""

    team_id: UUID
    name: str
    slug: str | None


class TeamEvent(msgspec.Struct, frozen=True):
    """Data of an event about a team: its state after the change, or the last state of a deleted team."""

    team: TeamData


class TeamUpdatedEvent(msgspec.Struct, frozen=True):
    """Data of a change to a team; `changed` names the fields: name, slug, data."""

    team: TeamData
    changed: list[str]


class TeamMemberEvent(msgspec.Struct, frozen=True):
    """Data of an event about a member of a team: its roles after the change, or the last ones of who has left."""

    team_id: UUID
    member_id: str
    roles: list[str]


_OWLS = TeamData(UUID("0199c0de-0000-7000-8000-0000000007ea"), "Night owls", "night-owls")
_ADA = TeamMemberEvent(_OWLS.team_id, "0199c0de-0000-7000-8000-00000000ada0", ["editor"])


def _team(name: str, description: str) -> EventType[TeamEvent]:
    return EventType(name=name, data=TeamEvent, description=description, example=TeamEvent(_OWLS), scope=SCOPE)


def _member(name: str, description: str) -> EventType[TeamMemberEvent]:
    return EventType(name=name, data=TeamMemberEvent, description=description, example=_ADA, scope=SCOPE)


TEAM_CREATED = _team("team.created", "A team was created, by a member or by the app.")
TEAM_UPDATED = EventType(
    name="team.updated",
    data=TeamUpdatedEvent,
    description="A team's name, slug or data were changed.",
    example=TeamUpdatedEvent(msgspec.structs.replace(_OWLS, name="Early birds"), ["name"]),
    scope=SCOPE,
)
TEAM_DELETED = _team("team.deleted", "A team was deleted; no event says that its members have left it.")
MEMBER_ADDED = _member(
    "team.member.added", "A member created a team or joined it by an invitation, or the app added it."
)
MEMBER_UPDATED = _member("team.member.updated", "The roles of a member in a team were changed.")
MEMBER_REMOVED = _member(
    "team.member.removed",
    "A member left a team or was removed from it. Of a deleted member only `member.deleted` tells.",
)
EVENT_TYPES: tuple[EventType[Any], ...] = (
    TEAM_CREATED,
    TEAM_UPDATED,
    TEAM_DELETED,
    MEMBER_ADDED,
    MEMBER_UPDATED,
    MEMBER_REMOVED,
)


def about(type_: EventType[TeamEvent], actor: Actor, team: TeamData) -> NewEvent:
    """Return an event about a team."""
    return type_.event(TeamEvent(team), actor, subject=_subject(team.team_id))


def updated(actor: Actor, team: TeamData, changed: list[str]) -> NewEvent:
    """Return the event of a change to the fields of a team."""
    return TEAM_UPDATED.event(TeamUpdatedEvent(team, changed), actor, subject=_subject(team.team_id))


def about_member(
    type_: EventType[TeamMemberEvent], actor: Actor, team_id: UUID, member_id: str, roles: Sequence[str]
) -> NewEvent:
    """Return an event about a member of a team."""
    data = TeamMemberEvent(team_id, member_id, list(roles))
    return type_.event(data, actor, subject=_subject(team_id), member_id=member_id)


def _subject(team_id: UUID) -> str:
    return f"teams/{team_id}"
