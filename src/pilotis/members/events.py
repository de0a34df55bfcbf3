"""Events about members. No event contains a login_id, a password or custom_data."""

from __future__ import annotations

from typing import Any

import msgspec

from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import Actor

SCOPE = "members:read"


class MemberData(msgspec.Struct, frozen=True):
    """A member as events describe it."""

    member_id: str
    nickname: str | None
    is_guest: bool
    is_active: bool


class MemberEvent(msgspec.Struct, frozen=True):
    """Data of an event about a member: its state after the change, or the last state of a deleted member."""

    member: MemberData


class MemberUpdatedEvent(msgspec.Struct, frozen=True):
    """Data of a change to a member; `changed` names the fields: nickname, custom_data, roles, claims."""

    member: MemberData
    changed: list[str]


class SignedInEvent(msgspec.Struct, frozen=True):
    """Data of a sign-in; `method` is `password`, `guest` or an OAuth provider."""

    member: MemberData
    method: str


_ADA = MemberData("0199c0de-0000-7000-8000-00000000ada0", "Ada", False, True)


def _type(name: str, description: str, **example: Any) -> EventType[MemberEvent]:
    member = msgspec.structs.replace(_ADA, **example)
    return EventType(name=name, data=MemberEvent, description=description, example=MemberEvent(member), scope=SCOPE)


MEMBER_CREATED = _type("member.created", "A member signed up, or a guest was made.")
MEMBER_PROMOTED = _type("member.promoted", "A guest signed up: it keeps its id and its data.")
MEMBER_UPDATED = EventType(
    name="member.updated",
    data=MemberUpdatedEvent,
    description="A member's nickname, custom_data, roles or claims were changed.",
    example=MemberUpdatedEvent(msgspec.structs.replace(_ADA, nickname="Ada L."), ["nickname"]),
    scope=SCOPE,
)
MEMBER_DELETED = _type(
    "member.deleted", "A member was deleted: by itself, by a console user, or as a guest that is no longer used."
)
MEMBER_ACTIVATED = _type("member.activated", "A deactivated member may sign in again.")
MEMBER_DEACTIVATED = _type("member.deactivated", "A member is refused from now on.", is_active=False)
MEMBER_SIGNED_OUT = _type("member.signed_out", "A member signed out, or was signed out everywhere.")
MEMBER_IMPERSONATED = _type("member.impersonated", "Somebody of the app's team acts as the member for some minutes.")
MEMBER_SIGNED_IN = EventType(
    name="member.signed_in",
    data=SignedInEvent,
    description="A member signed in. Signing up and refreshing a token are none.",
    example=SignedInEvent(_ADA, "password"),
    scope=SCOPE,
)
EVENT_TYPES: tuple[EventType[Any], ...] = (
    MEMBER_CREATED,
    MEMBER_PROMOTED,
    MEMBER_UPDATED,
    MEMBER_DELETED,
    MEMBER_ACTIVATED,
    MEMBER_DEACTIVATED,
    MEMBER_SIGNED_IN,
    MEMBER_SIGNED_OUT,
    MEMBER_IMPERSONATED,
)


def about(type_: EventType[MemberEvent], actor: Actor, member: MemberData) -> NewEvent:
    """Return an event about a member."""
    return type_.event(MemberEvent(member), actor, subject=subject(member.member_id), member_id=member.member_id)


def updated(actor: Actor, member: MemberData, changed: list[str]) -> NewEvent:
    """Return the event of a change to the fields of a member."""
    return MEMBER_UPDATED.event(
        MemberUpdatedEvent(member, changed), actor, subject=subject(member.member_id), member_id=member.member_id
    )


def signed_in(actor: Actor, member: MemberData, method: str) -> NewEvent:
    """Return the event of a sign-in by an ordinary, active member."""
    return MEMBER_SIGNED_IN.event(
        SignedInEvent(member, method), actor, subject=subject(member.member_id), member_id=member.member_id
    )


def composed(type_: EventType[Any], actor: Actor, member_id: str) -> NewEvent:
    """Return an event about a member whose data is composed by the statement that writes it."""
    return type_.event(None, actor, subject=subject(member_id), member_id=member_id)


def subject(member_id: str) -> str:
    """Return the reference to a member in events."""
    return f"members/{member_id}"
