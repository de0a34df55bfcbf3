"""The types of indexes in answers."""

from __future__ import annotations

from typing import Literal

import msgspec

IndexState = Literal["building", "ready", "failed", "dropped"]


class UsePart(msgspec.Struct):
    """How a query reads one column: `kind` is equality, in, range, sort, sort_descending, trigram and so on."""

    column: str
    kind: str


class RecordedAccess(msgspec.Struct, kw_only=True):
    """Slow queries without an index so far."""

    uses: list[UsePart]
    count: int
    total_ms: float
    first_used_at: str
    last_used_at: str


class Index(msgspec.Struct, kw_only=True):
    """An index that Pilotis built automatically, or tried to build.

    `reason` is the query that needs it. `state` is `building`, `ready`, `failed` or `dropped`; `error` says why a build
    failed. `last_used_at` is null until a query uses it.
    """

    name: str
    columns: list[str]
    uses: list[UsePart]
    method: str
    state: IndexState
    reason: str
    size_bytes: int
    created_at: str
    last_used_at: str | None
    error: str | None


class IndexList(msgspec.Struct):
    """A table's indexes, and the slow queries without one."""

    indexes: list[Index]
    noted: list[RecordedAccess]
