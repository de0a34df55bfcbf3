"""The bounds of a connection: on the size of a head, and on how long anybody is waited for."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pilotis.http.server.protocol import MAX_HEAD_BYTES, HttpProtocol
from tests.http import bare
from tests.support import App, Server

DEADLINE = 30.0


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the server closes or cuts the connection."""
    got = b""
    try:
        while piece := await asyncio.wait_for(reader.read(65536), DEADLINE):
            got += piece
    except ConnectionError:
        pass
    return got


async def send_until_refused(address: str, start: bytes, piece: bytes, pieces: int) -> tuple[int, bytes]:
    """Send pieces until the server answers or closes; return how many bytes went out, and the answer."""
    reader, writer = await connect(address)
    sent = 0
    try:
        writer.write(start)
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]
                break
    except ConnectionError:
        pass
    answer = await until_closed(reader)
    writer.close()
    return sent, answer


def split(answer: bytes) -> tuple[bytes, dict[str, str], Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return status.encode(), headers, json.loads(body)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Endless: ", b"a" * 8192),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n", b"X-Many: 1\r\n" * 700),
        (b"GET /", b"a" * 8192),
    ],
    ids=["header", "headers", "path"],
)
async def test_a_head_without_end_is_refused(server: Server, start: bytes, piece: bytes):
    sent, answer = await send_until_refused(server.url, start, piece, 4000)
    # The kernel's buffers take some megabytes before the server's close is seen.
    assert sent < 4000 * len(piece)
    if answer:  # bytes that were still on their way when the server closed may take it away
        status, headers, body = split(answer)
        assert status.startswith(b"HTTP/1.1 431")
        assert body["code"] == "HEAD_TOO_LARGE"
        assert body["request_id"] == headers["x-request-id"]


async def test_a_head_just_too_large_is_told_so(server: Server):
    reader, writer = await connect(server.url)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Large: ")
    await writer.drain()
    writer.write(b"a" * MAX_HEAD_BYTES)
    status, _, body = split(await until_closed(reader))
    writer.close()
    assert status.startswith(b"HTTP/1.1 431")
    assert body["code"] == "HEAD_TOO_LARGE"


async def test_a_trailer_without_end_is_refused(server: Server, app: App):
    start = f"POST /v1/public/tables HTTP/1.1\r\nHost: a\r\nX-Public-Key: {app.public_key}\r\n".encode()
    start += b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Endless: "
    sent, _ = await send_until_refused(server.url, start, b"a" * 8192, 4000)
    assert sent < 4000 * 8192


async def test_a_large_body_in_small_pieces_is_no_head(app: App):
    body = b'{"login_id": "in pieces", "password": "correct horse"}' + b" " * (2 * MAX_HEAD_BYTES)
    reader, writer = await connect(app.server.url)
    head = f"POST /v1/public/app-members/signup HTTP/1.1\r\nHost: a\r\nX-Public-Key: {app.public_key}\r\n"
    writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    for start in range(0, len(body), 4096):
        writer.write(body[start : start + 4096])
        await writer.drain()
    assert (await until_closed(reader)).startswith(b"HTTP/1.1 201")
    writer.close()


@pytest.mark.parametrize("request_", [b"FOO / HTTP/1.1\r\n\r\n", b"CONNECT a:80 HTTP/1.1\r\n\r\n", b"\0\1\2\r\n\r\n"])
async def test_what_is_no_request_gets_an_error_like_any_other(server: Server, request_: bytes):
    reader, writer = await connect(server.url)
    writer.write(request_)
    status, headers, body = split(await until_closed(reader))
    writer.close()
    assert status == b"HTTP/1.1 400 Bad Request"
    assert headers["content-type"] == "application/json"
    assert body["code"] == "MALFORMED_REQUEST"
    assert body["request_id"] == headers["x-request-id"]


@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
async def test_a_request_that_asks_for_another_protocol_keeps_its_body(app: App, apart: bool):
    """RFC 9110, section 7.8: a server may ignore Upgrade. Java's client sends it with its first request."""
    body = json.dumps({"login_id": f"upgrade {apart}", "password": "correct horse"}).encode()
    head = f"POST /v1/public/app-members/signup HTTP/1.1\r\nHost: a\r\nX-Public-Key: {app.public_key}\r\n"
    head += f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nContent-Length: {len(body)}"
    reader, writer = await connect(app.server.url)
    if apart:
        for piece in (head[:70].encode(), head[70:].encode() + b"\r\n\r\n", body[:9], body[9:]):
            writer.write(piece)
            await asyncio.sleep(0.05)
    else:
        writer.write(head.encode() + b"\r\n\r\n" + body)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUpgrade: websocket\r\n\r\n")
    answer = await until_closed(reader)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 201"), answer
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.endswith(b'"status":"ok"}')


class Hurried(HttpProtocol):
    """The protocol with little patience."""

    stall_seconds = grace_seconds = 0.2


def serving(application: Any) -> AbstractAsyncContextManager[str]:
    return bare.serving(application, Hurried, 1)


async def echo(_scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body, then answer with a gigabyte, or as much as is taken."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1024):
        await send({"type": "http.response.body", "body": b"a" * 2**20, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
    ids=["nothing", "line", "header", "body", "chunk"],
)
async def test_who_stops_sending_is_not_waited_for(start: bytes):
    async with serving(echo) as address:
        reader, writer = await connect(address)
        writer.write(start)
        assert await until_closed(reader) == b""
        writer.close()


async def test_a_head_that_trickles_in_is_not_waited_for():
    async with serving(echo) as address:
        reader, writer = await connect(address)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        closed = asyncio.create_task(until_closed(reader))
        while not closed.done():
            writer.write(b"a")
            await asyncio.sleep(0.02)
        assert await closed == b""
        writer.close()


async def test_who_takes_nothing_of_an_answer_is_cut_off():
    done = asyncio.Event()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        await echo(scope, receive, send)
        done.set()

    async with serving(watched) as address:
        reader, writer = await connect(address)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.wait_for(done.wait(), DEADLINE)
        writer.close()
    # It was aborted, not served: far less than the gigabyte arrived.
    assert len(await until_closed(reader)) < 2**28


async def test_an_answer_that_takes_long_is_waited_for():
    async def slow(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.sleep(5 * Hurried.stall_seconds)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"late"})

    async with serving(slow) as address:
        reader, writer = await connect(address)
        # The next head has begun: it must not end the wait for this answer.
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"GET /ne")
        assert b"late" in await until_closed(reader)
        writer.close()
