"""What a client asked, when, and what it was told."""

import enum
from collections.abc import Iterable
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


class Span(NamedTuple):
    """From when until when something was asked or was going on."""

    began: float
    ended: float

    def before(self, other: "Span") -> bool:
        """Whether this ended before the other began."""
        return self.ended < other.began


class Write(NamedTuple):
    """A request to add an element, and when; those of one group are to be added all or not at all."""

    element: Any
    outcome: Outcome
    group: Any = None
    span: Span = Span(0.0, 0.0)


def as_of(writes: Iterable[Write], moment: float) -> list[Write]:
    """Return what is known of writes at a moment in their history: those that began afterwards are not there."""

    def outcome(write: Write) -> Outcome:
        if write.span.began > moment:
            return Outcome.REFUSED
        return Outcome.UNKNOWN if write.span.ended > moment and write.outcome is Outcome.ACKNOWLEDGED else write.outcome

    return [write._replace(outcome=outcome(write)) for write in writes]
