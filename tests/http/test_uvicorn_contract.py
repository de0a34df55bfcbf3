"""What `http/server/` needs of uvicorn's inside, so that an upgrade which changes it fails here and says what."""

import ast
import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pilotis.http.api.request import ANSWERING
from pilotis.http.server.protocol import HttpProtocol
from pilotis.http.server.single_write import header_lines, send_whole
from tests.http.bare import serving
from tests.waiting import PATIENCE, until

SOURCE = Path(__file__).parents[2] / "src" / "pilotis" / "http"
# What is used of each of uvicorn's objects, and for what.
CYCLE = {
    "body": "what has arrived of the request's body",
    "chunked_encoding": "whether pieces of a stream are framed",
    "default_headers": "headers of every answer, pairs of bytes",
    "disconnected": "whether the client has gone away",
    "expected_content_length": "bytes of the body that uvicorn still waits for",
    "flow": "flow control of the connection",
    "keep_alive": "whether the connection stays",
    "message_event": "wakes who waits for more of the body, or for the end",
    "more_body": "whether more of the request's body is to come",
    "on_response": "begins the next request",
    "response_complete": "whether the answer is whole",
    "response_started": "whether the answer has begun",
    "scope": "the request",
    "transport": "the connection",
    "waiting_for_100_continue": "whether the client waits to be asked for its body",
}
FLOW = {
    "drain": "waits until the client has taken enough",
    "read_paused": "whether nothing is read for now",
    "resume_reading": "reads on for the next request",
    "write_paused": "whether too much waits for the client",
}
PROTOCOL = {
    "access_log": "passed to the object of a request",
    "access_logger": "passed to the object of a request",
    "app": "the ASGI application",
    "app_state": "part of a request's scope",
    "asgi_version": "part of a request's scope",
    "client": "the address and port of the client",
    "expect_100_continue": "whether the client waits to be asked for its body",
    "logger": "passed to the object of a request",
    "_start_asgi_task": "begins a request",
    "_unset_keepalive_if_required": "takes the timer away",
    "connection_lost": "asyncio.Protocol",
    "connection_made": "asyncio.Protocol",
    "cycle": "the present request",
    "flow": "flow control of the connection",
    "headers": "headers of the present request, by names in lower case",
    "loop": "the event loop",
    "on_body": "called by the parser",
    "on_headers_complete": "called by the parser",
    "on_message_begin": "called by the parser",
    "on_message_complete": "called by the parser",
    "on_response_complete": "begins the next request, or the wait for one",
    "parser": "httptools' parser",
    "pipeline": "requests that wait for the present one",
    "root_path": "part of a request's scope",
    "scheme": "part of a request's scope",
    "server": "part of a request's scope",
    "pause_writing": "asyncio.Protocol",
    "resume_writing": "asyncio.Protocol",
    "server_state": "has the headers of every answer, `default_headers`",
    "timeout_keep_alive": "seconds that an idle connection stays",
    "timeout_keep_alive_handler": "ends an idle connection",
    "timeout_keep_alive_task": "its timer",
    "transport": "the connection",
    "url": "the present request's target",
}


class Seen:
    """An ASGI application that keeps the objects of its requests, and answers as requested."""

    def __init__(self) -> None:
        self.cycles: list[RequestResponseCycle] = []
        self.whole = True
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        cycle = scope["extensions"][ANSWERING]["cycle"]()
        self.cycles.append(cycle)
        await self.go.wait()
        headers = [(b"content-length", b"2"), (b"x-answer", b"1")]
        if self.whole:
            await send_whole(cycle, 200, header_lines(headers), b"ok")
        else:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def connection(seen: Seen) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with serving(seen) as address:
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield reader, writer
        finally:
            writer.close()


REQUEST = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    return head + await reader.readexactly(2)


def protocol_of(cycle: RequestResponseCycle) -> HttpProtocol:
    protocol = cycle.transport.get_protocol()
    assert isinstance(protocol, HttpProtocol)
    return protocol


def missing(found: Any, names: dict[str, str]) -> list[str]:
    """A sentence for each name that the object does not have."""
    return [
        f"uvicorn {version('uvicorn')}: {type(found).__name__} has no {name}, which http/server uses: {purpose}."
        for name, purpose in names.items()
        if not hasattr(found, name)
    ]


async def test_each_name_that_is_used_exists():
    seen = Seen()
    async with connection(seen) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        (cycle,) = seen.cycles
        assert missing(cycle, CYCLE) + missing(cycle.flow, FLOW) + missing(protocol_of(cycle), PROTOCOL) == []
        assert missing(cycle, {"no_such_name": "a test"})


def test_the_lists_name_all_that_is_used():
    used: dict[str, set[str]] = {"cycle": set(), "flow": set()}
    own = set(vars(HttpProtocol)) | set(HttpProtocol.__annotations__)
    inherited = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                name = getattr(node.value, "attr", getattr(node.value, "id", None))
                if name in used:
                    used[name].add(node.attr)
    for node in ast.walk(ast.parse(inspect.getsource(HttpProtocol))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"self", "super()"}:
            inherited.add(node.attr)
    assert used["cycle"] == set(CYCLE)
    assert used["flow"] == set(FLOW)
    assert inherited - own | {name for name in inherited if hasattr(HttpToolsProtocol, name)} == set(PROTOCOL)


async def test_a_single_write_leaves_what_two_sends_leave():
    states, answers = [], []
    for whole in (True, False):
        for close in (b"", b"Connection: close\r\n"):
            seen = Seen()
            seen.whole = whole
            async with connection(seen) as (reader, writer):
                writer.write(REQUEST[:-2] + close + b"\r\n")
                answers.append(await answer(reader))
                (cycle,) = seen.cycles
                names = set(CYCLE) - {"flow", "on_response", "scope", "transport", "message_event", "default_headers"}
                state = {name: getattr(cycle, name) for name in names}
                # A whole answer needs no framing, and nothing of it is awaited.
                del state["chunked_encoding"]
                state["woken"], state["closing"] = cycle.message_event.is_set(), cycle.transport.is_closing()
                states.append(state)
    assert [states[0], states[1]] == [states[2], states[3]]
    lines = [sorted(line for line in one.split(b"\r\n") if not line.startswith(b"date:")) for one in answers]
    assert [lines[0], lines[1]] == [lines[2], lines[3]]
    assert states[1]["closing"]
    assert not states[0]["closing"]


async def test_an_answer_begins_the_next_request():
    seen = Seen()
    async with connection(seen) as (reader, writer):
        writer.write(REQUEST * 3)
        for _ in range(3):
            assert (await answer(reader)).startswith(b"HTTP/1.1 200 OK\r\n")
    assert len(seen.cycles) == 3


async def test_a_declared_length_is_counted_down_and_a_stream_is_chunked():
    seen = Seen()
    async with connection(seen) as (reader, writer):
        seen.go.clear()
        writer.write(REQUEST)
        await until(lambda: bool(seen.cycles))
        (cycle,) = seen.cycles
        assert (cycle.chunked_encoding, cycle.expected_content_length) == (None, 0)
        await cycle.send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        assert (cycle.chunked_encoding, cycle.expected_content_length) == (False, 10)
        # What went out past uvicorn is counted by hand; then the end is in order.
        cycle.transport.write(b"x" * 10)
        cycle.expected_content_length -= 10
        await cycle.send({"type": "http.response.body", "body": b""})
        assert cycle.response_complete
        assert (await reader.readuntil(b"x" * 10)).endswith(b"\r\n\r\n" + b"x" * 10)
    seen = Seen()
    async with connection(seen) as (reader, writer):
        seen.go.clear()
        writer.write(REQUEST)
        await until(lambda: bool(seen.cycles))
        await seen.cycles[0].send({"type": "http.response.start", "status": 200, "headers": []})
        assert seen.cycles[0].chunked_encoding is True


async def test_a_client_that_leaves_is_noted_and_wakes_who_waits():
    seen = Seen()
    async with connection(seen) as (_, writer):
        seen.go.clear()
        writer.write(REQUEST)
        await until(lambda: bool(seen.cycles))
        (cycle,) = seen.cycles
        assert not cycle.disconnected
        writer.close()
        await until(lambda: cycle.disconnected and cycle.message_event.is_set())


async def test_flow_control():
    flow = FlowControl(asyncio.Transport())
    flow.pause_writing()
    assert flow.write_paused
    waiting = asyncio.ensure_future(flow.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    flow.resume_writing()
    await asyncio.wait_for(waiting, PATIENCE)
    assert not flow.write_paused


async def test_the_keep_alive_timer_is_ours_to_set():
    seen = Seen()
    async with connection(seen) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        protocol = protocol_of(seen.cycles[0])
        assert isinstance(protocol.timeout_keep_alive, int)
        timer = protocol.loop.call_later(PATIENCE, lambda: None)
        HttpToolsProtocol._unset_keepalive_if_required(protocol)
        protocol.timeout_keep_alive_task = timer
        HttpToolsProtocol._unset_keepalive_if_required(protocol)
        assert timer.cancelled()
        assert protocol.timeout_keep_alive_task is None
        HttpToolsProtocol.timeout_keep_alive_handler(protocol)
        assert protocol.transport.is_closing()


def test_signatures():
    assert list(inspect.signature(HttpToolsProtocol._start_asgi_task).parameters) == ["self", "cycle", "app"]
    assert list(inspect.signature(RequestResponseCycle).parameters) == [
        "scope",
        "transport",
        "flow",
        "logger",
        "access_logger",
        "access_log",
        "default_headers",
        "message_event",
        "expect_100_continue",
        "keep_alive",
        "on_response",
    ]
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert {404, 431, 503, 507} <= set(STATUS_LINE)
    # The parser is made as uvicorn makes it, when a request is parsed again.
    assert "lenient_data_after_close=True" in inspect.getsource(httptools_impl.HttpToolsProtocol.__init__)
    assert "capture_signals" in vars(uvicorn.Server)
