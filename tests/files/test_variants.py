"""How variants are kept: once, no longer than their file, never too many, in both stores."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import httpx
import psutil
import pytest
from PIL import Image

from pilotis.settings import Settings
from tests import databases
from tests.acceptance.test_files import put_at, storage, upload
from tests.background import run_task
from tests.backstage import run_sql
from tests.console import client_of, owner_of
from tests.files.nodes import s3_node
from tests.files.pictures import (
    BLUE,
    RED,
    bands,
    encoded,
    kept,
    noise,
    opened,
    pending_deletions,
    picture,
    variant_path,
)
from tests.files.test_operating import pilotis
from tests.services import Node
from tests.support import App, assert_error
from tests.waiting import PATIENCE

WIDTH = {"width": "32"}


@pytest.fixture
async def node(app: App) -> AsyncIterator[Node]:
    """A second node on the server's database and directory."""
    settings = Settings(data_dir=str(app.server.data_dir))
    made = Node(settings, databases.address(app.server.data_dir), app.server.url)
    yield made
    await made.stop()


async def test_the_second_answer_comes_from_the_blob(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(64, 48))
        first = await client.get(url, params=WIDTH)
        opened(first)
        assert (await kept(app), await pending_deletions(app)) == (1, 0)
        path = await variant_path(app)
        assert path.read_bytes() == first.content
        path.write_bytes(bytes(len(first.content)))
        assert (await client.get(url, params=WIDTH)).content == bytes(len(first.content))
        # The same asked for in other words is the same.
        for same in (
            {**WIDTH, "fit": "contain"},
            {**WIDTH, "quality": "7"},
            {**WIDTH, "format": "png"},
            {**WIDTH, "x": "y"},
        ):
            assert (await client.get(url, params=same)).content == bytes(len(first.content))
        assert await kept(app) == 1


async def test_twenty_requests_make_one(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(1500, 1500))
        answers = await asyncio.gather(*(client.get(url, params=WIDTH) for _ in range(20)))
        assert {answer.content for answer in answers} == {answers[0].content}
        opened(answers[0])
    assert (await kept(app), await pending_deletions(app)) == (1, 0)


async def test_whoever_leaves_does_not_take_it_from_the_others(app: App, node: Node):
    base = await storage(app)
    under_way = node.services.files.variants._under_way
    async with app.client() as here, client_of(node) as there:
        path = httpx.URL(await picture(here, base, noise(500, 500))).raw_path.decode()
        leaving = asyncio.create_task(there.get(path, params=WIDTH))
        async with asyncio.timeout(PATIENCE):
            while not under_way:  # noqa: ASYNC110 - whoever makes it tells nobody
                await asyncio.sleep(0)
        (making,) = under_way.values()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert (await making).blob_id is not None
        assert not under_way
    assert await kept(app) == 1


async def test_a_node_that_stops_leaves_nothing_behind(app: App, node: Node):
    base = await storage(app)
    variants = node.services.files.variants
    async with app.client() as here, client_of(node) as there:
        path = httpx.URL(await picture(here, base, noise(1500, 1500))).raw_path.decode()
        waiting = [asyncio.create_task(there.get(path, params={"width": str(9 + n)})) for n in range(3)]
        async with asyncio.timeout(PATIENCE):
            while len(variants._under_way) < 3:  # noqa: ASYNC110 - whoever makes it tells nobody
                await asyncio.sleep(0)
        await variants.stop()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not variants._under_way
        # One that was killed may wait to be collected.
        left = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
        assert not [child for child in left if "pilotis.files.images.imaging" in child.cmdline()]


async def test_two_nodes_that_make_the_same(app: App, node: Node):
    base = await storage(app)
    async with app.client() as here, client_of(node) as there:
        url = await picture(here, base, noise(1500, 1500))
        path = httpx.URL(url).raw_path.decode()
        answers = await asyncio.gather(here.get(url, params=WIDTH), there.get(path, params=WIDTH))
        assert answers[0].content == answers[1].content
        assert answers[0].headers["etag"] == answers[1].headers["etag"]
        assert (await here.get(url, params=WIDTH)).content == answers[0].content
    # The second result is deleted after an hour.
    assert await kept(app) == 1
    assert await pending_deletions(app) <= 1


async def test_variants_end_with_what_they_are_of(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client:
        item = await put_at(client, base, "d/a.png", encoded(bands(64, 48, RED)))
        opened(await client.get(item["url"], params=WIDTH))
        old = await variant_path(app)
        assert await kept(app) == 1
        await put_at(client, base, "d/a.png", encoded(bands(64, 48, BLUE)))
        # The content before and its variant.
        assert (await kept(app), await pending_deletions(app)) == (0, 2)
        opened(await client.get(item["url"], params=WIDTH))
        assert (await client.delete(f"{base}/items/{item['id']}")).status_code == 200
        assert (await kept(app), await pending_deletions(app)) == (0, 4)
        assert_error(await client.get(item["url"], params=WIDTH), 404, "FILE_NOT_FOUND")
        await put_at(client, base, "d/b.png", encoded(bands(64, 48, RED)))
        folder = (await client.get(f"{base}/path/d")).json()
        opened(await client.get(folder["files"][0]["url"], params=WIDTH))
        await client.delete(f"{base}/items/{folder['id']}", params={"recursive": "true"})
        assert (await kept(app), await pending_deletions(app)) == (0, 6)
        url = await picture(client, base, bands(64, 48, RED))
        opened(await client.get(url, params=WIDTH))
    async with owner_of(app).client(app) as console:
        address = f"/storages/files/{base.rpartition('/')[2]}"
        assert (await console.request("DELETE", address, params={"force": "true"})).status_code == 200
    assert (await kept(app), await pending_deletions(app)) == (0, 8)
    assert old.exists()
    await run_sql(app.server, "update pilotis.pending_deletions set due_at = now() where app_id = $1", UUID(app.app_id))
    await run_task(node, "blobs.delete")
    assert not [path for path in old.parent.glob("*") if path.is_file()]


async def test_variants_end_with_their_app(app: App):
    base = await storage(app)
    async with app.client() as client:
        opened(await client.get(await picture(client, base, bands(64, 48, RED)), params=WIDTH))
    await run_sql(app.server, "delete from pilotis.apps where app_id = $1", UUID(app.app_id))
    assert (await kept(app), await pending_deletions(app)) == (0, 2)


async def test_a_variant_of_a_content_that_was_replaced_meanwhile_is_not_kept(app: App, node: Node):
    """The file is overwritten and deleted again and again while variants of it are made."""
    base = await storage(app)
    sources = [encoded(noise(500 + n, 400)) for n in range(3)]
    async with app.client() as client:
        for turn in range(4):
            item = await put_at(client, base, "a.png", sources[turn % 3])
            reads = [asyncio.create_task(client.get(item["url"], params={"width": str(20 + n)})) for n in range(6)]
            if turn % 2:
                await put_at(client, base, "a.png", sources[(turn + 1) % 3])
            else:
                await client.delete(f"{base}/items/{item['id']}")
            for answer in await asyncio.gather(*reads):
                assert answer.status_code in {200, 404}, answer.text
        stale = """
            select count(*) from pilotis.variants v where app_id = $1 and not exists (
                select from pilotis.files f where f.app_id = v.app_id and f.blob_id = v.source_id
            )
        """
        assert await run_sql(app.server, stale, UUID(app.app_id)) == 0
        await client.delete(f"{base}/items/{item['id']}")
    assert await kept(app) == 0


async def test_keeping_and_replacing_wait_for_each_other(app: App):
    base = await storage(app)
    connection = await asyncpg.connect(**databases.address(app.server.data_dir))
    try:
        async with app.client() as client:
            url = await picture(client, base, noise(100, 100))
            async with connection.transaction():
                replace = "update pilotis.files set blob_id = gen_random_uuid() where app_id = $1"
                await connection.execute(replace, UUID(app.app_id))
                reading = asyncio.create_task(client.get(url, params=WIDTH))
                blocked = "select true from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))"
                async with asyncio.timeout(PATIENCE):
                    while not (reading.done() or await connection.fetchval(blocked)):  # noqa: ASYNC110 - it is the server that waits
                        await asyncio.sleep(0.01)
            assert opened(await reading).size == (32, 32)
    finally:
        await connection.close()
    assert await kept(app) == 0


async def fill(app: App, count: int, size: int) -> None:
    """Insert variants of the app's only file that were never created."""
    await run_sql(
        app.server,
        """
        insert into pilotis.variants (app_id, file_id, recipe, source_id, blob_id, size, sha256)
        select app_id, file_id, 'filler ' || n, blob_id, gen_random_uuid(), $3, '' from pilotis.files,
            generate_series(1, $2) n where app_id = $1
        """,
        UUID(app.app_id),
        count,
        size,
    )


@pytest.mark.parametrize(("count", "size"), [(64, 1), (1, 1_100_000)])
async def test_a_file_keeps_so_many_variants_and_no_more(app: App, count: int, size: int):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(100, 100))
        opened(await client.get(url, params={"width": "10"}))
        await run_sql(app.server, "delete from pilotis.variants where app_id = $1", UUID(app.app_id))
        await fill(app, count, size)
        before = await pending_deletions(app)
        whole = await client.get(url, params=WIDTH)
        assert opened(whole).size == (32, 32)
        # What is not kept is an answer like any other.
        assert (await client.get(url, params=WIDTH, headers={"Range": "bytes=3-9"})).content == whole.content[3:10]
        head = await client.head(url, params=WIDTH)
        assert (head.headers["etag"], head.headers["content-length"]) == (
            whole.headers["etag"],
            str(len(whole.content)),
        )
        again = await client.get(url, params=WIDTH, headers={"If-None-Match": whole.headers["etag"]})
        assert again.status_code == 304
        assert (await kept(app), await pending_deletions(app)) == (count, before)


async def test_requests_that_arrive_together_keep_to_the_bound(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(200, 200))
        await fill(app, 61, 1)
        answers = await asyncio.gather(*(client.get(url, params={"width": str(10 + n)}) for n in range(12)))
        assert [opened(answer).size[0] for answer in answers] == list(range(10, 22))
    assert await kept(app) == 64


async def test_variants_that_nobody_asks_for_are_deleted(app: App, node: Node):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(100, 100))
        for width in ("10", "20", "30"):
            opened(await client.get(url, params={"width": width}))
        aged = "update pilotis.variants set used_at = now() - $2::interval where app_id = $1 and recipe like $3"
        for recipe, days in (("10x%", 31), ("20x%", 31), ("30x%", 29)):
            await run_sql(
                app.server, aged.replace("$2", f"'{days} days'").replace("$3", f"'{recipe}'"), UUID(app.app_id)
            )
        # Asking for one notes that it is used.
        assert (await client.get(url, params={"width": "20"})).status_code == 200
        assert await node.background.run_now("variants.expire")
        left = (
            "select string_agg(split_part(recipe, 'x', 1), ' ' order by recipe) from pilotis.variants where app_id = $1"
        )
        assert await run_sql(app.server, left, UUID(app.app_id)) == "20 30"
        assert await pending_deletions(app) == 1


async def test_a_store_that_takes_nothing_stops_nobody(app: App):
    base = await storage(app)
    incoming = app.server.data_dir / "blobs" / "tmp"
    async with app.client() as client:
        url = await picture(client, base, noise(100, 100))
        away = incoming.rename(incoming.with_name("away"))
        try:
            answer = await client.get(url, params=WIDTH)
        finally:
            away.rename(incoming)
        assert opened(answer).size == (32, 32)
        # Whatever may have got there before it failed will be deleted.
        assert (await kept(app), await pending_deletions(app)) == (0, 1)
        assert (await client.get(url, params=WIDTH)).content == answer.content
        assert await kept(app) == 1


async def test_reconciling_knows_variants(app: App):
    base = await storage(app)
    async with app.client() as client:
        url = await picture(client, base, noise(100, 100))
        first = await client.get(url, params=WIDTH)
        path = await variant_path(app)
        key = f"blobs/{app.app_id}/{path.name}"
        found = json.loads(pilotis(app.server, "reconcile", "--before", "0s", "--json").stdout)
        assert key not in found["orphans"]
        path.unlink()
        assert_error(await client.get(url, params=WIDTH), 404, "BLOB_NOT_FOUND")
        found = json.loads(pilotis(app.server, "reconcile", "--before", "0s", "--json").stdout)
        assert key not in found["missing"]
        assert await kept(app) == 1
        pilotis(app.server, "reconcile", "--before", "0s", "--apply")
        assert (await client.get(url, params=WIDTH)).content == first.content
        assert (await variant_path(app)).read_bytes() == first.content


@pytest.mark.parametrize("delivery", ["proxy", "redirect"])
async def test_variants_in_an_s3_store(app: App, s3_url: str, delivery: str):
    base = await storage(app)
    async with (
        s3_node(app.server, s3_url, files_delivery=delivery) as node,
        client_of(node, **{"X-Public-Key": app.public_key}) as client,
    ):
        item = await upload(client, base, encoded(noise(300, 200), "JPEG"), mime_type="image/jpeg")
        query = {"width": "150", "format": "png"}
        for _ in range(2):
            served = await client.get(item["url"], params=query)
            if delivery == "redirect":
                assert served.status_code == 302
                async with httpx.AsyncClient(verify=False) as anybody:
                    served = await anybody.get(served.headers["location"])
                assert served.headers["content-disposition"] == 'inline; filename="a.png"'
            assert (opened(served).size, served.headers["content-type"]) == ((150, 100), "image/png")
        assert (await client.head(item["url"], params=query)).headers["content-length"] == str(len(served.content))
        # The staged bytes of the upload go when its URL has expired.
        assert (await kept(app), await pending_deletions(app)) == (1, 1)
        await fill(app, 64, 1)
        unkept = await client.get(item["url"], params={"width": "60"})
        assert Image.open(io.BytesIO(unkept.content)).size == (60, 40)
        await client.delete(f"{base}/items/{item['id']}")
        assert await kept(app) == 0
