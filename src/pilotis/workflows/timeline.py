"""The time line of an execution: spans for the tries of its steps, and for the turns and calls of agents. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from pilotis.kit import json
from pilotis.kit.clock import optional_rfc3339, rfc3339
from pilotis.workflows.definition import walk
from pilotis.workflows.event_store import EventRecord
from pilotis.workflows.execution_store import StepRecord
from pilotis.workflows.types import NewWorkflow, Span, Timeline

_KINDS = {"function": "function", "condition": "condition"}


def timeline(definition: NewWorkflow, steps: Iterable[StepRecord], events: Sequence[EventRecord]) -> Timeline:
    """Return the spans of an execution in the order of their start.

    `events` are those of agents and of the starts of steps, in order. They are deleted a day after the end; then agents
    have one span for the whole step.
    """
    names = {one.step.id: one.step for one in walk(definition.steps)}
    spans: list[tuple[datetime, Span]] = []
    for row in steps:
        step = names.get(row.step_id) or names.get(row.step_id.partition("[")[0])
        if step is None or row.started_at is None:
            continue
        began = row.started_at
        is_item = row.step_id != step.id
        kind = "function" if is_item else _KINDS.get(step.step_type, "wait")
        span = Span(
            step_id=row.step_id,
            parent_id=row.parent_id,
            try_=row.try_,
            status=row.status,
            queued_at=rfc3339(began),
            started_at=rfc3339(began + timedelta(milliseconds=row.queue_ms or 0)),
            finished_at=optional_rfc3339(row.finished_at),
            kind=kind,  # type: ignore[arg-type]
            label=step.name or row.step_id,
        )
        spans.append((began, span))
        if row.retry_at is not None and row.finished_at is not None:
            spans.append((row.finished_at, _waiting(span, row.finished_at, row.retry_at)))
    spans += _of_agents(events)
    return Timeline([span for _, span in sorted(spans, key=lambda pair: pair[0])])


def _waiting(span: Span, since: datetime, until: datetime) -> Span:
    """Return the span of the wait before the next try."""
    return Span(
        step_id=span.step_id,
        parent_id=span.parent_id,
        try_=span.try_,
        status="completed",
        queued_at=rfc3339(since),
        started_at=rfc3339(since),
        finished_at=rfc3339(until),
        kind="wait",
        label=span.label,
    )


def _of_agents(events: Sequence[EventRecord]) -> list[tuple[datetime, Span]]:
    """Return the turns of agents, each from the event before it to the model's answer, and the calls of functions."""
    found: list[tuple[datetime, Span]] = []
    before: dict[str, datetime] = {}
    tries: dict[str, int] = {}
    calls: dict[tuple[str, str], tuple[datetime, str]] = {}
    for row in events:
        data, moment = json.decode(row.data.encode()), row.created_at
        step_id = data["step"]["step_id"]
        if row.type == "step.started":
            before[step_id], tries[step_id] = moment, data["step"]["try"]
            continue
        began, kind, label, status = before.get(step_id, moment), "agent_turn", f"turn {data['turn']}", "completed"
        if row.type == "agent.tool_call":
            calls[step_id, data["call_id"]] = (moment, data["name"])
            continue
        if row.type == "agent.tool_result":
            began, label = calls.pop((step_id, data["call_id"]), (moment, data["call_id"]))
            kind, status = "tool", "failed" if data["status"] == "error" else "completed"
        before[step_id] = moment
        span = Span(
            step_id=step_id,
            parent_id=step_id,
            try_=tries.get(step_id, 1),
            status=status,  # type: ignore[arg-type]
            queued_at=rfc3339(began),
            started_at=rfc3339(began),
            finished_at=rfc3339(moment),
            kind=kind,  # type: ignore[arg-type]
            label=label,
        )
        found.append((began, span))
    return found
