"""The errors of plans."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, NotFoundError


class PlanNotFoundError(NotFoundError):
    """404 `PLAN_NOT_FOUND`: the server has no plan of this name."""

    code = "PLAN_NOT_FOUND"
    message = "The server has no plan of this name. `pilotis plan list` shows them."


class InvalidPlanError(BadRequestError):
    """400 `INVALID_PLAN`: a plan names a limit or a quota that does not exist, or a value that it may not have."""

    code = "INVALID_PLAN"
