"""What a process counts of the calls of functions that it runs."""

from __future__ import annotations

from pilotis.kit.metrics import Counter, Counts, Histogram


class FunctionCounts(Counts):
    """The metrics of functions."""

    def __init__(self) -> None:
        self.invocations = Counter(
            "pilotis_function_invocations", "Calls of functions that have ended.", ("runtime", "status", "start")
        )
        self.seconds = Histogram("pilotis_function_seconds", "Duration of functions.")
        self.queues = Histogram("pilotis_function_queue_seconds", "Time before a call got a sandbox.")
        self.loads = Histogram(
            "pilotis_function_load_seconds", "Time until a sandbox had started or loaded a function."
        )
