"""The shapes in which console users see members."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pilotis.members.types import Nickname

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Search = Annotated[str, msgspec.Meta(max_length=255)]


class MemberQuery(msgspec.Struct):
    """Which members, the newest first.

    `search` is looked for in login_id, nickname and member_id, in either case. `limit` 0 asks for the total only, one
    above the largest is lowered to it.
    """

    search: Search | None = None
    is_guest: bool | None = None
    is_active: bool | None = None
    limit: Count = 20
    offset: Count = 0


class MemberItem(msgspec.Struct):
    """A member in a list."""

    member_id: str
    login_id: str | None
    nickname: str | None
    is_guest: bool
    is_active: bool
    created_at: str
    updated_at: str
    last_active_at: str


class MemberRecord(MemberItem):
    """A member whole; `last_active_at` is right to the hour, `sessions` counts the places it is signed in at."""

    sessions: int
    custom_data: msgspec.Raw


class MemberPage(msgspec.Struct):
    """A part of the app's members, and how many members satisfy the query in all."""

    data: list[MemberItem]
    total_count: int
    limit: int
    offset: int


class MemberChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a member; what is not given stays. A null nickname removes it."""

    is_active: bool | msgspec.UnsetType = msgspec.UNSET
    nickname: Nickname | msgspec.UnsetType | None = msgspec.UNSET


class MemberDone(msgspec.Struct):
    """What was done, and to which member."""

    message: str
    id: str


class SignedOut(msgspec.Struct):
    """The member that was signed out, and how many sessions it had."""

    message: str
    id: str
    sessions: int
