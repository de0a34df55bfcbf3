"""Virtual hosts: the `Host` header decides which of several applications answers a request.

hosts = Hosts(application)
hosts.add(lambda host: host.endswith(".sites.example"), application.area(sites.answer))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache

from pilotis.http.api.request import Receive, Scope, Send

Area = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application (ASGI 3) that answers the requests for some hosts."""


_MAX_CACHED = 300
"""Bytes. A name has up to 253 (RFC 1035, section 2.3.4)."""


class Hosts:
    """An ASGI application that passes each request to the area of its host, or to `api` if no area matches."""

    def __init__(self, api: Area) -> None:
        self._api = api
        self._areas: list[tuple[Callable[[str], bool], Area]] = []

    def add(self, predicate: Callable[[str], bool], area: Area) -> None:
        """Add an area for the hosts that match the predicate; areas are tried in the order of their addition.

        The predicate gets the name in lower case, without port and trailing dot, and must be fast.
        """
        self._areas.append((predicate, area))

    def is_area(self, header: bytes) -> bool:
        """Return whether an area of its own answers requests with this `Host` header."""
        host = _cached(header) if len(header) < _MAX_CACHED else normalised_host(header.decode("latin-1"))
        for predicate, _ in self._areas:  # noqa: SIM110 - a generator costs more than most predicates
            if predicate(host):
                return True
        return False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._areas and scope["type"] == "http":
            host = host_of(scope)
            for predicate, area in self._areas:
                if host is not None and predicate(host):
                    return await area(scope, receive, send)
        return await self._api(scope, receive, send)


def host_of(scope: Scope) -> str | None:
    """Return the one host that a request names; None without one, or with several, for which no area may be chosen."""
    named = [value for name, value in scope["headers"] if name == b"host"]
    if len(named) != 1:
        return None
    return _cached(named[0]) if len(named[0]) < _MAX_CACHED else normalised_host(named[0].decode("latin-1"))


@lru_cache(1024)
def _cached(header: bytes) -> str:
    # Nearly every request names one of a few hosts.
    return normalised_host(header.decode("latin-1"))


def normalised_host(authority: str) -> str:
    """Return the host of `host[:port]` (RFC 3986, section 3.2) in lower case, without a trailing dot."""
    host = authority.strip().lower()
    name, separator, port = host.rpartition(":")
    # The colons of an IPv6 address are inside brackets.
    if separator and port.isdigit() and (not name.startswith("[") or name.endswith("]")):
        host = name
    return host.removesuffix(":").removesuffix(".")
