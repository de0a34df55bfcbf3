"""The types of rows in batches."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec

from pilotis.data.rows.types import UpsertMode
from pilotis.kit.errors import PilotisError

Source = TypeVar("Source")


class NewRow(NamedTuple):
    """A row to create: its data as JSON, not yet validated, and its owner, a member."""

    data: bytes
    creator: str | None = None


class UpsertBy(NamedTuple):
    """The unique key by which rows are looked up, and what happens to those that are there."""

    key: str
    mode: UpsertMode


class Failure(NamedTuple, Generic[Source]):
    """A source that could not become a row, and why."""

    source: Source
    error: PilotisError


class Batch(NamedTuple, Generic[Source]):
    """The number of rows created from a batch, and the sources that failed, in order.

    By a unique key, `updated` rows were changed and `ignored` ones were left as they are.
    """

    made: int
    failed: list[Failure[Source]]
    updated: int = 0
    ignored: int = 0


class StoredRow(msgspec.Struct):
    """A stored row, its data not decoded."""

    id: str
    data: msgspec.Raw
    created_at: str
    updated_at: str
    creator: str | None = None
