"""Stores that are absent, wrong, silent, or too trusting, as the server sees them while it runs."""

import asyncio
import http.client
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pilotis.blobs import objects
from pilotis.blobs.check import COPIES_FOR_ANYBODY, IGNORES_DIGESTS, check_direct_uploads, send
from pilotis.blobs.errors import BlobStoreUnavailableError, InvalidStoreUrlError
from pilotis.blobs.objects import ObjectStore
from pilotis.blobs.open import open_store
from pilotis.blobs.presign import Presigner
from pilotis.blobs.watch import StoreWatch
from tests.blobs import swift
from tests.blobs.conftest import opened
from tests.blobs.support import put
from tests.serving import serving
from tests.waiting import PATIENCE


class TooTrusting(BaseHTTPRequestHandler):
    """Passes requests on to Swift; whoever may write has another object copied, as MinIO does."""

    protocol_version = "HTTP/1.1"
    endpoint = ""
    copies = True

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        source = self.headers.get("x-amz-copy-source")
        if is_hostile := self.copies and source is not None and "X-Amz-Signature" in self.path:
            own = Presigner(self.endpoint, swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)
            body = _asked("GET", own.sign("GET", source.lstrip("/"), expires_seconds=60))[1]
        headers = dict(self.headers.items())
        if is_hostile:
            del headers["x-amz-copy-source"]
        answer, content = _asked(self.command, self.endpoint + self.path, body, headers)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        size = answer.getheader("content-length") if self.command == "HEAD" else str(len(content))
        self.send_header("content-length", size or "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class Careless(TooTrusting):
    """Compares no digests, as S3Proxy does not."""

    copies = False

    def handle_any(self) -> None:
        digest = self.headers.get("x-amz-checksum-sha256")
        if self.command == "PUT" and digest is not None:
            data = self.rfile.read(int(self.headers["content-length"]))
            own = Presigner(self.endpoint, swift.ACCESS_KEY, swift.SECRET_KEY, swift.REGION)
            _asked("PUT", own.sign("PUT", urlsplit(self.path).path.lstrip("/"), expires_seconds=60), data)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            super().handle_any()

    do_PUT = handle_any  # noqa: N815


def _asked(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(("laxity", "reason"), [(TooTrusting, COPIES_FOR_ANYBODY), (Careless, IGNORES_DIGESTS)])
async def test_a_store_that_is_too_lax_gets_no_direct_uploads(
    laxity: type[TooTrusting], reason: str, s3_url: str, s3_server: swift.Swift, tmp_path: Path
):
    handler = type("Handler", (laxity,), {"endpoint": s3_server.endpoint})
    with serving(handler) as url:
        await refused(s3_url.replace(s3_server.endpoint, url), reason, tmp_path)


async def refused(url: str, reason: str, tmp_path: Path) -> None:
    store = opened(url, tmp_path)
    assert isinstance(store, ObjectStore)
    await put(store, "blobs/a/1", b"private")
    assert reason in await store.check(swift.ALLOWED_ORIGIN)
    watch = StoreWatch(store)
    await watch.start()
    assert store.presign_put("staging/a/1", size=1, content_type="a/b", sha256=None, expires_seconds=60) is None
    assert await check_direct_uploads(store, swift.ALLOWED_ORIGIN) == []
    await watch.check()
    await watch.stop()
    await store.close()


async def test_a_good_store_gets_them(s3: ObjectStore):
    watch = StoreWatch(s3)
    await watch.start()
    ticket = s3.presign_put("staging/a/1", size=1, content_type="text/plain", sha256=None, expires_seconds=60)
    assert ticket is not None
    assert send("PUT", ticket.url, ticket.headers, b"x")[0] == 200
    await watch.stop()


async def test_without_a_bucket_the_store_is_unavailable(
    s3_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    store = opened(s3_url.replace(swift.BUCKET, "there-is-none"), tmp_path)
    with pytest.raises(BlobStoreUnavailableError):
        await store.ping()
    watch = StoreWatch(store, interval=0.01, patience=0.2)
    await watch.start()
    assert "NoSuchBucket" in capsys.readouterr().out
    # It may come back soon, so it counts only after a while.
    await asyncio.sleep(0.3)
    with pytest.raises(BlobStoreUnavailableError):
        await watch.check()
    assert store.presign_put("staging/a/1", size=1, content_type="a/b", sha256=None, expires_seconds=60) is None
    await watch.stop()
    await store.close()


async def test_a_silent_store_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = 0

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        while await reader.read(65536):
            pass
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    monkeypatch.setattr("pilotis.blobs.remote._CLIENT", {"read_timeout": "1s", "allow_http": True})
    monkeypatch.setattr("pilotis.blobs.remote._RETRY", {"max_retries": 0})
    monkeypatch.setattr(objects, "_SILENT_SECONDS", 0.5)
    store = opened(f"s3://bucket/p?endpoint=http://127.0.0.1:{port}", tmp_path)
    for start, end in ((0, None), (5, None), (5, 9)):
        asked = 0
        with pytest.raises(BlobStoreUnavailableError):
            async for _ in store.open("blobs/a/1", start, end):
                pass
        assert asked == 1
    listening.close()
    await store.close()


def test_a_forgotten_key_is_named_and_no_metadata_address_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidStoreUrlError, match="s3_secret_key is missing"):
        open_store("s3://bucket", tmp_path, access_key="a")
    with pytest.raises(InvalidStoreUrlError, match="has no credentials"):
        open_store("s3://bucket", tmp_path)
    open_store("s3://bucket?credentials=instance", tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    open_store("s3://bucket", tmp_path)
