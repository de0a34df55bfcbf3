"""The errors of second factors."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, NotFoundError, UnauthorizedError, UnavailableError


class InvalidSecondFactorError(UnauthorizedError):
    """401: the code is wrong or was used, or the ticket has expired, was used, or was tried five times."""

    code = "INVALID_SECOND_FACTOR"
    message = "The code is wrong or was used before, or the sign-in took too long. After five tries sign in again."


class TotpSetError(ConflictError):
    """409: the member has set up an authenticator app; it removes that before it sets up another one."""

    code = "TOTP_ALREADY_SET"
    message = "This member has set up an authenticator app. Remove it before you set up another one."


class FactorNotFoundError(NotFoundError):
    """404: the member has no such second factor."""

    code = "FACTOR_NOT_FOUND"
    message = "This member has no such second factor."


class LastFactorError(ConflictError):
    """409: the app requires a second factor, and this is the member's last one."""

    code = "LAST_FACTOR"
    message = "This app requires a second factor. Set up another one first."


class UpgradeUnfinishedError(UnavailableError):
    """503: some nodes run another version, which may not ask for second factors; none is set up meanwhile."""

    code = "UPGRADE_UNFINISHED"
    message = "The servers are being upgraded. Try again in some minutes."
