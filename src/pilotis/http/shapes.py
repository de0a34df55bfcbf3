"""Shapes that routes of several features share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar
from uuid import UUID

import msgspec

Item = TypeVar("Item")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Paging(msgspec.Struct):
    """Which part of a list: `limit` 0 asks for the total only, one above the largest is lowered to it."""

    limit: Count = 20
    offset: Count = 0


class ItemPage(msgspec.Struct, Generic[Item], frozen=True):
    """A part of a list, with the number of items in the whole and the limit that was in force."""

    data: list[Item]
    total_count: int
    limit: int
    offset: int


class Deleted(msgspec.Struct, frozen=True):
    """What was deleted or revoked."""

    message: str
    id: UUID
