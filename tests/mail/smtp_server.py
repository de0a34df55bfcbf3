"""A real SMTP server for tests, with STARTTLS, TLS and AUTH; it keeps the mails that it takes and answers as told."""

import asyncio
import base64
import contextlib
import email
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Self

from tests.accepting import accepting

USER, PASSWORD = "cafes", "p@ss:word"


@dataclass
class Taken:
    """A mail as it arrived, and the connection that it came by."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    connection: int
    is_encrypted: bool

    def part(self, kind: str) -> str:
        found = self.message.get_body((kind,))
        assert found is not None
        return found.get_content()


Reply = Callable[[str], bytes | None]
"""Returns what to answer to a command, such as `RCPT`; None for what is usual, and b"" to hang up."""


@dataclass
class SmtpServer:
    """Listens on `host`. It demands AUTH unless `needs_auth` is off, and offers it only under TLS if it has any."""

    tls: ssl.SSLContext | None = None
    is_tls_from_start: bool = False
    needs_auth: bool = True
    greeting: bytes = b"220 test ESMTP\r\n"
    reply: Reply = lambda _: None
    taken: list[Taken] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    host: str = "127.0.0.1"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await self._serve(reader, writer, self.connections)
            finally:
                writer.transport.abort()

        context = self.tls if self.is_tls_from_start else None
        async with accepting(serve, self.host, self.port, ssl=context, limit=2**20) as self.port:
            yield self

    def url(self, host: str = "127.0.0.1", user: str | None = "cafes:p%40ss%3Aword") -> str:
        return f"{'smtps' if self.is_tls_from_start else 'smtp'}://{user + '@' if user else ''}{host}:{self.port}"

    async def _serve(  # noqa: C901 - the commands of SMTP
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        writer.write(self.greeting)
        await writer.drain()
        is_encrypted, is_known, sender, recipients = self.is_tls_from_start, not self.needs_auth, "", list[str]()
        while line := (await reader.readline()).decode().strip():
            verb = line.split(maxsplit=1)[0].upper()
            self.commands.append(verb)
            if (told := self.reply(verb)) is not None:
                writer.write(told)
                if not told:
                    return
            elif verb == "EHLO":
                offers_tls = self.tls is not None and not is_encrypted
                extensions = ["STARTTLS"] if offers_tls else ["AUTH PLAIN"] if self.needs_auth else []
                writer.write(b"".join(f"250-{one}\r\n".encode() for one in ["test", *extensions]) + b"250 SIZE\r\n")
            elif verb == "STARTTLS" and self.tls is not None:
                writer.write(b"220 go\r\n")
                await writer.drain()
                await writer.start_tls(self.tls)
                is_encrypted = True
            elif verb == "AUTH":
                is_known = base64.b64decode(line.split()[2]).decode() == f"\0{USER}\0{PASSWORD}"
                writer.write(b"235 welcome\r\n" if is_known else b"535 5.7.8 wrong\r\n")
            elif verb in {"MAIL", "RCPT"} and not is_known:
                writer.write(b"530 5.7.0 sign in\r\n")
            elif verb == "MAIL":
                sender, recipients = line[line.index("<") + 1 : line.index(">")], []
                writer.write(b"250 ok\r\n")
            elif verb == "RCPT":
                recipients.append(line[line.index("<") + 1 : line.index(">")])
                writer.write(b"250 ok\r\n")
            elif verb == "DATA":
                writer.write(b"354 go on\r\n")
                data = await reader.readuntil(b"\r\n.\r\n")
                message = email.message_from_bytes(data[:-3].replace(b"\r\n..", b"\r\n."), policy=default)
                assert isinstance(message, EmailMessage)
                self.taken.append(Taken(sender, recipients, message, number, is_encrypted))
                told = self.reply("TEXT")
                writer.write(b"250 2.0.0 taken\r\n" if told is None else told)
                if told == b"":
                    return
            elif verb == "QUIT":
                writer.write(b"221 bye\r\n")
                return
            else:
                writer.write(b"250 ok\r\n")
            await writer.drain()
