"""What is read when all is quiet: live lists, stored totals, bytes of files, pages of sites."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.cluster.checkers.history import Finding, Outcome, Span


class Deployment(NamedTuple):
    """A deployment of a site: its bytes by path, and when its pointer was moved, which may have failed."""

    span: Span
    pages: Mapping[str, bytes]
    outcome: Outcome


def check_live(shown: Mapping[str, Any], queried: Mapping[str, Any]) -> list[Finding]:
    """Compare the list that a client kept by its stream with what a query returns, both by the rows' ids."""
    findings = [
        Finding("live rows", f"{row} is {'shown and not there' if row in shown else 'there and not shown'}")
        for row in sorted(shown.keys() ^ queried.keys())
    ]
    return findings + [
        Finding("live rows", f"{row} is shown as it was before: {shown[row]}, not {queried[row]}")
        for row in sorted(shown.keys() & queried.keys())
        if shown[row] != queried[row]
    ]


def check_counts(totals: Mapping[str, int], counted: Mapping[str, int]) -> list[Finding]:
    """Compare stored totals with `count(*)`, both by the table."""
    return [
        Finding("counts", f"{table} has {counted.get(table, 0)} rows, and {totals.get(table, 0)} are stored")
        for table in sorted(totals.keys() | counted.keys())
        if totals.get(table, 0) != counted.get(table, 0)
    ]


def check_files(uploads: Mapping[str, tuple[str, Outcome]], read: Mapping[str, str | None]) -> list[Finding]:
    """Compare the hashes of files that were uploaded with those of the bytes that are read; None if there are none."""
    findings = []
    for name, (digest, outcome) in uploads.items():
        found = read.get(name)
        if found is None and outcome is Outcome.ACKNOWLEDGED:
            findings.append(Finding("files", f"{name} was acknowledged and is not there"))
        if found is not None and outcome is Outcome.REFUSED:
            findings.append(Finding("files", f"{name} was refused and is there"))
        if found is not None and found != digest:
            findings.append(Finding("files", f"{name} has other bytes than were sent"))
    return findings


def check_site(deployments: Iterable[Deployment], reads: Iterable[tuple[Span, Mapping[str, bytes]]]) -> list[Finding]:
    """Check that each visit, whose pages were answered from one deployment, saw one that was current at that time.

    A deployment is current from its beginning at the earliest, until one that was acknowledged has replaced it.
    """
    made = [deployment for deployment in deployments if deployment.outcome is not Outcome.REFUSED]
    findings = []
    for span, pages in reads:
        last = max(
            (one.span.began for one in made if one.outcome is Outcome.ACKNOWLEDGED and one.span.before(span)),
            default=float("-inf"),
        )
        current = [one for one in made if one.span.ended >= last and not span.before(one.span)]
        if not any(pages.items() <= one.pages.items() for one in current):
            findings.append(Finding("sites", f"a visit at {span.began:.3f} saw no deployment of that time: {pages}"))
    return findings
