"""The guard of outgoing connections: the address that is checked is the address that is connected to.

A name is resolved once for each connection, every address is checked, and the connection goes to a checked one. So a
name that changes its answer between check and connection (DNS rebinding) has no effect. The socket factory checks
again, because literal addresses never reach a resolver.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from pilotis.http.outgoing_resolver import AddressInfo, Resolver
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure
from pilotis.kit.networks import AddressRules

_OWN = "A port of this server itself cannot be called from here."


class Guard:
    """Resolves names and creates sockets under one set of rules; rules None permit everything (a trusted proxy)."""

    def __init__(self, resolver: Resolver, rules: AddressRules | None) -> None:
        self._resolver = resolver
        self._rules = rules

    async def addresses(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Return the host's addresses if each may be connected to; one forbidden address rejects them all.

        Raises `OutgoingError` with `DNS` or `ADDRESS_NOT_ALLOWED`.
        """
        found = await self._resolver.resolve(host, port)
        for *_, address in found:
            self.check(address[0], port)
        return found

    def check(self, address: str, port: int) -> None:
        """Raise `OutgoingError` with `ADDRESS_NOT_ALLOWED` if the IP address must not be connected to."""
        if self._rules is not None and not self._rules.permits(address, port):
            own = _OWN if self._rules.is_own(address, port) else None
            raise OutgoingError(OutgoingFailure.ADDRESS_NOT_ALLOWED, own)

    def open_socket(self, info: AddressInfo) -> socket.socket:
        """Return a socket for the address that is about to be connected to, after checking it."""
        family, kind, protocol, _, address = info
        self.check(address[0], address[1])
        return socket.socket(family, kind, protocol)
