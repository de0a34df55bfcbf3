"""What a process counts of the executions of workflows that it runs."""

from __future__ import annotations

from pilotis.kit.metrics import LONG_BUCKETS, Counter, Counts, Histogram


class WorkflowCounts(Counts):
    """The metrics of workflows."""

    def __init__(self) -> None:
        self.executions = Counter(
            "pilotis_workflow_executions", "Executions of workflows that have ended.", ("trigger", "status")
        )
        self.seconds = Histogram("pilotis_workflow_seconds", "Duration of executions.", LONG_BUCKETS)
        self.queues = Histogram("pilotis_workflow_queue_seconds", "Time before an execution started.")
        self.lags = Histogram(
            "pilotis_workflow_schedule_lag_seconds", "Time from a schedule's slot to its execution's insertion."
        )
        self.recoveries = Counter("pilotis_workflow_recoveries", "Executions continued after their process was lost.")
        self.lost_leases = Counter(
            "pilotis_workflow_lost_leases", "Executions given up because another process holds them."
        )
        self.skipped = Counter("pilotis_workflow_schedule_skipped", "Slots of schedules without an execution.")
        self.triggers = Counter(
            "pilotis_trigger_requests",
            "Requests to trigger URLs: accepted, duplicate, or the code of the error.",
            ("outcome",),
        )
        self.tokens = Counter("pilotis_agent_tokens", "Tokens of agents' models.", ("kind",))
