"""The shapes of indexes in answers."""

from __future__ import annotations

from typing import Literal

import msgspec


class UsePart(msgspec.Struct):
    """How one column is read: `kind` is equality, in, range, sort, sort_descending, trigram, containment and so on."""

    column: str
    kind: str


class NotedUse(msgspec.Struct):
    """Slow queries that no index was built for so far."""

    uses: list[UsePart]
    count: int
    total_ms: float
    first_used_at: str
    last_used_at: str


class Index(msgspec.Struct):
    """An index that Pilotis built by itself, or tried to.

    `reason` says what asked for it. `state` is `building`, `ready`, `failed` or `dropped`; `error` tells why one is
    not there. `last_used_at` is null for one that no query has used yet.
    """

    name: str
    columns: list[str]
    uses: list[UsePart]
    method: str
    state: Literal["building", "ready", "failed", "dropped"]
    reason: str
    size_bytes: int
    created_at: str
    last_used_at: str | None
    error: str | None


class IndexList(msgspec.Struct):
    """A table's indexes, and what was noted that none was built for."""

    indexes: list[Index]
    noted: list[NotedUse]
