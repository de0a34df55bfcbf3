"""The types of events about executions of workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import by_itself
from pilotis.workflows.claim_store import CancelledExecution


class WorkflowError(msgspec.Struct, frozen=True):
    """Why an execution ended: `step_id` names the step that failed, if one did."""

    code: str
    message: str
    step_id: str | None = None


class WorkflowEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of an execution's start or end: its state, and the reason of a failure; read the output with its route."""

    workflow_id: UUID
    execution_id: UUID
    status: str
    trigger: str
    attempt: int
    error: WorkflowError | None = None


_ID = UUID("0199c0de-0000-7000-8000-00000000f10e")


def subject(workflow_id: UUID, execution_id: UUID) -> str:
    """Return the reference to an execution in events; statements compose the same."""
    return f"workflows/{workflow_id}/executions/{execution_id}"


def _type(name: str, description: str, error: WorkflowError | None = None) -> EventType[WorkflowEvent]:
    status = "running" if name == "started" else name
    example = WorkflowEvent(workflow_id=_ID, execution_id=_ID, status=status, trigger="manual", attempt=1, error=error)
    return EventType(
        name=f"workflow.{name}", scope="workflows:read", data=WorkflowEvent, description=description, example=example
    )


_FAILED = WorkflowError("FUNCTION_ERROR", "Error: the card was declined", "charge")
_TIMEOUT = WorkflowError("EXECUTION_TIMEOUT", "The execution reached its time limit of 60 seconds.")
STARTED = _type("started", "An execution of a workflow began to run.")
ENDED = {
    "completed": _type("completed", "An execution of a workflow completed."),
    "failed": _type("failed", "An execution of a workflow failed.", _FAILED),
    "cancelled": _type("cancelled", "An execution of a workflow was cancelled."),
    "timeout": _type("timeout", "An execution of a workflow reached its time limit.", _TIMEOUT),
}
EVENT_TYPES: tuple[EventType[Any], ...] = (STARTED, *ENDED.values())


def cancellations(rows: Sequence[CancelledExecution]) -> list[NewEvent]:
    """Return the events of executions that ended when they were asked to, because they had not begun."""
    return [
        ENDED["cancelled"].event(
            WorkflowEvent(
                workflow_id=row.workflow_id,
                execution_id=row.execution_id,
                status="cancelled",
                trigger=row.trigger_type,
                attempt=row.attempt,
            ),
            by_itself(row.request_id),
            subject=subject(row.workflow_id, row.execution_id),
            depth=row.depth,
        )
        for row in rows
        if row.status == "cancelled"
    ]
