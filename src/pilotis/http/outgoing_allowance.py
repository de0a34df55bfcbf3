"""The allowance of one execution of an app's code: hosts by name and port, and bytes sent and received. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure

WEB_PORTS = frozenset((80, 443))
_PATTERN = re.compile(r"(\*\.)?([a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*)(?::([0-9]{1,5}))?")
_MAX_CHARACTERS = 260


class HostPattern(NamedTuple):
    """A host such as `api.example.com`, or `*.` for all names below one; `port` None means 80 and 443."""

    name: str
    is_wildcard: bool
    port: int | None

    def matches(self, host: str, port: int) -> bool:
        """Return whether the pattern matches the host, in ASCII, and the port."""
        host = host.lower().rstrip(".")
        named = host.endswith("." + self.name) if self.is_wildcard else host == self.name
        return named and (port in WEB_PORTS if self.port is None else port == self.port)


def parse_host(text: str) -> HostPattern:
    """Parse a pattern such as `*.example.com:8443`; raises `ValueError` with a sentence."""
    found = _PATTERN.fullmatch(text.lower()) if len(text) <= _MAX_CHARACTERS else None
    if found is None or (found[3] and not 0 < int(found[3]) < 65536):
        raise ValueError("A host must be a name such as api.example.com or *.example.com, optionally with a port.")
    return HostPattern(found[2], bool(found[1]), int(found[3]) if found[3] else None)


class Allowance:
    """The hosts and bytes left to one execution. Without `hosts` every host is permitted on ports 80 and 443."""

    def __init__(self, hosts: Sequence[HostPattern] | None, max_bytes: int) -> None:
        self._hosts = hosts
        self.bytes_left = max_bytes

    def check_host(self, host: str, port: int) -> None:
        """Raise `OutgoingError` with `HOST_NOT_ALLOWED` for a host that is not in the list."""
        if self._hosts is None:
            permitted = port in WEB_PORTS
        else:
            permitted = any(pattern.matches(host, port) for pattern in self._hosts)
        if not permitted:
            raise OutgoingError(OutgoingFailure.HOST_NOT_ALLOWED)

    def count(self, number: int) -> None:
        """Count bytes sent or received; raises `OutgoingError` with `BYTES_USED_UP` beyond the allowance."""
        self.bytes_left -= number
        if self.bytes_left < 0:
            raise OutgoingError(OutgoingFailure.BYTES_USED_UP)
