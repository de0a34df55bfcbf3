"""Web origins (RFC 6454, section 6.2), as browsers send them in the `Origin` header. Pure."""

from __future__ import annotations

import re

from pilotis.kit.errors import invalid

_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:(?P<port>\d{1,5}))?/?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def canonical_origins(texts: list[str], field: str) -> list[str]:
    """Return the distinct origins as browsers write them.

    Raises a validation error that names the first invalid one.
    """
    return list(dict.fromkeys(_canonical(text, f"{field}[{index}]") for index, text in enumerate(texts)))


def _canonical(text: str, field: str) -> str:
    match = _ORIGIN.fullmatch(text.lower()) if text.isascii() else None
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise invalid(
            field, "An origin must be a scheme, a host and optionally a port, such as https://example.com:8443."
        )
    port = int(match["port"]) if match["port"] else None
    shown = "" if port is None or str(port) == _DEFAULT_PORTS.get(match["scheme"]) else f":{port}"
    return f"{match['scheme']}://{match['host']}{shown}"
