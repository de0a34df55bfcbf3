"""The errors of passkeys."""

from __future__ import annotations

from pilotis.kit.errors import ConflictError, NotFoundError, UnauthorizedError


class InvalidPasskeyError(UnauthorizedError):
    """401: what the browser sent proves no passkey of this app, or its ticket has expired or was used."""

    code = "INVALID_PASSKEY"
    message = "This passkey is not known here, or took too long. Try again."


class TooManyPasskeysError(ConflictError):
    """409: the member has ten passkeys."""

    code = "TOO_MANY_PASSKEYS"
    message = "This member has 10 passkeys. Remove one first."


class PasskeyNotFoundError(NotFoundError):
    """404: the member has no such passkey."""

    code = "PASSKEY_NOT_FOUND"
    message = "This member has no such passkey."
