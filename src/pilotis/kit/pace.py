"""The minimum rate of a transfer, so that a deliberately slow client cannot hold resources that others need."""

from __future__ import annotations

MAX_PAUSE_SECONDS = 60.0
"""Longest pause of a client, whatever its speed before."""


class Pace:
    """Measures one transfer against a minimum rate, after a grace period.

    Only the time spent waiting for the client counts. Each byte earns as much time as it takes at the minimum rate, up
    to `MAX_PAUSE_SECONDS`: a fast start, for instance into the kernel's buffers, does not allow a long pause later.
    """

    __slots__ = ("_bytes_per_second", "seconds_left")

    def __init__(self, bytes_per_second: int, grace_seconds: float) -> None:
        self._bytes_per_second = bytes_per_second
        self.seconds_left = min(grace_seconds, MAX_PAUSE_SECONDS) if bytes_per_second else MAX_PAUSE_SECONDS

    @property
    def is_too_slow(self) -> bool:
        """Whether the client has used up its time."""
        return self.seconds_left <= 0

    def count(self, waited_seconds: float, size: int) -> None:
        """Count `size` transferred bytes, and the time spent waiting; without a minimum rate any byte is enough."""
        earned = size / self._bytes_per_second if self._bytes_per_second else size * MAX_PAUSE_SECONDS
        self.seconds_left = min(MAX_PAUSE_SECONDS, self.seconds_left - waited_seconds + earned)
