"""What a client asked, when, and what it was told."""

import enum
from typing import Any, NamedTuple


class Outcome(enum.Enum):
    """What a client knows of its request: it took effect, it did not, or either may be true."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """A promise that was broken: by the checker of that name, and how."""

    checker: str
    text: str


class Write(NamedTuple):
    """A request to add an element; those of one group are to be added all or not at all."""

    element: Any
    outcome: Outcome
    group: Any = None


class Span(NamedTuple):
    """From when until when something was asked or was going on."""

    began: float
    ended: float

    def before(self, other: "Span") -> bool:
        """Whether this ended before the other began."""
        return self.ended < other.began
