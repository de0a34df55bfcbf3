"""Answers that the protocol sends without the application: when it does, when it does not, and in which order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest

from pilotis.http.server.cached_answers import CachedAnswer, CachedAnswers, cached_answer
from pilotis.http.server.protocol import HttpProtocol
from tests.http.bare import serving
from tests.waiting import PATIENCE

BODY = b"from the cache"
ANSWER = cached_answer(200, [(b"content-length", b"%d" % len(BODY)), (b"etag", b'"x"')], BODY)


class Connection:
    """A connection, and what was noted of the requests that the cache answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[tuple[str, int]]) -> None:
        self._reader, self._writer, self.sent = reader, writer, sent

    async def ask(self, request: bytes, answers: int = 1) -> list[tuple[bytes, bytes]]:
        """Send requests in one packet and return head and body of each answer."""
        self._writer.write(request)
        return [await self._answer() for _ in range(answers)]

    async def _answer(self) -> tuple[bytes, bytes]:
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE)
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, b"" if head.startswith(b"HTTP/1.1 304") else await self._reader.readexactly(size)


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    """A connection to an application that answers slowly, with `/cached` in the cache."""
    sent: list[tuple[str, int]] = []

    def find(target: bytes, headers: Mapping[bytes, bytes]) -> CachedAnswer | None:
        return ANSWER if target == b"/cached" and headers.get(b"host") == b"x" else None

    class Caching(HttpProtocol):
        cached_answers = CachedAnswers([find], lambda request_id, status, _: sent.append((request_id, status)))

    async def application(scope, receive, send):
        await asyncio.sleep(0.01)
        size = 0
        while (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            if not message["more_body"]:
                break
        text = b"%s %d" % (scope["raw_path"], size)
        head = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": text})

    async with serving(application, http=Caching) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        yield Connection(reader, writer, sent)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def get(target: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/{version}", "Host: x", *headers, "", ""]).encode()


async def test_a_cached_answer_is_whole(connection: Connection):
    (head, body), (second, _) = [(await connection.ask(get("/cached")))[0] for _ in range(2)]
    assert body == BODY
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'\r\netag: "x"\r\n' in head
    assert b"\r\ndate: " in head
    assert head != second, "Each request has an id of its own."
    (given, _), *_ = await connection.ask(get("/cached", "X-Request-Id: given-by-client"))
    assert b"\r\nx-request-id: given-by-client\r\n" in given
    assert [status for _, status in connection.sent] == [200, 200, 200]
    assert connection.sent[-1][0] == "given-by-client"
    assert (await connection.ask(get("/other")))[0][1] == b"/other 0"


async def test_requests_that_come_together_are_answered_in_their_order(connection: Connection):
    targets = ["/1", "/cached", "/2", "/cached", "/cached", "/3", "/cached"]
    answers = await connection.ask(b"".join(get(target) for target in targets), len(targets))
    assert [body for _, body in answers][::5] == [b"/1 0", b"/3 0"]
    # One that waits behind others is the application's.
    assert len(connection.sent) <= 1
    answers = await connection.ask(get("/cached") + get("/cached") + get("/1"), 3)
    assert [body for _, body in answers] == [BODY, b"/cached 0", b"/1 0"]


@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (get("/cached", "Content-Length: 5") + b"hello", 5),
        (get("/cached", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n", 5),
        (get("/cached", method="POST"), 0),
        (get("/cached", "Host: x"), 0),
        (get("/cached", "Accept-Encoding: br", "Accept-Encoding: gzip"), 0),
        (get("/cached", "Connection: Upgrade", "Upgrade: h2c"), None),
    ],
)
async def test_what_is_no_plain_get_is_for_the_application(connection: Connection, request_: bytes, size: int | None):
    ((_, body),) = await connection.ask(request_)
    assert body == (BODY if size is None else b"/cached %d" % size)
    # What follows on the connection is read as it should be.
    assert (await connection.ask(get("/cached")))[0][1] == BODY
    assert (await connection.ask(get("/after")))[0][1] == b"/after 0"


@pytest.mark.parametrize("request_", [get("/cached", version="1.0"), get("/cached", "Connection: close")])
async def test_a_connection_that_is_to_end_ends(connection: Connection, request_: bytes):
    ((_, body),) = await connection.ask(request_)
    assert body == b"/cached 0"
    with pytest.raises(asyncio.IncompleteReadError):
        await connection.ask(b"")


async def test_a_head_in_pieces(connection: Connection):
    whole = get("/cached")
    for at in (3, 20, len(whole) - 1):
        connection._writer.write(whole[:at])
        await asyncio.sleep(0.01)
        assert (await connection.ask(whole[at:]))[0][1] == BODY
