"""The requests, responses and errors of the client for outgoing requests."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class OutgoingFailure(enum.StrEnum):
    """Why a request got no response. None of them reveals which address was tried."""

    INVALID_URL = "INVALID_URL"
    ADDRESS_NOT_ALLOWED = "ADDRESS_NOT_ALLOWED"
    DNS = "DNS"
    CONNECT = "CONNECT"
    TLS = "TLS"
    TIMEOUT = "TIMEOUT"
    REDIRECT = "REDIRECT"
    PROTOCOL = "PROTOCOL"
    HOST_NOT_ALLOWED = "HOST_NOT_ALLOWED"
    BYTES_USED_UP = "BYTES_USED_UP"


REFUSALS = frozenset(
    (
        OutgoingFailure.INVALID_URL,
        OutgoingFailure.ADDRESS_NOT_ALLOWED,
        OutgoingFailure.HOST_NOT_ALLOWED,
        OutgoingFailure.BYTES_USED_UP,
        OutgoingFailure.REDIRECT,
    )
)
"""The failures that are the client's own decision, not caused by the other end or the network."""

MESSAGES = {
    OutgoingFailure.INVALID_URL: "The URL is invalid.",
    OutgoingFailure.ADDRESS_NOT_ALLOWED: "The host has an address that must not be called from here.",
    OutgoingFailure.DNS: "The host's name could not be resolved.",
    OutgoingFailure.CONNECT: "The connection was refused or lost.",
    OutgoingFailure.TLS: "The host's certificate or TLS configuration was not accepted.",
    OutgoingFailure.TIMEOUT: "The host did not answer in time.",
    OutgoingFailure.REDIRECT: "The host redirects to another address, and redirects are not followed.",
    OutgoingFailure.PROTOCOL: "The request or its answer is invalid HTTP.",
    OutgoingFailure.HOST_NOT_ALLOWED: "The host is not one of those that the function may call.",
    OutgoingFailure.BYTES_USED_UP: "The function has sent and received the maximum number of bytes.",
}


class OutgoingError(Exception):
    """A request could not be sent, or its response could not be read; `failure` is the reason.

    Not an `OSError`, so that no layer mistakes a rejection for a failed connection and tries the next address.
    """

    def __init__(self, failure: OutgoingFailure, message: str | None = None) -> None:
        super().__init__(message or MESSAGES[failure])
        self.failure = failure


class OutgoingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. With an `Idempotency-Key` header it may be retried on a fresh connection."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class OutgoingResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response; `body` has at most the requested number of bytes, and `is_truncated` says that there were more."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_truncated: bool

    def header(self, name: str) -> str | None:
        """Return the first header of the name, ignoring case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class RedirectError(OutgoingError):
    """The response is a redirect, which was not followed; `response` is that response."""

    def __init__(self, response: OutgoingResponse) -> None:
        super().__init__(OutgoingFailure.REDIRECT)
        self.response = response
