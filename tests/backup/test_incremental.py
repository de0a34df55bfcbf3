"""Incremental backups: what changed since the one before, which is restored together with those it is based on."""

import asyncio
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilotis.backup import catalogue
from pilotis.backup.base import MAX_INCREMENTAL, why_not_incremental
from pilotis.backup.catalogue import FORMAT, Backup, Known, Proof, chain
from pilotis.backup.copying import ManifestFinder, _output
from pilotis.backup.errors import DamagedError
from pilotis.backup.place import opened
from pilotis.backup.prune import prune, split
from pilotis.backup.restore import combining_failed
from pilotis.db.embedded.binaries import find_binaries
from pilotis.kit.clock import now, parse_rfc3339
from pilotis.settings import load
from tests import commands
from tests.backstage import run_sql
from tests.backup.test_backups import backup, backup_beside, environment, moment, shipped
from tests.conftest import first_console_user, new_app
from tests.support import App, Server
from tests.waiting import until

ROWS = 20_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("incremental")
    running = Server(folder / "data", environment=environment(folder)).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def shop(source: Server) -> App:
    app = new_app(source, first_console_user(source))
    app.table_id = await app.table({"name": "string"})
    table = f"app_{app.app_id.replace('-', '')}.t_{app.table_id.replace('-', '')}"
    fill = f"""
        insert into {table} (__id, __created_at, __updated_at, name)
        select gen_random_uuid(), now(), now(), md5(g::text) || md5((-g)::text) from generate_series(1, {ROWS}) g
    """
    await run_sql(source, fill)
    # Otherwise autovacuum does that at some moment between two backups, and each block has changed.
    await run_sql(source, "vacuum (freeze, analyze)")
    return app


@pytest.fixture(scope="module")
async def made(source: Server, shop: App) -> list[dict[str, Any]]:
    """A full backup and two that are based on it, with a row before each."""
    found = []
    for number in range(3):
        await shop.row(shop.table_id, {"name": f"row {number}"})
        found.append(await backup_beside(source, "create"))
    return found


@pytest.mark.embedded("base backups are of the embedded database")
async def test_what_changed_is_a_small_part_of_the_whole(made: list[dict[str, Any]], source: Server):
    full, one, two = made
    assert [each["kind"] for each in made] == ["full", "incremental", "incremental"]
    assert (full["based_on"], full["why_full"]) == (None, "It is the first one.")
    assert (one["based_on"], one["why_full"]) == (full["backup_id"], None)
    assert two["based_on"] == one["backup_id"]
    assert one["bytes"] < full["bytes"] / 5
    listed = {each["backup_id"]: each for each in backup(source, "list")}
    assert [(each["kind"], each["based_on"]) for each in listed.values()] == [
        ("full", None),
        ("incremental", full["backup_id"]),
        ("incremental", one["backup_id"]),
    ]


@pytest.mark.embedded("base backups are of the embedded database")
async def test_a_server_is_restored_from_what_changed(
    made: list[dict[str, Any]], source: Server, shop: App, tmp_path: Path
):
    await shop.row(shop.table_id, {"name": "after all of them"})
    then = await moment(source)
    await shop.row(shop.table_id, {"name": "too late"})
    await shipped(source)
    target = tmp_path / "new"
    asked = ["restore", "--to", str(target), "--at", then]
    done = commands.run("backup", *asked, "--json", "--data-dir", str(target), **source.environment)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["backup_id"] == made[-1]["backup_id"]
    assert not (target / "restore.parts").exists()
    shutil.copy(source.data_dir / "master.key", target / "master.key")
    restored = Server(target, environment={**source.environment, "PILOTIS_BACKUP_STORE": ""}, from_nothing=True).start()
    try:
        shop.server = restored
        table = f"app_{shop.app_id.replace('-', '')}.t_{shop.table_id.replace('-', '')}"
        assert await run_sql(restored, f"select count(*) from {table}") == ROWS + 4
        await run_sql(restored, "create extension if not exists amcheck")
        corrupt = (
            "select bt_index_check(c.oid, true) from pg_class c join pg_am on pg_am.oid = relam where amname = 'btree'"
        )
        await run_sql(restored, corrupt)
        assert (
            await run_sql(restored, f"select count(*) from {table} where name like 'row %' or name like 'after%'") == 4
        )
    finally:
        shop.server = source
        restored.stop()
    restored.assert_no_failure()


@pytest.mark.embedded("base backups are of the embedded database")
async def test_damage_below_is_damage_above_and_the_next_one_is_full(
    made: list[dict[str, Any]], source: Server, tmp_path: Path
):
    store = tmp_path / "store"
    shutil.copytree(source.environment["PILOTIS_BACKUP_STORE"], store)
    where = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_STORE": str(store)})
    part = next((store / "objects" / "backups" / made[0]["backup_id"] / "base").glob("*.end"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.unlink()
    part.write_bytes(data)
    assert backup(where, "verify", status=1)["state"] == "damaged"
    async with opened(load({"data_dir": str(where.data_dir)}, where.environment)) as place:
        assert why_not_incremental(await place.catalogue.all(), made[2]["postgres"]) == (
            f"Backup {made[2]['backup_id']} is damaged."
        )
    shutil.rmtree(store / "objects" / "backups" / made[0]["backup_id"])
    pruned = backup(where, "prune", status=1)
    base = made[0]["backup_id"]
    said = [f"Backup {one['backup_id']} cannot be restored. Backup {base}, on which" for one in made[1:]]
    assert [sentence.startswith(said[at]) for at, sentence in enumerate(pruned["incomplete"])] == [True, True]
    assert pruned["incomplete"][0] in str(backup(where, "status", status=1)["problems"])
    assert "on which" in backup(where, "verify", status=1)["error"]
    assert "on which" in backup(where, "restore", "--to", str(tmp_path / "new"), status=1)


@pytest.mark.embedded("base backups are of the embedded database")
async def test_summaries_that_are_gone_make_a_full_one(made: list[dict[str, Any]], source: Server):
    """PostgreSQL deletes them after ten days, or an operator did."""
    summaries = source.data_dir / "postgres" / "pg_wal" / "summaries"
    # Not `temp.summary`, which PostgreSQL is writing, and would write again.
    names = "[0-9A-F]*.summary"
    for summary in summaries.glob(names):
        summary.unlink()
    # What changed since the last backup is summarized with the next checkpoint.
    await run_sql(source, "checkpoint")
    await until(lambda: any(summaries.glob(names)))
    for summary in summaries.glob(names):
        summary.unlink()
    found = await backup_beside(source, "create")
    assert found["kind"] == "full"
    assert "summaries" in found["why_full"]
    assert (await backup_beside(source, "create"))["kind"] == "incremental"
    assert (await backup_beside(source, "create", "--full"))["kind"] == "full"


@pytest.mark.embedded("base backups are of the embedded database")
async def test_prune_deletes_a_chain_as_a_whole(made: list[dict[str, Any]], source: Server, tmp_path: Path):
    store = tmp_path / "store"
    shutil.copytree(source.environment["PILOTIS_BACKUP_STORE"], store)
    settings = load({"data_dir": str(source.data_dir)}, {**source.environment, "PILOTIS_BACKUP_STORE": str(store)})
    async with opened(settings) as place:
        known = await place.catalogue.all()
        # All are old but what the last one is based on.
        needed = {one.backup.backup_id for one in chain(known, known[-1].backup)}
        done = await prune(place, now() + timedelta(days=31))
        assert set(done.backup_ids) == {one.backup.backup_id for one in known} - needed
        assert {one.backup.backup_id for one in await place.catalogue.all()} == needed


def known(number: int, *, based_on: int | None, days: int = 0, error: str | None = None, postgres: int = 18) -> Known:
    at = f"2026-01-{1 + days:02}T00:00:00.000Z"
    found = Backup(
        format=FORMAT,
        backup_id=str(number),
        number=number,
        previous=None,
        based_on=str(based_on) if based_on is not None else None,
        started_at=at,
        ended_at=at,
        system_id="1",
        postgres=postgres,
        version="1",
        schema=1,
        master_key="",
        start_wal="0" * 24,
        end_wal="0" * 24,
        bytes=1,
        files=0,
        missing_files=0,
    )
    return Known(found, Proof(error=error))


def chained(count: int) -> list[Known]:
    return [known(0, based_on=None), *(known(number, based_on=number - 1) for number in range(1, count + 1))]


def test_when_the_next_backup_must_be_full():
    assert why_not_incremental([], 18) == "It is the first one."
    assert why_not_incremental(chained(0), 18) is None
    assert why_not_incremental(chained(MAX_INCREMENTAL - 1), 18) is None
    assert why_not_incremental(chained(MAX_INCREMENTAL), 18) == "14 are based on the last full one."
    assert why_not_incremental([*chained(MAX_INCREMENTAL), known(99, based_on=None)], 18) is None
    assert why_not_incremental([known(0, based_on=None, error="broken"), known(1, based_on=0)], 18)
    assert why_not_incremental([known(0, based_on=None, postgres=16)], 16)
    assert why_not_incremental([known(0, based_on=None, postgres=17)], 18)
    assert "is missing" in (why_not_incremental([known(5, based_on=4)], 18) or "")


def test_a_chain_that_goes_round_ends():
    ring = [known(1, based_on=2), known(2, based_on=1)]
    with pytest.raises(DamagedError):
        chain(ring, ring[1].backup)


@pytest.mark.parametrize(
    ("day", "kept"),
    [
        (1, [0, 1, 2, 3, 4, 5]),  # 1 is the newest from before, and based on 0
        (4, [3, 4, 5]),  # 4 is based on 3, and neither on those before
        (2, [0, 1, 2, 3, 4, 5]),
        (3, [3, 4, 5]),
        (9, [3, 4, 5]),
    ],
)
def test_what_others_are_based_on_stays(day: int, kept: list[int]):
    all_of_them = [
        known(0, based_on=None, days=0),
        known(1, based_on=0, days=1),
        known(2, based_on=1, days=2),
        known(3, based_on=None, days=3),
        known(4, based_on=3, days=4),
        known(5, based_on=4, days=5),
    ]
    oldest = parse_rfc3339(f"2026-01-{1 + day:02}T12:00:00Z")
    assert oldest is not None
    old, rest = split(all_of_them, oldest)
    assert [one.backup.number for one in rest] == kept
    assert sorted(one.backup.number for one in [*old, *rest]) == list(range(6))


@pytest.mark.parametrize(
    ("gone", "day", "old", "incomplete"),
    [
        (0, 4, [1, 2], []),  # what is old and based on nothing goes
        (3, 4, [4], [5]),  # 2 is the newest from before that can be restored; 0 and 1 belong to it
        (3, 9, [4, 5], []),
        (0, 1, [1], [2]),
    ],
)
def test_a_backup_without_its_base_is_named_and_the_others_are_pruned(
    gone: int, day: int, old: list[int], incomplete: list[int]
):
    all_of_them = [known(number, based_on=None if number in (0, 3) else number - 1, days=number) for number in range(6)]
    there = [one for one in all_of_them if one.backup.number != gone]
    oldest = parse_rfc3339(f"2026-01-{1 + day:02}T12:00:00Z")
    assert oldest is not None
    deleted, kept = split(there, oldest)
    assert [one.backup.number for one in deleted] == old
    assert list(catalogue.incomplete(kept)) == [str(number) for number in incomplete]


@pytest.mark.parametrize("chunk", [1, 511, 512, 513, 1 << 20])
def test_the_manifest_is_found_wherever_the_chunks_end(chunk: int):
    whole = io.BytesIO()
    contents = {"PG_VERSION": b"18\n", "base/1/2": os.urandom(700), "empty": b"", "backup_manifest": b"m" * 1025}
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        folder = tarfile.TarInfo("base")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    found = io.BytesIO()
    finder = ManifestFinder(found)
    for at in range(0, len(whole.getvalue()), chunk):
        finder.feed(whole.getvalue()[at : at + chunk])
    assert found.getvalue() == contents["backup_manifest"]


@pytest.mark.embedded("base backups are of the embedded database")
async def test_entries_of_a_newer_version_are_refused(made: list[dict[str, Any]], source: Server, tmp_path: Path):
    store = tmp_path / "store"
    shutil.copytree(source.environment["PILOTIS_BACKUP_STORE"], store)
    changed = {**source.environment, "PILOTIS_BACKUP_STORE": str(store)}
    where = Server(source.data_dir, environment=changed)
    newer = "0.99.0"
    async with opened(load({"data_dir": str(source.data_dir)}, changed)) as place:
        one = (await place.catalogue.find(None)).backup
        await place.catalogue.add(msgspec.structs.replace(one, needs=10_000, version=newer))
    said = backup(where, "restore", "--to", str(tmp_path / "new"), status=3)
    assert newer in said
    assert not (tmp_path / "new").exists()
    async with opened(load({"data_dir": str(source.data_dir)}, changed)) as place:
        await place.catalogue.add(msgspec.structs.replace(one, format=FORMAT + 1, version=newer))
    for words in (["list"], ["create"], ["prune"], ["restore", "--to", str(tmp_path / "new")]):
        assert newer in backup(where, *words, status=3)


def test_each_way_in_which_a_write_falls_short_is_a_full_disk(tmp_path: Path):
    """In the words of the program that is installed, of which two tell no error number."""
    words = (find_binaries(None) / "pg_combinebackup").read_bytes()
    written = re.findall(rb"could not write[ -~]*", words)
    assert sum(b"wrote %d of %d" in message for message in written) >= 2
    for message in written:
        said = message.decode().replace("%s", "base/5/16384").replace("%m", os.strerror(errno.ENOSPC))
        said = f"pg_combinebackup: error: {said.replace('%u', '8192').replace('%d', '4096')}"
        failed = combining_failed(said, tmp_path)
        assert isinstance(failed, OSError), said
        assert failed.errno == errno.ENOSPC
    said = 'pg_combinebackup: error: backup at "a" starts at LSN 0/1, but expected 0/2\npg_combinebackup: removing "c"'
    failed = combining_failed(said, tmp_path)
    assert isinstance(failed, DamagedError)
    assert "expected 0/2" in str(failed)


async def test_a_copy_that_is_given_up_does_not_wait_for_postgresql():
    silent = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)  # noqa: ASYNC220 - it only starts it
    with silent, ThreadPoolExecutor(1) as thread:
        async with aclosing(_output(silent, thread, ManifestFinder(io.BytesIO()))) as chunks:
            first = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0)
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
    assert silent.returncode == -signal.SIGKILL
