"""The client for requests that leave the server: what bad hosts can do to it, and what it costs them and us."""

import asyncio
import gc
import gzip
import ssl
import tracemalloc
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pilotis.http.outgoing import Outgoing, OutgoingSettings, Reach
from pilotis.http.outgoing_types import OutgoingError, OutgoingFailure, OutgoingRequest, OutgoingResponse, RedirectError
from tests.certificates import Authority
from tests.receiver import OK, Answer, Received, Receiver
from tests.waiting import PATIENCE, until

LOOPBACK = {"host": "127.0.0.1", "base_url": "http://127.0.0.1:8090"}
MAX_BYTES = 65_536


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    client = Outgoing(OutgoingSettings(**LOOPBACK))
    yield client
    await client.close()


async def send(
    client: Outgoing, url: str, body: bytes | None = b"{}", seconds: float = PATIENCE, **headers: str
) -> OutgoingResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = OutgoingRequest(url=url, body=body, headers=named)
    return await client.send(request, reach=Reach.SERVER, seconds=seconds, max_bytes=MAX_BYTES)


async def failure(client: Outgoing, url: str, seconds: float = PATIENCE, **headers: str) -> OutgoingFailure:
    with pytest.raises(OutgoingError) as caught:
        await send(client, url, seconds=seconds, **headers)
    return caught.value.failure


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    """A byte every now and then, and never the last."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drip_head(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def silence(_: Received, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def interim(_: Received, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()


async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def reset_within(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun")
    await writer.drain()
    writer.transport.abort()


BOMB = gzip.compress(bytes(50_000_000))
ANSWERS: dict[str, Answer] = {
    "/no-content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/gone": b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
    "/busy": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy",
    "/not-modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "/drip": drip,
    "/drip-head": drip_head,
    "/silent": silence,
    "/endless": endless,
    "/interim": interim,
    "/reset": reset,
    "/reset-within": reset_within,
    "/lying": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nno gzip!",
    "/bomb": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(BOMB), BOMB),
    "/header": b"HTTP/1.1 200 OK\r\nX-Long: %b\r\nContent-Length: 0\r\n\r\n" % (b"x" * 1_000_000),
    "/headers": b"HTTP/1.1 200 OK\r\n%bContent-Length: 0\r\n\r\n" % (b"X-Many: value\r\n" * 70_000),
    "/reason": b"HTTP/1.1 200 %b\r\nContent-Length: 0\r\n\r\n" % (b"O" * 1_000_000),
    "/no-http": b"220 mail.example.com ESMTP\r\n",
    "/two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "/cookie": b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 2\r\n\r\nok",
}


async def test_what_is_sent_and_what_comes_back(outgoing: Outgoing):
    async with Receiver.listening() as receiver:
        answer = await send(
            outgoing, receiver.url("/hook?a=b%2Fc"), b'{"a": 1}', Content_Type="application/json", X_Own="é"
        )
    assert (answer.status, answer.body, answer.is_truncated) == (200, b"ok", False)
    assert answer.header("content-length") == "2"
    assert answer.header("x-absent") is None
    request = receiver.received[0]
    assert (request.method, request.path, request.body) == ("POST", "/hook?a=b%2Fc", b'{"a": 1}')
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "user-agent": "Pilotis",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": "8",
        "x-own": "é".encode().decode("latin-1"),
    }


@pytest.mark.parametrize(
    ("path", "status"), [("/no-content", 204), ("/gone", 410), ("/busy", 429), ("/not-modified", 304)]
)
async def test_any_other_status_is_an_answer(outgoing: Outgoing, path: str, status: int):
    async with Receiver.listening(ANSWERS) as receiver:
        answer = await send(outgoing, receiver.url(path))
    assert answer.status == status
    assert answer.header("Retry-After") == ("7" if status == 429 else None)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(outgoing: Outgoing, status: int):
    async with Receiver.listening() as canary, Receiver.listening() as receiver:
        for location in (canary.url(), receiver.url("/moved")):
            head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 5\r\n\r\nmoved"
            receiver.answers["/moved"] = head.encode()
            with pytest.raises(RedirectError) as caught:
                await send(outgoing, receiver.url("/moved"))
            assert caught.value.failure is OutgoingFailure.REDIRECT
            assert caught.value.response.status == status
            assert caught.value.response.header("Location") == location
        assert len(receiver.received) == 2
        assert canary.connections == 0


async def test_a_function_sees_a_redirect_as_an_answer():
    client = Outgoing(OutgoingSettings(**LOOPBACK, egress_networks=("127.0.0.0/8",)))
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n"
    async with Receiver.listening({"/": moved}) as receiver:
        answer = await client.send(
            OutgoingRequest(url=receiver.url(), method="GET"), reach=Reach.FUNCTION, seconds=PATIENCE, max_bytes=10
        )
        await client.close()
    assert (answer.status, answer.header("location")) == (302, "http://10.0.0.1/")
    assert receiver.received[0].method == "GET"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/reset", OutgoingFailure.CONNECT),
        ("/reset-within", OutgoingFailure.PROTOCOL),
        ("/header", OutgoingFailure.PROTOCOL),
        ("/headers", OutgoingFailure.PROTOCOL),
        ("/reason", OutgoingFailure.PROTOCOL),
        ("/no-http", OutgoingFailure.PROTOCOL),
        ("/two-lengths", OutgoingFailure.PROTOCOL),
        ("/chunks", OutgoingFailure.PROTOCOL),
    ],
)
async def test_an_answer_that_is_none(outgoing: Outgoing, path: str, expected: OutgoingFailure):
    async with Receiver.listening(ANSWERS) as receiver:
        assert await failure(outgoing, receiver.url(path)) is expected
        # The next request is not affected.
        assert (await send(outgoing, receiver.url("/"))).body == b"ok"
    assert len(receiver.received) == 2


@pytest.mark.parametrize("path", ["/silent", "/drip", "/drip-head", "/interim"])
async def test_an_answer_that_does_not_end_is_given_up_in_time(outgoing: Outgoing, path: str):
    async with Receiver.listening(ANSWERS) as receiver:
        expected = {OutgoingFailure.TIMEOUT} | ({OutgoingFailure.PROTOCOL} if path == "/drip-head" else set())
        assert await failure(outgoing, receiver.url(path), seconds=0.5) in expected
        if path != "/silent":
            await until(lambda: receiver.in_flight == 0)


async def test_an_endless_answer_is_cut_off(outgoing: Outgoing):
    async with Receiver.listening(ANSWERS) as receiver:
        answer = await send(outgoing, receiver.url("/endless"))
        assert (len(answer.body), answer.is_truncated) == (MAX_BYTES, True)
        await until(lambda: receiver.in_flight == 0)


async def test_an_answer_of_just_the_limit_is_whole(outgoing: Outgoing):
    body = b"x" * MAX_BYTES
    async with Receiver.listening(
        {"/": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)}
    ) as receiver:
        answer = await send(outgoing, receiver.url())
        assert (answer.body, answer.is_truncated) == (body, False)


async def test_compressed_answers_stay_as_they_are(outgoing: Outgoing):
    async with Receiver.listening(ANSWERS) as receiver:
        assert (await send(outgoing, receiver.url("/lying"))).body == b"no gzip!"
        bomb = await send(outgoing, receiver.url("/bomb"))
    assert bomb.body == BOMB[:MAX_BYTES]
    assert bomb.is_truncated == (len(BOMB) > MAX_BYTES)


async def test_memory_stays_flat(outgoing: Outgoing):
    """Nothing that a host sends may gather here, however often it is asked."""
    hostile = ["/endless", "/bomb", "/header", "/headers", "/drip-head", "/interim", "/reset-within", "/chunks"]
    async with Receiver.listening(ANSWERS) as receiver:

        async def all_of_them() -> None:
            for path in hostile:
                try:
                    await send(outgoing, receiver.url(path), seconds=0.3)
                except OutgoingError:
                    continue

        await all_of_them()
        receiver.received.clear()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(5):
                await all_of_them()
            # What the receiver has not sent yet is in its own buffers.
            await until(lambda: receiver.in_flight == 0)
            receiver.received.clear()
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 1_000_000
    # The receiver's own buffers are among it.
    assert peak - before < 8_000_000


async def test_no_cookie_is_kept_and_no_proxy_taken_from_the_environment(
    outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
):
    async with Receiver.listening() as proxy, Receiver.listening(ANSWERS) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        await send(outgoing, receiver.url("/cookie"))
        await send(outgoing, receiver.url("/cookie"))
        assert proxy.connections == 0
        assert [request.headers.get("cookie") for request in receiver.received] == [None, None]


async def test_a_kept_connection_is_used_again(outgoing: Outgoing):
    async with Receiver.listening() as receiver:
        for _ in range(5):
            await send(outgoing, receiver.url())
    assert receiver.connections == 1


def close_at_the_second() -> Answer:
    """Like a host that closes a kept connection in the very moment in which it is used again."""
    used: set[int] = set()

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.connection in used:
            writer.transport.abort()
        else:
            used.add(request.connection)
            writer.write(OK)

    return answer


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_post_over_a_kept_connection_that_closes_is_sent_once_more(outgoing: Outgoing, repeatable: bool):
    headers = {"Idempotency_Key": "k"} if repeatable else {}
    async with Receiver.listening({"/": close_at_the_second()}) as receiver:
        await send(outgoing, receiver.url(), **headers)
        if repeatable:
            assert (await send(outgoing, receiver.url(), **headers)).body == b"ok"
        else:
            assert await failure(outgoing, receiver.url()) is OutgoingFailure.CONNECT
    assert len(receiver.received) == (3 if repeatable else 2)


async def test_a_new_connection_that_closes_is_not_tried_again(outgoing: Outgoing):
    async with Receiver.listening(ANSWERS) as receiver:
        assert await failure(outgoing, receiver.url("/reset"), Idempotency_Key="k") is OutgoingFailure.CONNECT
    assert len(receiver.received) == 1


async def test_nobody_listens(outgoing: Outgoing):
    async with Receiver.listening() as receiver:
        url = receiver.url()
    assert await failure(outgoing, url) is OutgoingFailure.CONNECT


@pytest.mark.parametrize("name", ["Host", "Content-Length", "transfer-encoding", "Connection", "Upgrade", "TE"])
async def test_headers_that_frame_the_message_are_not_taken(outgoing: Outgoing, name: str):
    async with Receiver.listening() as receiver:
        assert await failure(outgoing, receiver.url(), **{name: "1"}) is OutgoingFailure.PROTOCOL
    assert receiver.received == []


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rb", "a\0b"])
async def test_a_line_break_in_a_header_is_refused(outgoing: Outgoing, value: str):
    async with Receiver.listening() as receiver:
        assert await failure(outgoing, receiver.url(), X_A=value) is OutgoingFailure.PROTOCOL
        assert await failure(outgoing, receiver.url(), **{value: "a"}) is OutgoingFailure.PROTOCOL
    assert receiver.received == []


async def tls_answer(names: list[str], host: str, tmp_path: Path, days: int = 1, trusted: bool = True) -> Any:
    authority = Authority(tmp_path)
    ca_file = str(authority.ca_file) if trusted else None
    client = Outgoing(OutgoingSettings(**LOOPBACK, ca_file=ca_file))
    try:
        async with Receiver.listening(tls=authority.context(*names, days=days)) as receiver:
            return await send(client, receiver.url(host=host))
    except OutgoingError as error:
        return error.failure
    finally:
        await client.close()


async def test_a_certificate_of_the_added_authority_is_accepted(tmp_path: Path):
    assert (await tls_answer(["localhost"], "localhost", tmp_path)).body == b"ok"
    assert (await tls_answer(["127.0.0.1"], "127.0.0.1", tmp_path)).body == b"ok"


async def test_bad_certificates_are_refused(tmp_path: Path):
    assert await tls_answer(["localhost"], "localhost", tmp_path, trusted=False) is OutgoingFailure.TLS
    assert await tls_answer(["other.example"], "localhost", tmp_path) is OutgoingFailure.TLS
    assert await tls_answer(["127.0.0.2"], "127.0.0.1", tmp_path) is OutgoingFailure.TLS
    assert await tls_answer(["localhost"], "localhost", tmp_path, days=-1) is OutgoingFailure.TLS


def old_tls(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context with TLS 1.1 alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


async def test_tls_older_than_1_2_is_refused(tmp_path: Path):
    authority = Authority(tmp_path)
    client = Outgoing(OutgoingSettings(**LOOPBACK, ca_file=str(authority.ca_file)))
    async with Receiver.listening(tls=old_tls(authority.context("localhost"))) as receiver:
        # asyncio's server closes without an alert, which looks like a lost connection.
        refused = await failure(client, receiver.url(host="localhost"))
        assert refused in {OutgoingFailure.TLS, OutgoingFailure.CONNECT}
        # It does connect if the client accepts the old version.
        lax = old_tls(ssl.create_default_context(cafile=authority.ca_file))
        _, writer = await asyncio.open_connection("127.0.0.1", receiver.port, ssl=lax, server_hostname="localhost")
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.1"
        writer.close()
    await client.close()


async def test_a_host_that_speaks_no_tls_is_refused(outgoing: Outgoing):
    async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await failure(outgoing, f"https://127.0.0.1:{port}/") is OutgoingFailure.TLS
    server.close()


async def test_a_proxy_that_the_operator_names_gets_every_request():
    """It resolves names in our place, but what is a bad address by its form is not even given to it."""
    async with Receiver.listening() as proxy, Receiver.listening() as canary:
        client = Outgoing(
            OutgoingSettings(
                host="0.0.0.0", base_url="https://api.example.com", proxy=proxy.url(), egress_networks=("10.0.0.0/8",)
            )
        )
        request = OutgoingRequest(url="http://only.proxy.knows.test/a")
        answer = await client.send(request, reach=Reach.FUNCTION, seconds=PATIENCE, max_bytes=10)
        assert answer.body == b"ok"
        assert proxy.received[0].path == "http://only.proxy.knows.test/a"
        assert await failure(client, canary.url()) is OutgoingFailure.ADDRESS_NOT_ALLOWED
        assert await failure(client, "http://only.proxy.knows.test/") is OutgoingFailure.ADDRESS_NOT_ALLOWED
        assert await failure(client, "https://only.proxy.knows.test/") is not OutgoingFailure.DNS
        assert proxy.received[-1].method == "CONNECT"
        assert proxy.received[-1].path == "only.proxy.knows.test:443"
        await client.close()
        assert canary.connections == 0


def test_the_same_on_the_event_loop_of_the_server(tmp_path: Path):
    authority = Authority(tmp_path)

    async def work() -> tuple[bytes, OutgoingFailure, OutgoingFailure]:
        client = Outgoing(OutgoingSettings(**LOOPBACK, ca_file=str(authority.ca_file)))
        inside = Outgoing(OutgoingSettings(host="0.0.0.0", base_url="https://api.example.com"))
        async with Receiver.listening(tls=authority.context("localhost")) as receiver:
            answer = await send(client, receiver.url(host="localhost"))
            refused = await failure(inside, receiver.url(host="localhost"))
        lost = await failure(client, receiver.url(host="localhost"))
        await client.close()
        await inside.close()
        return answer.body, refused, lost

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == (b"ok", OutgoingFailure.ADDRESS_NOT_ALLOWED, OutgoingFailure.CONNECT)
