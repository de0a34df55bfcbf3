"""A name server on loopback: TXT records, and addresses that may be others at each question."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dns import flags, message, rcode, rdatatype, rrset

Answers = Mapping[str, Sequence[Sequence[str]]]
"""For each name the addresses, IPv4 and IPv6, that each lookup finds; the last answer counts for all that follow."""


SILENT = ("silent",)
"""In place of addresses: a lookup that gets no answer."""


class _NameServer(asyncio.DatagramProtocol):
    def __init__(self, texts: Mapping[str, str], addresses: Answers) -> None:
        self._texts = texts
        self._addresses = addresses
        # A lookup asks for each type of address once.
        self._asked: Counter[tuple[str, int]] = Counter()
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        found = self.answer(data)
        if found is not None:
            assert self._transport
            self._transport.sendto(found, addr)

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of a connection (RFC 1035, section 4.2.2)."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(2))
                found = self.answer(await reader.readexactly(size)) or b""
                writer.write(len(found).to_bytes(2) + found)
        writer.close()

    def answer(self, data: bytes) -> bytes | None:
        """The answer to a question; None if there is to be none."""
        query = message.from_wire(data)
        (question,) = query.question
        answer = message.make_response(query)
        answer.flags |= flags.AA
        name = question.name.to_text(omit_final_dot=True)
        records = self._records(name, question.rdtype)
        if records == [*SILENT]:
            return None
        if records is None:
            answer.set_rcode(rcode.NXDOMAIN)
        elif records:
            kind = rdatatype.to_text(question.rdtype)
            answer.answer.append(rrset.from_text_list(question.name, 60, "IN", kind, records))
        return answer.to_wire()

    def _records(self, name: str, kind: int) -> list[str] | None:
        """The records of a type; None for a name that there is not."""
        if name in self._addresses:
            answers = self._addresses[name]
            found = answers[min(self._asked[name, kind], len(answers) - 1)]
            self._asked[name, kind] += 1
            if found == SILENT:
                return [*SILENT]
            is_wanted = {rdatatype.A: lambda one: ":" not in one, rdatatype.AAAA: lambda one: ":" in one}.get(kind)
            return [one for one in found if is_wanted and is_wanted(one)]
        if name in self._texts:
            return [f'"{self._texts[name]}"'] if kind == rdatatype.TXT else []
        return None


@asynccontextmanager
async def name_server(
    texts: Mapping[str, str] | None = None,
    addresses: Answers | None = None,
    *,
    listening: tuple[str, int] = ("127.0.0.1", 0),
    by_tcp: bool = False,
) -> AsyncIterator[str]:
    """Serve TXT records, text by name, and addresses over UDP (RFC 1035, section 4.2.1); yields `address:port`.

    With `by_tcp` over TCP, too.
    """
    loop = asyncio.get_running_loop()
    answering = _NameServer({} if texts is None else texts, addresses or {})
    transport, _ = await loop.create_datagram_endpoint(lambda: answering, local_addr=listening)
    host, port = transport.get_extra_info("sockname")
    server = await asyncio.start_server(answering.converse, host, port) if by_tcp else None
    try:
        yield f"{host}:{port}"
    finally:
        transport.close()
        if server is not None:
            server.close()
