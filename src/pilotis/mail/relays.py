"""Sends mails to SMTP servers: guarded connections, which are reused, each wait bounded.

Credentials and mails leave only under TLS, except to addresses that need none: loopback and `outgoing_networks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from pilotis.http.outgoing import Outgoing, Reach
from pilotis.http.outgoing_types import OutgoingError
from pilotis.kit.effects import took_effect
from pilotis.kit.mail_addresses import Sender
from pilotis.kit.smtp_urls import SmtpServer

if TYPE_CHECKING:
    from email.message import EmailMessage

    from aiosmtplib import SMTP

MAX_CONNECTIONS = 4
"""Connections of one process to one relay."""
_MAILS_PER_CONNECTION = 100
_CONNECT_SECONDS = 10.0
_MAIL_SECONDS = 60.0
_IDLE_SECONDS = 10.0
_AWAY_SECONDS = 5.0
_DEFERRAL_SECONDS = 0.05
"""The time that a mail to a relay which is away holds a connection's place."""
_MAX_REPLY = 500
_NO_SUCH_ADDRESS = re.compile(r"5\.1\.\d")


class Relay(NamedTuple):
    """Where an app's mails are sent, and by whom. The operator's relay may be at any address."""

    server: SmtpServer
    sender: Sender
    reply_to: str | None
    is_operators: bool


class DeferredError(Exception):
    """The mail was not taken now; a later attempt may succeed. The text is the relay's reply, or what failed."""


class RejectedError(Exception):
    """The relay will never take this mail. The text is its reply.

    `is_bounce` means that it rejected the recipient, `is_unknown` that it knows no such address.
    """

    def __init__(self, reply: str, *, is_bounce: bool = False) -> None:
        super().__init__(reply)
        self.is_bounce = is_bounce
        self.is_unknown = is_bounce and _NO_SUCH_ADDRESS.search(reply) is not None


class _Connection:
    """An open connection, and how many mails it has carried."""

    def __init__(self, client: SMTP) -> None:
        self.client = client
        self.mails = 0
        self.timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        _end(self.client)


class Relays:
    """The connections of this process to relays."""

    def __init__(self, outgoing: Callable[[], Outgoing], hostname: str) -> None:
        """`hostname` is what this server calls itself."""
        self._outgoing = outgoing
        self._hostname = hostname
        self._slots: defaultdict[SmtpServer, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_CONNECTIONS)
        )
        self._users: defaultdict[SmtpServer, int] = defaultdict(int)
        self._idle: defaultdict[SmtpServer, list[_Connection]] = defaultdict(list)
        self._away_until: dict[SmtpServer, float] = {}

    async def send(self, relay: Relay, message: EmailMessage, recipient: str) -> str:
        """Send a mail and return the relay's reply; raises `DeferredError` or `RejectedError`.

        A connection that is lost after the text was sent is a `DeferredError`, though the relay may have taken it.
        """
        from aiosmtplib import SMTPException

        took_effect()
        data = message.as_bytes()
        try:
            async with self._connection(relay) as connection, asyncio.timeout(_MAIL_SECONDS):
                connection.mails += 1
                _, reply = await connection.client.sendmail(relay.sender.address, [recipient], data)
                return _shown(reply)
        except SMTPException as error:
            raise _failure(error) from None
        except TimeoutError:
            raise DeferredError("The SMTP server did not answer in time.") from None
        except OSError:
            raise DeferredError("The connection to the SMTP server was lost.") from None
        except ValueError as error:
            raise RejectedError(_shown(str(error))) from None

    async def check(self, relay: Relay) -> str:
        """Connect and authenticate, and return what the relay says of itself; raises `DeferredError`."""
        from aiosmtplib import SMTPException

        try:
            async with self._connection(relay) as connection:
                return _shown((await connection.client.noop()).message)
        except SMTPException as error:
            raise DeferredError(str(_failure(error))) from None
        except (TimeoutError, OSError):
            raise DeferredError("The SMTP server did not answer in time.") from None

    async def close(self) -> None:
        """Close all idle connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        # Transports close in the next turn of the event loop.
        await asyncio.sleep(0)

    @asynccontextmanager
    async def _connection(self, relay: Relay) -> AsyncGenerator[_Connection]:
        """Hold one of the relay's connections; it is closed if the block fails."""
        server = relay.server
        self._users[server] += 1
        try:
            async with self._slots[server]:
                connection = await self._reused(server) or await self._opened(relay)
                try:
                    yield connection
                except BaseException:
                    connection.close()
                    raise
                self._put_back(server, connection)
        finally:
            self._users[server] -= 1
            if not self._users[server]:
                # What apps entered once must not stay in memory.
                del self._users[server]
                self._slots.pop(server, None)
                if self._away_until.get(server, 0.0) < time.monotonic():
                    self._away_until.pop(server, None)

    async def _reused(self, server: SmtpServer) -> _Connection | None:
        from aiosmtplib import SMTPException

        while connections := self._idle.get(server):
            connection = connections.pop()
            if connection.timer is not None:
                connection.timer.cancel()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await connection.client.rset()
            except (SMTPException, OSError, TimeoutError):
                connection.close()
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        return None

    def _put_back(self, server: SmtpServer, connection: _Connection) -> None:
        if connection.mails >= _MAILS_PER_CONNECTION or not connection.client.is_connected:
            connection.close()
            return
        connections = self._idle[server]
        connections.append(connection)

        def expire() -> None:
            connection.close()
            connections.remove(connection)
            if not connections and self._idle.get(server) is connections:
                del self._idle[server]

        connection.timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, expire)

    async def _opened(self, relay: Relay) -> _Connection:
        """Open a connection. After a failure no other is opened for a moment, so that a dead relay costs little.

        In that moment the mails of a long queue are deferred one after another, and not as fast as the database can.
        """
        server = relay.server
        if self._away_until.get(server, 0.0) > time.monotonic():
            await asyncio.sleep(_DEFERRAL_SECONDS)
            raise DeferredError("The SMTP server did not answer a moment ago.")
        try:
            return await self._open(relay)
        except (DeferredError, TimeoutError, OSError):
            self._away_until[server] = time.monotonic() + _AWAY_SECONDS
            raise

    async def _open(self, relay: Relay) -> _Connection:
        from aiosmtplib import SMTP, SMTPException, SMTPNotSupported

        outgoing, server = self._outgoing(), relay.server
        try:
            if relay.is_operators:
                opened = await outgoing.connect_for_operator(server.host, server.port)
            else:
                opened = await outgoing.connect(server.host, server.port, reach=Reach.SERVER, tenant=server)
        except OutgoingError as error:
            raise DeferredError(str(error)) from None
        may_be_plain = outgoing.may_be_plain(opened.getpeername()[0], server.port)
        client = SMTP(
            sock=opened,
            hostname=server.host,
            use_tls=server.has_tls,
            start_tls=False,
            tls_context=await outgoing.tls(),
            local_hostname=self._hostname,
            timeout=_CONNECT_SECONDS,
        )
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await client.connect()
                await client.ehlo()
                if not server.has_tls and not (may_be_plain and not client.supports_extension("starttls")):
                    await client.starttls()
                if server.username is not None:
                    await client.login(server.username, server.password or "")
            # From here on the time limit is that of the whole mail.
            client.timeout = _MAIL_SECONDS
        except SMTPNotSupported:
            _end(client)
            opened.close()
            raise DeferredError(
                "The SMTP server offers no STARTTLS, or no way to sign in that is known here."
            ) from None
        except SMTPException as error:
            _end(client)
            opened.close()
            raise DeferredError(str(_failure(error))) from None
        except BaseException:
            _end(client)
            with contextlib.suppress(OSError):
                opened.close()
            raise
        return _Connection(client)


def _end(client: SMTP) -> None:
    """Close a connection at once: a relay that does not answer cannot delay it."""
    transport = client.transport
    client.close()
    if transport is not None:
        cast("asyncio.WriteTransport", transport).abort()


def _failure(error: Exception) -> DeferredError | RejectedError:
    """Return what a failure during a mail means: 5xx is final, all else may be tried again (RFC 5321, 4.2.1)."""
    from aiosmtplib import SMTPRecipientsRefused, SMTPResponseException

    if isinstance(error, SMTPRecipientsRefused):
        refused = error.recipients[0]
        reply = _shown(f"{refused.code} {refused.message}")
        return RejectedError(reply, is_bounce=True) if 500 <= refused.code < 600 else DeferredError(reply)
    if isinstance(error, SMTPResponseException):
        # The library's own complaint about an answer has the code -1.
        reply = _shown(f"{error.code} {error.message}".removeprefix("-1 "))
        return RejectedError(reply) if 500 <= error.code < 600 else DeferredError(reply)
    return DeferredError(_shown(str(error)))


def _shown(text: str) -> str:
    """Return a relay's reply as it is stored: cut, and without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_REPLY])
