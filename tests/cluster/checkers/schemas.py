"""Schema: each write was accepted or refused by a schema that was current at some moment while it ran."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.cluster.checkers.history import Finding, Outcome, Span


class SchemaChange(NamedTuple):
    """The columns after a change; it took effect somewhere in its span. The first one begins the history."""

    span: Span
    columns: frozenset[str]


class ColumnWrite(NamedTuple):
    """A row that was written with these columns; `REFUSED` means that a column of it was unknown."""

    span: Span
    columns: frozenset[str]
    outcome: Outcome


def check_schema(
    changes: Sequence[SchemaChange], writes: Iterable[ColumnWrite], stored: Iterable[frozenset[str]] = ()
) -> list[Finding]:
    """Check writes against the changes, made one after the other, and the columns of stored rows against the last."""
    findings = []
    for write in writes:
        if write.outcome is Outcome.UNKNOWN:
            continue
        current = [change.columns for change in _current(changes, write.span)]
        accepted = write.outcome is Outcome.ACKNOWLEDGED
        if not any((write.columns <= columns) == accepted for columns in current):
            told = "accepted" if accepted else "refused"
            findings.append(
                Finding(
                    "schema", f"a row with {sorted(write.columns)} was {told} at {write.span.began:.3f} by no schema"
                )
            )
    last = changes[-1].columns
    for columns in stored:
        if not columns <= last:
            findings.append(Finding("schema", f"a row has {sorted(columns - last)}, which the schema has not"))
    return findings


def _current(changes: Sequence[SchemaChange], span: Span) -> list[SchemaChange]:
    """Return each schema that may have been current within a span."""
    ends = [*(change.span.ended for change in changes[1:]), float("inf")]
    return [
        change
        for change, end in zip(changes, ends, strict=True)
        if change.span.began <= span.ended and end >= span.began
    ]
