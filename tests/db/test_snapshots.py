"""The copy of an embedded database from before a migration, and the way back to it."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pilotis.cli.server import migrate_to_current
from pilotis.db import migrations
from pilotis.db.embedded import EmbeddedPostgres
from pilotis.serve import installation, snapshot, welcome
from pilotis.serve.errors import CommandError
from pilotis.settings import BackupSettings, Settings
from tests import cluster_template

LAST = migrations.all_migrations()[-1]
NEXT = migrations.Migration(LAST.number + 1, "9000_x.sql", "-- phase: expand\ncreate table pilotis.later (a int)")
CONTRACT = migrations.Migration(
    NEXT.number + 1,
    "9001_y.sql",
    f"-- phase: contract\n-- needs: {NEXT.number}\n-- version: 0.2.0\ndrop table pilotis.later",
)
BEFORE = f"before-{NEXT.number:04}"
# A process that was killed has left its row.
KILLED = """
    insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until)
    values (gen_random_uuid(), gen_random_uuid(), 0, 'old/0', '0.1.0', now() + interval '1 minute')
"""
LATER = "select to_regclass('pilotis.later') is not null"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A data directory whose database lacks one migration of the program."""
    cluster_template.copy_to(tmp_path / "data", {})
    known = [*migrations.all_migrations(), NEXT]
    monkeypatch.setattr(migrations, "all_migrations", lambda: known)
    yield Settings(data_dir=str(tmp_path / "data"))
    shutil.rmtree(tmp_path, ignore_errors=True)


def ask(directory: Path, statement: str) -> Any:
    postgres = EmbeddedPostgres(directory)
    address = postgres.start()

    async def connected() -> Any:
        connection = await asyncpg.connect(**address._asdict())
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    try:
        return asyncio.run(connected())
    finally:
        postgres.stop()


def test_a_migration_leaves_the_database_of_before(settings: Settings, capfd: pytest.CaptureFixture[str]):
    data = Path(settings.data_dir)
    for name in ("before-0007", "before-0008.part", "before-mine"):
        (data / name).mkdir()
    assert migrate_to_current(settings, may_create=False) == ["9000_x.sql"]
    assert f"The database of before is in {data / BEFORE}." in capfd.readouterr().err
    assert {path.name for path in data.glob("before-*")} == {BEFORE, "before-mine"}
    # Nothing is due, so nothing is copied.
    shutil.rmtree(data / BEFORE)
    assert migrate_to_current(settings, may_create=False) == []
    assert not (data / BEFORE).exists()


def test_the_way_back(settings: Settings):
    data = Path(settings.data_dir)
    migrate_to_current(settings, may_create=False)
    assert ask(data / "postgres", LATER)
    (data / "postgres").rename(data / "postgres.new")
    (data / BEFORE).rename(data / "postgres")
    assert not ask(data / "postgres", LATER)
    assert ask(data / "postgres", "select max(number) from pilotis.migrations") == LAST.number


def test_the_start_of_a_server_says_where_it_is_and_takes_away_what_no_process_uses(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    data = Path(settings.data_dir)
    known = [*migrations.all_migrations(), CONTRACT]
    monkeypatch.setattr(migrations, "all_migrations", lambda: known)
    ask(data / "postgres", KILLED)
    postgres = EmbeddedPostgres(data / "postgres")
    arguments = postgres.start()._asdict()
    try:
        prepared = asyncio.run(installation.prepare(settings, arguments))
    finally:
        postgres.stop()
    lines = welcome.text(prepared, "http://x", "http://x").splitlines()
    assert lines[:3] == ["Applied 9000_x.sql.", "Applied 9001_y.sql.", f"The database of before is in {data / BEFORE}."]
    assert (data / BEFORE / "PG_VERSION").exists()


def test_the_command_takes_it_away_where_no_server_runs(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    known = [*migrations.all_migrations(), CONTRACT]
    monkeypatch.setattr(migrations, "all_migrations", lambda: known)
    ask(Path(settings.data_dir) / "postgres", KILLED)
    assert migrate_to_current(settings, may_create=False) == ["9000_x.sql"]
    assert migrate_to_current(settings, may_create=False, contract=True) == ["9001_y.sql"]
    assert not ask(Path(settings.data_dir) / "postgres", LATER)


def test_without_room_it_is_refused_unless_that_is_wanted(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    data = Path(settings.data_dir)
    monkeypatch.setattr(snapshot, "size_of", lambda _: 1 << 60)
    with pytest.raises(CommandError, match=r"needs \d+ MiB, and \d+ MiB are free. .* --no-snapshot migrates without"):
        migrate_to_current(settings, may_create=False)
    assert not ask(data / "postgres", LATER)
    assert migrate_to_current(settings, may_create=False, snapshot=False) == ["9000_x.sql"]
    assert not list(data.glob("before-*"))


def test_a_copy_that_fails_leaves_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    data = Path(settings.data_dir)
    directory = data / "bin"
    directory.mkdir()
    (directory / "pg_basebackup").write_text("#!/bin/sh\nmkdir -p \"$2\"\necho 'it is broken' >&2\nexit 1\n")
    (directory / "pg_basebackup").chmod(0o755)
    monkeypatch.setattr(snapshot, "find_binaries", lambda _: directory)
    with pytest.raises(CommandError, match="could not be copied before the migration: it is broken --no-snapshot"):
        migrate_to_current(settings, may_create=False)
    assert not list(data.glob("before-*"))
    assert not ask(data / "postgres", LATER)


def test_with_a_store_it_is_a_backup(settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    data = Path(settings.data_dir)
    store = BackupSettings(store=str(tmp_path / "store"))
    with_store = Settings(data_dir=settings.data_dir, backup=store)
    assert migrate_to_current(with_store, may_create=False) == ["9000_x.sql"]
    assert "The database of before is the backup " in capfd.readouterr().err
    assert list((tmp_path / "store").rglob("backup.json*"))
    assert not list(data.glob("before-*"))
