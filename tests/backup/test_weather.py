"""Backups in bad weather: full disks, a store that is away, and `kill -9` at any step.

The same command runs again and ends right, nothing that was acknowledged is lost, and nothing stays.
"""

import asyncio
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilotis.backup import proof, status, wal
from pilotis.backup.place import opened
from pilotis.backup.streams import END
from pilotis.blobs.errors import BlobStoreUnavailableError
from pilotis.blobs.protocol import BlobStore
from pilotis.cli.findings import Check
from pilotis.settings import load
from tests.acceptance.test_files import storage, upload
from tests.backstage import run_sql
from tests.backup.test_backups import backup, backup_beside, environment, killed, shipped
from tests.backup.test_doctor import found
from tests.conftest import first_console_user, new_app
from tests.support import Server, assert_error
from tests.test_disk_reserve import fill, free
from tests.waiting import is_running, until
from tests.whole import sample, times

pytestmark = pytest.mark.embedded("base backups are of the embedded database")

MIB = 1 << 20
WRITE_RESERVE = 48 * MIB


def mount(directory: Path, mib: int, *, again: bool = False) -> None:
    """Mount a small file system, or change the size of one."""
    options = f"size={mib}m{',remount' if again else ''}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    mount(directory, 2)
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("full")
    running = Server(folder / "data", environment=environment(folder)).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def made(source: Server) -> dict[str, Any]:
    """A backup based on another one, with files, and 12 MiB of the log that follows it."""
    app = new_app(source, first_console_user(source))
    table_id = await app.table({"name": "string"})
    await backup_beside(source, "create")
    base = await storage(app)
    async with app.client() as client:
        for number, size in enumerate((16 * MIB, MIB, MIB)):
            await upload(client, base, os.urandom(size), file_name=f"{number}.png")
    await app.row(table_id, {"name": "before"})
    newest = await backup_beside(source, "create")
    await run_sql(source, "select pg_logical_emit_message(false, 'test', string_agg(md5(n::text), '')) from " + _MANY)
    await run_sql(source, "select pg_switch_wal()")
    await app.row(table_id, {"name": "after"})
    await shipped(source)
    table = f"app_{app.app_id.replace('-', '')}.t_{table_id.replace('-', '')}"
    return {**newest, "app": app, "table_id": table_id, "count": f"select count(*) from {table}"}


_MANY = "generate_series(1, 400000) n"


def restore(source: Server, target: Path, status: int = 0, **changed: str) -> Any:
    where = Server(target, environment={**source.environment, **changed})
    return backup(where, "restore", "--to", str(target), status=status)


async def test_a_restore_on_a_full_disk_says_so_and_runs_again_with_room(
    source: Server, made: dict[str, Any], disk: Path
):
    """Whatever needs the room that is not there: the base with what changed since, the log, or a file.

    The sizes are far from those at which it is the next one: how much a base backup has differs from run to run.
    """
    target = disk / "new"
    left, sizes = set(), sample((2, 48, 73), 0.7)
    for mib in sizes:
        mount(disk, mib, again=True)
        said = await asyncio.to_thread(restore, source, target, 1)
        left.add(tuple(sorted(path.name for path in target.iterdir())))
        assert f"{target} cannot be written: No space left on device." in said
        assert "run the same command again" in said
    # It did not fail at the same place each time.
    assert len(left) == len(sizes), left
    mount(disk, 400, again=True)
    done = await asyncio.to_thread(restore, source, target)
    assert (done["backup_id"], done["rows"], done["files"], done["missing_files"]) == (made["backup_id"], 2, 3, 0)
    assert not (target / "restore.unfinished").exists()
    assert not (target / "restore.parts").exists()


@pytest.fixture
def failing_cp(source: Server, made: dict[str, Any]) -> Iterator[Path]:
    """A folder with a `cp` that finds no room for the last segment of the log."""
    # Below /tmp, since PostgreSQL's user cannot reach the folders of tests.
    programs = Path(tempfile.mkdtemp(prefix="pilotis-cp-"))
    programs.chmod(0o755)
    last = max(path.name for path in Path(source.environment["PILOTIS_BACKUP_STORE"]).glob("objects/wal/*")).upper()
    script = f"#!/bin/sh\ncase $1 in *{last}) echo No space left on device; exit 1;; esac\nexec /bin/cp $*\n"
    (programs / "cp").write_text(script)
    (programs / "cp").chmod(0o755)
    yield programs
    shutil.rmtree(programs)


async def test_a_segment_that_cannot_be_copied_does_not_end_the_log(
    source: Server, failing_cp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """PostgreSQL takes a command that fails for the end of the log, and would go on without the rows that follow."""
    monkeypatch.setenv("PATH", f"{failing_cp}:{os.environ['PATH']}")
    said = await asyncio.to_thread(restore, source, tmp_path / "new", 1)
    assert "No space left on device" in said


async def test_a_rehearsal_leaves_the_room_that_the_server_needs(source: Server, made: dict[str, Any]):
    before = backup(source, "list")
    huge = {"PILOTIS_WRITE_RESERVE_BYTES": str(1 << 49)}
    where = Server(source.data_dir, environment={**source.environment, **huge})
    said = await backup_beside(where, "rehearse", status=1)
    assert "A restore beside the server needs" in said
    assert "MiB are free" in said
    assert backup(source, "list") == before


async def test_a_store_that_goes_away_or_a_stop_is_no_damage(source: Server, made: dict[str, Any], tmp_path: Path):
    """The trial ends in the middle of the base, which is then cut off, and says nothing about the backup."""
    settings = load({"data_dir": str(source.data_dir)}, source.environment)
    async with opened(settings) as place:
        known = await place.catalogue.find(None)
        for error in (BlobStoreUnavailableError(), asyncio.CancelledError()):
            store = _Breaking(place.store, error)
            with pytest.raises(type(error)):
                await proof.rehearse(msgspec.structs.replace(place, store=store), known)
            assert store.was_read
            assert await place.catalogue.find(None) == known
    assert list(source.data_dir.glob("scratch-*")) == []


class _Breaking:
    """A store, of which the last part of a base cannot be read."""

    def __init__(self, store: BlobStore, error: BaseException) -> None:
        self._store = store
        self._error = error
        self.was_read = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self, key: str, *arguments: Any, **named: Any) -> AsyncIterator[bytes]:
        if "/base/" in key and key.endswith(END):
            self.was_read = True
            raise self._error
        async for chunk in self._store.open(key, *arguments, **named):
            yield chunk


@pytest.fixture
def small(disk: Path, tmp_path: Path) -> Iterator[Server]:
    """A server on a small disk, with its backup store on another one."""
    mount(disk, 400, again=True)
    own = {**environment(tmp_path), "PILOTIS_WRITE_RESERVE_BYTES": str(WRITE_RESERVE)}
    running = Server(disk, environment=own).start()
    yield running
    running.stop()
    running.assert_no_failure()


async def test_the_log_waits_on_a_disk_that_fills_and_all_of_it_is_stored_with_room(
    small: Server, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The store is away, so that the log stays on the disk: first writes are rejected, then nothing goes at all."""
    monkeypatch.setattr(status, "SPOOL_SECONDS", 0.2)
    monkeypatch.setattr(wal, "ARCHIVED_SECONDS", 0.2)
    app = new_app(small, first_console_user(small))
    table_id = await app.table({"text": "string"})
    await backup_beside(small, "create")
    await shipped(small)
    objects, away = tmp_path / "store" / "objects", tmp_path / "store" / "away"
    objects.rename(away)
    objects.write_text("")
    filler = fill(disk, WRITE_RESERVE + 100 * MIB)

    written = 0
    async with app.client() as client:
        for _ in range(400):
            row = {"data": {"text": os.urandom(400_000).hex()}}
            answer = await client.post(f"/v1/public/tables/{table_id}/data", json=row)
            if answer.status_code != 201:
                break
            written += 1
        assert_error(answer, 507, "STORAGE_FULL")
        assert written > 20
        assert wal.waiting(disk / "postgres").files >= 2
        assert free(disk) >= WRITE_RESERVE - 32 * MIB
        (waits,) = await until(lambda: asyncio.to_thread(found, small, Check.BACKUP_SPOOL))
        assert "for the store" in waits.sentence

        # Nothing is free: PostgreSQL keeps what it cannot archive, and says so.
        rest = disk / "rest"
        with rest.open("wb") as file:

            def is_full() -> bool:
                # PostgreSQL may write at the same time.
                with suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, free(disk))
                    return True
                return False

            await until(is_full)
        await run_sql(small, "select pg_switch_wal()")
        await until(lambda: wal.waiting(disk / "postgres").unarchived)
        assert "Make room" in (await asyncio.to_thread(found, small, Check.BACKUP_SPOOL))[0].fix
        rest.unlink()
        filler.unlink()
        away_files = wal.waiting(disk / "postgres").files
        objects.unlink()
        away.rename(objects)

        async def is_written() -> bool:
            answer = await client.post(f"/v1/public/tables/{table_id}/data", json={"data": {"text": "room again"}})
            return answer.status_code == 201

        await until(is_written)
        written += 1
    await shipped(small)
    assert away_files >= 3
    assert wal.waiting(disk / "postgres").files == 0
    restored = await asyncio.to_thread(restore, small, tmp_path / "new")
    assert restored["rows"] == written


@pytest.mark.whole
async def test_a_server_that_is_killed_while_it_ships_its_log_loses_none_of_it(
    source: Server, made: dict[str, Any], tmp_path: Path
):
    """Between the segment's way into the store and its deletion from the spool, it is in both."""
    spool = wal.spool_of(source.data_dir / "postgres")
    chance = random.Random(3)
    rows = 2
    for _ in range(times(2, whole=30)):
        for _ in range(3):
            await made["app"].row(made["table_id"], {"name": f"row {rows}"})
            rows += 1
            await run_sql(source, "select pg_switch_wal()")
        await until(lambda: any(spool.glob("[0-9A-F]*")))
        await asyncio.sleep(chance.random() / 20)
        source.kill()
        source.start()
    await shipped(source)
    assert backup(source, "verify")["state"] == "verified"
    found = await asyncio.to_thread(restore, source, tmp_path / "new")
    assert (found["rows"], found["files"]) == (rows, 3)


STEPS: dict[str, Callable[[Path], bool]] = {
    "the bases": lambda target: any(target.glob("restore.parts/01/*")),
    "putting them together": lambda target: any(target.glob("postgres/base/*/*")),
    "the log": lambda target: any(target.glob("postgres/pgsql_tmp.wal_restore/0*")),
    "replaying it": (lambda target: (target / "postgres" / "postmaster.pid").exists()),
    "the files": lambda target: any(target.glob("blobs/objects/blobs/*/*")),
}


async def test_a_restore_that_is_killed_at_any_step_runs_again(source: Server, made: dict[str, Any], tmp_path: Path):
    """Each run clears what the one before has left, in the same directory."""
    target = tmp_path / "new"
    words = ["restore", "--to", str(target), "--data-dir", str(target)]
    rows = await run_sql(source, made["count"])
    for step in sample(STEPS, 0.2):
        ready = STEPS[step]
        await asyncio.to_thread(killed, source, *words, ready=lambda ready=ready: ready(target))
        assert (target / "restore.unfinished").exists(), f"The restore had ended before {step}."
    found = await asyncio.to_thread(restore, source, target)
    assert (found["rows"], found["files"], found["missing_files"]) == (rows, 3, 0)
    assert not (target / "restore.unfinished").exists()


@pytest.mark.whole
async def test_the_remains_of_a_killed_rehearsal_are_removed_by_the_next_one(source: Server, made: dict[str, Any]):
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
