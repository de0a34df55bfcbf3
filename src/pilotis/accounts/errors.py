"""The errors of proofs."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, UnauthorizedError


class InvalidMailCodeError(UnauthorizedError):
    """401: a mailed code is wrong, used or expired, was entered wrongly too often, or has another ticket."""

    code = "INVALID_MAIL_CODE"
    message = "The code is wrong or no longer valid. After five tries ask for another one."


class EmailVerifiedError(ConflictError):
    """409: the address is the member's, and verified."""

    code = "EMAIL_ALREADY_VERIFIED"
    message = "This member has verified this e-mail address."


class EmailRequiredError(ConflictError):
    """409: the app requires a verified address, so that it can be changed and not removed."""

    code = "EMAIL_REQUIRED"
    message = "This app requires a verified e-mail address. Change it instead."


class LastWayInError(ConflictError):
    """409: without this the member could not sign in any more."""

    code = "LAST_WAY_IN"
    message = "This is the last way to sign in to this account. Add another one first."


class PasswordSetError(ConflictError):
    """409: the member has a password already; `PATCH …/me/password` changes it."""

    code = "PASSWORD_ALREADY_SET"
    message = "This member has a password. Change it with PATCH, and send the current one."
