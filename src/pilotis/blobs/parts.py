"""The representation of a draft in an object store: parts of one size, of which the last may be shorter. Pure.

A part's name contains its number and the run that wrote it; each `append` is a run. So parts that a run writes late, or
that are never acknowledged, do not replace acknowledged ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import NamedTuple

from pilotis.blobs.errors import BlobNotFoundError
from pilotis.blobs.protocol import Draft


class Part(NamedTuple):
    """One object of a draft, and how many of its bytes belong to the draft."""

    key: str
    size: int


class Run:
    """The parts that one `append` writes. It starts with the incomplete last part, which it replaces."""

    def __init__(self, key: str, draft: Draft, part_bytes: int) -> None:
        self._key = key
        self._part_bytes = part_bytes
        self._first = draft.size // part_bytes
        self._kept = tuple(run for run in draft.runs if run[0] < self._first)
        self._name = secrets.token_hex(8)
        rest = draft.size % part_bytes
        self.taken_over = Part(part_key(key, draft, self._first), rest) if rest else None
        self.keys: list[str] = []

    def next_key(self) -> str:
        """Return the key of the next part."""
        self.keys.append(_key(self._key, self._first + len(self.keys), self._name))
        return self.keys[-1]

    def draft(self, size: int) -> Draft:
        """Return the draft, now `size` bytes long, with what this run has written."""
        return Draft(size, (*self._kept, (self._first, self._name)))


def part_key(key: str, draft: Draft, number: int) -> str:
    """Return the key of a draft's part: that of the latest run that wrote it.

    Raises `BlobNotFoundError` if none did: the draft is another store's.
    """
    for first, name in reversed(draft.runs):
        if first <= number:
            return _key(key, number, name)
    raise BlobNotFoundError


def last_key(key: str, draft: Draft, part_bytes: int) -> str:
    """Return the key of the last part of a draft with at least one byte; raises `BlobNotFoundError` likewise."""
    return part_key(key, draft, (draft.size - 1) // part_bytes)


def parts(key: str, draft: Draft, part_bytes: int) -> Iterator[Part]:
    """Yield the draft's parts in order."""
    for number, start in enumerate(range(0, draft.size, part_bytes)):
        yield Part(part_key(key, draft, number), min(part_bytes, draft.size - start))


def _key(key: str, number: int, name: str) -> str:
    return f"{key}/{number:05}-{name}"
