"""The types of events about executions of workflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Record

from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import SYSTEM


class WorkflowEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of an execution's start or end. `error_code` is the reason of a failure; read the output with its route."""

    workflow_id: UUID
    execution_id: UUID
    trigger: str
    attempt: int
    error_code: str | None = None


_ID = UUID("0199c0de-0000-7000-8000-00000000f10e")


def _type(name: str, description: str, error_code: str | None = None) -> EventType[WorkflowEvent]:
    example = WorkflowEvent(workflow_id=_ID, execution_id=_ID, trigger="manual", attempt=1, error_code=error_code)
    return EventType(
        name=f"workflow.{name}", scope="workflows:read", data=WorkflowEvent, description=description, example=example
    )


STARTED = _type("started", "An execution of a workflow began to run.")
ENDED = {
    "completed": _type("completed", "An execution of a workflow completed."),
    "failed": _type("failed", "An execution of a workflow failed.", "STEP_FAILED"),
    "cancelled": _type("cancelled", "An execution of a workflow was cancelled."),
    "timeout": _type("timeout", "An execution of a workflow reached its time limit.", "EXECUTION_TIMEOUT"),
}
EVENT_TYPES: tuple[EventType[Any], ...] = (STARTED, *ENDED.values())


def cancellations(rows: Sequence[Record]) -> list[NewEvent]:
    """Return the events of executions that ended when they were asked to, because they had not begun."""
    return [
        ENDED["cancelled"].event(
            WorkflowEvent(
                workflow_id=row["workflow_id"],
                execution_id=row["execution_id"],
                trigger=row["trigger_type"],
                attempt=row["attempt"],
            ),
            SYSTEM,
            subject=str(row["execution_id"]),
            depth=row["depth"],
        )
        for row in rows
        if row["status"] == "cancelled"
    ]
