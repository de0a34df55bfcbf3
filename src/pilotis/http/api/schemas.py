"""Types that routes of several features share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar
from uuid import UUID

import msgspec

from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import invalid

Item = TypeVar("Item")
_MAX_COUNT = 2**53

Email = Annotated[str, msgspec.Meta(min_length=3, max_length=254, examples=["ada@example.com"])]
"""An e-mail address, which the service checks."""

Limit = Annotated[int, msgspec.Meta(ge=0)] | None
"""The maximum number of items; None for the default of the server or the app."""

if TYPE_CHECKING:
    Count = int
else:
    # A null means the default, which `Paged` substitutes.
    Count = Annotated[int, msgspec.Meta(ge=0)] | None


def replace_nulls(request: msgspec.Struct, **defaults: Any) -> None:
    """Replace null fields by their defaults."""
    for name, default in defaults.items():
        if getattr(request, name, default) is None:
            setattr(request, name, default)


class Paged(msgspec.Struct):
    """Base of requests with `limit` and perhaps `offset`: null means the default, 2^53 is the maximum."""

    def __post_init__(self) -> None:
        """Replace a null offset, and lower values that are too large for a database."""
        replace_nulls(self, offset=0)
        for name in ("limit", "offset"):
            if (getattr(self, name, 0) or 0) > _MAX_COUNT:
                setattr(self, name, _MAX_COUNT)


class Paging(Paged, forbid_unknown_fields=True):
    """A range of a list: `limit` 0 requests the total only; a limit above the maximum is lowered to it."""

    limit: Limit = None
    offset: Count = 0


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    """The query of a list that is always returned whole: it has no parameters."""


def time_field(text: str | None, field: str) -> datetime | None:
    """Return the time in a parameter; raises a 400 error for a text that is none."""
    if text is None:
        return None
    moment = parse_rfc3339(text)
    if moment is None:
        raise invalid(field, f"{field} is an RFC 3339 time, such as 2026-01-31T12:00:00Z.")
    return moment


class ItemPage(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """A page of a list, with the total number of items and the limit that was applied."""

    data: list[Item]
    total_count: int
    limit: int
    offset: int


class ActiveSession(msgspec.Struct, frozen=True, kw_only=True):
    """An active session; `refreshed_at` is when its tokens were last renewed.

    `user_agent` is what the browser or program that signed in called itself, at most 300 characters; null if it did
    not.
    """

    session_id: UUID
    user_agent: str | None
    created_at: str
    refreshed_at: str
    expires_at: str


UuidText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
"""A UUID that an answer has as a text already."""


class Deleted(msgspec.Struct, frozen=True):
    """The id of what was deleted or revoked."""

    message: str
    id: UUID
