"""Set: every acknowledged element is there once, none that was refused, and no half of a group."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from tests.cluster.checkers.history import Finding, Outcome, Write


def check_set(writes: Iterable[Write], found: Iterable[Hashable], name: str = "set") -> list[Finding]:
    """Compare the elements that were written with those that a read found when nothing was written any more.

    An element with an unknown outcome may be there or not, but never twice.
    """
    counts = Counter(found)
    known: dict[Hashable, Outcome] = {}
    groups: dict[Hashable, list[Hashable]] = defaultdict(list)
    findings = []
    for write in writes:
        known[write.element] = write.outcome
        if write.group is not None:
            groups[write.group].append(write.element)
        if write.outcome is Outcome.ACKNOWLEDGED and not counts[write.element]:
            findings.append(Finding(name, f"{write.element} was acknowledged and is not there"))
        if write.outcome is Outcome.REFUSED and counts[write.element]:
            findings.append(Finding(name, f"{write.element} was refused and is there"))
    for element, count in counts.items():
        if element not in known:
            findings.append(Finding(name, f"{element} is there, and nobody wrote it"))
        if count > 1:
            findings.append(Finding(name, f"{element} is there {count} times"))
    for group, elements in groups.items():
        there = sum(counts[element] > 0 for element in elements)
        if 0 < there < len(elements):
            findings.append(Finding(name, f"{there} of the {len(elements)} elements of group {group} are there"))
    return findings
