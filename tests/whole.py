"""How much of what is generated, repeated or built a run does.

`make test` does a part of it that shows most faults, and `python -m tests.long whole` all of it: with `TEST_WHOLE` in
the environment. Which of many equal cases belong to the part depends on `TEST_SEED`, which `tests/run-all.sh` sets to
the commit: the same ones in every process and every repetition, and others after the next change.
"""

import os
import random
from collections.abc import Iterable
from typing import TypeVar

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
