"""The types of rows in batches."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from pilotis.kit.errors import PilotisError

Source = TypeVar("Source")


class NewRow(NamedTuple):
    """A row to create: its data as JSON, not yet validated, and its owner, a member."""

    data: bytes
    creator: str | None = None


class Failure(NamedTuple, Generic[Source]):
    """A source that could not become a row, and why."""

    source: Source
    error: PilotisError


class Batch(NamedTuple, Generic[Source]):
    """The number of rows created from a batch, and the sources that failed, in order."""

    made: int
    failed: list[Failure[Source]]


class StoredRow(msgspec.Struct):
    """A stored row, its data not decoded."""

    id: str
    data: msgspec.Raw
    created_at: str
    updated_at: str
    creator: str | None = None
