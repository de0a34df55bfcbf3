"""Resumable uploads on an S3 store, where any node may take any part of them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from pilotis.blobs.objects import PART_BYTES
from pilotis.blobs.protocol import BlobInfo
from pilotis.files.uploads import finishing
from tests.acceptance.test_files import complete, storage, sums
from tests.acceptance.tus import TUS, checksum, create
from tests.background import paused
from tests.backstage import run_sql
from tests.blobs.support import content, keys
from tests.console import client_of
from tests.files.nodes import s3_node
from tests.services import Node
from tests.support import App, assert_error
from tests.waiting import PATIENCE

SIZE = 2 * PART_BYTES + 100_000


@pytest.fixture
async def nodes(app: App, s3_url: str) -> AsyncIterator[list[Node]]:
    """Two nodes whose files are in the S3 store."""
    async with s3_node(app.server, s3_url) as one, s3_node(app.server, s3_url) as other:
        yield [one, other]


@pytest.fixture
async def clients(app: App, nodes: list[Node]) -> AsyncIterator[list[httpx.AsyncClient]]:
    made = [client_of(node, **{"X-Public-Key": app.public_key}) for node in nodes]
    yield made
    for client in made:
        await client.aclose()


async def append(client: httpx.AsyncClient, url: str, offset: int, data: bytes, **headers: str) -> httpx.Response:
    sent = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"} | headers
    return await client.patch(url, content=data, headers=sent)


async def test_the_nodes_take_turns(app: App, clients: list[httpx.AsyncClient], nodes: list[Node]):
    base = await storage(app, quota_bytes=2 * SIZE)
    data = content(SIZE)
    created = await create(clients[0], base, SIZE)
    url, at = created.headers["location"], 0
    for turn, end in enumerate((5, PART_BYTES - 1, PART_BYTES + 1, 2 * PART_BYTES, SIZE)):
        sent = await append(clients[turn % 2], url, at, data[at:end])
        assert (sent.status_code, sent.headers["upload-offset"]) == (204, str(end)), sent.text
        asked = await clients[(turn + 1) % 2].head(url, headers=TUS)
        assert asked.headers["upload-offset"] == str(end)
        at = end
    done = await complete(clients[1], base, created.json())
    assert done.status_code == 200, done.text
    assert done.json()["sha256"] == hashlib.sha256(data).hexdigest()
    assert (await clients[0].get(done.json()["url"])).content == data
    assert await keys(nodes[0].services.blobs, "drafts") == []
    [key] = await keys(nodes[0].services.blobs)
    # No id that clients see: a store may be careless with those who know a key.
    assert key.startswith(f"blobs/{app.app_id}/")
    assert key.rpartition("/")[2] not in done.text + created.text + url
    assert await sums(app, base) == (SIZE, 0)


async def test_joining_that_takes_long_goes_on_and_is_not_repeated(
    app: App, clients: list[httpx.AsyncClient], nodes: list[Node], monkeypatch: pytest.MonkeyPatch
):
    base = await storage(app)
    data, released, joined = content(1000), asyncio.Event(), list[str]()
    finish = nodes[0].services.blobs.finish

    async def slow(key: str, *arguments: Any, **more: Any) -> BlobInfo:
        joined.append(key)
        await released.wait()
        return await finish(key, *arguments, **more)

    monkeypatch.setattr(nodes[0].services.blobs, "finish", slow)
    monkeypatch.setattr(finishing, "WAIT_SECONDS", 0.2)
    created = await create(clients[0], base, len(data))
    url = created.headers["location"]
    last = await append(clients[0], url, 0, data)
    assert_error(last, 503, "UPLOAD_FINISHING")
    assert last.headers["retry-after"] == "5"
    assert (await clients[0].head(url, headers=TUS)).status_code == 503
    assert (await clients[1].head(url, headers=TUS)).status_code == 423
    for client in clients:
        assert_error(await complete(client, base, created.json()), 503, "UPLOAD_FINISHING")
    released.set()
    monkeypatch.setattr(finishing, "WAIT_SECONDS", PATIENCE)
    assert (await clients[0].head(url, headers=TUS)).headers["upload-offset"] == str(len(data))
    done = await complete(clients[1], base, created.json())
    assert (await clients[0].get(done.json()["url"])).content == data
    assert len(joined) == 1


async def test_a_wrong_checksum_leaves_nothing(app: App, clients: list[httpx.AsyncClient], nodes: list[Node]):
    base = await storage(app)
    data = content(SIZE)
    url = (await create(clients[0], base, SIZE)).headers["location"]
    assert (await append(clients[0], url, 0, data[:1000])).status_code == 204
    before = await keys(nodes[0].services.blobs)
    wrong = await append(clients[1], url, 1000, data[1000:], **{"Upload-Checksum": checksum("sha1", data)})
    assert_error(wrong, 460, "CHECKSUM_MISMATCH")
    assert await keys(nodes[0].services.blobs) == before
    right = {"Upload-Checksum": checksum("sha1", data[1000:])}
    assert (await append(clients[1], url, 1000, data[1000:], **right)).status_code == 204


@pytest.mark.parametrize("is_given_up", [True, False])
async def test_an_unfinished_upload_leaves_nothing(
    app: App, clients: list[httpx.AsyncClient], nodes: list[Node], is_given_up: bool
):
    base = await storage(app)
    url = (await create(clients[0], base, SIZE)).headers["location"]
    assert (await append(clients[0], url, 0, content(PART_BYTES + 10))).status_code == 204
    cleaning = nodes[0].services.files.cleaning
    assert len(await keys(nodes[0].services.blobs, "drafts")) == 2
    # The shared server would look for the bytes in its own directory.
    async with nodes[0].database.connection() as connection, paused(connection, "blobs.delete"):
        if is_given_up:
            assert (await clients[1].delete(url, headers=TUS)).status_code == 204
        else:
            statement = "update pilotis.uploads set expires_at = now() where app_id = $1"
            await run_sql(app.server, statement, UUID(app.app_id))
            await cleaning.expire_uploads(connection)
            statement = "update pilotis.pending_deletions set due_at = now() where app_id = $1"
            await run_sql(app.server, statement, UUID(app.app_id))
            await cleaning.delete_pending_blobs(connection)
    assert await keys(nodes[0].services.blobs) == []
    assert_error(await append(clients[0], url, PART_BYTES + 10, b"x"), 404, "UPLOAD_NOT_FOUND")
