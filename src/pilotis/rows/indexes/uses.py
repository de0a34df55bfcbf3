"""What a statement reads a table by, noted while it is compiled. Pure.

A part is one column with a kind of use. A use is what one index could serve: columns that equal something, then the
one that is compared or sorted by; or a single part that asks for an index of its own sort.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NamedTuple

_MOST_EQUALITIES = 3


class UseKind(enum.StrEnum):
    """The ways of reading a column that an index can serve."""

    EQUALITY = "equality"
    IN = "in"
    RANGE = "range"
    SORT = "sort"
    SORT_DESCENDING = "sort_descending"
    SORT_NULLS_FIRST = "sort_nulls_first"
    CONTAINMENT = "containment"
    TRIGRAM = "trigram"
    TEXT = "text"
    COMPLETION = "completion"
    GEO = "geo"
    NO_POINT = "no_point"


_COMPARISONS = (UseKind.IN, UseKind.RANGE)
_SORTS = (UseKind.SORT, UseKind.SORT_DESCENDING, UseKind.SORT_NULLS_FIRST)
_ALONE = (UseKind.CONTAINMENT, UseKind.TRIGRAM, UseKind.TEXT, UseKind.COMPLETION, UseKind.GEO, UseKind.NO_POINT)


class Part(NamedTuple):
    """One column's use: `column` is its number as text, or the name of what every row has (see `operands`).

    A path into a column follows it: `6.street.name`.
    """

    kind: UseKind
    column: str


Use = tuple[Part, ...]


class Notes:
    """What one statement reads by: parts that hold together, and those of alternatives, each by itself."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.alternatives: list[list[Part]] = []

    def add(self, kind: UseKind, column: str | None) -> None:
        """Note a use of a column; None is one that no index is made for."""
        if column is not None:
            self.parts.append(Part(kind, column))

    @contextmanager
    def alternative(self) -> Generator[None]:
        """Note what follows as one of several conditions of which any may hold."""
        outer, self.parts = self.parts, []
        yield
        self.alternatives.append(self.parts)
        self.parts = outer

    @contextmanager
    def ignored(self) -> Generator[None]:
        """Note nothing of what follows: a negation reads every row."""
        parts, alternatives = len(self.parts), len(self.alternatives)
        yield
        del self.parts[parts:], self.alternatives[alternatives:]

    def uses(self) -> list[Use]:
        """Return each index that the statement would gain from, as the use that it serves."""
        found = [use for parts in (self.parts, *self.alternatives) for use in _uses(parts)]
        return list(dict.fromkeys(found))


def _uses(parts: Sequence[Part]) -> list[Use]:
    equal = sorted({part for part in parts if part.kind is UseKind.EQUALITY})[:_MOST_EQUALITIES]
    columns = {part.column for part in equal}
    sorts = [part for part in parts if part.kind in _SORTS and part.column not in columns]
    sorted_by = {part.column for part in sorts}
    compared = [part for part in parts if part.kind in _COMPARISONS and part.column not in columns | sorted_by]
    tails: list[Use] = [(part,) for part in [*sorts, *compared[:1]]]
    if not tails and equal:
        tails = [()]
    return [(*equal, *tail) for tail in tails] + [(part,) for part in parts if part.kind in _ALONE]


def encode(use: Use) -> str:
    """Return a use as text, such as `equality:3,sort_descending:5`."""
    return ",".join(f"{part.kind}:{part.column}" for part in use)


def decode(text: str) -> Use:
    """Return the use that `encode` wrote."""
    pairs = (part.split(":") for part in text.split(","))
    return tuple(Part(UseKind(kind), column) for kind, column in pairs)


def columns_of(use: Iterable[Part]) -> list[str]:
    """Return the columns that a use reads, each once, in its order; without the paths into them."""
    return list(dict.fromkeys(part.column.partition(".")[0] for part in use))
