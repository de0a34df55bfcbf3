"""How a statement reads a table, recorded while it is compiled. Pure.

A part is one column with a kind of access. A pattern is a list of parts that one index could serve: columns compared
for equality, then those that are sorted by or one that is compared; or a single part that needs an index of a special
type.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

_MAX_EQUALITIES = 3


class AccessKind(enum.StrEnum):
    """The kinds of access to a column that an index can serve."""

    EQUALITY = "equality"
    IN = "in"
    RANGE = "range"
    SORT = "sort"
    SORT_DESCENDING = "sort_descending"
    SORT_NULLS_FIRST = "sort_nulls_first"
    CONTAINMENT = "containment"
    TRIGRAM = "trigram"
    CASELESS = "caseless"
    CASELESS_TRIGRAM = "caseless_trigram"
    TEXT = "text"
    COMPLETION = "completion"
    GEO = "geo"
    NO_POINT = "no_point"


_COMPARISONS = (AccessKind.IN, AccessKind.RANGE)
_SORTS = (AccessKind.SORT, AccessKind.SORT_DESCENDING, AccessKind.SORT_NULLS_FIRST)
_ALONE = (
    AccessKind.CONTAINMENT,
    AccessKind.TRIGRAM,
    AccessKind.CASELESS,
    AccessKind.CASELESS_TRIGRAM,
    AccessKind.TEXT,
    AccessKind.COMPLETION,
    AccessKind.GEO,
    AccessKind.NO_POINT,
)


class Part(NamedTuple):
    """Access to one column: `column` is its number as text, or the name of a field that every row has (see `operands`).

    A path into a column follows it: `6.street.name`.
    """

    kind: AccessKind
    column: str


AccessPattern = tuple[Part, ...]


class AccessPatterns:
    """The accesses of one statement: parts combined by AND, and each alternative of an OR separately."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.alternatives: list[list[Part]] = []
        self.ruled = False
        """Whether rules of a table limit the rows that the statement reads."""

    def add(self, kind: AccessKind, column: str | None) -> None:
        """Record an access to a column; None is one that no index can serve."""
        if column is not None:
            self.parts.append(Part(kind, column))

    def alternative(self) -> AbstractContextManager[None]:
        """Record the accesses inside the block as one alternative of an OR."""
        return _Alternative(self)

    def ignored(self) -> AbstractContextManager[None]:
        """Record no access inside the block: a negation reads every row."""
        return _Ignored(self)

    def patterns(self) -> list[AccessPattern]:
        """Return the patterns of the indexes that would speed up the statement."""
        found = [use for parts in (self.parts, *self.alternatives) for use in _uses(parts)]
        return list(dict.fromkeys(found))


class _Alternative:
    """A block of its own parts. A generator would cost three times as much, in each branch of each rule."""

    __slots__ = ("_access", "_outer")

    def __init__(self, access: AccessPatterns) -> None:
        self._access = access

    def __enter__(self) -> None:
        self._outer, self._access.parts = self._access.parts, []

    def __exit__(self, *error: object) -> None:
        access = self._access
        access.alternatives.append(access.parts)
        access.parts = self._outer


class _Ignored:
    """A block whose parts and alternatives are dropped."""

    __slots__ = ("_access", "_alternatives", "_parts")

    def __init__(self, access: AccessPatterns) -> None:
        self._access = access

    def __enter__(self) -> None:
        self._parts, self._alternatives = len(self._access.parts), len(self._access.alternatives)

    def __exit__(self, *error: object) -> None:
        del self._access.parts[self._parts :], self._access.alternatives[self._alternatives :]


def _uses(parts: Sequence[Part]) -> list[AccessPattern]:
    equal = sorted({part for part in parts if part.kind is AccessKind.EQUALITY})[:_MAX_EQUALITIES]
    columns = {part.column for part in equal}
    sorts = tuple(part for part in parts if part.kind in _SORTS and part.column not in columns)
    columns |= {part.column for part in sorts}
    compared = [part for part in parts if part.kind in _COMPARISONS and part.column not in columns]
    tails: list[AccessPattern] = [*filter(None, [sorts]), *((part,) for part in compared[:1])]
    if not tails and equal:
        tails = [()]
    return [(*equal, *tail) for tail in tails] + [(part,) for part in parts if part.kind in _ALONE]


def has_several_sorts(use: AccessPattern) -> bool:
    """Return whether rows are sorted by several columns."""
    return sum(part.kind in _SORTS for part in use) > 1


def encode(use: AccessPattern) -> str:
    """Return a pattern as text, such as `equality:3,sort_descending:5`."""
    return ",".join(f"{part.kind}:{part.column}" for part in use)


def decode(text: str) -> AccessPattern:
    """Return the pattern that `encode` wrote."""
    pairs = (part.split(":") for part in text.split(","))
    return tuple(Part(AccessKind(kind), column) for kind, column in pairs)


def columns_of(use: Iterable[Part]) -> list[str]:
    """Return the distinct columns of a pattern in order, without the paths into them."""
    return list(dict.fromkeys(part.column.partition(".")[0] for part in use))
