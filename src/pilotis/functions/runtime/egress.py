"""What a sandbox may connect to: an HTTP proxy in its network namespace, which the server itself answers.

The namespace has no way out but this. A client in the sandbox sends `CONNECT host:port` and does TLS itself, or sends a
plain request with a whole URL (RFC 9112, section 3.2). The server resolves the name, checks every address by the guard
of outgoing requests, connects to a checked address, and relays bytes within the call's allowance.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pilotis.functions.runtime.policy import PROXY_PORT
from pilotis.http.outgoing_allowance import Allowance, HostPattern
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure

MAX_CONNECTIONS = 100
CONCURRENT_CONNECTIONS = 6
MAX_BYTES = 50 * 1024 * 1024
IDLE_SECONDS = 30.0
_MAX_HEAD = 16 * 1024
_MAX_WAITING = 64
_FLOOD = 1000
"""Connections from one call to the next, of whatever outcome; more are a flood, for which the sandbox is ended."""
_CHUNK = 64 * 1024
_LISTENER = Path(__file__).with_name("listener.py")
_START_SECONDS = 10.0
# Where Debian and Ubuntu, Fedora and its kin, and macOS have them.
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_HOP_BY_HOP = (b"proxy-", b"connection:", b"keep-alive:")

Connect = Callable[[str, int], Awaitable[socket.socket]]
"""Connects to a host and a port, if that is permitted; raises `OutgoingError`."""


class EgressPolicy:
    """What the sandboxes of a function may reach: `hosts`, or None for every public address on ports 80 and 443."""

    def __init__(
        self,
        hosts: Sequence[HostPattern] | None,
        *,
        max_bytes: int = MAX_BYTES,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.hosts, self.max_bytes, self.max_connections = hosts, max_bytes, max_connections

    def permits(self, own: OwnAddress) -> bool:
        """Whether calls may reach the server itself with a token: one that reaches everything, or names its host."""
        return self.hosts is None or any(pattern.matches(own.host, own.port) for pattern in self.hosts)


_ADVICE = {
    OutgoingFailure.ADDRESS_NOT_ALLOWED: " The operator of the server permits private networks by the setting "
    "egress_networks (docs/configuration.md).",
    OutgoingFailure.HOST_NOT_ALLOWED: " Name it in the function's egress (docs/functions.md#other-servers).",
    OutgoingFailure.BYTES_USED_UP: " See docs/functions.md#other-servers.",
}
"""What to do about a refusal, for the log that the function's developers read."""


class OwnAddress(NamedTuple):
    """The server's own address in its base URL, which calls with a token may reach."""

    host: str
    port: int
    connect: Callable[[], Awaitable[socket.socket]]
    """Connects to it; raises `OutgoingError`."""

    def is_at(self, host: str, port: int) -> bool:
        """Whether the host and port are this address."""
        return (host.lower().rstrip("."), port) == (self.host, self.port)


class Egress:
    """The way out of one sandbox. Closed until `begin`; `counts` collects how connections ended."""

    def __init__(
        self,
        policy: EgressPolicy,
        connect: Connect,
        counts: Counter[str],
        ca_file: str | None = None,
        own: OwnAddress | None = None,
    ) -> None:
        """`ca_file` has certificates of authorities that are trusted besides those that this machine trusts."""
        self.ca_file = ca_file
        self._own = own
        self._reaches_own = False
        self._policy = policy
        self._connect = connect
        self._counts = counts
        self._server: asyncio.Server | None = None
        self._allowance: tuple[Allowance, Allowance] | None = None
        self._left = 0
        self._report: Callable[[str], None] = lambda _: None
        self._slots = asyncio.Semaphore(CONCURRENT_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._flood = max(_FLOOD, 2 * policy.max_connections)

    @property
    def is_flooded(self) -> bool:
        """Whether the sandbox has opened too many connections since its last call began."""
        return self._accepted > self._flood

    async def listen(self, pid: int) -> None:
        """Listen inside the network namespace of a process; raises `OSError`."""
        own, theirs = socket.socketpair()
        own.setblocking(False)
        with own:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(_LISTENER), str(pid), str(PROXY_PORT)),
                    stdin=theirs.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env={},
                )
            finally:
                theirs.close()
            async with asyncio.timeout(_START_SECONDS):
                _, error = await process.communicate()
            if process.returncode:
                text = error.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise OSError(f"The sandbox's network cannot be entered: {text}")
            _, (descriptor, *_), _, _ = socket.recv_fds(own, 1, 1)
        listening = socket.socket(fileno=descriptor)
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=_MAX_HEAD)

    async def listen_here(self) -> int:
        """Listen on loopback, for a sandbox without a network of its own; return the port. Raises `OSError`."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MAX_HEAD)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def begin(self, report: Callable[[str], None]) -> None:
        """Grant a call its connections and bytes; `report` is called for each connection that was not made."""
        policy = self._policy
        self._allowance = Allowance(policy.hosts, policy.max_bytes), Allowance(policy.hosts, policy.max_bytes)
        self._left = policy.max_connections
        self._accepted = 0
        self._reaches_own = False
        self._report = report

    def permit_own(self) -> None:
        """Permit the rest of a call, which now has a token, to connect to the server, wherever its address leads."""
        self._reaches_own = True

    def end(self) -> None:
        """Permit nothing until the next call."""
        self._allowance = None

    def close(self) -> None:
        """End every connection."""
        self.end()
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def closed(self) -> None:
        """Wait until every connection has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        if self.is_flooded and self._server:
            self._server.close()
        # Each is an open file of the server.
        if self.is_flooded or len(self._tasks) >= CONCURRENT_CONNECTIONS + _MAX_WAITING:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            async with self._slots, asyncio.timeout(IDLE_SECONDS) as limit:
                await self._serve(reader, writer, limit)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self._counts["lost"] += 1
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        try:
            host, port, first = _target(head)
            length = None if first is None else _body_length(head)
            upstream = await self._open(host, port)
        except OutgoingError as error:
            self._counts[error.failure.value.lower()] += 1
            self._report(f"A connection was not made: {error}{_ADVICE.get(error.failure, '')}")
            text = str(error).encode()
            writer.write(
                b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n"
                b"X-Pilotis-Error: %b\r\nContent-Length: %d\r\n\r\n%b" % (error.failure.value.encode(), len(text), text)
            )
            await writer.drain()
            return
        self._counts["connected"] += 1
        there, back = await asyncio.open_connection(sock=upstream)
        if first is None:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            back.write(first)
        try:
            # When one direction ends the other may still have something to say.
            sent = self._relay(reader, back, 0, limit) if length is None else self._send(reader, back, length, limit)
            await asyncio.gather(sent, self._relay(there, writer, 1, limit))
        except OutgoingError as error:
            self._counts[error.failure.value.lower()] += 1
            self._report(f"A connection was ended: {error}")
        finally:
            back.transport.abort()

    async def _open(self, host: str, port: int) -> socket.socket:
        if self._allowance is None:
            raise OutgoingError(OutgoingFailure.HOST_NOT_ALLOWED, "Connections are made during a call alone.")
        self._left -= 1
        if self._left < 0:
            raise OutgoingError(OutgoingFailure.BYTES_USED_UP, "The call has made the maximum number of connections.")
        if self._reaches_own and self._own and self._own.is_at(host, port):
            return await self._own.connect()
        self._allowance[0].check_host(host, port)
        return await self._connect(host, port)

    async def _relay(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: int, limit: asyncio.Timeout
    ) -> None:
        while data := await source.read(_CHUNK):
            await self._pass(data, target, direction, limit)
        with contextlib.suppress(OSError):
            target.write_eof()

    async def _pass(self, data: bytes, target: asyncio.StreamWriter, direction: int, limit: asyncio.Timeout) -> None:
        if self._allowance is None:
            raise OutgoingError(OutgoingFailure.HOST_NOT_ALLOWED, "Connections are used during a call alone.")
        self._allowance[direction].count(len(data))
        limit.reschedule(asyncio.get_running_loop().time() + IDLE_SECONDS)
        target.write(data)
        await target.drain()

    async def _send(
        self, reader: asyncio.StreamReader, target: asyncio.StreamWriter, length: int, limit: asyncio.Timeout
    ) -> None:
        """Relay the body of one request, of a length or -1 for chunks; another request may be for another host.

        The server that got it closes the connection after its answer, and with it this one ends.
        """
        if length < 0:
            size = -1
            while size:
                line = await reader.readuntil(b"\n")
                size = _chunk_size(line)
                await self._pass(line, target, 0, limit)
                if size:
                    await self._send_part(reader, target, size + len(b"\r\n"), limit)
            while line != b"\r\n":
                line = await reader.readuntil(b"\n")
                await self._pass(line, target, 0, limit)
        await self._send_part(reader, target, length, limit)
        if await reader.read(1):
            raise OutgoingError(OutgoingFailure.PROTOCOL, "A connection carries one request.")
        with contextlib.suppress(OSError):
            target.write_eof()

    async def _send_part(
        self, reader: asyncio.StreamReader, target: asyncio.StreamWriter, length: int, limit: asyncio.Timeout
    ) -> None:
        while length > 0 and (data := await reader.read(min(length, _CHUNK))):
            length -= len(data)
            await self._pass(data, target, 0, limit)


def _target(head: bytes) -> tuple[str, int, bytes | None]:
    """Return a request's destination and, for plain HTTP, the request to send there; raises `OutgoingError`."""
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            return _host(host), int(port), None
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname or parts.username is not None:
            raise ValueError
        path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        # One request a connection: the next one may be for another host.
        kept = [one for one in rest.split(b"\r\n") if one and not one.lower().startswith(_HOP_BY_HOP)]
        first = b"\r\n".join([f"{method} {path} {version}".encode("ascii"), *kept, b"Connection: close", b"", b""])
        return parts.hostname, parts.port or 80, first
    except ValueError:
        raise OutgoingError(OutgoingFailure.PROTOCOL) from None


def _body_length(head: bytes) -> int:
    """Return the length of a request's body, -1 for one in chunks (RFC 9112, section 6.3); raises `OutgoingError`."""
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:] if line]
    lengths = {value.strip() for name, _, value in lines if name.lower() == b"content-length"}
    codings = [value.strip().lower() for name, _, value in lines if name.lower() == b"transfer-encoding"]
    is_plain = not any(name != name.strip() or not name or b"\n" in name + value for name, _, value in lines)
    if is_plain and codings == [b"chunked"] and not lengths:
        return -1
    if not is_plain or codings or len(lengths) > 1 or not all(length.isdigit() for length in lengths):
        raise OutgoingError(OutgoingFailure.PROTOCOL)
    return int(lengths.pop()[:18]) if lengths else 0


def _chunk_size(line: bytes) -> int:
    try:
        text = line.partition(b";")[0].strip()
        if not text.isalnum():
            raise ValueError
        return int(text, 16)
    except ValueError:
        raise OutgoingError(OutgoingFailure.PROTOCOL) from None


def _host(text: str) -> str:
    return text.removeprefix("[").removesuffix("]")


@cache
def authorities(ca_file: str | None) -> bytes:
    """Return the certificates of the authorities that this machine trusts, and those of a file, as PEM."""
    own = Path(ca_file).read_bytes() if ca_file else b""
    paths = ssl.get_default_verify_paths()
    for place in (paths.cafile, paths.openssl_cafile, *_BUNDLES):
        with contextlib.suppress(OSError, TypeError):
            return Path(place or "").read_bytes() + b"\n" + own
    return own
