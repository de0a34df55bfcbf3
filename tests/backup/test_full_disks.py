"""Full disks: one on which a server and the log wait while the store is away, and one to which it is restored."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
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
from tests.backup.test_backups import backup, backup_beside, environment, shipped
from tests.backup.test_doctor import found
from tests.conftest import first_console_user, new_app
from tests.support import Server, assert_error
from tests.test_disk_reserve import fill, free
from tests.waiting import until

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
    """A backup based on another one, with a file, and 12 MiB of the log that follows it."""
    app = new_app(source, first_console_user(source))
    table_id = await app.table({"name": "string"})
    await backup_beside(source, "create")
    base = await storage(app)
    async with app.client() as client:
        await upload(client, base, os.urandom(16 * MIB), file_name="kept.png")
    await app.row(table_id, {"name": "before"})
    newest = await backup_beside(source, "create")
    await run_sql(source, "select pg_logical_emit_message(false, 'test', string_agg(md5(n::text), '')) from " + _MANY)
    await run_sql(source, "select pg_switch_wal()")
    await app.row(table_id, {"name": "after"})
    await shipped(source)
    return newest


_MANY = "generate_series(1, 400000) n"


def restore(source: Server, target: Path, status: int = 0, **changed: str) -> Any:
    where = Server(target, environment={**source.environment, **changed})
    return backup(where, "restore", "--to", str(target), status=status)


async def test_a_restore_on_a_full_disk_says_so_and_runs_again_with_room(
    source: Server, made: dict[str, Any], disk: Path
):
    """Whatever needs the room that is not there: the base, what changed since, the log, PostgreSQL, or a file."""
    target = disk / "new"
    left = set()
    for mib in (2, 30, 58, 66):
        mount(disk, mib, again=True)
        said = await asyncio.to_thread(restore, source, target, 1)
        left.add(tuple(sorted(path.name for path in target.iterdir())))
        assert f"{target} cannot be written: No space left on device." in said
        assert "run the same command again" in said
    # It did not fail at the same place each time.
    assert len(left) == 4, left
    mount(disk, 400, again=True)
    done = await asyncio.to_thread(restore, source, target)
    assert (done["backup_id"], done["rows"], done["files"], done["missing_files"]) == (made["backup_id"], 2, 1, 0)
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
    monkeypatch.undo()
    assert (await asyncio.to_thread(restore, source, tmp_path / "new"))["rows"] == 2


async def test_a_rehearsal_leaves_the_room_that_the_server_needs(source: Server, made: dict[str, Any]):
    huge = {"PILOTIS_WRITE_RESERVE_BYTES": str(1 << 49)}
    where = Server(source.data_dir, environment={**source.environment, **huge})
    said = await backup_beside(where, "rehearse", status=1)
    assert "A restore beside the server needs" in said
    assert "MiB are free" in said
    assert {one["state"] for one in backup(source, "list")} == {"unproven"}


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
            assert (await place.catalogue.find(None)).proof.state == "unproven"
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
            os.posix_fallocate(file.fileno(), 0, free(disk))
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
