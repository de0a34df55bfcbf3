"""What S3 adds to the contract: presigned requests, faults of the server, and the check for operators."""

import asyncio
import base64
import contextlib
import hashlib
import http.client
import re
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.store import LocalStore as ObstoreFiles
from obstore.store import MemoryStore

from pilotis.blobs import remote as opening
from pilotis.blobs.check import ask, check_direct_uploads, send
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.open import open_store
from pilotis.blobs.presign import Presigner
from pilotis.blobs.protocol import BlobStore, UploadTicket
from pilotis.blobs.unfinished import NO_RULE
from pilotis.kit import clock
from pilotis.kit.errors import StorageFullError
from tests.accepting import accepting
from tests.blobs import swift
from tests.blobs.conftest import opened
from tests.blobs.support import MIB, content, hex_sha256, keys, put, read
from tests.waiting import PATIENCE

KEY = "staging/a/1"
DATA = content(1000)
ORIGIN = swift.ALLOWED_ORIGIN


def ticket_for(store: BlobStore, *, sha256: bytes | None = None, expires_seconds: int = 60) -> UploadTicket:
    ticket = store.presign_put(
        KEY, size=len(DATA), content_type="image/png", sha256=sha256, expires_seconds=expires_seconds
    )
    assert ticket is not None
    return ticket


async def upload(ticket: UploadTicket, data: bytes = DATA, **headers: str) -> int:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    status, _ = await asyncio.to_thread(send, ticket.method, ticket.url, ticket.headers | names, data)
    return status


async def test_a_presigned_upload(s3: ObjectStore):
    ticket = ticket_for(s3)
    assert (ticket.method, ticket.headers) == ("PUT", {"Content-Type": "image/png"})
    assert await upload(ticket) == 200
    info = await s3.stat(KEY)
    assert info is not None
    assert (info.size, info.content_type, info.sha256) == (len(DATA), "image/png", None)
    assert await read(s3, KEY) == DATA
    assert info.etag == hashlib.md5(DATA).hexdigest()


@pytest.mark.parametrize("data", [DATA + b".", DATA[:-1], b"", DATA * 2])
async def test_a_presigned_upload_of_another_size(s3: ObjectStore, data: bytes):
    assert await upload(ticket_for(s3), data) == 403
    assert await s3.stat(KEY) is None


@pytest.mark.parametrize("content_type", ["text/html", "image/png; charset=utf-8", "image/pn", ""])
async def test_a_presigned_upload_of_another_type(s3: ObjectStore, content_type: str):
    assert await upload(ticket_for(s3), Content_Type=content_type) == 403
    assert await s3.stat(KEY) is None


async def test_a_presigned_upload_without_a_type(s3: ObjectStore):
    ticket = ticket_for(s3)
    status, _ = await asyncio.to_thread(send, ticket.method, ticket.url, {}, DATA)
    assert status == 403


async def test_a_presigned_upload_with_a_digest(s3: ObjectStore):
    ticket = ticket_for(s3, sha256=hashlib.sha256(DATA).digest())
    assert await upload(ticket, content(1000, 1)) == 400
    assert await s3.stat(KEY) is None
    assert await upload(UploadTicket(ticket.url, "PUT", {"Content-Type": "image/png"})) == 403
    other = base64.b64encode(hashlib.sha256(content(1000, 1)).digest()).decode()
    assert await upload(ticket, content(1000, 1), x_amz_checksum_sha256=other) == 403
    assert await upload(ticket) == 200
    assert await read(s3, KEY) == DATA


async def test_a_presigned_upload_takes_no_other_method_or_key(s3: ObjectStore):
    await put(s3, KEY, b"before")
    ticket = ticket_for(s3)
    for method in ("GET", "DELETE", "POST"):
        status, _ = await asyncio.to_thread(send, method, ticket.url, ticket.headers, DATA)
        assert status in {403, 405, 501}, method
    assert await upload(UploadTicket(ticket.url.replace(KEY, "blobs/a/1"), "PUT", ticket.headers)) == 403
    assert await read(s3, KEY) == b"before"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("X-Amz-Expires=60", "X-Amz-Expires=600"),
        ("X-Amz-SignedHeaders=content-length%3B", "X-Amz-SignedHeaders="),
        ("X-Amz-Signature=", "X-Amz-Signature=0"),
        ("%2Fus-east-1%2F", "%2Feu-west-1%2F"),
    ],
)
async def test_a_presigned_upload_that_was_tampered_with(s3: ObjectStore, old: str, new: str):
    ticket = ticket_for(s3)
    assert old in ticket.url
    assert await upload(UploadTicket(ticket.url.replace(old, new), "PUT", ticket.headers)) in {400, 403}
    assert await s3.stat(KEY) is None


async def test_a_presigned_upload_that_expired(s3: ObjectStore):
    ticket = ticket_for(s3, expires_seconds=1)
    await asyncio.sleep(2.1)
    assert await upload(ticket) == 403
    assert await s3.stat(KEY) is None


async def test_a_presigned_upload_can_come_twice(s3: ObjectStore):
    ticket = ticket_for(s3)
    assert [await upload(ticket), await upload(ticket, content(1000, 1))] == [200, 200]


async def test_a_presigned_upload_cut_in_the_middle(s3: ObjectStore):
    ticket = ticket_for(s3)
    parts = urlsplit(ticket.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: image/png\r\n"
    writer.write(head.encode() + b"Content-Length: 1000\r\n\r\n" + DATA[:500])
    await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await reader.read()
    assert await s3.stat(KEY) is None
    assert await upload(ticket) == 200


async def test_a_presigned_read(s3: ObjectStore):
    await put(s3, KEY, DATA)
    disposition = "attachment; filename*=UTF-8''%ED%95%9C%20%2B%3D.png"
    url = s3.presign_get(KEY, expires_seconds=60, disposition=disposition, content_type="text/plain; charset=utf-8")
    assert url is not None
    status, headers = await asyncio.to_thread(send, "GET", url, {})
    assert status == 200
    assert headers["content-disposition"] == disposition
    assert headers["content-type"] == "text/plain; charset=utf-8"
    status, _ = await asyncio.to_thread(send, "GET", url.replace("plain", "html"), {})
    assert status == 403
    plain = s3.presign_get(KEY, expires_seconds=60)
    assert plain is not None
    _, headers = await asyncio.to_thread(send, "GET", plain, {})
    assert headers["content-type"] == "image/png"


async def test_a_bucket_in_the_host_name(s3_server: swift.Swift, s3: ObjectStore, s3_url: str, tmp_path: Path):
    url = s3_url.replace("127.0.0.1", swift.STORAGE_DOMAIN) + "&addressing=virtual"
    ticket = ticket_for(opened(url, tmp_path))
    parts = urlsplit(ticket.url)
    assert parts.netloc == f"{swift.BUCKET}.{swift.STORAGE_DOMAIN}:{s3_server.port}"

    def send_to_loopback(data: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", s3_server.port)
        connection.request("PUT", f"{parts.path}?{parts.query}", data, ticket.headers | {"Host": parts.netloc})
        status = connection.getresponse().status
        connection.close()
        return status

    assert await asyncio.to_thread(send_to_loopback, DATA + b".") == 403
    assert await asyncio.to_thread(send_to_loopback, DATA) == 200
    assert await read(s3, KEY) == DATA


def test_clients_may_reach_the_store_at_another_address(s3_url: str, tmp_path: Path):
    ticket = ticket_for(opened(f"{s3_url}&public_endpoint=https://files.example.com", tmp_path))
    assert ticket.url.startswith(f"https://files.example.com/{swift.BUCKET}/test-")


async def test_other_stores_take_uploads_through_the_server(tmp_path: Path):
    for store in (opened(None, tmp_path), ObjectStore(MemoryStore())):
        assert store.presign_put("a", size=1, content_type="a/b", sha256=None, expires_seconds=60) is None
        assert store.presign_get("a", expires_seconds=60) is None


async def test_what_is_too_large_for_the_store_to_copy_goes_through_the_server(s3: ObjectStore):
    small = ObjectStore(s3._backend, copy_bytes=MIB)
    data = content(9 * MIB)
    await put(s3, KEY, data)
    # Only the process that receives the parts can compute their digest.
    assert (await s3.copy(KEY, "blobs/a/1")).sha256 is None
    copied = await small.copy(KEY, "blobs/a/1")
    assert (copied.size, copied.sha256, copied.content_type) == (len(data), hex_sha256(data), "image/png")
    assert await read(s3, "blobs/a/1") == data


async def test_delete_where_a_missing_key_is_an_error(tmp_path: Path):
    """As on Google Cloud Storage and Azure; obstore's own store of files behaves so too."""
    backend = ObstoreFiles(tmp_path)
    there = [f"a/{number}" for number in range(200)]
    for key in there:
        await obstore.put_async(backend, key, b"x")
    missing = [f"b/{number}" for number in range(20)]
    with pytest.raises(FileNotFoundError):
        await obstore.delete_async(backend, missing)
    store = ObjectStore(backend)
    await store.delete(missing + there)
    assert await keys(store) == []


async def test_two_prefixes_are_two_stores(s3: ObjectStore, s3_server: swift.Swift, tmp_path: Path):
    other = opened(s3_server.url(swift.BUCKET, "another"), tmp_path)
    await put(s3, KEY, DATA)
    assert await other.stat(KEY) is None
    assert await keys(other) == []


async def test_check_finds_nothing_wrong(s3: ObjectStore):
    assert await s3.check(ORIGIN) == []
    assert await keys(s3) == []


async def test_check_finds_a_missing_cors_rule(s3: ObjectStore):
    problems = await s3.check("https://elsewhere.test")
    assert len(problems) == 1
    assert "CORS" in problems[0]
    assert "https://elsewhere.test" in problems[0]


async def test_check_finds_wrong_credentials(s3_url: str, tmp_path: Path):
    store = open_store(s3_url, tmp_path, access_key=swift.ACCESS_KEY, secret_key="wrong")
    assert "SignatureDoesNotMatch" in " ".join(await store.check())
    with pytest.raises(BlobStoreUnavailableError):
        await put(store, KEY, DATA)


async def test_check_finds_a_missing_bucket(s3_server: swift.Swift, tmp_path: Path):
    store = opened(s3_server.url("missing", "a"), tmp_path)
    assert "NoSuchBucket" in " ".join(await store.check())
    for action in (put(store, KEY, DATA), read(store, KEY), keys(store)):
        with pytest.raises(BlobStoreUnavailableError):
            await action


async def test_check_finds_a_wrong_clock(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch):
    ahead = clock.now() + timedelta(hours=1)
    monkeypatch.setattr(clock, "now", lambda: ahead)
    problems = await s3.check(ORIGIN)
    assert len(problems) == 1
    assert re.search("clocks .* differ by 3[56][0-9][0-9] seconds", problems[0])


@contextlib.asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives every request this answer, or none at all; also the requests' first lines."""
    seen = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            seen.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        writer.close()

    async with accepting(handle) as port:
        yield f"s3://{swift.BUCKET}?endpoint=http://127.0.0.1:{port}", seen


def answer(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


async def fails(store: BlobStore, error: type[Exception]) -> None:
    for action in (put(store, KEY, DATA), read(store, KEY), store.stat(KEY), keys(store), store.delete([KEY])):
        with pytest.raises(error):
            await action
    assert len(await store.check()) == 1


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Slow Down", "403 Forbidden", "400 Bad Request"])
async def test_a_server_that_answers_errors(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(opening._RETRY, "max_retries", 1)
    async with answering(answer(status)) as (url, seen):
        await fails(opened(url, tmp_path), BlobStoreUnavailableError)
        assert seen


async def test_errors_of_the_server_are_retried(tmp_path: Path):
    async with answering(answer("500 Internal Server Error")) as (url, seen):
        with pytest.raises(BlobStoreUnavailableError):
            await opened(url, tmp_path).stat(KEY)
        assert len(seen) == 4


async def test_a_server_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(opening._RETRY, "max_retries", 1)
    async with answering(answer("507 Insufficient Storage")) as (url, _):
        with pytest.raises(StorageFullError):
            await put(opened(url, tmp_path), KEY, DATA)


async def test_a_server_that_is_down(tmp_path: Path):
    async with answering(None) as (url, _):
        pass
    started = time.monotonic()
    with pytest.raises(BlobStoreUnavailableError):
        await put(opened(url, tmp_path), KEY, DATA)
    assert time.monotonic() - started < PATIENCE


async def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(opening._CLIENT, "read_timeout", "300ms")
    monkeypatch.setitem(opening._RETRY, "max_retries", 0)
    async with answering(None) as (url, _):
        started = time.monotonic()
        await fails(opened(url, tmp_path), BlobStoreUnavailableError)
        assert time.monotonic() - started < PATIENCE


async def test_check_finds_a_server_that_ignores_the_signature(tmp_path: Path):
    async with answering(answer("200 OK")) as (url, _):
        problems = await check_direct_uploads(opened(url, tmp_path), ORIGIN)
    assert "longer than the signed size" in problems[0]
    assert "CORS" in problems[1]


async def test_multipart_uploads_that_a_killed_server_left_are_ended(
    s3: ObjectStore, s3_server: swift.Swift, s3_url: str
):
    prefix = urlsplit(s3_url).path.strip("/")
    bucket = Presigner(f"{s3_server.endpoint}/{swift.BUCKET}", swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)

    def begin(key: str) -> None:
        url = bucket.sign("POST", key, expires_seconds=60, query={"uploads": ""})
        assert send("POST", url, {})[0] == 200

    ours = [f"{prefix}/{key}" for key in ("blobs/a/1", "blobs/a/1", "staging/a/2")]
    for key in [*ours, f"{prefix}-other/blobs/a/1", f"{prefix}/else/1"]:
        begin(key)
    soon = clock.now() + timedelta(minutes=5)
    assert await s3.end_unfinished(clock.now() - timedelta(hours=1), apply=True) == 0
    assert await s3.end_unfinished(soon, apply=False) == 3
    assert await s3.end_unfinished(soon, apply=True) == 3
    assert await s3.end_unfinished(soon, apply=False) == 0
    _, _, listed = ask("GET", bucket.sign("GET", "", expires_seconds=60, query={"uploads": "", "prefix": prefix}), {})
    assert listed.count(b"<Upload>") == 2


@pytest.mark.parametrize(
    ("status", "body", "hints"),
    [
        ("404 Not Found", "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>", [NO_RULE]),
        ("200 OK", "<LifecycleConfiguration><Rule><Expiration/></Rule></LifecycleConfiguration>", [NO_RULE]),
        ("200 OK", "<Rule><AbortIncompleteMultipartUpload/></Rule>", []),
        ("501 Not Implemented", "", []),
        ("403 Forbidden", "", []),
    ],
)
async def test_a_missing_lifecycle_rule_is_named(status: str, body: str, hints: list[str], tmp_path: Path):
    said = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
    async with answering(said) as (url, seen):
        assert await opened(url, tmp_path).hints() == hints
        assert seen[0].startswith(b"GET /pilotis-test?")
