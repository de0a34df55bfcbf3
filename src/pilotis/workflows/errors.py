"""The errors of workflows."""

from __future__ import annotations

from pilotis.kit.errors import (
    ConflictError,
    NotFoundError,
    PayloadTooLargeError,
    PilotisError,
    UnavailableError,
)


class WorkflowNotFoundError(NotFoundError):
    """404: the app has no such workflow."""

    code = "WORKFLOW_NOT_FOUND"
    message = "The app has no such workflow."


class WorkflowVersionNotFoundError(NotFoundError):
    """404: the workflow has no such version."""

    code = "VERSION_NOT_FOUND"
    message = "The workflow has no such version."


class WorkflowExecutionNotFoundError(NotFoundError):
    """404: the workflow has no such execution; those that ended more than 30 days ago are deleted."""

    code = "EXECUTION_NOT_FOUND"
    message = "The workflow has no such execution."


class WorkflowNameTakenError(ConflictError):
    """409: another workflow of the app has this name."""

    code = "WORKFLOW_NAME_TAKEN"
    message = "Another workflow of the app has this name."


class WorkflowLimitError(ConflictError):
    """409: the app has the maximum number of workflows."""

    code = "LIMIT_REACHED"
    message = "The app has the maximum number of workflows. Delete one first."


class WorkflowInactiveError(ConflictError):
    """409: the workflow is inactive."""

    code = "WORKFLOW_INACTIVE"
    message = "The workflow is not active."


class ExecutionFinishedError(ConflictError):
    """409: the execution has ended, so it cannot be cancelled."""

    code = "EXECUTION_FINISHED"
    message = "The execution has ended."


class ExecutionNotFinishedError(ConflictError):
    """409: the execution has not ended yet, so it cannot be replayed."""

    code = "EXECUTION_NOT_FINISHED"
    message = "The execution has not ended yet."


class WorkflowQueueFullError(PilotisError):
    """429: the app has the maximum number of pending executions."""

    status = 429
    code = "WORKFLOW_QUEUE_FULL"
    message = "Too many executions of the app are pending. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class InputTooLargeError(PayloadTooLargeError):
    """413: the input of an execution is larger than 1 MiB of compact JSON."""

    code = "INPUT_TOO_LARGE"
    message = "The input of an execution has at most 1,048,576 bytes."


class WorkflowTriggerNotFoundError(NotFoundError):
    """404: no active trigger has this URL, or the workflow has no trigger."""

    code = "TRIGGER_NOT_FOUND"
    message = "There is no such trigger."


class TriggerExistsError(ConflictError):
    """409: the workflow has a trigger URL; `rotate` replaces it."""

    code = "TRIGGER_EXISTS"
    message = "The workflow has a trigger URL. Rotate it to get another one."


class DeliveryInProgressError(ConflictError):
    """409: the same delivery is being accepted by another request."""

    code = "DELIVERY_IN_PROGRESS"
    message = "The same delivery is being accepted. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "5"})


class TriggerRejectedError(PilotisError):
    """400 to 599, as the function says: the workflow's first function rejected the request."""

    status = 400
    code = "TRIGGER_REJECTED"
    message = "The workflow rejected the request."

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TriggerFailedError(UnavailableError):
    """503: the workflow's first function failed, so that the sender tries again."""

    code = "FUNCTION_FAILED"
    message = "The workflow's first function failed. Try again later."


class TriggerTimeoutError(UnavailableError):
    """503: the workflow's first function took too long, so that the sender tries again."""

    code = "FUNCTION_TIMEOUT"
    message = "The workflow's first function took too long. Try again later."
