"""The errors of branches."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError, NotFoundError


class BranchNotFoundError(NotFoundError):
    """404: the app has no branch with this id."""

    code = "BRANCH_NOT_FOUND"
    message = "The app has no branch with this id."


class BranchNameTakenError(ConflictError):
    """409: the app has a branch of this name."""

    code = "BRANCH_NAME_TAKEN"
    message = "The app has a branch of this name. Delete it, or choose another name."


class BranchOfBranchError(BadRequestError):
    """400: a branch has no branches of its own."""

    code = "BRANCH_OF_BRANCH"
    message = "This app is a branch. Create another branch of its parent."


class BranchLimitError(ConflictError):
    """409: the app has as many branches as the limit `branches` allows."""

    code = "BRANCH_LIMIT"
    message = "The app has as many branches as its limit allows. Delete one first."


class BranchNotReadyError(ConflictError):
    """409: the branch is still being created, or could not be."""

    code = "BRANCH_NOT_READY"
    message = "The branch is not ready."


class DifferencesChangedError(ConflictError):
    """409: the branch or its parent has changed since its differences were read."""

    code = "DIFFERENCES_CHANGED"
    message = "The branch or its parent has changed since. Read the differences again."


class MergeConflictError(ConflictError):
    """409: the branch and its parent have both changed a definition."""

    code = "MERGE_CONFLICT"
    message = "Both sides have changed."


class MergeFailedError(ConflictError):
    """409: the parent rejected a change. What the message says was applied before stays."""

    code = "MERGE_FAILED"
    message = "The parent rejected a change."
