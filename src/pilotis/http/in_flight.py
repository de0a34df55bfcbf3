"""Limits the bytes of bodies and answers in memory: of the process, of each app, of each client address.

Bytes are acquired before they are read or sent, and released when the request ends. What a connection buffers anyway,
64 KiB in each direction, is not counted, so that small requests cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from pilotis.kit.errors import RateLimitedError, UnavailableError

UNCOUNTED_BYTES = 64 * 1024
_RETRY_SECONDS = 2


class TooMuchInFlightError(RateLimitedError):
    """429 `TOO_MUCH_IN_FLIGHT`: the requests and answers in flight of the app, or of the address, are too large."""

    code = "TOO_MUCH_IN_FLIGHT"
    message = "The requests and answers in flight are too large together. Wait for some of them to end."


class InFlightLimits(NamedTuple):
    """The maximum bytes in flight: of the process, of one app, of one client address."""

    process: int
    app: int
    client: int


class InFlight:
    """The bytes in flight in this process."""

    def __init__(self, limits: InFlightLimits) -> None:
        self._limits = limits
        self._by_owner: dict[Hashable, int] = {}
        self.total = 0

    def acquire(self, size: int, app: Hashable, client: Hashable) -> None:
        """Count bytes before they are in memory; raises `TooMuchInFlightError`, or `UnavailableError` for the process.

        A client's first request is always accepted, however small the client's limit.
        """
        limits, held = self._limits, self._by_owner
        retry = {"Retry-After": str(_RETRY_SECONDS)}
        for owner, max_bytes in ((client, limits.client), (app, limits.app)):
            if owner is not None and (used := held.get(owner, 0)) and used + size > max_bytes:
                raise TooMuchInFlightError(headers=retry)
        if self.total and self.total + size > limits.process:
            raise UnavailableError(
                "The requests and answers in the server's memory have reached their limit. Try again shortly.",
                retry_after=_RETRY_SECONDS,
            )
        self.total += size
        for owner in (client, app):
            if owner is not None:
                held[owner] = held.get(owner, 0) + size

    def release(self, size: int, app: Hashable, client: Hashable) -> None:
        """Release bytes that were acquired."""
        self.total -= size
        for owner in (client, app):
            if owner is not None:
                rest = self._by_owner[owner] - size
                if rest:
                    self._by_owner[owner] = rest
                else:
                    del self._by_owner[owner]


class Reservation:
    """The bytes in flight of one request; grows as needed, and is released with the request."""

    __slots__ = ("_app", "_client", "_in_flight", "size")

    def __init__(self, in_flight: InFlight, app: Hashable, client: Hashable) -> None:
        self._in_flight = in_flight
        self._app = app
        self._client = client
        self.size = 0

    def grow(self, size: int) -> None:
        """Acquire more bytes; raises as `InFlight.acquire` does, and then keeps what it had."""
        self._in_flight.acquire(size, self._app, self._client)
        self.size += size

    def release(self) -> None:
        """Release all bytes."""
        if self.size:
            self._in_flight.release(self.size, self._app, self._client)
            self.size = 0
