"""Requests whose head is known: what they are taken for is what the parser would have taken them for."""

import asyncio
import gc
from typing import Any

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotis.http.server.known_heads import KnownHeads, Request, asker_of
from pilotis.http.server.protocol import HttpProtocol, protocol_for
from pilotis.limits import Limits
from tests.http.bare import serving
from tests.http.test_direct import ID, Things, answer, connected, request, served
from tests.waiting import until

LINES = b"Host: x\r\nX-Public-Key: pk_known"
KEPT = b"GET /things?a=1 HTTP/1.1\r\n" + LINES + b"\r\n\r\n"
POSTED = b"POST /things HTTP/1.1\r\n" + LINES + b"\r\nContent-Length: 4\r\n\r\nbody"


class Parsed:
    """What httptools makes of bytes."""

    def __init__(self, data: bytes) -> None:
        self.requests: list[Request] = []
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url = self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        assert self._parser.should_keep_alive()
        headers = dict(self._headers)
        self.requests.append(Request(self._parser.get_method(), self._url, headers, asker_of(headers), self._body))


def knowing(*whole: bytes) -> KnownHeads:
    heads = KnownHeads()
    for data in whole:
        (parsed,) = Parsed(data).requests
        heads.keep(data, parsed)
        assert heads.read(data) == parsed
    return heads


PIECES = st.sampled_from(
    [
        *(b"GET /things?a=1", b"POST", b" /x/%20-", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r\n\r\n"),
        *(LINES, b"\r\nContent-Length: 4", b"Host: x", b"\r\nTransfer-Encoding: chunked", b"0\r\n\r\n", KEPT),
        *(b"body", b" ", b":", b"\0", b"#"),
    ]
)


@given(st.lists(PIECES, max_size=8).map(b"".join))
def test_what_is_read_is_what_the_parser_reads(data: bytes):
    read = knowing(KEPT, POSTED).read(data)
    if read is not None:
        assert Parsed(data).requests == [read]


@pytest.mark.parametrize(
    "data",
    [
        # Its end is missing, so more lines may come.
        KEPT[:-4],
        KEPT[:-2],
        KEPT + KEPT,
        KEPT + b"x",
        b"\r\n" + KEPT,
        KEPT.replace(b"1.1", b"1.0"),
        KEPT.replace(b"GET", b"HEAD"),
        KEPT.replace(b"?a=1", b"?a=\xff"),
        KEPT.replace(b"/things", b"http://x/things"),
        KEPT.replace(b"/things", b"//x/things"),
        KEPT.replace(b"Host: x", b"Host: y"),
        POSTED[:-1],
        POSTED + b"x",
    ],
)
def test_what_differs_is_parsed(data: bytes):
    assert knowing(KEPT, POSTED).read(data) is None


def test_what_differs_each_time_or_is_large_is_not_kept():
    for lines in (LINES + b"\r\nX-Request-Id: 12345678", LINES + b"\r\nX-A: " + b"a" * 4096):
        data = b"GET / HTTP/1.1\r\n" + lines + b"\r\n\r\n"
        heads = KnownHeads()
        heads.keep(data, *Parsed(data).requests)
        assert heads.read(data) is None


def test_heads_are_bounded():
    heads = KnownHeads()
    for number in range(3000):
        data = KEPT.replace(b"Host: x", b"Host: x%d" % number)
        heads.keep(data, *Parsed(data).requests)
    assert len(heads._kept) <= 1024


async def test_known_requests_get_their_own_answers():
    things = Things()
    async with served(things) as (address, done), connected(address) as (reader, writer):
        for name in (b"a", b"b", b"c"):
            writer.write(request("POST /things", b'{"name":"%b"}' % name))
            assert await answer(reader) == (201, b'"direct %b"' % name)
        writer.write(request("POST /things", b'{"name":1  }'))
        assert (await answer(reader))[0] == 400
        for number in range(2):
            writer.write(request(f"GET /things/{ID}"))
            await until(lambda: bool(things.waiting))
            things.waiting.pop().set_result(b"%d" % number)
            assert await answer(reader) == (200, b"%d" % number)
        writer.write(request("GET /things/other"))
        assert (await answer(reader))[0] == 400
        writer.write(request("GET /nothing"))
        assert (await answer(reader))[0] == 404
        assert [status for _, status in done] == [201, 201, 201, 400, 200, 200, 400, 404]


async def test_a_known_head_in_pieces_or_after_another_request_waits_for_its_turn():
    things = Things()
    whole = request("POST /things", b'{"name":"a"}')
    async with served(things) as (address, _), connected(address) as (reader, writer):
        writer.write(whole)
        assert await answer(reader) == (201, b'"direct a"')
        for at in (10, len(whole) - 20, len(whole) - 3):
            writer.write(whole[:at])
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(whole[at:])
            assert (await answer(reader))[0] == 201
        writer.write(request(f"GET /things/{ID}"))
        await until(lambda: len(things.waiting) == 1)
        # In bytes of their own, while the first one is pending.
        writer.write(whole)
        await asyncio.sleep(0.01)
        things.waiting.pop().set_result(b'"first"')
        assert [await answer(reader) for _ in range(2)] == [(200, b'"first"'), (201, b'"handler a"')]


async def test_a_head_that_is_known_is_answered_the_usual_way_once_it_must_be():
    things = Things()
    async with served(things) as (address, _), connected(address) as (reader, writer):
        writer.write(request("POST /things", b'{"name":"a"}'))
        assert await answer(reader) == (201, b'"direct a"')
        writer.write(request(f"GET /things/{ID}"))
        await until(lambda: bool(things.waiting))
        things.waiting.pop().set_result(b'"direct"')
        assert await answer(reader) == (200, b'"direct"')
        things.begins = False
        for _ in range(2):
            writer.write(request(f"GET /things/{ID}"))
            assert await answer(reader) == (200, b'"handler"')


async def test_what_the_handler_gets_of_a_known_request_is_what_it_gets_of_a_parsed_one():
    seen: list[tuple[dict[str, Any], bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert not message["more_body"]
        seen.append(({name: value for name, value in scope.items() if name != "extensions"}, message["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app, protocol_for(Limits())) as address, connected(address) as (reader, writer):
        for sent in (request("PATCH /a%20b/c?d=%20e", b"body"), request("GET /a%2Fb/?", Authorization="Bearer a")):
            for _ in range(2):
                writer.write(sent)
                assert await answer(reader) == (200, b"")
            parsed, known = seen[-2:]
            assert parsed[0].keys() == known[0].keys()
            assert parsed == known
    assert seen[0][1] == b"body"


async def test_empty_lines_between_requests_do_not_age_the_next_head():
    things = Things()
    async with served(things) as (address, _), connected(address) as (reader, writer):
        whole = request("POST /things", b'{"name":"a"}')
        for between in (b"", b"\r\n", b""):
            writer.write(between)
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(whole)
            assert await answer(reader) == (201, b'"direct a"')
        protocol = next(one for one in gc.get_objects() if isinstance(one, HttpProtocol) and one.client)
        assert protocol._head_bytes == 0


async def test_an_idle_connection_is_closed_after_a_known_request():
    things = Things()
    async with served(things, keep_alive_seconds=1) as (address, _), connected(address) as (reader, writer):
        for _ in range(2):
            writer.write(request("POST /things", b'{"name":"a"}'))
            assert await answer(reader) == (201, b'"direct a"')
            await asyncio.sleep(0.6)
        # It counts from the last answer.
        writer.write(request("POST /things", b'{"name":"a"}'))
        assert await answer(reader) == (201, b'"direct a"')
        begun = asyncio.get_running_loop().time()
        assert await asyncio.wait_for(reader.read(), 10) == b""
        assert asyncio.get_running_loop().time() - begun > 0.9
