"""What a part of the server reports to the operator: what is wrong, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple


class Report(NamedTuple):
    """A sentence about what is wrong, and one about what mends it."""

    sentence: str
    fix: str

    def __str__(self) -> str:
        return f"{self.sentence} {self.fix}"
