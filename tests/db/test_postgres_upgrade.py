"""The embedded database from Debian's PostgreSQL 15 to the wheel's: by files and by archive, killed and begun again."""

import asyncio
import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pilotis.db import migrations
from pilotis.db.embedded import EmbeddedPostgres, EmbeddedPostgresError, upgrade, upgrade_store
from pilotis.db.embedded.upgrade import Upgrade, UpgradeRefusedError
from tests.forked import run
from tests.waiting import PATIENCE
from tests.whole import WHOLE, times

OLD = Path("/usr/lib/postgresql/15/bin")
ROWS = times(2_000, whole=1_000_000)
# What was said when a run is killed, and the seconds afterwards.
KILLS = [
    (said, seconds)
    for said, usual, whole in (
        ("Copying", (), (0, 0.05, 0.2)),
        ("Starting", (), (0.1, 0.3, 0.6, 1)),
        ("Upgrading", (1.5,), (0.2, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5)),
        ("Counting", (), (0, 0.2, 0.5, 1)),
    )
    for seconds in (whole if WHOLE else usual)
]

pytestmark = pytest.mark.skipif(
    not (OLD / "pg_dump").exists(), reason="the system has no PostgreSQL 15 (postgresql-15 on Debian)"
)


def ask(directory: Path, work: Callable[[asyncpg.Connection], Coroutine[Any, Any, Any]], old: bool = False) -> Any:
    """Start PostgreSQL on a cluster, and return what `work` returns."""
    postgres = EmbeddedPostgres(directory, binaries=OLD if old else None)
    address = postgres.start()

    async def connected() -> Any:
        connection = await asyncpg.connect(**address._asdict())
        try:
            return await work(connection)
        finally:
            await connection.close()

    try:
        return asyncio.run(connected())
    finally:
        postgres.stop()


async def fill(connection: asyncpg.Connection) -> None:
    await migrations.migrate(connection)
    await connection.execute(
        f"""
        create extension pg_trgm;
        create role reader;
        create schema app_x;
        create table app_x.t (id bigint generated always as identity primary key, v text, doc jsonb);
        insert into app_x.t (v, doc)
        select 'text é 漢 ' || g, jsonb_build_object('n', g) from generate_series(1, {ROWS}) g;
        create index on app_x.t using gin (v gin_trgm_ops);
        grant select on app_x.t to reader;
        """
    )
    await connection.execute("alter system set work_mem = '5MB'")
    # As the minor releases of November 2026 mark columns.
    await connection.execute(
        """
        set allow_system_table_mods = on;
        update pg_attribute set attoptions = '{pg_attver=17,n_distinct=5}'
        where attrelid = 'app_x.t'::regclass and attnum = 2
        """
    )


async def contents(connection: asyncpg.Connection) -> tuple[object, ...]:
    digest = "select count(*), md5(string_agg(md5(t::text), '' order by id)) from app_x.t t"
    return (
        *await connection.fetchrow(digest),
        await connection.fetchval("select count(*) from app_x.t where v like '%漢 77%'"),
        await connection.fetchval("select has_table_privilege('reader', 'app_x.t', 'select')"),
        await connection.fetchval("show work_mem"),
        await connection.fetchval("show deadlock_timeout"),
        await connection.fetchval("select max(number) from pilotis.migrations"),
        await connection.fetchval("insert into app_x.t (v) values ('next') returning id"),
    )


WANTED = (ROWS, True, "5MB", "3s")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    ask(folder / "postgres", fill, old=True)
    with (folder / "postgres" / "postgresql.conf").open("a") as file:
        file.write("deadlock_timeout = '3s'\n")
    return folder / "postgres"


@pytest.fixture
def cluster(template: Path, tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["cp", "-a", template, tmp_path / "postgres"], check=True)
    yield tmp_path / "postgres"
    shutil.rmtree(tmp_path, ignore_errors=True)


def digest(directory: Path) -> str:
    """Everything in a directory, with the times of its changes."""
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found.update(f"{path.relative_to(directory)} {path.lstat().st_mtime_ns}".encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def check(directory: Path) -> None:
    """Compare a new cluster with what was filled in; it takes writes."""
    number, rows_digest, found, granted, work_mem, deadlock, migration, next_id = ask(directory, contents)
    assert (number, granted, work_mem, deadlock) == WANTED
    assert found == sum(str(at).startswith("77") for at in range(1, ROWS + 1))
    assert migration == migrations.all_migrations()[-1].number
    assert next_id == ROWS + 1
    assert rows_digest


class Killed(BaseException):
    """The end of a process."""


def test_by_files_the_old_cluster_is_left_as_it_was(cluster: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(EmbeddedPostgresError, match=r"is PostgreSQL 15, .* are PostgreSQL 18. Run `pilotis postgres"):
        EmbeddedPostgres(cluster).start()
    before, old = digest(cluster), cluster.with_name("postgres-15")
    rename, data_dir = Path.rename, str(cluster.parent)

    def killed(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise Killed
        return rename(path, target)

    with monkeypatch.context() as killing:
        killing.setattr(Path, "rename", killed)
        with pytest.raises(Killed):
            Upgrade(cluster).run()
    # Between the two renamings there is nothing to start on, and no new database is created there.
    done = run("pilotis", "serve", "--port", "0", "--data-dir", data_dir)
    assert (done.returncode, cluster.exists()) == (1, False)
    assert "interrupted in its last step. Run `pilotis postgres upgrade` again" in done.stderr
    done = run("pilotis", "postgres", "upgrade", "--data-dir", data_dir)
    assert re.search(r"is PostgreSQL 18; it has \d+ rows in 1\d\d tables, as before", done.stdout), done
    assert f"The old one is in {old}" in done.stdout
    assert digest(old) == before
    check(cluster)
    assert not (cluster.parent / "postgres.upgrade").exists()
    with pytest.raises(UpgradeRefusedError, match="is PostgreSQL 18, as the programs are"):
        Upgrade(cluster).run()
    # The old programs still work on it.
    assert ask(old, contents, old=True)[0] == ROWS
    assert Upgrade(cluster).forget_old() == [str(old)]
    assert not old.exists()
    assert cluster.exists()


def test_by_archive_it_has_the_same(cluster: Path):
    async def composite(connection: asyncpg.Connection) -> None:
        await connection.execute("create type pair as (a int, b text); create table pairs (p pair[])")
        await connection.execute("insert into pairs values (array[row(1, 'x')::pair])")
        # Programs that mark columns with versions leave these out of an archive, and read rows of types by them.
        marked = "select exists (select from pg_attribute where attrelid = 'pair'::regclass and attoptions is not null)"
        if not await connection.fetchval(marked):
            await upgrade_store.forget_versions_of_columns(connection)

    ask(cluster, composite, old=True)
    before = ask(cluster, lambda connection: connection.fetchval("select p::text from pairs"), old=True)
    # Files cannot carry rows of types, by which versions of columns are needed.
    for by_files in (Upgrade(cluster).check, Upgrade(cluster).run):
        with pytest.raises(UpgradeRefusedError, match=r"The column p of pairs stores rows of a type. Use --by-archive"):
            by_files()
    assert {path.name for path in cluster.parent.glob("postgres*")} == {"postgres", "postgres.log"}
    data_dir = str(cluster.parent)
    done = run("pilotis", "postgres", "upgrade", "--data-dir", data_dir, "--by-archive")
    assert done.returncode == 0, done.stderr
    assert f"{data_dir}/postgres-15" in done.stdout
    check(cluster)
    assert ask(cluster, lambda connection: connection.fetchval("select p::text from pairs")) == before


@pytest.mark.parametrize(("said", "seconds"), KILLS)
def test_killed_anywhere_it_begins_again(cluster: Path, said: str, seconds: float):
    before = digest(cluster)
    command = [sys.executable, "-m", "pilotis", "postgres", "upgrade", "--data-dir", str(cluster.parent)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(said):
            break
    time.sleep(seconds)
    process.kill()
    process.communicate(timeout=PATIENCE)
    moved = cluster.with_name("postgres-15")
    assert digest(moved if moved.exists() else cluster) == before
    if not moved.exists():
        Upgrade(cluster).run()
    check(cluster)
    assert digest(moved) == before


def test_what_cannot_be_upgraded_is_refused_with_the_remedy(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    before = digest(cluster)
    with pytest.raises(UpgradeRefusedError, match=r"has no programs. Install them .* --old-binaries"):
        Upgrade(cluster, old_binaries=tmp_path).run()
    with pytest.raises(UpgradeRefusedError, match="has PostgreSQL 18; the database needs 15"):
        Upgrade(cluster, old_binaries=upgrade.find_binaries(None)).run()
    with pytest.raises(UpgradeRefusedError, match=r"There is no database in .*/none"):
        Upgrade(tmp_path / "none").run()
    with monkeypatch.context() as full:
        full.setattr(upgrade, "_ROOM_BYTES", 1 << 60)
        with pytest.raises(UpgradeRefusedError, match=r"needs \d+ MiB, and \d+ MiB are free"):
            Upgrade(cluster).run()
    shutil.copytree(cluster, cluster.with_name("postgres-15"))
    with pytest.raises(UpgradeRefusedError, match=r"from an earlier upgrade. .* --forget-old"):
        Upgrade(cluster).run()
    assert digest(cluster) == before
    command = ("postgres", "upgrade", "--database-url", "postgresql://x/y")
    assert "not the embedded database" in run("pilotis", *command).stderr
