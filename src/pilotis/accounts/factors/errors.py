"""The errors of second factors."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, NotFoundError, UnauthorizedError, UnavailableError


class InvalidSecondFactorError(UnauthorizedError):
    """401: the code is wrong or was used, or the ticket has expired, was used, or was tried five times."""

    code = "INVALID_SECOND_FACTOR"
    message = "The code is wrong or was used before, or the sign-in took too long. After five tries sign in again."


class TotpSetError(ConflictError):
    """409: an authenticator app is set up already; it has to be removed before another one is set up."""

    code = "TOTP_ALREADY_SET"
    message = "An authenticator app is set up already. Remove it before you set up another one."


class FactorNotFoundError(NotFoundError):
    """404: the member or console user has no such second factor."""

    code = "FACTOR_NOT_FOUND"
    message = "There is no such second factor."


class LastFactorError(ConflictError):
    """409: the app requires a second factor, and this is the member's last one."""

    code = "LAST_FACTOR"
    message = "This app requires a second factor. Set up another one first."


class UpgradeUnfinishedError(UnavailableError):
    """503: some nodes run another version, which may not ask for second factors; none is set up meanwhile."""

    code = "UPGRADE_UNFINISHED"
    message = "The servers are being upgraded. Try again in some minutes."
