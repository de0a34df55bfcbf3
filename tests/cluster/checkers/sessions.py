"""Sessions: what was revoked is worth nothing on any node; a refresh token has one successor; limits hold."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.cluster.checkers.history import Finding, Span


class Use(NamedTuple):
    """A request with a credential, by which node it was answered, and whether it was allowed."""

    credential: str
    span: Span
    allowed: bool
    node: str = ""


def check_sessions(revoked: Mapping[str, Span], uses: Iterable[Use]) -> list[Finding]:
    """Check that no request was allowed that began after the revocation of its credential was acknowledged."""
    return [
        Finding(
            "session",
            f"{use.credential} was revoked at {revoked[use.credential].ended:.3f} and allowed at {use.span.began:.3f}"
            f" by {use.node or 'a node'}",
        )
        for use in uses
        if use.allowed and use.credential in revoked and revoked[use.credential].before(use.span)
    ]


def check_refreshes(refreshes: Iterable[tuple[str, str]]) -> list[Finding]:
    """Check pairs of a refresh token and the one that was issued for it: a token has one successor."""
    successors: dict[str, set[str]] = defaultdict(set)
    for token, successor in refreshes:
        successors[token].add(successor)
    return [
        Finding("session", f"a refresh token has {len(found)} successors: {token[-12:]}")
        for token, found in successors.items()
        if len(found) > 1
    ]


def check_limit(passed: Iterable[float], limit: int, seconds: float) -> list[Finding]:
    """Check that at most `limit` requests passed within any `seconds`."""
    times = sorted(passed)
    for first in range(len(times) - limit):
        if times[first + limit] - times[first] < seconds:
            return [Finding("limit", f"{limit + 1} requests passed within {seconds} s from {times[first]:.3f} on")]
    return []
