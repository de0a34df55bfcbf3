"""The errors of functions. Those of calls that could not start are in `runtime.types`."""

from __future__ import annotations

from pilotis.kit.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PayloadTooLargeError,
    UnauthorizedError,
)


class FunctionNotFoundError(NotFoundError):
    """404: the app has no such function."""

    code = "FUNCTION_NOT_FOUND"
    message = "The app has no such function."


class FunctionNameTakenError(ConflictError):
    """409: another function of the app has this name."""

    code = "FUNCTION_NAME_TAKEN"
    message = "Another function of the app has this name."


class FunctionLimitError(ConflictError):
    """409: the app has reached its limit of functions, variables or triggers."""

    code = "LIMIT_REACHED"
    message = "The app has reached its limit of functions."


class FunctionInUseError(ConflictError):
    """409: workflows call the function; `details` names them. Change them first, or delete with `force=true`."""

    code = "FUNCTION_IN_USE"
    message = "Workflows call this function. Change them first, or delete it with force=true."


class FunctionInactiveError(ForbiddenError):
    """403: the function is disabled."""

    code = "FUNCTION_INACTIVE"
    message = "The function is not active."


class FunctionNotDeployedError(ConflictError):
    """409: the function has no active version."""

    code = "FUNCTION_NOT_DEPLOYED"
    message = "The function has no active version. Deploy one first."


class FunctionMemberRequiredError(UnauthorizedError):
    """401 `MEMBER_TOKEN_REQUIRED`: only signed-in members may call the function."""

    code = "MEMBER_TOKEN_REQUIRED"
    message = "Only signed-in members may call this function. Send a member's token as Authorization: Bearer …."


class EventLoopError(ConflictError):
    """409: a chain of functions that call or trigger each other is more than five calls long."""

    code = "EVENT_LOOP"
    message = "Functions called each other more than five times in a chain."


class EgressRequiredError(ForbiddenError):
    """403: a function asked for a token, but its `egress` does not permit the server's own address."""

    code = "EGRESS_REQUIRED"
    message = (
        "A token is of use only to a function whose egress permits the server's own address: see docs/functions.md."
    )


class VersionNotFoundError(NotFoundError):
    """404: the function has no such version, or its source is no longer stored."""

    code = "VERSION_NOT_FOUND"
    message = "The function has no such version."


class VersionNotReadyError(ConflictError):
    """409: only a version that is ready can be activated."""

    code = "VERSION_NOT_READY"
    message = "This version is not ready."


class EntrypointNotFoundError(BadRequestError):
    """400: the files do not include the entry file."""

    code = "ENTRYPOINT_NOT_FOUND"
    message = "The files do not include an entry file: index.ts, index.js, index.mjs or index.cjs, or main.py."


class InvalidArchiveError(BadRequestError):
    """400: the zip archive is damaged, or contains entries that are not allowed; `details` name them."""

    code = "INVALID_ARCHIVE"
    message = "The archive is not a valid zip file of a function."


class SourceTooLargeError(PayloadTooLargeError):
    """413: the function has too many files, or they are too large."""

    code = "SOURCE_TOO_LARGE"
    message = "The files of the function are too large."


class SourceInvalidError(BadRequestError):
    """400: the source has a syntax error or cannot be loaded; the message contains file and line."""

    code = "SOURCE_INVALID"
    message = "The source cannot be loaded."


class VariableNotFoundError(NotFoundError):
    """404: the variable does not exist."""

    code = "VARIABLE_NOT_FOUND"
    message = "The variable does not exist."


class InvalidVariableNameError(BadRequestError):
    """400: the name of a variable is not valid, or is reserved by Pilotis or the runtime."""

    code = "INVALID_VARIABLE_NAME"
    message = (
        "A variable's name must have at most 64 characters out of capital letters, digits and _, and must not start "
        "with a digit, PILOTIS_, DENO_, NODE_, LD_ or PYTHON."
    )


class UsedAsHookError(ConflictError):
    """409: the app's account settings bind the function to sign-ups, sign-ins or mails."""

    code = "USED_AS_HOOK"
    message = "The account settings of this app use the function as a hook. Remove it there first."


class ExecutionNotFoundError(NotFoundError):
    """404: the execution is not recorded: most successful calls are only counted."""

    code = "EXECUTION_NOT_FOUND"
    message = "This execution is not recorded. Not every successful call is recorded."


class TriggerNotFoundError(NotFoundError):
    """404: the function has no such trigger."""

    code = "TRIGGER_NOT_FOUND"
    message = "The function has no such trigger."


class TriggerStorageNotFoundError(NotFoundError):
    """404: the app has no file or web storage with the id that a trigger names."""

    code = "STORAGE_NOT_FOUND"
    message = "The app has no storage with this storage_id."


class InvalidCronError(BadRequestError):
    """400: the cron expression is not valid."""

    code = "INVALID_CRON"
    message = "The cron expression is not valid."
