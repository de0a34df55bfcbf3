"""The errors that callers see: each class has an HTTP status and a code.

Services raise them; one place in the endpoint layer renders them. A message says what is wrong and how to correct it;
it never contains SQL, a stack trace or a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import msgspec


class Detail(msgspec.Struct, frozen=True):
    """One invalid field: its dotted name, a code and a sentence."""

    field: str
    code: str
    message: str


class PilotisError(Exception):
    """Base of every error with a status and a code. `details` lists the invalid fields.

    `failed_index` is the index of the failed operation in a request with several. `headers` are added to the answer,
    `extra` are further members of its body.
    """

    status: int = 500
    code: ClassVar[str] = "INTERNAL_ERROR"
    message: ClassVar[str] = "An internal error occurred."

    def __init__(
        self,
        message: str | None = None,
        *,
        details: Sequence[Detail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message or self.message)
        self.details = tuple(details)
        self.headers = dict(headers or {})
        self.failed_index: int | None = None
        self.extra: dict[str, Any] = {}

    def within(self, place: str) -> Self:
        """Prefix each invalid field with `place`; return the error itself."""
        text, details = self.text, []
        for detail in self.details:
            # A list index follows without a dot.
            dot = "" if not detail.field or detail.field.startswith("[") else "."
            field = f"{place}{dot}{detail.field}"
            message = detail.message
            if detail.field and message.startswith((f"{detail.field}: ", f"{detail.field} is ")):
                message = field + message.removeprefix(detail.field)
            text = message if text == detail.message else text
            details.append(Detail(field, detail.code, message))
        self.args, self.details = (text,), tuple(details)
        return self

    def at(self, place: str) -> Self:
        """Name the invalid field by its full path, such as `where.$or[1].colour`; returns the error itself."""
        self.details = (Detail(place, self.code, self.text),)
        return self

    @property
    def text(self) -> str:
        """The sentence shown to the caller."""
        return str(self.args[0])


class BadRequestError(PilotisError):
    """400: the request itself is invalid."""

    status = 400
    code = "BAD_REQUEST"
    message = "The request is invalid."


class UnauthorizedError(PilotisError):
    """401: a credential is missing or invalid."""

    status = 401
    code = "UNAUTHORIZED"
    message = "A valid credential is required."


class ForbiddenError(PilotisError):
    """403: the credential is valid, but the action is not allowed."""

    status = 403
    code = "FORBIDDEN"
    message = "This credential does not allow this action."


class NotFoundError(PilotisError):
    """404: the resource does not exist, or belongs to another app."""

    status = 404
    code = "NOT_FOUND"
    message = "Nothing was found at this address."


class ConflictError(PilotisError):
    """409: the request conflicts with the stored data."""

    status = 409
    code = "CONFLICT"
    message = "The request conflicts with the stored data."


class UnavailableError(PilotisError):
    """503: a part is unavailable or overloaded; the caller may retry."""

    status = 503
    code = "UNAVAILABLE"
    message = "A part of the service is unavailable. Try again shortly."

    def __init__(self, message: str | None = None, *, retry_after: int = 1) -> None:
        super().__init__(message, headers={"Retry-After": str(retry_after)})


class OutcomeUnknownError(UnavailableError):
    """503 `OUTCOME_UNKNOWN`: a change may have been applied: the database or the server ended before it answered."""

    code = "OUTCOME_UNKNOWN"
    message = (
        "The connection to the database was lost before it answered, so the outcome is unknown: the changes of this "
        "request may have been applied. Check before you send it again."
    )


class StorageFullError(PilotisError):
    """507 `STORAGE_FULL`: the server's disk is nearly full; nothing was stored. Reads and deletes still work."""

    status = 507
    code = "STORAGE_FULL"
    message = "The server has too little free disk space to store this. Reading and deleting still work."


class ValidationError(BadRequestError):
    """400 `VALIDATION_FAILED`: one or more fields of the request are invalid; `details` names them."""

    code = "VALIDATION_FAILED"
    message = "Some fields are invalid."


class MalformedJsonError(BadRequestError):
    """400 `MALFORMED_JSON`: the body is not JSON (RFC 8259) in UTF-8, or is nested too deeply."""

    code = "MALFORMED_JSON"
    message = "The body is not valid JSON."


class InvalidIdError(BadRequestError):
    """400 `INVALID_ID`: an identifier in the path is not well-formed."""

    code = "INVALID_ID"
    message = "The identifier is not a UUID."


class QueryTimeoutError(BadRequestError):
    """400 `QUERY_TIMEOUT`: the query did not finish within its time limit."""

    code = "QUERY_TIMEOUT"
    message = "The query took too long and was stopped. Ask for less, or filter on fewer or simpler conditions."


class PayloadTooLargeError(PilotisError):
    """413: the body, a row or a document is larger than its limit."""

    status = 413
    code = "PAYLOAD_TOO_LARGE"
    message = "The body is too large."


class UnsupportedMediaTypeError(PilotisError):
    """415: this route does not accept the body's media type."""

    status = 415
    code = "UNSUPPORTED_MEDIA_TYPE"
    message = "Send the body as JSON, with the header Content-Type: application/json."


class MethodNotAllowedError(PilotisError):
    """405: the path exists, but does not support this method; `Allow` lists the methods it supports."""

    status = 405
    code = "METHOD_NOT_ALLOWED"
    message = "This path does not support this method."


class Standing(NamedTuple):
    """A client's standing with a rate limit: the limit, the remaining requests, and the seconds until it resets."""

    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """Return the `RateLimit-*` headers."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset),
        }


class RateLimitedError(PilotisError):
    """429: too many requests of one kind; `Retry-After` says when to retry."""

    status = 429
    code = "RATE_LIMITED"
    message = "Too many requests. Wait for the time given in Retry-After."

    def __init__(self, standing: Standing | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        """`standing` is that of the exceeded limit; its headers are added to the answer."""
        passed = {**standing.headers(), "Retry-After": str(standing.reset)} if standing else {}
        super().__init__(headers={**passed, **(headers or {})})


def invalid(field: str, message: str, code: str = "INVALID_VALUE") -> ValidationError:
    """Return a `ValidationError` about one field; the sentence is also the error's message."""
    return ValidationError(message, details=[Detail(field, code, message)])
