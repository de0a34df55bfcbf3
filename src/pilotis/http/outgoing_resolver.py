"""Resolves the names of outgoing connections: by the hosts file, then by name servers, within a share for each tenant.

Queries are this process's own and are cancelled at their deadline. The system's `getaddrinfo` would need a thread for
each lookup, which goes on after the deadline: an app whose name servers do not answer would delay all others.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver as NameServers

RESOLVE_SECONDS = 5.0
CONCURRENT_LOOKUPS = 16
"""How many names of a tenant are looked up at a time."""
FAILED_SECONDS = 5.0
"""How long a name that was not found is not looked up again."""
_MAX_FAILED = 10_000
_CONFIGURATION_SECONDS = 30.0
_HOSTS = Path("/etc/hosts")

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
"""What `socket.getaddrinfo` returns a list of: family, type, protocol, canonical name, address."""

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a name; raises `OSError` if there are none."""

TENANT: ContextVar[Hashable] = ContextVar("TENANT", default=None)
"""For whom this task connects. aiohttp looks names up in tasks of its own, which inherit it."""


class Resolver:
    """Resolves names; `lookup` replaces the system's hosts file and name servers."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or SystemNames().lookup
        self._shares: dict[Hashable, tuple[asyncio.Semaphore, list[None]]] = {}
        self._failed: OrderedDict[str, float] = OrderedDict()

    async def resolve(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Return the addresses of a host, at least one; raises `OutgoingError` with `DNS`."""
        if literal := _literal(host, port):
            return literal
        if self._failed.get(host, 0.0) > time.monotonic():
            raise OutgoingError(OutgoingFailure.DNS)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS), self._share():
                found = [info for address in await self._lookup(host) for info in _literal(address, port)]
        except (OSError, UnicodeError):
            found = []
        if not found:
            self._fail(host)
            raise OutgoingError(OutgoingFailure.DNS)
        return found

    @asynccontextmanager
    async def _share(self) -> AsyncGenerator[None]:
        tenant = TENANT.get()
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = asyncio.Semaphore(CONCURRENT_LOOKUPS), []
        semaphore, users = share
        users.append(None)
        try:
            async with semaphore:
                yield
        finally:
            users.pop()
            if not users:
                del self._shares[tenant]

    def _fail(self, host: str) -> None:
        self._failed[host] = time.monotonic() + FAILED_SECONDS
        self._failed.move_to_end(host)
        if len(self._failed) > _MAX_FAILED:
            self._failed.popitem(last=False)


class SystemNames:
    """The names of this machine's hosts file and of its name servers."""

    def __init__(self) -> None:
        self._hosts: dict[str, list[str]] = {}
        self._hosts_known: tuple[int, int] | None = None
        self._servers: NameServers | None = None
        self._servers_until = 0.0

    async def lookup(self, host: str) -> Sequence[str]:
        """Return the IP addresses of a name; raises `OSError`."""
        name = host.lower().rstrip(".")
        if found := self._of_hosts_file(name):
            return found
        if name == "localhost":
            return ["127.0.0.1", "::1"]
        return await self._query(host)

    def _of_hosts_file(self, name: str) -> list[str]:
        try:
            status = _HOSTS.stat()
        except OSError:
            return []
        known = (status.st_mtime_ns, status.st_size)
        if known != self._hosts_known:
            self._hosts, self._hosts_known = read_hosts(_HOSTS.read_text("utf-8", "replace")), known
        return self._hosts.get(name, [])

    async def _query(self, host: str) -> list[str]:
        # Imported for the first query, because it takes 5 MB.
        asyncresolver = await asyncio.to_thread(importlib.import_module, "dns.asyncresolver")
        from dns import exception

        if self._servers is None or time.monotonic() >= self._servers_until:
            self._servers = asyncresolver.Resolver()
            self._servers_until = time.monotonic() + _CONFIGURATION_SECONDS
        servers = self._servers
        assert servers is not None

        async def records(kind: str) -> list[str]:
            try:
                answer = await servers.resolve(
                    host, kind, search=True, lifetime=RESOLVE_SECONDS, raise_on_no_answer=False
                )
            except exception.DNSException:
                return []
            return [record.address for record in answer.rrset or ()]

        four, six = await asyncio.gather(records("A"), records("AAAA"))
        return [*four, *six]


def read_hosts(text: str) -> dict[str, list[str]]:
    """Return the addresses by name of a hosts file (hosts(5))."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            found.setdefault(name.lower(), []).append(address)
    return found


def _literal(host: str, port: int) -> list[AddressInfo]:
    """Return the address that a host is, in whatever spelling `getaddrinfo` knows; empty for a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
