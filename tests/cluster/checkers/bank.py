"""Bank: transfers never change the sum, and counters have what was acknowledged and at most what is unknown besides."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.cluster.checkers.history import Finding, Outcome, Span


class Increment(NamedTuple):
    """A request to add to a counter."""

    span: Span
    amount: int
    outcome: Outcome


def check_bank(reads: Iterable[Mapping[str, int]], total: int) -> list[Finding]:
    """Check the sum of all accounts in each read of one snapshot."""
    return [
        Finding("bank", f"a read has {sum(accounts.values())} in place of {total}: {dict(accounts)}")
        for accounts in reads
        if sum(accounts.values()) != total
    ]


def check_counter(increments: Iterable[Increment], reads: Iterable[tuple[Span, int]]) -> list[Finding]:
    """Check each read of a counter that begins at 0 and is only increased.

    It has all that was acknowledged before it began, and nothing that began after it ended or was refused.
    """
    all_ = list(increments)
    findings = []
    for span, value in reads:
        sure = [one for one in all_ if one.outcome is Outcome.ACKNOWLEDGED and one.span.before(span)]
        possible = [one for one in all_ if one.outcome is not Outcome.REFUSED and not span.before(one.span)]
        least, most = sum(one.amount for one in sure), sum(one.amount for one in possible)
        if not least <= value <= most:
            findings.append(Finding("counter", f"a read at {span.began:.3f} has {value}, not {least} to {most}"))
    return findings
