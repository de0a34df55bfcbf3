"""How much of what is generated, repeated or built a run does.

`make test` does a part of it that shows most faults, and `python -m tests.long whole` all of it: with `TEST_WHOLE` in
the environment.
"""

import os

WHOLE = "TEST_WHOLE" in os.environ


def times(usual: int, *, whole: int) -> int:
    """Return how often something is done: as usual, or in a whole run."""
    return whole if WHOLE else usual
