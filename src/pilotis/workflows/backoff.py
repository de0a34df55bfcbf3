"""The delays before a failed step or a failed execution is retried. Pure."""

from __future__ import annotations

import random

DEFAULT_MS = 1000.0
MAX_STEP_SECONDS = 300.0
MAX_EXECUTION_SECONDS = 60.0


def step_seconds(retry_delay: float | None, failed: int) -> float:
    """Return the delay after a number of failures of a step; it doubles each time, and is varied by up to a fifth."""
    base = (DEFAULT_MS if retry_delay is None else retry_delay) / 1000
    return _spread(min(MAX_STEP_SECONDS, base * 2 ** min(failed - 1, 20)))


def execution_seconds(attempts: int) -> float:
    """Return the delay after a number of failed attempts of an execution."""
    return _spread(min(MAX_EXECUTION_SECONDS, 2.0 ** min(attempts, 10)))


def _spread(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - it spreads load, and keeps no secret
