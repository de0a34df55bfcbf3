"""Ports of their own for sites on one's own machine, where browsers need not find names below `localhost`.

Safari asks the system for `cafe.localhost`, and macOS did not know such names for long. A path instead of a name would
break pages, which link from `/`, and put all sites and the console into one origin.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from pilotis.http.api.hosts import host_of
from pilotis.kit.networks import is_loopback, serves_this_machine

MAX_PORTS = 500
_LOWEST, _COUNT, _TRIES = 20_000, 10_000, 20
_BACKLOG = 64
# No label of a site is this.
_NO_SITE = b"-"

Protocols = Callable[[str], Callable[[], asyncio.Protocol]]
"""Returns what creates the protocol of a connection to a port whose requests are for a host name."""


def needs_ports(host: str, base_url: str, workers: int) -> bool:
    """Whether sites get ports: on macOS, for a server that only its own machine reaches, in a single process."""
    return sys.platform == "darwin" and serves_this_machine(host, base_url) and workers == 1


def other_name(base_url: str) -> str:
    """Return the name of this machine that the console's address does not have: cookies do not tell ports apart."""
    return "127.0.0.1" if urlsplit(base_url).hostname == "localhost" else "localhost"


class SitePorts:
    """Opens a port on the loopback interface for each host name of a site whose address is asked for.

    A name has the same port after a restart, unless another program took it. Beyond `MAX_PORTS` the one whose address
    was not asked for the longest is closed. `name` is what the addresses call this machine.
    """

    def __init__(self, name: str = "localhost") -> None:
        self._name = name
        self._open: OrderedDict[str, tuple[int, asyncio.Task[asyncio.Server]]] = OrderedDict()
        self._protocols: Protocols | None = None

    def attach(self, protocols: Protocols) -> None:
        """Answer requests; until then there are no ports."""
        self._protocols = protocols

    def address(self, host: str) -> str | None:
        """Return the address at which a host name's site is served; None where it has none."""
        if self._protocols is None:
            return None
        if host not in self._open:
            listening = _listening(host)
            if listening is None:
                return None
            loop = asyncio.get_running_loop()
            task = loop.create_task(_served(loop, self._protocols(host), listening))
            self._open[host] = (listening.getsockname()[1], task)
            if len(self._open) > MAX_PORTS:
                _, (_, oldest) = self._open.popitem(last=False)
                oldest.add_done_callback(_close)
        self._open.move_to_end(host)
        return f"http://{self._name}:{self._open[host][0]}"

    async def close(self) -> None:
        """Close all ports."""
        self._protocols = None
        for _, task in self._open.values():
            task.add_done_callback(_close)
        if self._open:
            await asyncio.wait([task for _, task in self._open.values()])
        self._open.clear()


def as_site(application: Callable[..., Any], host: str) -> Callable[..., Any]:
    """Return an ASGI application that takes each request as one for a host name.

    The name that a page used must be this machine's: another one could have been made to lead here (DNS rebinding).
    """

    async def answer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            named = host_of(scope)
            meant = host.encode() if named and is_loopback(named) else _NO_SITE + host.encode()
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope = {**scope, "headers": [*headers, (b"host", meant)]}
        await application(scope, receive, send)

    return answer


def _listening(host: str) -> socket.socket | None:
    """Return a socket that listens at a host name's port, or at the next one that is free; None without any."""
    first = int.from_bytes(hashlib.sha256(host.encode()).digest()[:4])
    for offset in range(_TRIES):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", _LOWEST + (first + offset) % _COUNT))
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
        else:
            return listening
    return None


async def _served(
    loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.Protocol], listening: socket.socket
) -> asyncio.Server:
    return await loop.create_server(protocol, sock=listening)


def _close(opened: asyncio.Task[asyncio.Server]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
