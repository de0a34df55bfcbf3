"""Uploads that go straight to an S3 store, and what keeps them in order there."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.acceptance.test_files import PNG, complete, fixed, permit, send, storage, upload
from tests.backstage import run_sql
from tests.console import client_of
from tests.files.nodes import s3_node
from tests.services import Node
from tests.support import App, assert_error


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
    await run_sql(app.server, "update pilotis.pending_deletions set due_at = now() where app_id = $1", app_id)
    await run_sql(app.server, "update pilotis.uploads set expires_at = now() where app_id = $1", app_id)
    async with node.database.connection() as connection:
        await node.services.files.cleaning.expire_uploads(connection)
        await node.services.files.cleaning.delete_pending_blobs(connection)
    blobs = node.services.blobs
    assert len([info async for info in blobs.list(f"blobs/{app_id}")]) == 1
    assert [info async for info in blobs.list(f"staging/{app_id}")] == []
    assert (await client.get(answers[0].json()["url"])).content == PNG
