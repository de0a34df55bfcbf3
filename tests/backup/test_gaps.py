"""The store stays away until what waits for it has reached its bound: the log is dropped, and everything says so."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pilotis.backup import gaps, wal
from pilotis.backup.errors import DamagedError
from pilotis.backup.place import opened
from pilotis.backup.waiting import waiting
from pilotis.cli.findings import Check
from pilotis.settings import load
from tests.acceptance.test_files import storage
from tests.backstage import run_sql
from tests.backup.test_backups import backup_beside, environment, moment, scraped
from tests.backup.test_doctor import found
from tests.backup.test_new_files import add, copied, re_number, restore
from tests.conftest import first_console_user, new_app
from tests.support import Server
from tests.waiting import reserved_port, until

pytestmark = pytest.mark.embedded("base backups are of the embedded database")
SPOOL_BYTES = 400_000


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Server]:
    small = {"PILOTIS_BACKUP_SPOOL_BYTES": str(SPOOL_BYTES)}
    with reserved_port() as port:
        settings = {**environment(tmp_path), **small, "PILOTIS_METRICS_PORT": str(port)}
        running = Server(tmp_path / "data", environment=settings).start()
    yield running
    running.stop()
    running.assert_no_failure()


async def test_the_log_is_dropped_at_its_bound_and_a_backup_follows(source: Server, tmp_path: Path):
    app = new_app(source, first_console_user(source))
    app.base = await storage(app)
    table_id = await app.table({"name": "string"})
    first = await backup_beside(source, "create")
    await app.row(table_id, {"name": "before the gap"})
    before = await moment(source)
    await app.row(table_id, {"name": "also before the gap"})
    await copied(source)

    objects, away = tmp_path / "store" / "objects", tmp_path / "store" / "away"
    objects.rename(away)
    objects.write_text("")
    deleted = await add(app, b"deleted in the gap")

    async def is_dropped() -> bool:
        await app.row(table_id, {"name": os.urandom(100_000).hex()})
        await run_sql(source, "select pg_switch_wal()")
        return gaps.noted(source.data_dir) is not None

    await until(is_dropped)
    within = await moment(source)
    async with app.client() as client:
        assert (await client.delete(f"{app.base}/items/{deleted['id']}")).status_code == 200
    assert re_number(await scraped(source), "pilotis_backup_gap_seconds") > 0
    (spool,) = await asyncio.to_thread(found, source, Check.BACKUP_SPOOL)
    assert "was dropped" in spool.sentence
    assert "spool_bytes" in spool.fix
    # It stays within its bound, however long that lasts, and deleted files do not wait for ever.
    for _ in range(3):
        await app.row(table_id, {"name": os.urandom(100_000).hex()})
        await run_sql(source, "select pg_switch_wal()")

    async def is_empty() -> bool:
        return waiting(source.data_dir).log.files == 0 and not await run_sql(
            source, "select count(*) from pilotis.pending_copies"
        )

    await until(is_empty)
    source.kill()
    source.start()
    await app.row(table_id, {"name": "the last in the gap"})
    objects.unlink()
    away.rename(objects)
    await run_sql(source, "select pg_switch_wal()")
    await until(lambda: gaps.noted(source.data_dir) is None)
    await add(app, b"after the gap")
    table = f"app_{app.app_id.replace('-', '')}.t_{table_id.replace('-', '')}"
    rows = await run_sql(source, f"select count(*) from {table}")
    await copied(source)

    listed = await backup_beside(source, "list")
    assert listed[0]["backup_id"] == first["backup_id"]
    assert len(listed) == 2
    assert listed[0]["log_until"] <= within
    assert listed[1]["log_until"] is None
    (gap,) = (await backup_beside(source, "status"))["gaps"]
    assert (gap["since"], gap["until"]) == (listed[0]["log_until"], listed[1]["ended_at"])
    assert await asyncio.to_thread(found, source, Check.BACKUP_SPOOL) == []
    for one in listed:
        assert (await backup_beside(source, "verify", one["backup_id"]))["state"] == "verified"

    def restored(*words: str, status: int = 0) -> Any:
        return restore(source, tmp_path / f"new{len(list(tmp_path.iterdir()))}", *words, status=status)

    newest = await asyncio.to_thread(restored)
    assert (newest["rows"], newest["missing_files"], newest["gap"]) == (rows, 0, None)
    assert (await asyncio.to_thread(restored, "--at", before))["rows"] == 1
    said = await asyncio.to_thread(lambda: restored("--at", within, status=1))
    assert "does not reach" in said
    assert "was dropped" in said
    older = await asyncio.to_thread(lambda: restored("--backup", first["backup_id"], status=1))
    assert older["rows"] == 2
    assert "was dropped" in older["gap"]

    # The entry of the gap cannot be taken for another.
    path = next(objects.glob("gaps/*.json"))
    changed = path.read_bytes().replace(b'"since":"2', b'"since":"1')
    path.unlink()
    path.write_bytes(changed)
    assert "was changed" in await backup_beside(source, "status", status=1)


async def test_who_is_killed_before_the_log_was_dropped_drops_nothing(tmp_path: Path):
    settings = load({"data_dir": str(tmp_path)}, environment(tmp_path))
    cluster = tmp_path / "postgres"
    spool = wal.spool_of(cluster)
    spool.mkdir(parents=True)
    names = [f"{1:08X}{0:08X}{number:08X}" for number in range(1, 5)]

    def write(*wanted: str) -> None:
        for name in wanted:
            (spool / name).write_bytes(name.encode())

    async with opened(settings, may_create=True) as place:
        write(*names[:2])

        def killed(path: Path, **_: Any) -> None:
            raise KeyboardInterrupt(path)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Path, "unlink", killed)
            with pytest.raises(KeyboardInterrupt):
                gaps.drop(tmp_path)
        assert gaps.noted(tmp_path) is not None
        assert await gaps.ship(place) == 2
        assert gaps.noted(tmp_path) is None
        assert await gaps.all_gaps(place.store, place.key) == []

        write(names[2])
        assert gaps.drop(tmp_path)
        assert not gaps.drop(tmp_path)
        # The store has nothing to say of a gap before it is known where it ends.
        assert await gaps.ship(place) == 0
        write(names[3])
        assert await gaps.ship(place) == 1
        (gap,) = await gaps.all_gaps(place.store, place.key)
        assert (gap.first, gap.following) == (names[2].lower(), names[3].lower())
        folder = tmp_path / "fetched"
        folder.mkdir()
        with pytest.raises(DamagedError):
            await wal.restore_to(folder, place.store, place.key, names[0])
        assert await wal.restore_to(folder, place.store, place.key, names[0], gap.first) == names[1].lower()
        await gaps.remove_before(place.store, [gap], names[3])
        assert await gaps.all_gaps(place.store, place.key) == []
