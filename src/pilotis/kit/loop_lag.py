"""How late the event loop is: a timer each second that says by how much it was called too late."""

from __future__ import annotations

import asyncio

from pilotis.kit.metrics import Histogram

_PERIOD = 1.0


class LoopLag:
    """Measures the running loop from `start` to `stop`."""

    def __init__(self, period: float = _PERIOD) -> None:
        self._period = period
        self._timer: asyncio.TimerHandle | None = None
        self.histogram = Histogram("pilotis_loop_lag_seconds", "By how much a timer of the event loop is late.")

    def start(self) -> None:
        """Begin to measure."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._period

        def measure() -> None:
            self.histogram.add(loop.time() - due)
            self.start()

        self._timer = loop.call_at(due, measure)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
