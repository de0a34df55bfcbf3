"""Bodies that are streamed: whole, in order, whatever their size and pace; and what becomes of the connection."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import httpx
import pytest

from pilotis.http.api import stream_body
from pilotis.http.api.endpoint import Endpoints, put
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from tests.http.bare import application, serving
from tests.support import assert_error
from tests.waiting import PATIENCE, until

DATA = os.urandom(20_000_001)


class Streamed(Endpoints, tag="Streamed"):
    """Answers with the digest of what was streamed."""

    def __init__(self) -> None:
        self.pieces = 0
        self.most = len(DATA)
        self.ended: list[BaseException | None] = []

    @put("/streamed", access=Access.OPEN, returns=bytes, media_type="*/*")
    async def streamed(self, call: Call, body: AsyncIterator[bytes]) -> Reply:
        """Take a body."""
        digest, size = hashlib.sha256(), 0

        try:
            async for piece in body:
                self.pieces += 1
                size += len(piece)
                if size > self.most:
                    raise ValueError("enough")
                digest.update(piece)
        except BaseException as error:
            self.ended.append(error)
            raise
        return Reply(f"{size} {digest.hexdigest()}".encode())


def told(data: bytes) -> bytes:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}".encode()


async def test_bodies_of_any_size_on_one_connection():
    streamed = Streamed()
    async with serving(application(streamed)) as address, httpx.AsyncClient(base_url=address) as client:
        sizes = [0, 1, 65_535, 65_536, 2**20, 2**20 + 1, 3 * 2**20 - 1, 2**24, 2**24 + 2**20, len(DATA)]
        for size in [*sizes, *reversed(sizes)]:
            assert (await client.put("/streamed", content=DATA[:size])).content == told(DATA[:size])

        async def chunked() -> AsyncIterator[bytes]:
            for at in range(0, len(DATA), 700_001):
                yield DATA[at : at + 700_001]

        assert (await client.put("/streamed", content=chunked())).content == told(DATA)


async def test_many_at_once():
    streamed = Streamed()
    async with (
        serving(application(streamed)) as address,
        httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client,
    ):
        bodies = [DATA[number : 5_000_000 + number] for number in range(30)]
        answers = await asyncio.gather(*(client.put("/streamed", content=body) for body in bodies))
    assert [answer.content for answer in answers] == [told(body) for body in bodies]


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


HEAD = b"PUT /streamed HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n"


async def test_a_slow_body_and_a_request_right_behind_it():
    async with serving(application(Streamed())) as address:
        reader, writer = await connect(address)
        data, small = DATA[: 3 * 2**20], b"and another"
        writer.write(HEAD % (len(data), b""))
        for at in range(0, len(data), 200_000):
            writer.write(data[at : at + 200_000])
            await writer.drain()
            await asyncio.sleep(0.02)
        # Some of the next request may come with the last bytes of the first.
        writer.write(HEAD % (len(small), b"Connection: close\r\n") + small)
        got = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert told(data) in got
    assert got.endswith(told(small))


async def test_a_client_that_leaves_is_noticed():
    streamed = Streamed()
    async with serving(application(streamed)) as address:
        _, writer = await connect(address)
        writer.write(HEAD % (len(DATA), b"") + DATA[:5_000_000])
        await writer.drain()
        writer.close()
        await until(lambda: bool(streamed.ended))
    assert type(streamed.ended[0]).__name__ == "ClientDisconnectedError"


async def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream_body, "_STALL_SECONDS", 1.0)
    async with serving(application(Streamed())) as address:
        reader, writer = await connect(address)
        writer.write(HEAD % (len(DATA), b"") + DATA[:5_000_000])
        await writer.drain()
        # A little within the time keeps it going.
        for _ in range(5):
            await asyncio.sleep(0.3)
            writer.write(b"x")
        got = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
    assert got.startswith(b"HTTP/1.1 408")
    assert b"BODY_STALLED" in got


async def test_what_the_function_raises_comes_through_and_the_connection_ends():
    streamed = Streamed()
    streamed.most = 2**22
    async with serving(application(streamed)) as address, httpx.AsyncClient(base_url=address) as client:
        answer = await client.put("/streamed", content=DATA)
        assert_error(answer, 500, "INTERNAL_ERROR")
        assert answer.headers["connection"] == "close"
        pieces = streamed.pieces
        assert (await client.put("/streamed", content=b"small")).content == told(b"small")
    assert isinstance(streamed.ended[0], ValueError)
    assert streamed.pieces == pieces + 1
