"""Uploads that go straight to an S3 store, and what keeps them in order there."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.blobs import remote
from pilotis.blobs.protocol import BlobInfo
from pilotis.files.uploads import finishing
from pilotis.files.uploads import service as upload_service
from pilotis.files.uploads import store as upload_store
from tests.acceptance.test_files import PNG, complete, fixed, permit, send, storage, upload
from tests.acceptance.tus import TUS, create
from tests.background import paused
from tests.backstage import run_sql
from tests.blobs import swift
from tests.blobs.support import keys
from tests.console import client_of
from tests.database import DEFAULTS
from tests.files.nodes import s3_node
from tests.services import Node
from tests.support import App, assert_error
from tests.waiting import until


@pytest.fixture(params=["proxy", "redirect"])
def delivery(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def node(app: App, s3_url: str, delivery: str) -> AsyncIterator[Node]:
    """A node whose files are in the S3 store."""
    async with s3_node(app.server, s3_url, files_delivery=delivery) as made:
        yield made


@pytest.fixture
async def client(app: App, node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(node, **{"X-Public-Key": app.public_key}) as made:
        yield made


async def test_bytes_go_straight_to_the_store(app: App, client: httpx.AsyncClient, delivery: str):
    base = await storage(app)
    permitted = await permit(client, base)
    assert "/staging/" in permitted["upload_url"]
    assert_error(await complete(client, base, permitted), 409, "UPLOAD_NOT_RECEIVED")
    assert (await send(permitted, PNG + b"x")).status_code == 403
    assert (await send(permitted, PNG, **{"Content-Type": "text/html"})).status_code == 403
    assert_error(await complete(client, base, permitted), 409, "UPLOAD_NOT_RECEIVED")
    assert (await send(permitted)).status_code == 200
    done = await complete(client, base, permitted)
    assert done.status_code == 200, done.text
    # The URL still works until it expires, but no longer on the file.
    assert (await send(permitted, b"y" * len(PNG))).status_code == 200
    assert (await complete(client, base, permitted)).json() == done.json()
    served = await client.get(done.json()["url"])
    if delivery == "redirect":
        assert served.status_code == 302
        async with httpx.AsyncClient(verify=False) as anybody:
            served = await anybody.get(served.headers["location"])
        assert served.headers["content-disposition"].startswith("inline")
    assert (served.status_code, served.content) == (200, PNG)
    # The digest is known, and no answer shows the key of the bytes.
    sha256 = hashlib.sha256(PNG).hexdigest()
    assert done.json()["sha256"] == sha256
    assert (await client.head(done.json()["url"])).headers["etag"] == f'"{sha256}"'


@pytest.mark.parametrize("delivery", ["redirect"])
@pytest.mark.parametrize("mime_type", ["image/svg+xml", "text/html", "application/xhtml+xml", "text/javascript"])
async def test_what_a_browser_runs_is_never_redirected_to_the_store(
    app: App, client: httpx.AsyncClient, mime_type: str
):
    """The store sends no sandbox."""
    base = await storage(app)
    data = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    permitted = await permit(client, base, data, mime_type=mime_type)
    assert (await send(permitted, data)).status_code == 200
    served = await client.get((await complete(client, base, permitted)).json()["url"])
    assert (served.status_code, served.content) == (200, data)
    assert served.headers["content-security-policy"].endswith("; sandbox")
    assert served.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_a_replaced_file_has_the_new_bytes(app: App, client: httpx.AsyncClient):
    """Each time, and with two replacements in progress the one whose bytes have arrived."""
    base = await storage(app, quota_bytes=1000)

    async def permitted(data: bytes) -> dict[str, Any]:
        answer = await fixed(client, base, "a.png", data, overwrite=True)
        assert answer.status_code == 200, answer.text
        return answer.json()

    for version, data in enumerate([b"one", b"second", b"the third"], 1):
        one = await permitted(data)
        if version > 1:
            assert_error(await complete(client, base, one), 409, "UPLOAD_NOT_RECEIVED")
        assert (await send(one, data)).status_code == 200
        for _ in range(2):
            done = await complete(client, base, one)
            assert done.status_code == 200, done.text
            assert (done.json()["version"], done.json()["size"]) == (version, len(data))
        assert (await client.get(done.json()["url"])).content == data
    early, late = await permitted(b"early"), await permitted(b"later")
    assert (await send(early, b"early")).status_code == 200
    done = await complete(client, base, early)
    assert (await client.get(done.json()["url"])).content == b"early"
    assert (await send(late, b"later")).status_code == 200
    assert (await complete(client, base, late)).json()["version"] == 5
    assert (await client.get(done.json()["url"])).content == b"later"
    held = "select (used_bytes, reserved_bytes) = (5, 0) from pilotis.file_storages where storage_id = $1"
    assert await run_sql(app.server, held, UUID(base.rpartition("/")[2]))


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_ranges_of_a_large_file(app: App, client: httpx.AsyncClient, delivery: str):
    base = await storage(app)
    data = bytes(range(256)) * 4000
    item = await upload(client, base, data)
    part = await client.get(item["url"], headers={"Range": "bytes=500000-500009"})
    assert (part.status_code, part.content) == (206, data[500_000:500_010])
    assert (await client.get(item["url"])).content == data


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_many_completions_of_one_upload_leave_one_blob(
    app: App, client: httpx.AsyncClient, node: Node, delivery: str
):
    base = await storage(app)
    permitted = await permit(client, base)
    await send(permitted)
    answers = await asyncio.gather(*(complete(client, base, permitted) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    app_id = UUID(app.app_id)
    # The shared server would look for the blobs in its own directory.
    async with node.database.connection() as connection, paused(connection, "blobs.delete"):
        await connection.execute("update pilotis.pending_deletions set due_at = now() where app_id = $1", app_id)
        await connection.execute("update pilotis.uploads set expires_at = now() where app_id = $1", app_id)
        await node.services.files.cleaning.expire_uploads(connection)
        await node.services.files.cleaning.delete_pending_blobs(connection)
    blobs = node.services.blobs
    assert len([info async for info in blobs.list(f"blobs/{app_id}")]) == 1
    assert [info async for info in blobs.list(f"staging/{app_id}")] == []
    assert (await client.get(answers[0].json()["url"])).content == PNG


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_the_staged_bytes_are_deleted_when_the_url_has_expired(app: App, client: httpx.AsyncClient, node: Node):
    base = await storage(app)
    permitted = await permit(client, base)
    await send(permitted)
    item = (await complete(client, base, permitted)).json()
    app_id, blobs, cleaning = UUID(app.app_id), node.services.blobs, node.services.files.cleaning
    staged = (
        "select extract(epoch from due_at - now()) from pilotis.pending_deletions where app_id = $1 and key like 'st%'"
    )
    move_up = "update pilotis.pending_deletions set due_at = now() where app_id = $1"
    async with node.database.connection() as connection, paused(connection, "blobs.delete"):
        assert 3000 < await connection.fetchval(staged, app_id) <= DEFAULTS.upload_seconds
        await connection.execute(move_up, app_id)
        await cleaning.delete_pending_blobs(connection)
        assert await keys(blobs, f"staging/{app_id}") == []
        # A transfer that began in time may end late: then the end of the upload deletes its bytes.
        await send(permitted)
        await connection.execute("update pilotis.uploads set expires_at = now() where app_id = $1", app_id)
        await cleaning.expire_uploads(connection)
        await connection.execute(move_up, app_id)
        await cleaning.delete_pending_blobs(connection)
        assert await keys(blobs, f"staging/{app_id}") == []
    assert (await client.get(item["url"])).content == PNG


def held_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, list[str]]:
    """Let each copy of the store take until the event is set, as a large one would; also the copies' keys."""
    released, copies = asyncio.Event(), list[str]()
    copy = node.services.blobs.copy

    async def slow(source: str, target: str) -> BlobInfo:
        copies.append(target)
        await released.wait()
        return await copy(source, target)

    monkeypatch.setattr(node.services.blobs, "copy", slow)
    return released, copies


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_a_copy_that_takes_long_goes_on_and_is_not_repeated(
    app: App, client: httpx.AsyncClient, node: Node, s3_url: str, monkeypatch: pytest.MonkeyPatch
):
    base = await storage(app)
    permitted = await permit(client, base)
    await send(permitted)
    released, copies = held_up(node, monkeypatch)
    monkeypatch.setattr(finishing, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(upload_service, "WAIT_SECONDS", 0.3)
    async with s3_node(app.server, s3_url) as other, client_of(other, **{"X-Public-Key": app.public_key}) as elsewhere:
        for asked in (client, client, elsewhere):
            if asked is elsewhere:
                await until(lambda: copies)
            waits = await complete(asked, base, permitted)
            assert_error(waits, 503, "UPLOAD_FINISHING")
            assert waits.headers["retry-after"] == "5"
        released.set()
        done = await until(lambda: answered(elsewhere, base, permitted))
    assert len(copies) == 1
    assert (await client.get(done.json()["url"])).content == PNG


async def answered(client: httpx.AsyncClient, base: str, permitted: dict[str, Any]) -> httpx.Response | None:
    answer = await complete(client, base, permitted)
    return answer if answer.status_code == 200 else None


@pytest.mark.parametrize("delivery", ["proxy"])
async def test_a_copy_by_a_node_that_stops_or_hangs_is_made_by_another(
    app: App, client: httpx.AsyncClient, node: Node, s3_url: str, monkeypatch: pytest.MonkeyPatch
):
    base = await storage(app)
    permitted = await permit(client, base)
    await send(permitted)
    released, copies = held_up(node, monkeypatch)
    monkeypatch.setattr(finishing, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(upload_store, "renew", renew_nothing)
    async with s3_node(app.server, s3_url) as other, client_of(other, **{"X-Public-Key": app.public_key}) as elsewhere:
        assert_error(await complete(client, base, permitted), 503, "UPLOAD_FINISHING")
        await until(lambda: len(copies) == 1)
        await node.services.files.uploads.finishing.stop()
        assert_error(await complete(client, base, permitted), 503, "UPLOAD_FINISHING")
        await until(lambda: len(copies) == 2)
        # The node has been suspended for longer than its lease.
        lost = "update pilotis.uploads set lease_until = now() - interval '1 second' where app_id = $1"
        await run_sql(app.server, lost, UUID(app.app_id))
        done = await until(lambda: answered(elsewhere, base, permitted))
        released.set()
        assert (await until(lambda: answered(client, base, permitted))).json() == done.json()
        assert len(await until(lambda: blobs_without(other, app, copies))) == 1
    assert (await client.get(done.json()["url"])).content == PNG


async def renew_nothing(*_: Any) -> None:
    """As a suspended node does."""


async def blobs_without(node: Node, app: App, copies: list[str]) -> list[str] | None:
    """The app's blobs, once none of these copies is left."""
    found = [info.key async for info in node.services.blobs.list(f"blobs/{app.app_id}")]
    return None if set(found) & set(copies) else found


async def test_a_missing_bucket_is_not_the_clients_fault(
    app: App, s3_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """And the log has the store's own words."""
    monkeypatch.setitem(remote._RETRY, "max_retries", 0)
    base = await storage(app)
    key = {"X-Public-Key": app.public_key}
    async with s3_node(app.server, s3_url) as node, client_of(node, **key) as client:
        pending = await permit(client, base)
        begun = (await create(client, base, 1000)).headers["location"]
        headers = TUS | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        assert (await client.patch(begun, content=bytes(10), headers=headers)).status_code == 204
        kept = await upload(client, base, PNG, file_name="kept.png")
    absent = s3_url.replace(swift.BUCKET, "there-is-none")
    async with s3_node(app.server, absent) as node, client_of(node, **key) as client:
        assert_error(await complete(client, base, pending), 503, "BLOB_STORE_UNAVAILABLE")
        assert (await client.head(begun, headers=TUS)).status_code == 503
        sent = await client.patch(begun, content=bytes(10), headers=headers | {"Upload-Offset": "10"})
        assert_error(sent, 503, "BLOB_STORE_UNAVAILABLE")
        assert_error(await client.get(kept["url"]), 503, "BLOB_STORE_UNAVAILABLE")
        assert "NoSuchBucket" in capsys.readouterr().out
    async with s3_node(app.server, s3_url) as node, client_of(node, **key) as client:
        assert (await client.head(begun, headers=TUS)).headers["upload-offset"] == "10"
