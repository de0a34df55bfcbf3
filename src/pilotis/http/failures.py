"""The one place that turns an exception into an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pilotis.http.endpoint import Reply
from pilotis.kit import json
from pilotis.kit.errors import Detail, PilotisError


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """Every error's body: a code for programs, a sentence for people, and the request's id for the logs."""

    code: str
    message: str
    request_id: str
    details: Sequence[Detail] = ()
    failed_index: int | None = None


def rendered(error: PilotisError, request_id: str) -> Reply:
    """Return the answer that tells of the error."""
    body = ErrorBody(error.code, error.text, request_id, error.details, error.failed_index)
    return Reply(json.encode(body), error.status, header_pairs(error.headers))


def header_pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI takes them; raises `ValueError` for a value with control characters (RFC 9110, 5.5)."""
    if any(not value.isprintable() for value in headers.values()):
        raise ValueError("A header's value holds control characters.")
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
