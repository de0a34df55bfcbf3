"""Migrations beside readers and older versions, and starts that fail before the first of them."""

import asyncio
import dataclasses
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from pilotis.db import migrations
from pilotis.db.migrations import Migration, MigrationError
from pilotis.db.pool import Database
from pilotis.jobs.contracts import apply_contracts
from pilotis.serve import installation, welcome
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings
from tests.db.phases import BASE
from tests.services import address
from tests.support import Server

_numbers = itertools.count(1)
KEY = "ab" * 32
NEWEST = migrations.all_migrations()[-1]

# What older programs notice. A migration that does one of these says by `-- needs:` which programs are left.
CONTRACTS = re.compile(
    r"drop (?:table|column|schema|function|view)|rename|set not null|alter column \w+ (?:set data )?type|set default"
    r"|add (?:constraint|check|unique|primary|foreign|exclude)|drop default"
    r"|create unique index(?! \S+ on (?:only )?pilotis\.\w+_new)",
    re.IGNORECASE,
)


def known(monkeypatch: pytest.MonkeyPatch, *more: Migration, without: int = 0) -> None:
    """Make the program that of a version with other migrations: without the newest ones, or with more."""
    files = migrations.all_migrations()
    changed = [*files[: len(files) - without], *more]
    monkeypatch.setattr(migrations, "all_migrations", lambda: changed)


@dataclasses.dataclass
class Older:
    """A database that lacks the newest migration, and a connection to it."""

    arguments: dict[str, Any]
    connection: asyncpg.Connection

    async def applied(self) -> int:
        return await self.connection.fetchval("select max(number) from pilotis.migrations")


@pytest.fixture
async def older(server: Server) -> AsyncIterator[Older]:
    name = f"older_{next(_numbers)}"
    maintenance = await asyncpg.connect(**address(server))
    await maintenance.execute(f"create database {name}")
    arguments = {**address(server), "database": name}
    connection = await asyncpg.connect(**arguments)
    with pytest.MonkeyPatch.context() as monkeypatch:
        known(monkeypatch, without=1)
        await migrations.migrate(connection)
    yield Older(arguments, connection)
    await connection.close()
    await maintenance.execute(f"drop database {name} with (force)")
    await maintenance.close()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"master_key": "cd" * 32}, "not the one this database was set up with"),
        ({"master_key": None}, "does not hold it"),
        ({"blob_store": "s3://b/p"}, "blob_store: 'b' is not the name of an S3 bucket"),
        ({"sites_base_url": "http://192.0.2.1"}, "Sites need a domain name"),
        ({"blob_store": "ftp://store"}, "'ftp' is not a kind of object store"),
        ({"blob_store": "{tmp_path}/file/blobs"}, "The directory for files, .*, cannot be used"),
    ],
)
async def test_a_start_that_fails_has_migrated_nothing(older: Older, tmp_path: Path, wrong, sentence):
    (tmp_path / "file").write_text("")
    good = Settings(data_dir=str(tmp_path / "data"), master_key=KEY, database_url="postgresql://other")
    await installation.require_master_key(older.connection, good)
    before = await older.applied()
    filled = {name: value and value.format(tmp_path=tmp_path) for name, value in wrong.items()}
    with pytest.raises(CommandError, match=sentence):
        await installation.prepare(Settings(**{**_fields(good), **filled}), older.arguments)
    assert await older.applied() == before < NEWEST.number
    prepared = await installation.prepare(good, older.arguments)
    assert await older.applied() == NEWEST.number
    assert f"Applied {NEWEST.name}." in welcome.text(prepared, "http://x", "http://x").splitlines()


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let migrations leave the queue of locks sooner."""
    monkeypatch.setattr(migrations, "_QUEUE_SECONDS", 0.1)
    monkeypatch.setattr(migrations, "_PAUSE_SECONDS", 0.01)


async def reader(older: Older) -> asyncpg.Connection:
    """A connection whose open transaction has read a table, as that of pg_dump has."""
    connection = await asyncpg.connect(**older.arguments, server_settings={"application_name": "pg_dump"})
    await connection.execute("begin; select from pilotis.apps; select from pilotis.migrations")
    return connection


@pytest.mark.usefixtures("impatient")
async def test_a_migration_waits_for_a_reader_and_says_for_which(older: Older, monkeypatch: pytest.MonkeyPatch):
    known(monkeypatch, Migration(NEWEST.number + 1, "9000_x.sql", "alter table pilotis.apps add column later text"))
    reading = await reader(older)
    pid = reading.get_server_pid()
    with pytest.raises(MigrationError, match=rf"process {pid} of PostgreSQL \(pg_dump, .*migration_wait_seconds"):
        await migrations.migrate(older.connection, wait_seconds=0.3)
    assert await older.applied() <= NEWEST.number

    said: list[str] = []

    def released(sentence: str) -> None:
        said.append(sentence)
        reading.terminate()

    names = await migrations.migrate(older.connection, wait_seconds=60, waits=released)
    assert names[-1] == "9000_x.sql"
    assert str(pid) in said[0]


async def test_a_schema_that_is_newer_concerns_a_version_only_if_it_says_so(
    older: Older, monkeypatch: pytest.MonkeyPatch
):
    number = NEWEST.number
    expanding = Migration(number + 1, "9000_x.sql", "create table pilotis.later (app_id uuid)")
    contracting = Migration(number + 2, "9001_x.sql", f"-- owner: x\n-- needs: {number + 1}\nselect 1")
    with monkeypatch.context() as newer:
        known(newer, expanding)
        await migrations.migrate(older.connection)
    await migrations.require_current(older.connection)
    assert await migrations.pending(older.connection) == []
    with monkeypatch.context() as newer:
        known(newer, expanding, contracting)
        await migrations.migrate(older.connection)
        await migrations.require_current(older.connection)
    for check in (migrations.require_current, migrations.migrate):
        with pytest.raises(MigrationError, match=f"knows those up to {number}. Start it with the version that wrote"):
            await check(older.connection)
    with monkeypatch.context() as between:
        known(between, expanding)
        await migrations.require_current(older.connection)


async def test_a_database_with_an_edited_migration_gets_a_remedy(older: Older):
    await older.connection.execute("update pilotis.migrations set checksum = 'of before' where number = 1")
    with pytest.raises(
        MigrationError, match=r"0001_initial.sql has changed .* `pilotis table export`, and import them"
    ):
        await migrations.migrate(older.connection)


# Their checks replace narrower ones, and accept all that older programs write.
WIDER = {"0058_rules_of_files.sql"}


def without_checks_of_new_columns(statement: str) -> str:
    """A statement without the checks of nothing but columns that it adds: older programs leave those empty."""
    added = set(re.findall(r"add column (\w+)", statement))

    def kept(check: re.Match[str]) -> str:
        return "" if set(re.findall(r"\w+", check[1])) <= added | {"is", "null"} else check[0]

    return re.sub(r"add constraint \w+ check \((.*)\)", kept, statement)


def is_unique_index_of_new_column(statement: str, migration: str) -> bool:
    """Whether it is a unique index of rows with a column that the migration adds: older programs set none."""
    found = re.search(r"create unique index .* where (\w+) is not null\s*$", statement, re.DOTALL)
    return found is not None and found[1] in re.findall(r"add column (\w+)", migration)


def test_what_older_versions_notice_names_the_versions_that_are_left():
    for migration in migrations.all_migrations()[41:]:
        if migration.number > BASE:  # read by tests/db/test_phases.py
            break
        text = re.sub(r"--.*", "", migration.sql)
        created = set(re.findall(r"create (?:unlogged )?table (?:if not exists )?(\S+)", text))
        found = [
            statement
            for statement in map(without_checks_of_new_columns, text.split(";"))
            if CONTRACTS.search(statement)
            and not is_unique_index_of_new_column(statement, text)
            and not any(f" {table} " in f"{statement} " for table in created)
        ]
        assert migration.name in WIDER or not found or 0 < migration.needs < migration.number, (
            f"{migration.name}: programs of the version before may fail after it; remove things one version after the "
            f"program that no longer uses them, and name the newest migration of that one by `-- needs: N`: {found}"
        )


def contracting(sql: str = "drop table pilotis.later") -> Migration:
    header = f"-- owner: x\n-- phase: contract\n-- needs: {NEWEST.number}\n-- version: 0.2.0\n"
    return Migration(NEWEST.number + 1, "9000_x.sql", header + sql)


async def joined(older: Older, name: str, *, knows: int, lease: str = "now() + interval '1 minute'") -> None:
    """Insert the row of a process."""
    await older.connection.execute(
        f"""
        insert into pilotis.nodes (node_id, server_id, slot, name, version, lease_until, knows)
        values (gen_random_uuid(), gen_random_uuid(), 0, $1, '0.1.0', {lease}, $2)
        """,
        name,
        knows,
    )


async def listed(older: Older) -> list[str]:
    return [name for (name,) in await older.connection.fetch("select name from pilotis.pending_migrations")]


@pytest.mark.parametrize("lease", ["now() + interval '1 minute'", "now() - interval '1 minute'"])
async def test_what_is_taken_away_waits_for_the_last_process_that_uses_it(
    older: Older, monkeypatch: pytest.MonkeyPatch, lease: str
):
    connection = older.connection
    await migrations.migrate(connection)
    await connection.execute("create table pilotis.later (a int)")
    await joined(older, "old/0", knows=0, lease=lease)
    await joined(older, "new/0", knows=NEWEST.number)
    with monkeypatch.context() as newer:
        known(newer, contracting())
        assert await migrations.migrate(connection) == []
        await migrations.require_current(connection)
        assert await listed(older) == ["9000_x.sql"]
        with pytest.raises(MigrationError, match=r"what old/0 \(version 0.1.0\) may still use.* 0.2.0 or newer"):
            await migrations.contract(connection)
        assert await older.applied() == NEWEST.number
        await connection.execute("delete from pilotis.nodes where name = 'old/0'")
        assert await migrations.contract(connection) == ["9000_x.sql"]
        assert await migrations.contract(connection) == []
    assert await listed(older) == []
    assert await connection.fetchval("select to_regclass('pilotis.later') is null")
    # The version that no longer uses it goes on; the one before is told what it needs.
    await migrations.require_current(connection)
    with monkeypatch.context() as before:
        known(before, without=1)
        with pytest.raises(MigrationError, match=r"Start it with version 0.2.0 or a newer one"):
            await migrations.require_current(connection)


async def test_the_task_takes_it_away_and_tries_again_later(older: Older, monkeypatch: pytest.MonkeyPatch):
    await migrations.migrate(older.connection)
    await older.connection.execute("create table pilotis.later (a int)")
    await joined(older, "old/0", knows=NEWEST.number - 1)
    known(monkeypatch, contracting())
    task = apply_contracts(database := Database(older.arguments, size=1))
    job: Any = SimpleNamespace(fence=1)  # its claim, of which the task uses nothing else
    await task.run(job)
    assert await older.applied() == NEWEST.number
    await older.connection.execute("update pilotis.nodes set lease_until = '-infinity'")
    await task.run(job)
    assert await older.applied() == NEWEST.number + 1
    await database.close()


async def test_an_empty_database_gets_everything(older: Older, monkeypatch: pytest.MonkeyPatch):
    known(monkeypatch, contracting("alter table pilotis.apps drop column enabled_oauth_providers"))
    await older.connection.execute("drop schema pilotis cascade")
    assert (await migrations.migrate(older.connection))[-1] == "9000_x.sql"
    assert await listed(older) == []


@pytest.mark.usefixtures("impatient")
async def test_an_index_is_built_beside_writers_and_other_nodes(older: Older, monkeypatch: pytest.MonkeyPatch):
    await migrations.migrate(older.connection)
    sql = "-- owner: x\n-- phase: expand\ncreate index concurrently apps_later on pilotis.apps (name)"
    known(monkeypatch, Migration(NEWEST.number + 1, "9000_x.sql", sql))
    writing = await asyncpg.connect(**older.arguments)
    await writing.execute("begin; update pilotis.apps set name = name")
    with pytest.raises(MigrationError, match=f"process {writing.get_server_pid()} of PostgreSQL"):
        await migrations.migrate(older.connection, wait_seconds=0.3)
    other = await asyncpg.connect(**older.arguments)
    both = asyncio.gather(migrations.migrate(older.connection), migrations.migrate(other))
    await asyncio.sleep(0.3)
    # It is left as it was by the attempt that failed, and this one waits.
    assert not both.done()
    await writing.execute("rollback")
    assert sorted(await both) == [[], ["9000_x.sql"]]
    assert await older.connection.fetchval(
        "select indisvalid from pg_index where indexrelid = 'pilotis.apps_later'::regclass"
    )
    await writing.close()
    await other.close()
