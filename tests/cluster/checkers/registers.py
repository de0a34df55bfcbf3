"""Register: conditional writes of one row are linearizable, by the algorithm of Wing and Gong.

J. M. Wing, C. Gong: Testing and Verifying Concurrent Objects, Journal of Parallel and Distributed Computing 17 (1993).
The states that were tried are remembered, after G. Lowe: Testing for linearizability (2016).
"""

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

from tests.cluster.checkers.history import Finding, Outcome, Span

MAX_OPERATIONS = 200


class Access(NamedTuple):
    """A read of `value`, or a write of `value` on condition that the register had `expected`.

    Every write has a value of its own. A write that was refused found something else than what it expected; one with an
    unknown outcome takes effect at any time after it began, or never.
    """

    kind: Literal["read", "write"]
    span: Span
    value: Hashable
    expected: Hashable = None
    outcome: Outcome = Outcome.ACKNOWLEDGED


def check_register(accesses: Sequence[Access], initial: Hashable) -> list[Finding]:
    """Return a finding if no order of the accesses explains what all of them were told.

    The order must have each access between its beginning and its end. At most `MAX_OPERATIONS` are taken.
    """
    if len(accesses) > MAX_OPERATIONS:
        raise ValueError(f"A history of {len(accesses)} accesses is too long to be checked.")
    ordered = sorted(accesses, key=lambda access: access.span.began)
    ends = [math.inf if access.outcome is Outcome.UNKNOWN else access.span.ended for access in ordered]
    required = sum(1 << at for at, access in enumerate(ordered) if access.outcome is not Outcome.UNKNOWN)
    tried: set[tuple[int, Hashable]] = set()
    waiting: list[tuple[int, Hashable]] = [(0, initial)]
    longest = 0
    while waiting:
        done, value = waiting.pop()
        if done & required == required:
            return []
        if (done, value) in tried:
            continue
        tried.add((done, value))
        longest = max(longest, done.bit_count())
        open_ = [at for at in range(len(ordered)) if not done >> at & 1]
        first_end = min(ends[at] for at in open_)
        for at in open_:
            if ordered[at].span.began > first_end:
                break
            accepted, after = _applied(ordered[at], value)
            if accepted:
                waiting.append((done | 1 << at, after))
    return [Finding("register", f"no order explains more than {longest} of {len(ordered)} accesses: {ordered}")]


def _applied(access: Access, value: Hashable) -> tuple[bool, Hashable]:
    """Return whether the access may have been told what it was at this value, and the value afterwards."""
    if access.kind == "read":
        return access.value == value, value
    if access.outcome is Outcome.REFUSED:
        return access.expected != value, value
    return access.expected == value, access.value
