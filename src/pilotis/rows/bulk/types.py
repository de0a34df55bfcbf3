"""The shapes of rows by the batch."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from pilotis.kit.errors import PilotisError

Source = TypeVar("Source")


class NewRow(NamedTuple):
    """A row to make: its data as JSON, not checked yet, and the member it is to belong to."""

    data: bytes
    creator: str | None = None


class Failure(NamedTuple, Generic[Source]):
    """A source of which no row could be made, and why."""

    source: Source
    error: PilotisError


class Batch(NamedTuple, Generic[Source]):
    """How many rows were made of a batch's sources, and the sources that failed, in their order."""

    made: int
    failed: list[Failure[Source]]


class StoredRow(msgspec.Struct):
    """A row as it is stored, its data not decoded."""

    id: str
    data: msgspec.Raw
    created_at: str
    updated_at: str
    creator: str | None = None
