"""The errors of an app's own event types, and of publishing."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError, NotFoundError, PilotisError


class EventTypeNotFoundError(NotFoundError):
    """404: the app has not declared this event type."""

    code = "EVENT_TYPE_NOT_FOUND"
    message = "The app has not declared this event type."


class InvalidEventTypeError(BadRequestError):
    """400: the name is not two or more lower-case words joined by dots, or has the prefix of a built-in one."""

    code = "INVALID_EVENT_TYPE"
    message = "The name must be two or more lower-case words joined by dots, such as order.created."


class InvalidSourceError(BadRequestError):
    """400: a domain event cannot be derived from this source, such as an encrypted or unknown column."""

    code = "INVALID_SOURCE"
    message = "The source is invalid."


class TooManyEventTypesError(ConflictError):
    """409: the app has declared the maximum number of event types."""

    code = "TOO_MANY_EVENT_TYPES"
    message = "The app has declared the maximum number of event types. Delete one first."


class UndeclaredEventTypeError(BadRequestError):
    """400: an event of a type that the app has not declared cannot be published."""

    code = "UNKNOWN_EVENT_TYPE"
    message = "The app has not declared this event type."


class UnknownMemberError(BadRequestError):
    """400: the event names a member that the app does not have."""

    code = "MEMBER_NOT_FOUND"
    message = "The app has no such member."


class EventTooLargeError(PilotisError):
    """413: the data of an event has more than 64 KB."""

    status = 413
    code = "EVENT_TOO_LARGE"
    message = "The data of an event has at most 64 KB."


class InvalidTimestampError(BadRequestError):
    """400: the time of an event is more than 7 days ago, or in the future."""

    code = "INVALID_TIMESTAMP"
    message = "The timestamp must be within the last 7 days."
