"""Large files on their way to readers: whole, in parts, to slow ones, and to those who leave."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.test_files import storage, upload
from tests.support import App, assert_error
from tests.waiting import PATIENCE, wait_until

SIZE = 20_000_000
DATA = os.urandom(1 << 20) * (SIZE // (1 << 20) + 1)
DATA = DATA[:SIZE]


@pytest.fixture
async def url(app: App) -> str:
    base = await storage(app)
    async with app.client() as client:
        return (await upload(client, base, DATA))["url"]


@contextmanager
def reader(url: str, more: str = "") -> Iterator[socket.socket]:
    """A connection that has asked for the file, with a small buffer, and reads nothing by itself."""
    address = urlsplit(url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        connection.settimeout(60)
        connection.connect((address.hostname, address.port))
        connection.sendall(f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n{more}\r\n".encode())
        yield connection


def read_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and the body of one answer."""
    head = b""
    # Byte by byte: what follows may belong to the next answer.
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, "The connection ended early."
        head += byte
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    body = bytearray()
    while len(body) < length:
        piece = connection.recv(min(1 << 20, length - len(body)))
        assert piece, "The connection ended early."
        body += piece
    return head, bytes(body)


def blobs_open(app: App) -> int:
    """Return how many of the server's descriptors are files of the object store."""
    found = 0
    for descriptor in Path(f"/proc/{app.server.process.pid}/fd").iterdir():
        try:
            found += "/objects/blobs/" in str(descriptor.readlink())
        except FileNotFoundError:
            continue
    return found


async def test_whole_files_and_parts_one_after_the_other_on_a_connection(app: App, url: str):
    with reader(url) as connection:
        head, body = read_answer(connection)
        assert head.startswith(b"HTTP/1.1 200")
        assert body == DATA
        address = urlsplit(url)
        for start, end in ((0, 0), (1, 70_000), (SIZE - 5_000_001, SIZE - 2), (SIZE - 1, SIZE - 1)):
            head = f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nRange: bytes={start}-{end}\r\n\r\n"
            connection.sendall(head.encode())
            answered, body = read_answer(connection)
            assert answered.startswith(b"HTTP/1.1 206")
            assert body == DATA[start : end + 1]
    wait_until(lambda: blobs_open(app) == 0)


async def test_requests_that_do_not_wait_for_answers_get_them_in_order(url: str):
    address = urlsplit(url)
    more = "".join(
        f"\r\nGET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nRange: bytes={start}-{start + 2_000_000}\r\n"
        for start in (5, 10_000_000)
    )
    with reader(url, more) as connection:
        assert read_answer(connection)[1] == DATA
        assert read_answer(connection)[1] == DATA[5:2_000_006]
        assert read_answer(connection)[1] == DATA[10_000_000:12_000_001]


async def test_a_file_waits_for_the_answers_before_it(url: str):
    """Small parts are buffered by the server itself, where nothing of a large one may overtake them."""
    address = urlsplit(url)
    head = f"\r\nGET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
    starts = range(0, 60 * 60_000, 60_000)
    more = "".join(f"{head}Range: bytes={start}-{start + 59_999}\r\n" for start in starts) + head
    with reader(url, f"Range: bytes=0-9\r\n{more}") as connection:
        assert read_answer(connection)[1] == DATA[:10]
        for start in starts:
            assert read_answer(connection)[1] == DATA[start : start + 60_000]
        assert read_answer(connection)[1] == DATA


async def test_readers_who_read_nothing_hold_up_nobody_and_are_let_go(app: App, url: str):
    readers = [reader(url) for _ in range(40)]
    connections = [one.__enter__() for one in readers]
    wait_until(lambda: blobs_open(app) == 40)
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.get(url)
        assert answer.content == DATA
    for connection in connections[1:]:
        connection.close()
    wait_until(lambda: blobs_open(app) == 1)
    wait_until(lambda: app.server.logs().count('"status":499') >= 39)
    # The one that comes back to its senses gets what it asked for.
    assert (await asyncio.to_thread(read_answer, connections[0]))[1] == DATA
    wait_until(lambda: blobs_open(app) == 0)
    for one in readers:
        one.__exit__(None, None, None)


async def test_a_file_deleted_while_it_is_read_is_read_to_its_end(app: App, url: str):
    with reader(url) as connection:
        wait_until(lambda: blobs_open(app) == 1)
        for path in (app.server.data_dir / "blobs" / "objects" / "blobs" / app.app_id).iterdir():
            path.unlink()
        assert (await asyncio.to_thread(read_answer, connection))[1] == DATA
    async with httpx.AsyncClient() as client:
        assert_error(await client.get(url), 404, "BLOB_NOT_FOUND")


async def test_head_opens_nothing(app: App, url: str):
    async with httpx.AsyncClient() as client:
        for _ in range(3):
            answer = await client.head(url)
            assert answer.headers["content-length"] == str(SIZE)
    assert blobs_open(app) == 0


async def test_an_old_client_gets_the_file_and_then_the_end(url: str):
    """HTTP/1.0, and Connection: close: the connection ends after the last byte, not before."""
    address = urlsplit(url)
    with reader(url, "Connection: close\r\n") as connection:
        assert read_answer(connection)[1] == DATA
        assert connection.recv(1) == b""
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(f"GET {address.path} HTTP/1.0\r\n\r\n".encode())
        assert read_answer(connection)[1] == DATA
        assert connection.recv(1) == b""
