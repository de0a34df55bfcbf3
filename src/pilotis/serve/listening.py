"""The sockets on which a server listens: its own port, or those of HTTPS and of the redirects to it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from pilotis.serve.errors import CommandError
from pilotis.settings import Settings

_BACKLOG = 2048
_ACCEPTED, _ACCEPTED_OF_SEVERAL = 8, 2
_FIRST_DESCRIPTOR = 3
_ALL = "0.0.0.0"  # noqa: S104
_WAYS = (
    "Give it the capability CAP_NET_BIND_SERVICE, let systemd open the sockets (docs/operating.md), or set https_port "
    "and http_port to ports to which 443 and 80 are forwarded."
)


class Listening(NamedTuple):
    """The sockets that answer requests, by TLS if HTTPS is on, and those of the port without TLS beside it."""

    main: Sequence[socket.socket]
    plain: Sequence[socket.socket]

    @property
    def ports(self) -> set[int]:
        """The ports of all sockets."""
        return {one.getsockname()[1] for one in (*self.main, *self.plain)}

    @property
    def url(self) -> str:
        """The URL of the first socket: host and port, or the address of HTTPS."""
        first = self.main[0]
        host, port = first.getsockname()[:2]
        scheme = "https" if self.plain else "http"
        return f"{scheme}://[{host}]:{port}" if first.family == socket.AF_INET6 else f"{scheme}://{host}:{port}"


@contextmanager
def listening(settings: Settings) -> Generator[Listening]:
    """Listen during the block; raises `CommandError` for a port that cannot be had."""
    with ExitStack() as opened:
        if not settings.uses_https:
            yield Listening([opened.enter_context(_listen(settings.host, settings.port))], [])
            return
        passed = _passed()
        for one in passed:
            opened.enter_context(one)
        main, plain = (_listen_all(settings.host, port, passed) for port in (settings.https_port, settings.http_port))
        for one in (*main, *plain):
            opened.enter_context(one)
        yield Listening(main, plain)


def accepting(sockets: Sequence[socket.socket], workers: int) -> list[socket.socket]:
    """Return listening sockets, each as often as connections are to be accepted from it in a turn of the event loop.

    libuv accepts one for each descriptor (since 1.45). Where a turn takes milliseconds, new connections would wait for
    seconds while those that there are get their answers at once. Of several workers each takes few in a turn: the first
    to wake would take all of a client's connections, and answer them alone.
    """
    number = _ACCEPTED if workers == 1 else _ACCEPTED_OF_SEVERAL
    for listening in sockets:
        # `dup` sets for all descriptors of the socket, those of other processes too, whether accepting blocks.
        listening.setblocking(False)
    return [one for listening in sockets for one in (listening, *(listening.dup() for _ in range(number - 1)))]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise CommandError(f"Cannot listen on {host} port {port}: {reason}; --port takes another.") from error


def _listen_all(host: str, port: int, passed: Sequence[socket.socket]) -> list[socket.socket]:
    """Return the sockets of a port: those that were passed on, else new ones; for all addresses IPv6 ones too."""
    if found := [one for one in passed if one.getsockname()[1] == port]:
        return found
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sockets = [socket.create_server((host, port), family=family, backlog=_BACKLOG)]
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        ways = f" {_WAYS}" if error.errno in {errno.EACCES, errno.EPERM} else ""
        raise CommandError(f"Cannot listen on {host} port {port}: {reason}.{ways}") from error
    if host == _ALL and socket.has_ipv6:
        # A machine may have no IPv6, or another program on that address.
        with suppress(OSError):
            port = sockets[0].getsockname()[1]
            sockets.append(socket.create_server(("::", port), family=socket.AF_INET6, backlog=_BACKLOG))
    return sockets


def _passed() -> list[socket.socket]:
    """Return the sockets that the service manager has opened (sd_listen_fds(3))."""
    number = os.environ.get("LISTEN_FDS", "")
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or not number.isdigit():
        return []
    sockets = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(number)):
        os.set_inheritable(descriptor, False)
        sockets.append(socket.socket(fileno=descriptor))
    return sockets
