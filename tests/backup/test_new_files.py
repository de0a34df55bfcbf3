"""New files go to the backup store with the log, so that a moment between two backups has its files, too."""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from pilotis.backup import copies, files
from pilotis.backup.place import opened
from pilotis.backup.waiting import waiting
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.cli.findings import Check
from pilotis.files.uploads import store as upload_store
from pilotis.floor import open_blobs
from pilotis.kit.clock import parse_rfc3339
from pilotis.settings import load
from tests import databases
from tests.acceptance.test_files import complete, fixed, send, storage, upload
from tests.backstage import run_sql
from tests.backup.test_backups import backup, backup_beside, environment, moment, scraped, shipped
from tests.backup.test_doctor import found
from tests.conftest import first_console_user, new_app
from tests.hosting.sites import new_site
from tests.support import App, Server
from tests.waiting import reserved_port, until
from tests.whole import times

pytestmark = pytest.mark.embedded("base backups are of the embedded database")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def source(place: Path) -> Iterator[Server]:
    with reserved_port() as port:
        running = Server(place / "data", environment={**environment(place), "PILOTIS_METRICS_PORT": str(port)}).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def shop(source: Server) -> App:
    """An app with a storage, and a backup of before it has a file."""
    app = new_app(source, first_console_user(source))
    app.base = await storage(app)
    await backup_beside(source, "create")
    return app


@pytest.fixture
async def connection(source: Server) -> AsyncIterator[asyncpg.Connection]:
    opened_one = await asyncpg.connect(**databases.address(source.data_dir))
    yield opened_one
    await opened_one.close()


async def add(app: App, data: bytes, name: str | None = None) -> dict[str, Any]:
    async with app.client() as client:
        return await upload(client, app.base, data, file_name=name or f"{uuid4()}.png")


async def put(app: App, data: bytes) -> dict[str, Any]:
    """Put bytes at a path, which may have others."""
    async with app.client() as client:
        permitted = (await fixed(client, app.base, "replaced.png", data, overwrite=True)).json()
        assert (await send(permitted, data)).status_code == 200
        answer = await complete(client, app.base, permitted)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def waits(source: Server) -> int:
    count: int = await run_sql(source, "select count(*) from pilotis.pending_copies")
    return count


async def copied(source: Server) -> None:
    """Wait until the log of everything until now is in the store, and the files with it."""

    async def none_waits() -> bool:
        return await waits(source) == 0

    await shipped(source)
    await until(none_waits)


def restore(source: Server, target: Path, *words: str, status: int = 0) -> Any:
    return backup(source, "restore", "--to", str(target), "--data-dir", str(target), *words, status=status)


async def test_files_since_the_backup_are_there_at_a_moment(source: Server, shop: App, tmp_path: Path):
    """An upload that was deleted since, one that replaced another, and a site with compressed files."""
    gone = await add(shop, b"deleted since")
    await put(shop, b"first")
    kept = await put(shop, b"second")
    site = await new_site(shop)
    await site.deploy({"index.html": b"<title>Home</title>" + b"<p>text</p>" * 500})
    compressed = "select count(*) from pilotis.web_blobs where brotli_id is not null"
    await until(lambda: run_sql(source, compressed))
    then = await moment(source)
    async with shop.client() as client:
        for one in (gone, kept):
            answer = await client.delete(f"{shop.base}/items/{one['id']}")
            assert answer.status_code < 300, answer.text
    await add(shop, b"too late")
    await copied(source)

    status = backup(source, "status")
    assert status["waiting_files"] == 0
    for name in ("rows_until", "files_until"):
        assert parse_rfc3339(status[name]) > parse_rfc3339(then)
        assert parse_rfc3339(status[name]) > parse_rfc3339(status["newest"]["ended_at"])

    new = tmp_path / "new"
    done = await asyncio.to_thread(restore, source, new, "--at", then)
    assert done["missing_files"] == 0
    assert done["missing"] == []
    texts = {path.read_bytes() for path in (new / "blobs" / "objects" / "blobs").rglob("*") if path.is_file()}
    assert {b"deleted since", b"second"} <= texts
    assert b"too late" not in texts
    # The bytes of the site, and their two compressed forms.
    assert done["files"] == 2 + 3


async def test_what_the_store_lacks_is_named(source: Server, shop: App, tmp_path: Path):
    kept, lost = await add(shop, b"this one is kept", "kept.png"), await add(shop, b"this one is lost", "lost.png")
    await copied(source)
    store = tmp_path / "store"
    shutil.copytree(source.environment["PILOTIS_BACKUP_STORE"], store)
    where = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_STORE": str(store)})
    settings = load({"data_dir": str(where.data_dir)}, where.environment)
    blob_id = await run_sql(source, "select blob_id from pilotis.files where file_id = $1", UUID(lost["id"]))
    async with opened(settings) as place:
        name = place.key.name_of(f"blobs/{shop.app_id}/{blob_id}")
    shutil.rmtree(store / "objects" / "files" / name)
    done = await asyncio.to_thread(restore, where, tmp_path / "new", status=1)
    assert done["missing_files"] == 1
    assert done["missing"] == [{"app_id": shop.app_id, "path": "lost.png"}]
    # No backup had it, so that this says nothing against the backup.
    assert (await backup_beside(where, "rehearse"))["state"] == "rehearsed"
    await backup_beside(source, "create")
    shutil.rmtree(store)
    shutil.copytree(source.environment["PILOTIS_BACKUP_STORE"], store)
    shutil.rmtree(store / "objects" / "files" / name)
    assert "1 files that the rows name" in (await backup_beside(where, "rehearse", status=1))["error"]
    assert kept["name"] == "kept.png"


async def test_a_transaction_that_commits_late_is_not_missed(
    source: Server, shop: App, connection: asyncpg.Connection, place: Path
):
    """Others that began later are copied before it commits."""
    app_id, blob_id = UUID(shop.app_id), uuid4()
    key = f"blobs/{app_id}/{blob_id}"
    settings = load({"data_dir": str(source.data_dir)}, source.environment)
    blobs = open_blobs(settings)

    async def once() -> AsyncIterator[bytes]:
        yield b"late"

    await blobs.put(key, once(), size=4, content_type="text/plain")
    await blobs.close()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(
        """
        insert into pilotis.files (app_id, storage_id, file_id, path, name, is_folder, blob_id, size)
        values ($1, $2, gen_random_uuid(), 'late.txt', 'late.txt', false, $3, 4)
        """,
        app_id,
        UUID(shop.base.rpartition("/")[2]),
        blob_id,
    )
    await add(shop, b"between")
    await copied(source)
    async with opened(settings) as at:
        stored = place / "store" / "objects" / files.FOLDER / at.key.name_of(key)
    assert not stored.exists()
    await transaction.commit()
    await copied(source)
    assert (stored / "00000.end").exists()


@pytest.fixture
def away(place: Path) -> Iterator[Any]:
    """Takes the store away, and brings it back."""
    objects, elsewhere = place / "store" / "objects", place / "store" / "away"

    def leave() -> None:
        objects.rename(elsewhere)
        objects.write_text("")

    def come_back() -> None:
        if elsewhere.exists():
            objects.unlink()
            elsewhere.rename(objects)

    yield leave, come_back
    come_back()


async def test_a_file_that_is_deleted_while_the_store_is_away_waits_for_it(
    source: Server, shop: App, connection: asyncpg.Connection, away: Any, tmp_path: Path
):
    leave, come_back = away
    await copied(source)
    leave()
    file = await add(shop, b"only while the store was away")
    then = await moment(source)
    await run_sql(source, "select pg_switch_wal()")
    async with shop.client() as client:
        assert (await client.delete(f"{shop.base}/items/{file['id']}")).status_code < 300
    await connection.execute("update pilotis.pending_deletions set due_at = now() - interval '1 hour'")

    async def due() -> list[str]:
        transaction = connection.transaction()
        await transaction.start()
        found = await upload_store.claim_due_blobs(connection, 500)
        await transaction.rollback()
        return [one.key for one in found]

    (key,) = await connection.fetchrow("select key from pilotis.pending_copies")
    assert key not in await due()
    await until(lambda: copies.noted(source.data_dir).held_bytes == 29)
    assert waiting(source.data_dir).seconds > 0
    assert re_number(await scraped(source), "pilotis_backup_waiting_files") == 1
    (spool,) = await asyncio.to_thread(found_with, source, 0.0)
    assert "1 files of apps wait" in spool.sentence
    come_back()
    await copied(source)
    await connection.execute("update pilotis.pending_deletions set due_at = now() - interval '1 hour'")

    async def is_deleted() -> bool:
        return key in await due() or not await connection.fetchval(
            "select exists(select from pilotis.pending_deletions where key = $1)", key
        )

    await until(is_deleted)
    done = await asyncio.to_thread(restore, source, tmp_path / "new", "--at", then)
    assert done["missing_files"] == 0
    assert await asyncio.to_thread(found, source, Check.BACKUP_SPOOL) == []


def re_number(metrics: str, name: str) -> float:
    return next(float(line.split()[1]) for line in metrics.splitlines() if line.startswith(f"{name} "))


def found_with(source: Server, seconds: float) -> list[Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pilotis.backup.status.SPOOL_SECONDS", seconds)
        return found(source, Check.BACKUP_SPOOL)


async def test_one_that_cannot_be_read_stops_no_other(
    source: Server, shop: App, connection: asyncpg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It waits, and is said to; one that is not there at all waits for nothing."""
    settings = load({"data_dir": str(source.data_dir)}, source.environment)
    await add(shop, b"good")
    await copied(source)
    copy_one = files.copy_one
    queued = {name: f"blobs/{shop.app_id}/{uuid4()}" for name in ("unreadable", "missing", "good")}

    async def failing(blobs: Any, store: Any, key: Any, blob_key: str) -> bool:
        if blob_key == queued["unreadable"]:
            raise BlobStoreUnavailableError
        return await copy_one(blobs, store, key, blob_key)

    monkeypatch.setattr(files, "copy_one", failing)
    source.process.send_signal(signal.SIGSTOP)  # so that it does not copy them first
    try:
        (good,) = await connection.fetchrow("select blob_id from pilotis.files where blob_id is not null limit 1")
        queued["good"] = f"blobs/{shop.app_id}/{good}"
        for key in queued.values():
            await connection.execute(
                "insert into pilotis.pending_copies (app_id, key, size) values ($1, $2, 1)", UUID(shop.app_id), key
            )
        async with opened(settings) as at:
            await copies.copy(at, databases.address(source.data_dir))
        left = await connection.fetch("select key, queued_at from pilotis.pending_copies")
        assert [row["key"] for row in left] == [queued["unreadable"]]
        note = copies.noted(source.data_dir)
        assert note.waiting == 1
        assert parse_rfc3339(note.until) <= left[0]["queued_at"]
        await connection.execute("delete from pilotis.pending_copies")
    finally:
        source.process.send_signal(signal.SIGCONT)


async def test_a_server_that_is_killed_while_it_copies_copies_all(source: Server, shop: App, tmp_path: Path):
    chance = random.Random(5)
    sent = []
    for _ in range(times(2, whole=30)):
        for size in (1000, 3 << 20, 20):
            sent.append(os.urandom(size))
            await add(shop, sent[-1])
        await run_sql(source, "select pg_switch_wal()")
        await asyncio.sleep(chance.random() * 2)
        source.kill()
        source.start()
    await copied(source)
    done = await asyncio.to_thread(restore, source, tmp_path / "new")
    assert done["missing_files"] == 0
    texts = {
        path.read_bytes() for path in (tmp_path / "new" / "blobs" / "objects" / "blobs").rglob("*") if path.is_file()
    }
    assert set(sent) <= texts
