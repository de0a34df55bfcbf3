"""What holds for every request: ids, methods, CORS, bodies, and answers to what is refused early."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.support import App, Server, assert_error
from tests.waiting import PATIENCE

REQUEST_ID = "test-request:1234"


async def exchange(server: Server, *parts: bytes, wait: float = PATIENCE, pause: float = 0.0) -> bytes:
    """Send bytes as they are, with pauses, and return all that comes until the server closes or is silent."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        return await asyncio.wait_for(reader.read(), wait)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/nowhere", 404),
        ("PUT", "/healthz", 405),
        ("TRACE", "/healthz", 405),
        ("OPTIONS", "/v1/public/tables", 204),
        ("HEAD", "/healthz", 200),
        ("HEAD", "/nowhere", 404),
        ("GET", "/v1/public/tables", 401),
        ("GET", "/docs", 200),
    ],
)
async def test_every_answer_has_a_request_id(server: Server, method: str, path: str, status: int):
    async with httpx.AsyncClient(base_url=server.url) as client:
        given = await client.request(method, path, headers={"X-Request-Id": REQUEST_ID})
        made = await client.request(method, path)
    assert given.status_code == made.status_code == status
    assert given.headers["x-request-id"] == REQUEST_ID
    assert len(made.headers["x-request-id"]) == 36


@pytest.mark.parametrize(
    "given", [b"short", b"x" * 129, b"with space 123", b"tab\t1234567", "é".encode() * 8, b"<b>12345678"]
)
async def test_a_request_id_of_another_form_is_not_reflected(server: Server, given: bytes):
    async with httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.get("/nowhere", headers={b"X-Request-Id": given})
    assert answer.headers["x-request-id"].encode() != given
    assert_error(answer, 404, "NOT_FOUND")


async def test_405_lists_the_methods(server: Server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.put("/v1/public/tables")
        assert_error(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        # A fixed segment does not hide what a parameter in its place would take.
        answer = await client.put("/v1/public/app-members/me")
        assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"


async def test_head_is_get_without_the_body(server: Server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        head, get = await client.head("/openapi.json"), await client.get("/openapi.json")
    assert head.content == b""
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))


@pytest.mark.parametrize(
    "path", ["/healthz/", "//healthz", "/HEALTHZ", "/healthz/..", "/%68ealthz/", "/v1/public/tables/"]
)
async def test_another_spelling_of_a_path_is_not_found(server: Server, path: str):
    raw = await exchange(server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert raw.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("path", [b"/\xff", b"/%ff", b"/%00", b"/v1/public/tables/%0d%0aX:1", b"/" + b"a" * 20_000])
async def test_odd_paths_are_no_server_errors(server: Server, path: bytes):
    raw = await exchange(server, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert raw[:11] == b"HTTP/1.1 40", raw[:200]
    assert b"\r\nx:1" not in raw.lower()


async def test_a_public_route_answers_a_preflight_for_any_origin(server: Server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Origin": "https://any.example", "Access-Control-Request-Method": "POST"}
        answer = await client.options("/v1/public/app-members/signup", headers=headers)
    assert answer.status_code == 204
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers
    assert answer.headers.get_list("access-control-allow-origin") == ["*"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    allowed = answer.headers["access-control-allow-headers"]
    assert {"authorization", "content-type", "x-public-key"} <= set(allowed.split(", "))
    assert "access-control-allow-credentials" not in answer.headers


async def test_a_console_route_allows_the_consoles_origin_alone(server: Server, console: dict[str, str]):
    async with httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Origin": "https://any.example", "Access-Control-Request-Method": "POST"}
        preflight = await client.options("/v1/apps", headers=headers)
        bearer = {"Authorization": f"Bearer {console['access_token']}", "Origin": "https://any.example"}
        actual = await client.get("/v1/auth/me", headers=bearer)
        refused = await client.get("/v1/auth/me")
        # A page of another site must not try passwords on a server that only its visitor can reach.
        sign_in = await client.options("/v1/auth/signin", headers=headers)
        sign_up = await client.post("/v1/auth/signup", json={}, headers={"Origin": "https://any.example"})
    for answer in (preflight, actual, refused, sign_in, sign_up):
        assert answer.headers.get_list("access-control-allow-origin") == [server.url]
        assert answer.headers["vary"] == "origin"


async def test_errors_can_be_read_from_another_origin(server: Server, app: App):
    async with app.client(Origin="https://any.example") as client:
        answers = [await client.get("/nowhere"), await client.put("/v1/public/tables"), await client.get("/v1/auth/x")]
        answers.append(await client.post("/v1/public/tables", content=b"{"))
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "x-request-id" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_of_another_type_is_refused(app: App, content_type: str):
    async with app.client() as client:
        answer = await client.post("/v1/public/tables", content=b"{}", headers={"Content-Type": content_type})
    assert_error(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/ld+json"])
async def test_a_body_of_json_by_another_name_is_taken(app: App, content_type: str):
    async with app.client() as client:
        answer = await client.post("/v1/public/tables", content=b"{}", headers={"Content-Type": content_type})
    assert_error(answer, 400, "VALIDATION_FAILED")


@pytest.mark.parametrize("size", [11 * 1024 * 1024, 25 * 1024 * 1024])
async def test_a_body_too_large_gets_its_answer(app: App, size: int):
    """Even if the client sends all of it before it reads the answer, with or without a declared length."""

    async def chunks() -> Any:
        for _ in range(size // 65536):
            yield b" " * 65536

    for content in (b" " * size, chunks()):
        async with app.client() as client:
            answer = await client.post(
                "/v1/public/tables", content=content, headers={"Content-Type": "application/json"}
            )
        assert_error(answer, 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(("parts", "pause"), [(1, 0.0), (5, 0.0), (6, 0.6)], ids=["small", "large", "slow"])
async def test_a_client_that_sends_before_it_reads_gets_its_answer(server: Server, parts: int, pause: float):
    """A plain client: all of the body first, then the answer. Closing too early would take the answer with it."""
    part = b" " * (12 if not pause else 1) * 1024 * 1024
    size = parts * len(part)
    head = f"POST /v1/public/tables HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    raw = await exchange(server, head, *[part] * parts, pause=pause)
    assert raw.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in raw.lower()
    assert b"PUBLIC_KEY_REQUIRED" in raw


async def test_a_refused_client_that_waits_for_leave_to_send_is_told_at_once(server: Server):
    """RFC 9110, section 10.1.1: the final answer instead of 100 Continue."""
    head = b"POST /v1/public/tables HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    refused = b"POST /v1/public/tables HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"

    async def told_at_once() -> bool:
        """In a fraction of the time for which the body of a client that does not wait is read."""
        seconds = []
        for given in (head, refused):
            started = time.monotonic()
            assert (await exchange(server, given)).startswith(b"HTTP/1.1 401")
            seconds.append(time.monotonic() - started)
        return seconds[0] < seconds[1] / 2

    # More than once, should the machine be busy with something else at the wrong moment.
    assert await told_at_once() or await told_at_once() or await told_at_once()


async def test_an_endless_body_ends(server: Server):
    """What is read of a refused body is bounded: by its size, and by time where nothing more comes."""
    head = b"POST /v1/public/tables HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    raw = await exchange(server, head)
    assert raw.startswith(b"HTTP/1.1 401")


async def test_a_small_refused_body_leaves_the_connection_open(server: Server):
    request = b"POST /v1/public/tables HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n%b\r\n{}"
    raw = await exchange(server, request % b"", request % b"Connection: close\r\n")
    assert raw.count(b"HTTP/1.1 401") == 2


async def test_u0000_is_refused_wherever_it_stands(app: App):
    table = await app.table({})
    async with app.client() as client:
        for body in ({"data": {"a": "\0"}}, {"data": {"a\0": 1}}, {"data": {"a": [{"b": "x\0"}]}}):
            answer = await client.post(f"/v1/public/tables/{table}/data", json=body)
            assert answer.status_code == 400, answer.text
            assert json.loads(answer.content)["code"] in {"VALIDATION_FAILED", "UNKNOWN_COLUMN", "INVALID_COLUMN_NAME"}


@pytest.mark.parametrize("number", ["1e99999999999999999999", "0e-99999999999999999999", "0e-999999", "-0.0e-20000"])
async def test_numbers_that_nobody_can_keep_are_refused(app: App, number: str):
    table = await app.table({"n": "number", "o": "object"})
    path = f"/v1/public/tables/{table}/data"
    async with app.client() as client:
        for place in ('{"data": {"n": #}}', '{"data": {"o": {"x": #}}}', '{"data": {"o": [#]}}'):
            answer = await client.post(path, content=place.replace("#", number))
            assert_error(answer, 400, "VALIDATION_FAILED")
        answer = await client.post(f"{path}/query", content='{"where": {"n": {"$gt": #}}}'.replace("#", number))
        assert_error(answer, 400, "VALIDATION_FAILED")


@pytest.mark.parametrize("query", ["limit=-1", "limit=x", "limit=1.5", "limit=", "limit=%FF", "limit=1e9", "offset=-1"])
async def test_a_query_that_is_wrong_is_refused(app: App, query: str):
    table = await app.table({})
    async with app.client() as client:
        answer = await client.get(f"/v1/public/tables/{table}/data?{query}")
    assert answer.status_code == 400, answer.text
