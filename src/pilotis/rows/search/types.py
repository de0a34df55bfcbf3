"""The shapes of searches and completions."""

from __future__ import annotations

from uuid import UUID

import msgspec

from pilotis.rows.types import DEFAULT_LIMIT, Count, DataItem


class SearchRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to search for: words, "phrases", and either with - before it to exclude it.

    The last word also finds what begins with it. `fields` are names of string columns, the most important first;
    without it, all of them. Without `"` or `-`, typing errors are forgiven where nothing is found otherwise.
    """

    table_id: UUID
    query: str
    fields: list[str] | None = None
    limit: Count = DEFAULT_LIMIT
    offset: Count = 0


class SearchItem(DataItem):
    """A row found. `highlights` has HTML for each field with a match: escaped text, matches in `<mark>…</mark>`."""

    score: float
    highlights: dict[str, str]


class SearchResult(msgspec.Struct):
    """The rows found, best first, and how many there are in all; at most the first 1000 can be asked for."""

    data: list[SearchItem]
    total_count: int


class AutocompleteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The beginning of a value of a string column, or of any word in it."""

    table_id: UUID
    query: str
    field: str
    limit: Count = DEFAULT_LIMIT


class Suggestions(msgspec.Struct):
    """Values that complete a query: those that begin with it, those with a word that does, or else those like it."""

    suggestions: list[str]
