"""`kill -9` at any step of a backup or a restore: the same command runs again and ends right, and nothing stays."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pilotis.backup import wal
from pilotis.backup.place import opened
from pilotis.settings import load
from tests import commands
from tests.acceptance.test_files import storage, upload
from tests.backstage import run_sql
from tests.backup.test_backups import backup, backup_beside, environment, killed, shipped
from tests.conftest import first_console_user, new_app
from tests.support import App, Server
from tests.waiting import is_running, until
from tests.whole import sample, times

pytestmark = pytest.mark.embedded("base backups are of the embedded database")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("kills")
    running = Server(folder / "data", environment=environment(folder)).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def shop(source: Server) -> App:
    """An app with a row and some files, and a backup that is based on another one."""
    app = new_app(source, first_console_user(source))
    app.table_id = await app.table({"name": "string"})
    app.table_name = f"app_{app.app_id.replace('-', '')}.t_{app.table_id.replace('-', '')}"
    await backup_beside(source, "create")
    base = await storage(app)
    async with app.client() as client:
        for number in range(5):
            await upload(client, base, random.Random(number).randbytes(1 << 20), file_name=f"{number}.png")
    await app.row(app.table_id, {"name": "first"})
    await backup_beside(source, "create")
    return app


def restored(source: Server, target: Path) -> dict[str, Any]:
    where = ["--to", str(target), "--data-dir", str(target), "--json"]
    done = commands.run("backup", "restore", *where, **source.environment)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


async def test_a_server_that_is_killed_while_it_ships_its_log_loses_none_of_it(
    source: Server, shop: App, tmp_path: Path
):
    """Between the segment's way into the store and its deletion from the spool, it is in both."""
    spool = wal.spool_of(source.data_dir / "postgres")
    chance = random.Random(3)
    rows = 1
    for _ in range(times(3, whole=30)):
        for _ in range(3):
            await shop.row(shop.table_id, {"name": f"row {rows}"})
            rows += 1
            await run_sql(source, "select pg_switch_wal()")
        await until(lambda: any(spool.glob("[0-9A-F]*")))
        await asyncio.sleep(chance.random() / 20)
        source.kill()
        source.start()
    await shipped(source)
    assert backup(source, "verify")["state"] == "verified"
    found = await asyncio.to_thread(restored, source, tmp_path / "new")
    assert (found["rows"], found["files"]) == (rows, 5)


STEPS: dict[str, Callable[[Path], bool]] = {
    "the bases": lambda target: any(target.glob("restore.parts/01/*")),
    "putting them together": lambda target: any(target.glob("postgres/base/*/*")),
    "the log": lambda target: any(target.glob("postgres/pgsql_tmp.wal_restore/0*")),
    "replaying it": (lambda target: (target / "postgres" / "postmaster.pid").exists()),
    "the files": lambda target: any(target.glob("blobs/objects/blobs/*/*")),
}


async def test_a_restore_that_is_killed_at_any_step_runs_again(source: Server, shop: App, tmp_path: Path):
    """Each run clears what the one before has left, in the same directory."""
    target = tmp_path / "new"
    words = ["restore", "--to", str(target), "--data-dir", str(target)]
    rows = await run_sql(source, f"select count(*) from {shop.table_name}")
    for step in sample(STEPS, 0.4):
        ready = STEPS[step]
        await asyncio.to_thread(killed, source, *words, ready=lambda ready=ready: ready(target))
        assert (target / "restore.unfinished").exists(), f"The restore had ended before {step}."
    found = await asyncio.to_thread(restored, source, target)
    assert (found["rows"], found["files"], found["missing_files"]) == (rows, 5, 0)
    assert not (target / "restore.unfinished").exists()


async def test_a_rehearsal_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(source: Server, shop: App):
    def begun() -> list[Path]:
        return list(source.data_dir.glob("scratch-*/restored/postgres/postmaster.pid"))

    pids: list[int] = []

    def is_starting() -> bool:
        for path in begun():
            with suppress(FileNotFoundError, IndexError):
                pids[:] = [int(path.read_text().splitlines()[0])]
        return bool(pids)

    await asyncio.to_thread(killed, source, "rehearse", *source.place, ready=is_starting)
    (left,) = source.data_dir.glob("scratch-*")
    assert left.is_dir()
    # Its PostgreSQL ends with it.
    await until(lambda: not is_running(pids[0]))
    assert (await backup_beside(source, "rehearse"))["state"] == "rehearsed"
    assert list(source.data_dir.glob("scratch-*")) == []


async def test_a_segment_that_a_killed_process_left_twice_is_stored_once(tmp_path: Path):
    """PostgreSQL archives one again after a crash, and the server may have compressed or stored it before."""
    settings = load({"data_dir": str(tmp_path)}, environment(tmp_path))
    spool = wal.spool_of(tmp_path / "postgres")
    spool.mkdir(parents=True)
    segments = {f"{1:08X}{0:08X}{number:08X}": bytes([number]) * 100_000 for number in range(1, 5)}
    first, second, third, fourth = segments

    def write(name: str) -> None:
        (spool / name).write_bytes(segments[name])

    async with opened(settings, may_create=True) as place:
        for name in (first, second, third):
            write(name)
        assert wal.compress(tmp_path / "postgres") == 3
        assert wal.waiting(tmp_path / "postgres").bytes < 3000
        (spool / "pilotis.new").write_bytes(b"half of one")
        write(second)
        write(fourth)
        # One is in the store already.
        await wal.ship(tmp_path / "postgres", place.store, place.key)
        write(third)
        assert wal.compress(tmp_path / "postgres") == 1
        write(fourth)
        await wal.ship(tmp_path / "postgres", place.store, place.key)
        assert wal.waiting(tmp_path / "postgres").files == 0
        folder = tmp_path / "fetched"
        folder.mkdir()
        assert await wal.restore_to(folder, place.store, place.key, first) == fourth.lower()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == segments
        (spool / first).write_bytes(b"another server's")
        with pytest.raises(wal.ForeignLogError):
            await wal.ship(tmp_path / "postgres", place.store, place.key)


async def test_a_segment_of_zeros_and_some_bytes_is_fetched_as_it_was(tmp_path: Path):
    settings = load({"data_dir": str(tmp_path)}, environment(tmp_path))
    spool, folder = wal.spool_of(tmp_path / "postgres"), tmp_path / "fetched"
    spool.mkdir(parents=True)
    folder.mkdir()
    data = bytearray(wal.SEGMENT_BYTES)
    data[:5] = data[7_000_000:7_000_005] = data[-5:] = b"bytes"
    name = f"{1:08X}{0:08X}{1:08X}"
    (spool / name).write_bytes(data)
    async with opened(settings, may_create=True) as place:
        await wal.ship(tmp_path / "postgres", place.store, place.key)
        await wal.restore_to(folder, place.store, place.key, name)
    assert (folder / name).read_bytes() == data
    assert (folder / name).stat().st_blocks * 512 < 1 << 20
