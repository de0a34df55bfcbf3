"""The guard of outgoing connections: the address that is checked is the address that is connected to.

A name is resolved once for each connection, every address is checked, and the connection goes to a checked one. So a
name that changes its answer between check and connection (DNS rebinding) has no effect. The socket factory checks
again, because literal addresses never reach a resolver.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure
from pilotis.kit.networks import AddressRules

RESOLVE_SECONDS = 5.0
_RESOLVER_THREADS = 8

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
"""What `socket.getaddrinfo` returns a list of: family, type, protocol, canonical name, address."""

Lookup = Callable[[str, int], Sequence[AddressInfo]]
"""Resolves a name and a port as `socket.getaddrinfo` does; blocks, and raises `OSError`."""


class ResolverThreads:
    """Resolves names in its own threads, so that a slow DNS server delays neither the event loop nor file I/O."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or _system_lookup
        self._threads = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="resolve")

    async def resolve(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Return the addresses of a host, at least one; raises `OutgoingError` with `DNS`."""
        pending = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host, port)
        try:
            found = await asyncio.wait_for(pending, RESOLVE_SECONDS)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise OutgoingError(OutgoingFailure.DNS)
        return found

    def close(self) -> None:
        """Stop the threads, without waiting for a DNS server."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Guard:
    """Resolves names and creates sockets under one set of rules; rules None permit everything (a trusted proxy)."""

    def __init__(self, threads: ResolverThreads, rules: AddressRules | None) -> None:
        self._threads = threads
        self._rules = rules

    async def addresses(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Return the host's addresses if each may be connected to; one forbidden address rejects them all.

        Raises `OutgoingError` with `DNS` or `ADDRESS_NOT_ALLOWED`.
        """
        found = await self._threads.resolve(host, port)
        for *_, address in found:
            self.check(address[0], port)
        return found

    def check(self, address: str, port: int) -> None:
        """Raise `OutgoingError` with `ADDRESS_NOT_ALLOWED` if the IP address must not be connected to."""
        if self._rules is not None and not self._rules.permits(address, port):
            raise OutgoingError(OutgoingFailure.ADDRESS_NOT_ALLOWED)

    def open_socket(self, info: AddressInfo) -> socket.socket:
        """Return a socket for the address that is about to be connected to, after checking it."""
        family, kind, protocol, _, address = info
        self.check(address[0], address[1])
        return socket.socket(family, kind, protocol)


def _system_lookup(host: str, port: int) -> Sequence[AddressInfo]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
