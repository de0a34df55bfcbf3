"""Server-sent events: what is sent, heartbeats, and the ends of a stream."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.hosts import Hosts, normalised_host
from pilotis.http.api.principals import Access, AppInfo, InvalidTokenError
from pilotis.http.api.request import Call
from pilotis.http.replies import streams
from pilotis.http.replies.events import Event, Events
from pilotis.http.replies.reply import FilePart, Reply
from pilotis.kit.errors import UnavailableError
from pilotis.limits import Limits
from tests.http.bare import NobodyKnown, application, serving
from tests.support import assert_error
from tests.waiting import PATIENCE, until


class Source(Endpoints, tag="Source"):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = 0
        self.refused = False
        self.checks = 0
        self.size = 0

    async def _forever(self) -> AsyncGenerator[Event]:
        try:
            for event in self.events:
                yield event
            while self.size:
                yield Event(data=b"x" * self.size)
                await asyncio.sleep(0)
            await asyncio.Event().wait()
        finally:
            self.closed += 1

    async def _few(self) -> AsyncGenerator[Event]:
        for event in self.events:
            yield event

    async def _recheck(self) -> None:
        self.checks += 1
        if self.checks == 1:
            raise UnavailableError
        if self.refused:
            raise InvalidTokenError

    @get("/few", access=Access.OPEN)
    async def few(self, call: Call) -> Events:
        """Send some events."""
        return Events(self._few())

    @get("/forever", access=Access.OPEN)
    async def forever(self, call: Call) -> Events:
        """Send events without end."""
        return Events(self._forever(), self._recheck)


async def connect(address: str, path: str = "/forever") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"retry: 1000\n\n\r\n")
    return reader, writer


async def test_events_as_the_standard_has_them():
    source = Source()
    source.events = [Event(data=b"1"), Event(data=b"a\nb\r\nc\rd", event="rows.changed", id="7"), Event(data=b"")]
    async with serving(application(source)) as address, httpx.AsyncClient(base_url=address) as client:
        answer = await client.get("/few")
        head = await client.head("/few")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.split("\n\n") == [
        "retry: 1000",
        "data: 1",
        "event: rows.changed\nid: 7\ndata: a\ndata: b\ndata: c\ndata: d",
        "data: ",
        'event: bye\ndata: {"reason":"end"}',
        "",
    ]
    assert head.content == b""
    for wrong in ({"event": "a\nb"}, {"id": "a\0"}):
        with pytest.raises(ValueError, match="one line"):
            Event(data=b"", **wrong).encode()


@pytest.mark.alone
async def test_a_thousand_idle_streams_end_within_a_second_of_the_stop():
    source = Source()
    made = application(source)
    async with serving(made) as address:
        opening = time.process_time()
        connections = [await connect(address) for _ in range(1000)]
        assert made.streams.count == 1000
        # Clients and server are this one process: its processor time is the second there is on a machine of its own.
        # A machine so slow that opening the streams takes longer has that long to end them.
        begun, working = time.monotonic(), time.process_time()
        seconds = max(1, working - opening)
        made.streams.stop()
        endings = await asyncio.gather(*(reader.readuntil(b"0\r\n\r\n") for reader, _ in connections))
        await until(lambda: source.closed == 1000)
        assert time.process_time() - working < seconds
        assert time.monotonic() - begun < streams.PING_SECONDS, "No stream waits for its next heartbeat."
        assert all(b'event: bye\ndata: {"reason":"stop"}' in ending for ending in endings)
        assert made.streams.count == 0
        async with httpx.AsyncClient(base_url=address) as client:
            assert_error(await client.get("/forever"), 503, "UNAVAILABLE")
        for _, writer in connections:
            writer.close()


async def test_a_client_that_goes_away_is_noticed_at_once():
    source = Source()
    made = application(source)
    async with serving(made) as address:
        _, writer = await connect(address)
        assert made.streams.count == 1
        writer.close()
        await until(lambda: source.closed == 1 and made.streams.count == 0)


async def test_heartbeats(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "PING_SECONDS", 0.02)
    async with serving(application(Source())) as address:
        reader, writer = await connect(address)
        for _ in range(3):
            assert await asyncio.wait_for(reader.readuntil(b": ping\n\n\r\n"), PATIENCE)
        writer.close()


async def test_a_credential_that_is_no_longer_good_ends_the_stream(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "CHECK_SECONDS", 0.02)
    source = Source()
    async with serving(application(source)) as address:
        reader, writer = await connect(address)
        # A failure of the check itself ends nothing.
        await until(lambda: source.checks > 2)
        source.refused = True
        rest = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE)
        assert b'{"reason":"credential"}' in rest
        writer.close()


async def test_a_client_that_takes_nothing_is_cut_off():
    source = Source()
    source.size = 10_000
    made = application(source)
    async with serving(made) as address:
        _, writer = await connect(address)
        await until(lambda: source.closed == 1 and made.streams.count == 0)
        writer.close()


async def test_streams_are_bounded():
    source = Source()
    async with serving(application(source, limits=Limits(streams=2))) as address:
        connections = [await connect(address) for _ in range(2)]
        async with httpx.AsyncClient(base_url=address) as client:
            assert_error(await client.get("/forever"), 503, "UNAVAILABLE")
            connections[0][1].close()
            await until(lambda: source.closed == 1)
            connections.append(await connect(address))
        for _, writer in connections[1:]:
            writer.close()


class Apps(NobodyKnown):
    """Knows apps by their keys, each of which may have two streams open."""

    def __init__(self) -> None:
        self.apps = {
            key: AppInfo(UUID(int=number), key, 1, False, True, True, [], Limits(app_streams=2))
            for number, key in enumerate(("pk_a", "pk_b"), 1)
        }

    async def public_key(self, key: str, origin: str | None) -> AppInfo:
        return self.apps[key]


class OfApps(Source, tag="Of apps"):
    @get("/of-app", access=Access.PUBLIC_KEY)
    async def of_app(self, call: Call) -> Events:
        """Send events of an app without end."""
        return Events(self._forever())


async def test_streams_of_each_app_are_bounded():
    source = OfApps()
    async with (
        serving(application(source, authenticator=Apps())) as address,
        httpx.AsyncClient(base_url=address) as client,
    ):
        path = "/of-app HTTP/1.1\r\nX-Public-Key: pk_{}\r\nX-Rest:"
        connections = [await connect(address, path.format("a")) for _ in range(2)]
        refused = await client.get("/of-app", headers={"X-Public-Key": "pk_a"})
        assert_error(refused, 429, "TOO_MANY_STREAMS")
        assert refused.headers["retry-after"] == "10"
        # Another app has its own.
        connections.append(await connect(address, path.format("b")))
        connections[0][1].close()
        await until(lambda: source.closed == 1)
        connections.append(await connect(address, path.format("a")))
        assert_error(await client.get("/of-app", headers={"X-Public-Key": "pk_a"}), 429, "TOO_MANY_STREAMS")
        for _, writer in connections[1:]:
            writer.close()


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("Sites.Example", "sites.example"),
        ("a.example:8090", "a.example"),
        ("a.example.:80", "a.example"),
        ("a.example.", "a.example"),
        ("a.example:", "a.example"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("127.0.0.1:80", "127.0.0.1"),
    ],
)
def test_hosts_are_compared_in_one_spelling(authority: str, host: str):
    assert normalised_host(authority) == host


async def test_an_area_answers_for_its_hosts():
    finished = []
    made = application(Source(), lambda call, status, _: finished.append((call.scope["path"], status)))
    hosts = Hosts(made)

    async def answer(call: Call) -> Reply:
        if call.scope["path"] == "/fails":
            raise UnavailableError
        return Reply(b"site of " + call.headers[b"host"], content_type=b"text/plain")

    hosts.add(lambda host: host.endswith(".sites.example"), made.area(answer))
    async with serving(hosts) as address, httpx.AsyncClient(base_url=address) as client:
        site = await client.get("/few", headers={"Host": "A.sites.example.:80"})
        failed = await client.get("/fails", headers={"Host": "a.sites.example"})
        api = await client.get("/few", headers={"Host": "sites.example"})
    assert site.text == "site of A.sites.example.:80"
    assert "access-control-allow-origin" not in site.headers
    assert site.headers["x-request-id"]
    assert (failed.status_code, failed.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert api.headers["content-type"] == "text/event-stream"
    assert finished == [("/few", 200), ("/fails", 503), ("/few", 200)]


async def test_an_area_sends_files_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(data)
    sent: list[int] = []
    real = os.sendfile

    def sendfile(out: int, file: int, offset: int, count: int) -> int:
        sent.append(real(out, file, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", sendfile)
    made = application(Source())
    hosts = Hosts(made)

    async def answer(call: Call) -> Reply:
        assert call.takes_files
        return Reply(FilePart(os.open(tmp_path / "file", os.O_RDONLY), 100, len(data) - 100))

    hosts.add(lambda host: host == "files.example", made.area(answer))
    async with serving(hosts) as address, httpx.AsyncClient(base_url=address) as client:
        for _ in range(2):
            got = await client.get("/anything", headers={"Host": "files.example"})
            assert (got.status_code, got.content) == (200, data[100:])
    assert sum(sent) == 2 * (len(data) - 100)


async def test_a_request_with_two_hosts_belongs_to_no_area():
    made = application(Source())
    hosts = Hosts(made)

    async def answer(call: Call) -> Reply:
        return Reply(b"site")

    hosts.add(lambda host: True, made.area(answer))
    async with serving(hosts) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /few HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert head.startswith(b"HTTP/1.1 400")
        with contextlib.suppress(ConnectionError):
            writer.close()
