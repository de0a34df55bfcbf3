"""Sites over time: retention, collection, archives that a job unpacks, several nodes, and a server that is killed."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from pilotis.hosting import content_store, deployment_store
from pilotis.hosting.deployments import Release as DeployedRelease
from pilotis.hosting.deployments import new_row
from pilotis.hosting.deploys import ZipJob
from pilotis.http.api.principals import Actor
from pilotis.jobs.queue import ClaimedJob
from pilotis.jobs.store import JobRecord
from pilotis.kit.errors import QueryTimeoutError
from pilotis.settings import Settings
from tests import databases
from tests.background import run_task
from tests.backstage import run_sql
from tests.branches.previews import branch_of
from tests.conftest import first_console_user, new_app
from tests.console import owner_of, second_node
from tests.files.crash import reconciled
from tests.hosting.sites import Site, new_site, sha256, zipped
from tests.services import Node
from tests.support import App, Server, assert_error
from tests.waiting import until
from tests.whole import WHOLE, times

CRASH_SECONDS = times(1, whole=25)


async def count(app: App, table: str) -> int:
    return await run_sql(app.server, f"select count(*) from pilotis.{table} where app_id = $1", UUID(app.app_id))


async def test_what_no_deployment_holds_is_collected_after_a_day(app: App):
    site = await new_site(app, retain=1)
    for text in (b"one", b"two", b"three", b"four"):
        await site.deploy({"index.html": text, "same.css": b"body {}"})
    assert await count(app, "web_blobs") == 5
    app_id = UUID(app.app_id)
    async with second_node(app.server, listening=False) as node:
        await run_task(node, "hosting.collect")
        # All were production until now, so their assets are still served.
        assert await count(app, "web_blobs") == 5
        long_ago = "update pilotis.web_deployments set production_until = now() - interval '8 days' where app_id = $1"
        await run_sql(app.server, f"{long_ago} and production_until is not null", app_id)
        await run_task(node, "hosting.collect")
        listed = (await site.send("GET", "/deployments")).json()["deployments"]
        # The newest is production; the one before is what the last promotion refers to.
        assert [one["status"] for one in listed] == ["ready", "ready", "expired", "expired"]
        assert await count(app, "web_blobs") == 5
        old = "update pilotis.web_blobs set last_used_at = now() - interval '25 hours' where app_id = $1"
        await run_sql(app.server, old, app_id)
        # A reference to a content protects it for another day.
        named = {"files": [{"hash": sha256(b"one"), "size": 3}]}
        assert (await site.send("POST", "/deploy/presign", json=named)).json()["uploads"][0]["exists"] is True
        await run_task(node, "hosting.collect")
    # "two" is gone; its bytes wait for their deletion.
    assert await count(app, "web_blobs") == 4
    assert await count(app, "pending_deletions") >= 1
    assert (await site.get("/")).content == b"four"
    expired = {"deployment_id": listed[-1]["id"]}
    assert_error(await site.send("POST", "/promote", json=expired), 409, "DEPLOYMENT_NOT_READY")
    again = await site.deploy({"index.html": b"two"})
    assert again["deployment"]["uploaded_size"] == 3
    assert (await site.get("/")).content == b"two"


async def test_a_comparison_with_the_store_spares_sites(app: App):
    site = await new_site(app)
    page = b"<p>text that brotli and gzip shrink</p>" * 100
    await site.deploy({"index.html": page})

    async def is_compressed() -> bool:
        return "content-encoding" in (await site.get("/", accept_encoding="gzip")).headers

    await until(is_compressed)
    found = await reconciled(app.server)
    assert [key for key in found.orphans + found.missing if app.app_id in key] == []
    statement = "select blob_id from pilotis.web_blobs where app_id = $1"
    blob_id = await run_sql(app.server, statement, UUID(app.app_id))
    file = next(app.server.data_dir.glob(f"blobs/**/{blob_id}"))
    file.unlink()
    found = await reconciled(app.server)
    file.write_bytes(page)
    assert [key for key in found.missing if app.app_id in key] == [f"blobs/{app.app_id}/{blob_id}"]


async def test_a_large_archive_is_unpacked_by_a_job(app: App):
    site = await new_site(app)
    await branch_of(app)
    files = {f"pages/{number}.txt": b"%d" % number for number in range(5_001)}
    begun = await site.deploy({**files, "index.html": b"home"}, status=202, branch="pr-17")
    assert (begun["deployment"]["status"], begun["deployment"]["version"]) == ("processing", None)
    async with owner_of(app).client(app) as console:
        address = f"/storages/webs/{site.id}/deployments/{begun['deployment']['id']}"

        async def is_ready() -> bool:
            return (await console.get(address)).json()["status"] == "ready"

        await until(is_ready)
        ready = (await console.get(address)).json()
    assert (ready["file_count"], ready["target"], ready["branch"]) == (5_002, "qa", "pr-17")
    assert (await site.get("/pages/4999.txt", suffix="--qa")).content == b"4999"
    refused = await site.send("POST", "/promote", json={"deployment_id": ready["id"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "DEPLOYMENT_OF_BRANCH")


class Holder:
    """A process that holds its work for sure."""

    def __init__(self) -> None:
        self.id = uuid4()

    def require_lease(self) -> None:
        """It never loses it."""


@pytest.mark.parametrize("is_slow", [True, False])
async def test_an_archive_is_not_given_up_because_the_database_is_slow(
    app: App, monkeypatch: pytest.MonkeyPatch, is_slow: bool
):
    """A statement may take longer than one of a request; and if it is stopped all the same, the job is repeated."""
    site = await new_site(app)
    app_id, deployment_id, holder = UUID(app.app_id), uuid4(), Holder()
    data, actor = zipped({"index.html": b"home"}), Actor("operator", None, None)
    key = f"staging/{app_id}/{deployment_id}"
    insert_files = content_store.insert_files

    async def insert(connection: asyncpg.Connection, *arguments: Any) -> None:
        if not is_slow:
            raise asyncpg.QueryCanceledError
        await connection.execute("select pg_sleep(1.3)")
        await insert_files(connection, *arguments)

    monkeypatch.setattr(content_store, "insert_files", insert)
    settings = Settings(data_dir=str(app.server.data_dir), statement_seconds=1)
    node = Node(settings, databases.address(app.server.data_dir), app.server.url)
    try:
        async with node.database.transaction(app_id) as connection:
            release = DeployedRelease("zip", None, None)
            await deployment_store.insert_deployment(
                connection, new_row(app_id, UUID(site.id), actor, release, deployment_id)
            )
            row = await connection.fetchrow(
                """
                insert into pilotis.jobs (app_id, job_id, queue, kind, payload, state, run_at, owner, attempts)
                values ($1, $2, 'test', 'test', '{}', 'running', now(), $3, 1)
                returning app_id, job_id, kind, key, subject, payload::text, depth, attempts, fence
                """,
                app_id,
                deployment_id,
                holder.id,
            )
        await node.services.blobs.put(key, _once(data), size=len(data), content_type="application/zip")
        job = ClaimedJob[ZipJob](node.database, holder, holder.id, JobRecord(*row))
        job.payload = ZipJob(UUID(site.id), deployment_id, key, len(data), actor.kind, actor.id)
        repeats = contextlib.nullcontext() if is_slow else pytest.raises(QueryTimeoutError)
        with repeats:
            await node.services.hosting.deploys._run_unpack(job)
        status = "select status from pilotis.web_deployments where deployment_id = $1"
        assert await run_sql(app.server, status, deployment_id) == ("ready" if is_slow else "processing")
    finally:
        await node.stop()
        await run_sql(app.server, "delete from pilotis.jobs where job_id = $1", deployment_id)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_another_node_sees_a_promotion_at_once(app: App):
    site = await new_site(app)
    first = await site.deploy({"index.html": b"one"})
    host = f"{site.slug}.localhost"
    async with second_node(app.server) as node:
        sites = node.services.hosting.sites
        before = await sites.view(host)
        assert before.release.files["index.html"].sha256.hex() == sha256(b"one")
        second = await site.deploy({"index.html": b"two"})

        async def serves(text: bytes) -> bool:
            return (await sites.view(host)).release.files["index.html"].sha256.hex() == sha256(text)

        await until(lambda: serves(b"two"))
        await site.promote(first["deployment"]["id"])
        await until(lambda: serves(b"one"))
        assert second["deployment"]["version"] == 2


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, which it kills."""
    running = Server(tmp_path / "data").start()
    yield running
    running.stop()


@pytest.fixture
def short_lease(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own whose work others may take soon after it was killed."""
    running = Server(tmp_path / "data", environment={"PILOTIS_NODE_LEASE_SECONDS": "2"}).start()
    yield running
    running.stop()


async def test_a_killed_server_serves_whole_deployments(own: Server):
    app = new_app(own, first_console_user(own))
    site = await new_site(app)
    await site.deploy(release(0))
    chance = random.Random(7)
    end = time.monotonic() + CRASH_SECONDS
    number = 0
    while time.monotonic() < end or number < 2:
        number += 1
        work = asyncio.create_task(busy(site, number))
        await asyncio.sleep(chance.uniform(0.05, 1.0))
        own.kill()
        await work
        own.start()
        await check(site)


async def test_a_killed_job_still_unpacks_its_archive(short_lease: Server):
    app = new_app(short_lease, first_console_user(short_lease))
    site = await new_site(app)
    chance = random.Random(3)
    pages = {f"pages/{number}.txt": b"%d " % number * 100 for number in range(5_001)}
    for number in range(times(1, whole=2)):
        begun = await site.deploy({**pages, "index.html": b"%d" % number}, status=202)
        for _ in range(2):
            await asyncio.sleep(chance.uniform(0, 0.8))
            short_lease.kill()
            short_lease.start()
        deployment_id = begun["deployment"]["id"]

        async def ended(wanted: str = deployment_id) -> str | None:
            listed = (await site.send("GET", "/deployments")).json()["deployments"]
            status = next(one["status"] for one in listed if one["id"] == wanted)
            return status if status != "processing" else None

        assert await until(ended) == "ready"
        assert (await site.get("/")).content == b"%d" % number
        for page in (0, 2_500, 5_000):
            assert (await site.get(f"/pages/{page}.txt")).content == pages[f"pages/{page}.txt"]
    # No archive and no content stays behind that nothing refers to.
    found = await reconciled(short_lease)
    assert (found.orphans, found.missing) == ([], [])


async def test_a_killed_collection_spares_what_is_deployed_meanwhile(short_lease: Server):
    app = new_app(short_lease, first_console_user(short_lease))
    site = await new_site(app, retain=1)
    app_id = UUID(app.app_id)
    await site.deploy({"index.html": b"home"})
    chance = random.Random(11)
    for number in range(times(1, whole=3)):
        unused = {f"{page}.txt": b"%d of %d" % (page, number) for page in range(1_000)}
        await site.deploy(unused | {"index.html": b"with %d" % number})
        await site.deploy({"index.html": b"without %d" % number})
        before = "update pilotis.web_deployments set production_until = now() - interval '8 days' where app_id = $1"
        await run_sql(short_lease, before, app_id)
        old = "update pilotis.web_blobs set last_used_at = now() - interval '25 hours' where app_id = $1"
        await run_sql(short_lease, old, app_id)
        # The deploy names contents that the collection, which begins with it, is about to delete.
        deploying = asyncio.create_task(deployed_if_alive(site, unused | {"index.html": b"again %d" % number}))
        await collect_soon(short_lease)
        await asyncio.sleep(chance.uniform(0, 0.2))
        short_lease.kill()
        await deploying
        short_lease.start()
        index = (await site.get("/")).content
        assert index in {b"without %d" % number, b"again %d" % number}
        if index.startswith(b"again"):
            for page in range(0, 1_000, 50):
                assert (await site.get(f"/{page}.txt")).content == unused[f"{page}.txt"]
        found = await reconciled(short_lease)
        assert (found.orphans, found.missing) == ([], [])
    async with second_node(short_lease, listening=False) as node:
        await run_sql(short_lease, old, app_id)
        await run_task(node, "hosting.collect")
        rows = await run_sql(short_lease, "select count(*) from pilotis.web_blobs where app_id = $1", app_id)
        held = "select count(distinct sha256) from pilotis.web_files where app_id = $1"
        assert rows == await run_sql(short_lease, held, app_id)


async def deployed_if_alive(site: Site, files: dict[str, bytes]) -> None:
    with contextlib.suppress(httpx.TransportError):
        async with site.client() as client:
            await client.post(f"{site.path}/deploy", files={"file": ("site.zip", zipped(files))})


async def collect_soon(server: Server) -> None:
    """Have the server itself begin to collect."""
    statement = """
        insert into pilotis.jobs (app_id, job_id, queue, kind, key, payload, state, run_at)
        values ('00000000-0000-0000-0000-000000000000', $1, 'bytes', 'hosting.collect', 'hosting.collect', '{}',
                'waiting', now())
        on conflict do nothing
    """
    await run_sql(server, statement, uuid4())
    await run_sql(server, "select pg_notify('pilotis', 'work:bytes')")
    waiting = "select count(*) from pilotis.jobs where kind = 'hosting.collect' and state = 'waiting'"

    async def has_begun() -> bool:
        return await run_sql(server, waiting) == 0

    await until(has_begun)


@pytest.mark.alone
async def test_every_process_follows_a_promotion_within_a_second(tmp_path: Path):
    server = Server(tmp_path / "data", "--workers", "2").start()
    try:
        app = new_app(server, first_console_user(server))
        site = await new_site(app)
        ids = [(await site.deploy({"index.html": b"%d" % number}))["deployment"]["id"] for number in range(2)]
        for number in (0, 1, 0) if not WHOLE else (0, 1, 0, 1, 0):
            # Each request has its own connection, so that both processes have answered before.
            assert len({(await site.get("/")).content for _ in range(20)}) == 1
            await site.promote(ids[number])
            promoted = time.monotonic()
            last_old = promoted
            while time.monotonic() < promoted + 1.5:
                if (await site.get("/")).content != b"%d" % number:
                    last_old = time.monotonic()
            assert last_old - promoted < 1
    finally:
        server.stop()


async def test_caches_stay_within_their_setting(app: App):
    site = await new_site(app)
    files = {f"{number}.bin": random.Random(number).randbytes(100_000) for number in range(60)}
    await site.deploy(files)
    most = 2 << 20
    async with second_node(app.server, sites_cache_bytes=most) as node:
        serving = node.services.hosting.serving
        async with httpx.AsyncClient(transport=httpx.ASGITransport(node.hosts), base_url="http://node") as client:
            for path, data in files.items():
                answer = await client.get(f"/{path}", headers={"Host": f"{site.slug}.localhost"})
                assert answer.content == data
                assert 0 < serving.cached_bytes <= most // 2
            # What was asked for last is there.
            encodings = answer.request.headers["accept-encoding"].encode()
            headers = {b"host": f"{site.slug}.localhost".encode(), b"accept-encoding": encodings}
            assert serving.cached(b"/59.bin", headers).body == files["59.bin"]
            assert serving.cached(b"/0.bin", headers) is None


def release(number: int) -> dict[str, bytes]:
    """Files that say which release they are of, in contents of some size."""
    return {f"{name}.txt": b"%d " % number * 5_000 for name in range(20)} | {"index.html": b"%d" % number}


async def busy(site: Site, number: int) -> None:
    """Deploy and promote until the server is gone."""
    try:
        async with site.client() as client:
            for step in range(100):
                files = {"file": ("site.zip", zipped(release(number * 100 + step)))}
                await client.post(f"{site.path}/deploy", files=files)
                listed = (await client.get(f"{site.path}/deployments")).json()["deployments"]
                await client.post(f"{site.path}/promote", json={"deployment_id": listed[-1]["id"]})
    except httpx.TransportError:
        pass


async def check(site: Site) -> None:
    """Every file of every deployment is whole and of one release."""
    listed = (await site.send("GET", "/deployments")).json()
    assert listed["production_deployment_id"] is not None
    for suffix in ["", *(f"--v{one['version']}" for one in listed["deployments"][:2])]:
        index = await site.get("/", suffix)
        assert index.status_code == 200, index.text
        for name in (0, 7, 19):
            page = await site.get(f"/{name}.txt", suffix)
            assert page.content == (index.content + b" ") * 5_000
