"""The errors a caller can be told about: each class carries its HTTP status and its code.

Services raise them; one place in the endpoint layer renders them. A message says what was wrong and what would be
right; it never shows SQL, a stack or a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec


class Detail(msgspec.Struct, frozen=True):
    """One field at fault: its dotted name, a code, and a sentence."""

    field: str
    code: str
    message: str


class PilotisError(Exception):
    """Base of every error with a status and a code. `details` names the fields at fault, `headers` go on the answer.

    `failed_index` is the place of the operation at fault where a request has several.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL_ERROR"
    message: ClassVar[str] = "Something went wrong on our side."

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

    @property
    def text(self) -> str:
        """The sentence shown to the caller."""
        return str(self.args[0])


class BadRequestError(PilotisError):
    """400: the request itself is wrong."""

    status = 400
    code = "BAD_REQUEST"
    message = "The request is not valid."


class UnauthorizedError(PilotisError):
    """401: a credential is missing or bad."""

    status = 401
    code = "UNAUTHORIZED"
    message = "A valid credential is needed."


class ForbiddenError(PilotisError):
    """403: the credential is good, the action is not allowed."""

    status = 403
    code = "FORBIDDEN"
    message = "This credential does not allow that."


class NotFoundError(PilotisError):
    """404: missing, or another app's."""

    status = 404
    code = "NOT_FOUND"
    message = "There is nothing here."


class ConflictError(PilotisError):
    """409: the request conflicts with what is stored."""

    status = 409
    code = "CONFLICT"
    message = "The request conflicts with what is stored."


class UnavailableError(PilotisError):
    """503: a part is unavailable or overloaded; the caller may try again."""

    status = 503
    code = "UNAVAILABLE"
    message = "A part of the service is unavailable. Try again shortly."

    def __init__(self, message: str | None = None, *, retry_after: int = 1) -> None:
        super().__init__(message, headers={"Retry-After": str(retry_after)})


class ValidationError(BadRequestError):
    """400 `VALIDATION_FAILED`: one or more fields of the request are wrong; `details` names them."""

    code = "VALIDATION_FAILED"
    message = "Some fields are not valid."


class MalformedJsonError(BadRequestError):
    """400 `MALFORMED_JSON`: the body is not JSON (RFC 8259) in UTF-8, or is nested too deep."""

    code = "MALFORMED_JSON"
    message = "The body is not valid JSON."


class InvalidIdError(BadRequestError):
    """400 `INVALID_ID`: an identifier in the path has not the form of one."""

    code = "INVALID_ID"
    message = "The identifier is not a UUID."


class QueryTimeoutError(BadRequestError):
    """400 `QUERY_TIMEOUT`: the database spent its whole time allowance on this one request."""

    code = "QUERY_TIMEOUT"
    message = "The query took too long and was stopped. Ask for less, or filter on fewer or simpler conditions."


class PayloadTooLargeError(PilotisError):
    """413: the body, a row or a document is larger than its limit."""

    status = 413
    code = "PAYLOAD_TOO_LARGE"
    message = "The body is too large."


class UnsupportedMediaTypeError(PilotisError):
    """415: the body is not of a media type this route takes."""

    status = 415
    code = "UNSUPPORTED_MEDIA_TYPE"
    message = "Send the body as JSON, with the header Content-Type: application/json."


class MethodNotAllowedError(PilotisError):
    """405: the path exists, but not with this method; `Allow` lists those that do."""

    status = 405
    code = "METHOD_NOT_ALLOWED"
    message = "This path does not take that method."


class RateLimitedError(PilotisError):
    """429: too many requests of one kind; `Retry-After` says when to come back."""

    status = 429
    code = "RATE_LIMITED"
    message = "Too many requests. Wait for the time given in Retry-After."


def invalid(field: str, message: str, code: str = "INVALID_VALUE") -> ValidationError:
    """Return a `ValidationError` about one field; the sentence serves as the error's message too."""
    return ValidationError(message, details=[Detail(field, code, message)])
