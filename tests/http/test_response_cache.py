"""Answers sent in a single write, cached answers, and what requests leave behind."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from pilotis.http.api.application import Application
from pilotis.http.api.endpoint import Endpoint, Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.replies.reply import Reply
from pilotis.http.server.protocol import protocol_for
from pilotis.http.server.response_cache import MAX_BODY_BYTES
from pilotis.kit.errors import UnavailableError
from pilotis.limits import Limits
from tests.http.bare import application, serving
from tests.support import assert_error

OWN = {"date", "x-request-id"}
Serve = Callable[[Application], AbstractAsyncContextManager[str]]


@pytest.fixture(params=["usual", "direct"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Serves an application, and answers what is cached by a task or directly."""
    if request.param == "usual":
        return serving
    return lambda made: serving(made, protocol_for(Limits(), None, made.direct(lambda host: host == b"area.example")))


class Counted(Endpoints, tag="Counted"):
    """Answers with how often it was asked, and says that its answers hold as long as `version` stays."""

    def __init__(self) -> None:
        self.asked = self.version = 0
        self.size = 10
        self.failure: Exception | None = None

    @get("/counted/*path", access=Access.OPEN, returns=bytes, media_type="*/*")
    async def counted(self, call: Call, path: str) -> Reply:
        """Answer."""
        self.asked += 1
        version = self.version

        async def holds() -> bool:
            if self.failure is not None:
                raise self.failure
            return self.version == version

        return Reply(
            b"%*d" % (self.size, self.asked), headers=[(b"etag", b'"1"')], content_type=b"a/b", still_valid=holds
        )

    @get("/broken", access=Access.OPEN, returns=bytes, media_type="*/*")
    async def broken(self, call: Call) -> Reply:
        """Answer with a header that would be two."""
        return Reply(b"", headers=[(b"x-a", b"1\r\nx-b: 2")])


async def test_an_answer_is_given_again_as_long_as_it_holds(serve: Serve):
    counted = Counted()
    finished: list[tuple[Endpoint | None, int]] = []
    app = application(counted, lambda call, status, _: finished.append((call.endpoint, status)))
    async with serve(app) as address, httpx.AsyncClient(base_url=address) as client:
        first, second = await client.get("/counted/a"), await client.get("/counted/a")
        assert (first.status_code, second.status_code, counted.asked) == (200, 200, 1)
        assert int(second.content) == 1
        for name, value in first.headers.items():
            assert name in OWN or second.headers[name] == value
        assert first.headers.keys() == second.headers.keys()
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        given = await client.get("/counted/a", headers={"X-Request-Id": "given-by-me"})
        assert (given.headers["x-request-id"], counted.asked) == ("given-by-me", 1)
        assert [status for _, status in finished] == [200, 200, 200]
        assert len({endpoint for endpoint, _ in finished}) == 1
        assert finished[0][0] is not None

        counted.version += 1
        assert [int((await client.get("/counted/a")).content) for _ in range(3)] == [2, 2, 2]
        together = await asyncio.gather(*(client.get("/counted/b") for _ in range(20)))
        assert {answer.status_code for answer in together} == {200}
        assert [int((await client.get("/counted/a")).content) for _ in range(3)] == [2, 2, 2]


@pytest.mark.parametrize(
    "header",
    [
        ("Authorization", "Bearer x"),
        ("Range", "bytes=0-1"),
        ("If-None-Match", '"1"'),
        ("If-Match", '"1"'),
        ("If-Modified-Since", "Fri, 20 Nov 2026 10:00:00 GMT"),
        ("If-Unmodified-Since", "Fri, 20 Nov 2026 10:00:00 GMT"),
        ("If-Range", '"1"'),
        ("Content-Length", "0"),
        ("Host", "another.example"),
    ],
)
async def test_what_may_change_the_answer_goes_past_it(header: tuple[str, str], serve: Serve):
    counted = Counted()
    async with serve(application(counted)) as address, httpx.AsyncClient(base_url=address) as client:
        await client.get("/counted/a")
        assert int((await client.get("/counted/a", headers=[header])).content) == 2
        # Its lines are known by now. Another host has answers of its own.
        again = 2 if header[0] == "Host" else 3
        assert int((await client.get("/counted/a", headers=[header])).content) == again
        assert int((await client.get("/counted/a?more=1")).content) == again + 1
        assert (await client.head("/counted/a")).content == b""
        assert counted.asked == again + 2
        assert int((await client.get("/counted/a")).content) == 1


async def test_what_is_cached_needs_no_task():
    counted = Counted()
    app = application(counted)
    called = 0

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        nonlocal called
        called += 1
        await app(scope, receive, send)

    direct = protocol_for(Limits(), None, app.direct(lambda host: host == b"area.example"))
    async with serving(counting, direct) as address, httpx.AsyncClient(base_url=address) as client:
        for _ in range(5):
            assert int((await client.get("/counted/a")).content) == 1
        assert called == 1
        # What holds no more is made again.
        counted.version += 1
        assert [int((await client.get("/counted/a")).content) for _ in range(3)] == [2, 2, 2]
        # An area has answers of its own.
        for _ in range(2):
            await client.get("/counted/a", headers={"Host": "area.example"})
        assert called == 3


async def test_a_failure_to_ask_is_told(serve: Serve):
    counted = Counted()
    async with serve(application(counted)) as address, httpx.AsyncClient(base_url=address) as client:
        await client.get("/counted/a")
        counted.failure = UnavailableError()
        assert_error(await client.get("/counted/a"), 503, "UNAVAILABLE")
        counted.failure = None
        assert int((await client.get("/counted/a")).content) == 1


async def test_what_is_kept_is_bounded(serve: Serve):
    counted = Counted()
    app = application(counted, cache_bytes=20 * MAX_BODY_BYTES)
    async with serve(app) as address, httpx.AsyncClient(base_url=address) as client:
        counted.size = MAX_BODY_BYTES + 1
        assert [int((await client.get("/counted/large")).content) for _ in range(2)] == [1, 2]
        counted.size, counted.asked = MAX_BODY_BYTES, 0
        more_than_fit = 21
        for number in range(more_than_fit):
            await client.get(f"/counted/{number}")
            # Used again and again, it is the last to go.
            assert int((await client.get("/counted/0")).content) == 1
        assert int((await client.get(f"/counted/{more_than_fit - 1}")).content) == more_than_fit
        assert int((await client.get("/counted/1")).content) == more_than_fit + 1


async def raw(address: str, *requests: bytes) -> bytes:
    """Send requests as they are, and return all that comes until the server closes."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"".join(requests))
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


async def test_connections_go_on_and_end_as_asked(serve: Serve):
    counted = Counted()
    get_ = b"GET /counted/a HTTP/1.1\r\nHost: x\r\n"
    async with serve(application(counted)) as address:
        # Sent in one go, answered one after the other; cached or not.
        answers = await raw(address, *[get_ + b"\r\n"] * 3, get_ + b"Connection: close\r\n\r\n")
        assert answers.count(b"HTTP/1.1 200 OK\r\n") == answers.count(b"content-length: 10\r\n") == 4
        assert answers.count(b"connection: close\r\n") == 1
        old = await raw(address, b"GET /counted/a HTTP/1.0\r\nHost: x\r\n\r\n")
        assert old.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close\r\n" in old
        head = await raw(address, b"HEAD /counted/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert b"content-length: 10\r\n" in head


async def test_no_header_becomes_two():
    async with serving(application(Counted())) as address, httpx.AsyncClient(base_url=address) as client:
        answer = await client.get("/broken")
    assert answer.status_code == 500
    assert "x-b" not in answer.headers


def left(kinds: set[str]) -> list[Any]:
    return [type(thing).__name__ for thing in gc.get_objects() if type(thing).__name__ in kinds]


@pytest.mark.parametrize("path", ["/counted/a", "/nowhere"])
async def test_a_request_leaves_nothing_for_the_collector(path: str, serve: Serve):
    """Cyclic garbage makes the collector run, and all requests wait for it."""
    async with serve(application(Counted())) as address, httpx.AsyncClient(base_url=address) as client:
        await client.get(path)
        gc.collect()
        before = left({"Call", "RequestResponseCycle"})
        gc.disable()
        try:
            for _ in range(20):
                await client.get(path)
            await until_idle()
            remaining = left({"Call", "RequestResponseCycle"})
        finally:
            gc.enable()
    assert len(remaining) <= len(before), remaining


async def until_idle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
