"""The rules for a webhook's custom headers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pilotis.webhooks.errors import InvalidHeaderError
from pilotis.webhooks.types import MASK

MAX_BYTES = 1024
"""Size limit of the names and values of all custom headers together."""

# RFC 9110, section 5.1: a token.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e]*")
_RESERVED = frozenset(
    ("accept", "connection", "cookie", "expect", "host", "idempotency-key", "keep-alive", "te", "trailer")
) | {"transfer-encoding", "upgrade", "user-agent"}
_RESERVED_PREFIXES = ("accept-", "content-", "proxy-", "webhook-", "x-service-")


def checked_headers(given: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to store; the value `•••` keeps the stored one. Raises `InvalidHeaderError`."""
    known = {name.lower(): value for name, value in stored.items()}
    headers: dict[str, str] = {}
    for name, value in given.items():
        if value == MASK and name.lower() in known:
            value = known[name.lower()]
        _check(name, value)
        headers[name] = value
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidHeaderError("Two custom headers have the same name.")
    if sum(len(name) + len(value) for name, value in headers.items()) > MAX_BYTES:
        raise InvalidHeaderError(f"The custom headers have at most {MAX_BYTES} bytes together.")
    return headers


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidHeaderError("The name of a custom header must have at most 100 letters, digits and hyphens.")
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
        raise InvalidHeaderError(f"The header {name} is set by Pilotis, or concerns the connection.")
    if not _VALUE.fullmatch(value) or value != value.strip():
        raise InvalidHeaderError(
            f"The value of {name} must have printable ASCII characters, without spaces at its ends."
        )
