"""How much of what is generated, repeated or built a run does.

`make test` does a part of it that shows most faults, and `python -m tests.long whole` all of it: with `TEST_WHOLE` in
the environment. Which of many equal cases belong to the part depends on `TEST_SEED`, which `tests/run-all.sh` sets to
the commit: the same ones in every process and every repetition, and others after the next change.
"""

import os
import random
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")

WHOLE = "TEST_WHOLE" in os.environ
SEED = os.environ.get("TEST_SEED", "")


def times(usual: int, *, whole: int) -> int:
    """Return how often something is done: as usual, or in a whole run."""
    return whole if WHOLE else usual


def sample(cases: Iterable[T], share: float, *, of: str = "") -> list[T]:
    """Return the cases of which a usual run does a share, in their order, at least one; in a whole run all of them.

    `of` says whose cases they are, where there are as many of something else: each has others.
    """
    found = list(cases)
    if WHOLE or not found:
        return found
    chosen = random.Random(SEED + of).sample(range(len(found)), max(1, round(share * len(found))))
    return [found[at] for at in sorted(chosen)]


def is_chosen(share: float, *, of: str) -> bool:
    """Return whether a usual run does what `of` names: for so large a share of the names; in a whole run for all."""
    return WHOLE or random.Random(SEED + of).random() < share


FEWEST = 3
"""Cases of one test that every run has, if there are so many."""


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return what a usual run leaves out of the tests marked with `share`.

    The cases of one test are equal; where the mark has `of`, so are all tests of the file whose mark has the same.
    """
    equal, shares = defaultdict(list), {}
    for item in items:
        if mark := item.get_closest_marker("share"):
            group = mark.kwargs.get("of")
            name = f"{item.path.name} {group}" if group else item.nodeid.partition("[")[0]
            equal[name].append(item)
            shares[name] = mark.args[0] if group else max(mark.args[0], FEWEST / len(equal[name]))
    return {
        item for name, found in equal.items() for item in {*found} - {*sample(found, min(1.0, shares[name]), of=name)}
    }
