"""The errors of webhooks."""

from __future__ import annotations

from pilotis.kit.errors import BadRequestError, ConflictError, ForbiddenError, NotFoundError


class WebhookNotFoundError(NotFoundError):
    """404: the app has no such webhook."""

    code = "WEBHOOK_NOT_FOUND"
    message = "The app has no such webhook."


class DeliveryNotFoundError(NotFoundError):
    """404: the webhook has no such delivery, or it has been deleted."""

    code = "DELIVERY_NOT_FOUND"
    message = "The webhook has no such delivery."


class InvalidUrlError(BadRequestError):
    """400: the URL cannot be called: it is invalid, or has a user name, a fragment or another scheme than https."""

    code = "INVALID_URL"
    message = "The URL is invalid."


class AddressNotAllowedError(BadRequestError):
    """400: the URL leads to an address that must not be called, or uses http where https is required."""

    code = "ADDRESS_NOT_ALLOWED"
    message = "The URL must be https and lead to a public address."


class UnknownEventTypeError(BadRequestError):
    """400: no event type has this name or this prefix."""

    code = "UNKNOWN_EVENT_TYPE"
    message = "The event type does not exist."


class InvalidHeaderError(BadRequestError):
    """400: a custom header is reserved, too long, or has characters other than printable ASCII."""

    code = "INVALID_HEADER"
    message = "A custom header is invalid."


class ClientNotLinkedError(ForbiddenError):
    """403: the app does not own this OAuth client of the provider."""

    code = "CLIENT_NOT_LINKED"
    message = "This OAuth client is not linked to the app."


class TooManyWebhooksError(ConflictError):
    """409: the app has the maximum number of webhooks."""

    code = "TOO_MANY_WEBHOOKS"
    message = "The app has the maximum number of webhooks. Delete one first."


class EventExpiredError(ConflictError):
    """409: the event is no longer stored, so its delivery cannot be sent again."""

    code = "EVENT_EXPIRED"
    message = "The event is no longer stored."


class WebhookDisabledError(ConflictError):
    """409: the webhook is disabled; activate it first."""

    code = "WEBHOOK_DISABLED"
    message = "The webhook is disabled. Set is_active to true first."


class TestNotRepeatableError(ConflictError):
    """409: a test is not resent; send a new one."""

    code = "TEST_NOT_REPEATABLE"
    message = "A test delivery cannot be resent. Send a new test."
