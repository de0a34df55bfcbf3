"""What a process counts of the deliveries that it makes."""

from __future__ import annotations

from pilotis.kit.metrics import LONG_BUCKETS, Counter, Counts, Histogram


class DeliveryCounts(Counts):
    """The metrics of webhooks."""

    def __init__(self) -> None:
        self.ended = Counter("pilotis_deliveries", "Deliveries of webhooks that have ended, by result.", ("result",))
        self.attempts = Histogram("pilotis_delivery_seconds", "Duration of attempts of deliveries.", LONG_BUCKETS)
        self.delays = Histogram(
            "pilotis_delivery_delay_seconds",
            "Time from a change to the first attempt of each of its deliveries.",
            LONG_BUCKETS,
        )
