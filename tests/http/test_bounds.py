"""Limits of a request: its head, its Host header, its bytes in flight, and its transfer rate."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pilotis.http.api.endpoint import Endpoints, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import FilePart, Reply
from pilotis.http.server.protocol import MAX_HEAD_BYTES, HttpProtocol
from pilotis.http.server.response_cache import _key_size
from pilotis.limits import Limits
from tests.http.bare import application, serving
from tests.http.test_protocol import connect, split, until_closed
from tests.support import assert_error
from tests.waiting import PATIENCE, until

# More than the kernel takes for a connection.
UNIT = 4 << 20
LIMITS = Limits(
    in_flight_bytes=3 * UNIT,
    app_in_flight_bytes=3 * UNIT,
    client_in_flight_bytes=2 * UNIT,
    transfer_bytes_per_second=1000,
    transfer_grace_seconds=1,
)


class Hurried(HttpProtocol):
    """The protocol with little grace for readers."""

    bytes_per_second = 1000
    grace_seconds = 1.0


class Anything(msgspec.Struct):
    """A body of one text."""

    text: str = ""


class Echo(Endpoints, tag="Echo"):
    """Takes and sends what is large."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.held: list[int] = []
        self.released = asyncio.Event()

    @post("/size", access=Access.OPEN, rows=True)
    async def size(self, call: Call, body: Anything) -> int:
        """Answer with the size of the body."""
        self.held.append(call.server.in_flight.total)
        if body.text.startswith("wait"):
            await self.released.wait()
        return len(body.text)

    @get("/large", access=Access.OPEN, returns=bytes)
    async def large(self, call: Call) -> Reply:
        """Answer with three quarters of what is allowed."""
        return Reply(b"a" * (3 * UNIT // 2))

    @get("/file", access=Access.OPEN, returns=bytes)
    async def part(self, call: Call) -> Reply:
        """Answer with a file."""
        assert self.file is not None
        return Reply(FilePart(os.open(self.file, os.O_RDONLY), 0, self.file.stat().st_size))


def body(size: int, start: str = "") -> bytes:
    return b'{"text":"%b"}' % start.encode().ljust(size, b"a")


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: a\r\n", b"Host: a\r\nhost: b\r\n"], ids=["none", "two", "b"])
async def test_a_request_has_exactly_one_host(hosts: bytes):
    """RFC 9112, section 3.2."""
    async with serving(application(Echo())) as address:
        reader, writer = await connect(address)
        writer.write(b"GET /large HTTP/1.1\r\n%bConnection: close\r\n\r\n" % hosts)
        status, _, answer = split(await until_closed(reader))
        writer.close()
    assert status == b"HTTP/1.1 400 Bad Request"
    assert answer["code"] == "INVALID_HOST"


async def test_a_request_of_http_1_0_may_have_no_host():
    async with serving(application(Echo())) as address:
        reader, writer = await connect(address)
        writer.write(b"GET /large HTTP/1.0\r\n\r\n")
        assert (await until_closed(reader)).startswith(b"HTTP/1.1 200")
        writer.close()


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES - 200, MAX_HEAD_BYTES + 1, 3 * MAX_HEAD_BYTES])
async def test_a_head_that_comes_in_one_piece_is_refused_at_the_same_limit(size: int):
    async with serving(application(Echo())) as address:
        reader, writer = await connect(address)
        head = b"GET /size HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Large: %b\r\n\r\n"
        writer.write(head % (b"a" * size))
        status, _, answer = split(await until_closed(reader))
        writer.close()
    assert status.startswith(b"HTTP/1.1 405" if size < MAX_HEAD_BYTES else b"HTTP/1.1 431"), answer


async def test_bodies_in_flight_are_counted_before_they_are_read():
    echo = Echo()
    app = application(echo, limits=LIMITS)
    async with serving(app) as address, httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        first = asyncio.create_task(client.post("/size", content=body(UNIT, "wait")))
        await until(lambda: echo.held)
        # The declared length is what counts: not a byte of the body has come.
        reader, writer = await connect(address)
        writer.write(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (2 * UNIT))
        got = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert got.startswith(b"HTTP/1.1 429")
        assert b"retry-after: " in got
        writer.close()

        async def chunked() -> AsyncIterator[bytes]:
            for _ in range(2 * UNIT // 4096):
                yield b" " * 4096

        refused = await client.post("/size", content=chunked())
        assert_error(refused, 429, "TOO_MUCH_IN_FLIGHT")
        assert (await client.post("/size", content=body(UNIT // 2))).status_code == 200
        echo.released.set()
        assert (await first).status_code == 200
        assert (await client.post("/size", content=body(2 * UNIT - 100))).status_code == 200
    assert min(echo.held) > UNIT
    assert app.in_flight_bytes == 0


async def test_the_process_has_a_bound_of_its_own():
    echo = Echo()
    app = application(echo, limits=LIMITS, trusted_proxies=["127.0.0.1"])
    async with serving(app) as address, httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        waiting = [
            asyncio.create_task(
                client.post(
                    "/size", content=body(UNIT + UNIT // 4, "wait"), headers={"X-Forwarded-For": f"10.0.0.{number}"}
                )
            )
            for number in range(2)
        ]
        await until(lambda: len(echo.held) == 2)
        refused = await client.post("/size", content=body(UNIT), headers={"X-Forwarded-For": "10.0.0.9"})
        assert_error(refused, 503, "UNAVAILABLE")
        assert int(refused.headers["retry-after"]) > 0
        small = await client.post("/size", content=body(1000), headers={"X-Forwarded-For": "10.0.0.9"})
        assert small.status_code == 200
        echo.released.set()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200, 200]


async def test_answers_count_until_they_are_taken():
    app = application(Echo(), limits=LIMITS)
    async with serving(app) as address, httpx.AsyncClient(base_url=address) as client:
        with slow_reader(address, "/large"):
            await until(lambda: app.in_flight_bytes)
            assert_error(await client.get("/large"), 429, "TOO_MUCH_IN_FLIGHT")
        await until(lambda: not app.in_flight_bytes)
        assert (await client.get("/large")).status_code == 200


def slow_reader(address: str, path: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    return connection


async def test_a_body_that_trickles_in_is_given_up():
    app = application(Echo(), limits=LIMITS)
    async with serving(app) as address:
        reader, writer = await connect(address)
        writer.write(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))

        async def trickle() -> bool:
            writer.write(b" " * 20)
            await asyncio.sleep(0.1)
            return answered.done()

        await until(trickle)
        assert (await answered).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_reader_that_takes_too_little_is_let_go_though_it_takes_something():
    app = application(Echo(), limits=LIMITS)
    async with serving(app, Hurried) as address:
        with slow_reader(address, "/large") as connection:
            await until(lambda: app.in_flight_bytes)

            def gone() -> bool:
                connection.recv(2)
                return not app.in_flight_bytes

            await until(gone)


async def test_a_reader_who_takes_nothing_of_a_file_is_let_go(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"a" * 8 * UNIT)
    statuses: list[Any] = []
    app = application(Echo(tmp_path / "file"), lambda _call, status, _: statuses.append(status), limits=LIMITS)
    async with serving(app, Hurried) as address:
        with slow_reader(address, "/file"):
            await until(lambda: statuses)
    assert statuses == [499]


def test_the_keys_of_cached_answers_count():
    assert _key_size((b"host", b"/path?" + b"a" * 60_000)) == 60_010
