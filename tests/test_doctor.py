"""`pilotis doctor`: each finding is made to appear, and is gone once what its sentence says has been done."""

import asyncio
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from pilotis.cli import doctor, doctor_database, doctor_machine, proxy_check
from pilotis.cli.findings import Check, Finding, Level
from pilotis.data.tables.store import open_apps
from pilotis.db import inspection
from pilotis.floor import open_blobs
from pilotis.functions.runtime.isolation import Found
from pilotis.functions.runtime.policy import Isolation, Runtime
from pilotis.jobs.node import IDLE_LEASE_SECONDS
from pilotis.kit.disk_history import DiskHistory, Space, days_left
from pilotis.kit.ids import uuid7
from pilotis.serve.quiet import QUIET_FILE
from pilotis.settings import Settings
from tests import databases
from tests.acceptance.test_files import storage, upload
from tests.certificates import Authority
from tests.commands import run, run_beside
from tests.database import connect
from tests.forked import Program
from tests.support import App, Server
from tests.waiting import PATIENCE, until

ROOT = Path(__file__).parents[1]
DAY = 86400.0


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[asyncpg.Connection]:
    opened = await connect(server)
    yield opened
    await opened.close()


@pytest.fixture
def settings(server: Server) -> Settings:
    return Settings(data_dir=str(server.data_dir))


def of(findings: list[Finding], check: Check) -> list[Finding]:
    """The findings of a check that something is wrong; each says what mends it, and no other does."""
    assert all((finding.fix is None) == (finding.level is Level.OK) for finding in findings)
    return [finding for finding in findings if finding.id is check and finding.level is not Level.OK]


async def contents(connection: asyncpg.Connection, check: Check, **settings: Any) -> list[Finding]:
    return of(await doctor_database.examine_contents(connection, Settings(**settings)), check)


def test_every_check_is_in_the_guide():
    table = (ROOT / "docs/operating.md").read_text().partition("| Check | Finds |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [check.value for check in Check]


@pytest.mark.embedded("the doctor is to find it in the data directory")
def test_the_command_prints_json_and_exits_with_1_on_a_problem_only(server: Server):
    well = run("doctor", *server.place, "--json")
    found = json.loads(well.stdout)
    assert well.returncode == 0, well
    assert all(set(one) == {"id", "level", "sentence", "fix"} for one in found)
    assert {one["id"] for one in found} <= {check.value for check in Check}
    assert {one["level"] for one in found} <= {"ok", "warning"}
    server.data_dir.chmod(0o750)
    try:
        ill = run("doctor", *server.place, "--json")
    finally:
        server.data_dir.chmod(0o700)
    (problem,) = [one for one in json.loads(ill.stdout) if one["level"] == "problem"]
    assert (ill.returncode, problem["id"]) == (1, "data_directory")
    assert problem["fix"] == f"Run: chmod 700 {server.data_dir}"


@pytest.mark.embedded("the doctor is to find it in the data directory")
async def test_watching_prints_what_comes_and_what_goes(server: Server):
    server.data_dir.chmod(0o750)
    program = Program("pilotis", "doctor", *server.place, "--watch", "1", "--json")

    def next_change() -> str:
        for line in program.stdout:
            if (found := json.loads(line))["id"] == "data_directory":
                return found["change"]
        raise AssertionError("The command has ended.")

    try:
        assert await asyncio.wait_for(asyncio.to_thread(next_change), PATIENCE) == "found"
        server.data_dir.chmod(0o700)
        assert await asyncio.wait_for(asyncio.to_thread(next_change), PATIENCE) == "mended"
    finally:
        server.data_dir.chmod(0o700)
        program.kill()
        program.wait(PATIENCE)
        program.stdout.close()


# What is on the machine.


def test_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (missing,) = of(doctor_machine.disk(tmp_path / "none"), Check.DATA_DIRECTORY)
    assert missing.level is Level.WARNING
    tmp_path.chmod(0o755)
    (wrong,) = of(doctor_machine.disk(tmp_path), Check.DATA_DIRECTORY)
    assert f"chmod 700 {tmp_path}" in wrong.fix
    tmp_path.chmod(0o700)
    assert of(doctor_machine.disk(tmp_path), Check.DATA_DIRECTORY) == []
    assert of(doctor_machine.disk(tmp_path), Check.DISK_SPACE) == []
    monkeypatch.setattr(doctor_machine, "LEAST_FREE_BYTES", 1 << 60)
    (full,) = of(doctor_machine.disk(tmp_path), Check.DISK_SPACE)
    assert full.level is Level.PROBLEM


def recorded(directory: Path, per_day: int, days: int = 7) -> None:
    """A history in which the free space has shrunk each day until the present."""
    history, free, at = DiskHistory(directory), doctor_machine.shutil.disk_usage(directory).free, time.time()
    (directory / "disk.json").unlink(missing_ok=True)
    for hour in range(24 * days, -1, -6):
        assert history.record(Space(at - hour * 3600, free + per_day * hour // 24))


def test_a_disk_that_will_be_full_is_found_by_the_last_week(tmp_path: Path):
    tmp_path.chmod(0o700)
    free = doctor_machine.shutil.disk_usage(tmp_path).free
    for days, level in ((2, Level.PROBLEM), (10, Level.WARNING)):
        recorded(tmp_path, free // days)
        (trend,) = of(doctor_machine.disk(tmp_path), Check.DISK_TREND)
        assert trend.level is level
        assert abs(float(re.search(r"full in ([\d.]+) days", trend.sentence)[1]) - days) < 0.5
    recorded(tmp_path, free // 30)
    assert of(doctor_machine.disk(tmp_path), Check.DISK_TREND) == []


def test_a_history_is_of_a_week_and_an_hour_apart(tmp_path: Path):
    history = DiskHistory(tmp_path)
    assert days_left(history.read(), 100) is None
    assert [history.record(Space(at, 100)) for at in (0.0, 3599.0, 3600.0, 8 * DAY)] == [True, False, True, True]
    assert history.read() == [Space(8 * DAY, 100)]
    assert days_left([Space(0, 100), Space(DAY / 2, 50)], 50) is None, "half a day says nothing of a week"
    assert days_left([Space(0, 100), Space(DAY, 50)], 50) == 1.0
    assert days_left([Space(0, 50), Space(DAY, 100)], 100) is None
    (tmp_path / "disk.json").write_bytes(b"[[1, ")
    assert history.read() == []
    assert history.record(Space(DAY, 1))
    assert not DiskHistory(tmp_path / "none").record(Space(DAY, 1))


async def test_the_object_store(tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    (wrong,) = of(await doctor_machine.object_store(Settings(blob_store=str(file / "below"))), Check.OBJECT_STORE)
    assert wrong.level is Level.PROBLEM
    moving = Settings(blob_store=str(tmp_path / "new"), previous_blob_store=str(tmp_path / "old"))
    found = await doctor_machine.object_store(moving)
    assert of(found, Check.OBJECT_STORE) == []
    (previous,) = of(found, Check.PREVIOUS_OBJECT_STORE)
    assert "pilotis storage move" in previous.fix
    assert of(await doctor_machine.object_store(Settings(blob_store=str(tmp_path / "new"))), Check.OBJECT_STORE) == []


@pytest.mark.parametrize(
    ("isolation", "reason", "said"),
    [
        (None, "bubblewrap is missing.", "cannot run here"),
        (Isolation.LANDLOCK, "bubblewrap is missing", "isolated by landlock only: bubblewrap is missing."),
        (Isolation.NAMESPACE, None, ""),
        (Isolation.OWN_USER, None, ""),
    ],
)
async def test_functions_below_bubblewrap_are_found(monkeypatch: pytest.MonkeyPatch, isolation, reason, said):
    async def probed(runtime: Runtime, *_: Any, **__: Any) -> Found:
        return Found(runtime=runtime, isolation=isolation, reason=reason)

    # What this machine offers is not up to a test.
    monkeypatch.setattr(doctor_machine, "probe", probed)
    found = of(await doctor_machine.functions(Settings()), Check.FUNCTIONS)
    assert len(found) == (len(Runtime) if said else 0)
    assert all(said in finding.sentence for finding in found)


def test_mails_that_are_stored_on_a_public_address():
    public = {"host": "0.0.0.0", "base_url": "https://api.example.com"}
    (stored,) = of(doctor_machine.mail(Settings(**public)), Check.MAIL)
    assert "smtp_url" in stored.fix
    sends = {"smtp_url": "smtp://mail.example.com", "mail_from": "a@example.com"}
    assert doctor_machine.mail(Settings(**public, **sends)) == []
    assert doctor_machine.mail(Settings()) == []


def test_addresses_that_contradict_each_other():
    public = {"host": "0.0.0.0"}

    def found(**more: Any) -> list[Finding]:
        return of(doctor_machine.addresses(Settings(**public, **more)), Check.ADDRESS)

    assert "Set base_url" in found()[0].fix
    assert "readable on the way" in found(base_url="http://api.example.com")[0].sentence
    assert "trusted_proxies" in found(base_url="https://api.example.com")[0].fix
    assert found(base_url="https://api.example.com", trusted_proxies=["10.0.0.1"]) == []
    assert found(base_url="https://api.example.com", https_names=["api.example.com"]) == []
    assert doctor_machine.addresses(Settings()) == []


async def test_no_backups_and_a_restored_server(tmp_path: Path):
    own = {"data_dir": str(tmp_path)}
    assert await doctor_machine.backups(Settings(**own)) == []
    (none,) = of(await doctor_machine.backups(Settings(host="0.0.0.0", **own)), Check.BACKUPS)
    assert "Set store in [backup]" in none.fix
    (tmp_path / QUIET_FILE).touch()
    (quiet,) = of(await doctor_machine.backups(Settings(**own)), Check.BACKUPS)
    assert "pilotis backup accept" in quiet.fix
    assert run("backup", "accept", "--data-dir", str(tmp_path)).returncode == 0
    assert await doctor_machine.backups(Settings(**own)) == []


# What is in the database.


async def test_dead_and_overdue_jobs(connection: asyncpg.Connection, server: Server):
    job_id = uuid4()
    await connection.execute(
        """
        insert into pilotis.jobs (app_id, job_id, queue, kind, payload, state, run_at, attempts, error, ended_at)
        values ($1, $2, 'none', 'test.doctor', '{}', 'dead', now(), 6, '{"code": "ERROR", "message": "no luck"}',
            '2026-01-02 03:04:05Z')
        """,
        uuid4(),
        job_id,
    )
    try:
        (dead,) = await contents(connection, Check.DEAD_JOBS)
        assert dead.sentence == "1 jobs of test.doctor are dead, the oldest since 2026-01-02T03:04:05.000Z."
        assert "pilotis jobs retry" in dead.fix
        assert run("jobs", "retry", str(job_id), *server.place).returncode == 0
        assert await contents(connection, Check.DEAD_JOBS) == []
        assert await contents(connection, Check.OVERDUE_WORK) == []
        await connection.execute("update pilotis.jobs set run_at = now() - interval '1 hour' where job_id = $1", job_id)
        (overdue,) = await contents(connection, Check.OVERDUE_WORK)
        assert "background allows none" in overdue.fix
    finally:
        await connection.execute("delete from pilotis.jobs where job_id = $1", job_id)
    assert await contents(connection, Check.OVERDUE_WORK) == []


async def join(connection: asyncpg.Connection, name: str, version: str, started: timedelta, id_: UUID) -> None:
    """A process as another node would have entered it."""
    await connection.execute(
        """
        insert into pilotis.nodes (node_id, server_id, slot, name, version, started_at, lease_until)
        values ($1, $1, 0, $2, $3, now() - $4::interval, now() + make_interval(secs => $5))
        """,
        id_,
        name,
        version,
        started,
        IDLE_LEASE_SECONDS,
    )


def id_of(seconds: float) -> UUID:
    """A UUIDv7 of a moment that is so many seconds away."""
    own = uuid7()
    milliseconds = (own.int >> 80) + int(seconds * 1000)
    return UUID(int=(milliseconds << 80) | (own.int & ((1 << 80) - 1)))


async def test_nodes_of_two_versions_and_with_wrong_clocks(connection: asyncpg.Connection):
    async def left() -> None:
        await connection.execute("delete from pilotis.nodes where name like 'doctor/%'")

    try:
        await join(connection, "doctor/1", "0.0.1", timedelta(hours=2), id_of(-7200))
        assert await contents(connection, Check.NODE_VERSIONS) == [], "an upgrade takes a while"
        await left()
        await join(connection, "doctor/1", "0.0.1", timedelta(hours=50), id_of(-50 * 3600))
        assert await contents(connection, Check.NODE_VERSIONS) == [], "the other has just started"
        await join(connection, "doctor/2", "0.0.2", timedelta(hours=25), id_of(-25 * 3600))
        (versions,) = await contents(connection, Check.NODE_VERSIONS)
        assert "0.0.1 on doctor/1; 0.0.2 on doctor/2" in versions.sentence
        assert await contents(connection, Check.NODE_CLOCKS) == []
        await left()
        assert await contents(connection, Check.NODE_VERSIONS) == []
        for ahead, said in ((90, "90 s ahead of"), (-90, "90 s behind")):
            await join(connection, "doctor/3", "0.0.1", timedelta(0), id_of(ahead))
            (clock,) = await contents(connection, Check.NODE_CLOCKS)
            assert said in clock.sentence
            assert clock.level is Level.PROBLEM
            await left()
        assert await contents(connection, Check.NODE_CLOCKS) == []
    finally:
        await left()


async def test_work_that_a_process_owns_and_does_not_run(connection: asyncpg.Connection):
    await join(connection, "doctor/1", "0.0.1", timedelta(0), uuid7())
    try:
        await connection.execute("update pilotis.nodes set strays = 2, strays_since = now() where name = 'doctor/1'")
        (work,) = await contents(connection, Check.NODE_WORK)
        assert "doctor/1 has owned 2 items" in work.sentence
        await connection.execute("update pilotis.nodes set strays = 0 where name = 'doctor/1'")
        assert await contents(connection, Check.NODE_WORK) == []
    finally:
        await connection.execute("delete from pilotis.nodes where name = 'doctor/1'")


async def test_connections_that_the_processes_may_not_open(connection: asyncpg.Connection):
    (few,) = await contents(connection, Check.CONNECTIONS, pool_size=500)
    assert few.level is Level.PROBLEM
    assert "make pool_size smaller" in few.fix
    assert await contents(connection, Check.CONNECTIONS, pool_size=2) == []


@pytest.mark.without_citus("statistics and files of indexes are on another node")
async def test_statistics_that_nobody_renews(app: App, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inspection, "LEAST_CHANGED_ROWS", 20)
    table = f"app_{UUID(app.app_id).hex}.t_{UUID(await app.table({'n': 'int'})).hex}"
    await connection.execute(f"alter table {table} set (autovacuum_enabled = off)")
    async with app.client() as client:
        data = {"data": [{"n": number} for number in range(100)]}
        table_id = UUID(table[-32:])
        assert (await client.post(f"/v1/public/tables/{table_id}/data/bulk", json=data)).status_code == 201

    async def named() -> list[Finding]:
        await connection.execute("select pg_stat_clear_snapshot()")
        return [one for one in await contents(connection, Check.STATISTICS) if table in one.sentence]

    async def mended() -> bool:
        return not await named()

    (stale,) = await until(named)  # the statistics of a transaction arrive a little later
    await connection.execute(re.search(r"Run: (analyze [^;]+;)", stale.fix)[1])
    await until(mended)


@pytest.mark.without_citus("statistics and files of indexes are on another node")
async def test_indexes_that_an_interrupted_build_has_left(app: App, connection: asyncpg.Connection):
    table_id = await app.table({"n": "int"})
    for _ in range(2):
        await app.row(table_id, {"n": 1})
    schema = f"app_{UUID(app.app_id).hex}"
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(f"create unique index concurrently twice on {schema}.t_{UUID(table_id).hex} (n)")
    (invalid,) = await contents(connection, Check.INDEXES)
    assert f"{schema}.twice is not valid" in invalid.sentence
    async with app.client() as client:
        body = {"where": {"n": 1}}
        assert (await client.post(f"/v1/public/tables/{table_id}/data/delete-where", json=body)).status_code == 200
    await connection.execute(invalid.fix.removeprefix("Run: "))
    assert await contents(connection, Check.INDEXES) == []


async def test_automatic_indexes_that_failed_or_that_nobody_drops(app: App, connection: asyncpg.Connection):
    app_id, table_id = UUID(app.app_id), UUID(await app.table({"n": "int"}))
    insert = """
        insert into pilotis.indexes (app_id, table_id, name, use, columns, state, hits, total_ms, error, idle)
        values ($1, $2, $3, 'n', '{n}', $4, 1, 1, $5, make_interval(days => $6))
    """
    for name, state, error, days in (("a", "failed", "no space", 0), ("b", "ready", None, 400)):
        await connection.execute(insert, app_id, table_id, name, state, error, days)
    failed, unused = await contents(connection, Check.INDEXES)
    assert "could not be built: no space" in failed.sentence
    assert "1 automatic indexes were not used" in unused.sentence
    await connection.execute("delete from pilotis.indexes where table_id = $1", table_id)
    assert await contents(connection, Check.INDEXES) == []


async def test_files_without_bytes_and_bytes_without_files(
    app: App, server: Server, settings: Settings, tmp_path: Path
):
    base = await storage(app)
    async with app.client() as client:
        await upload(client, base)
    address = databases.address(server.data_dir)
    elsewhere = Settings(data_dir=str(server.data_dir), blob_store=str(tmp_path))
    (missing,) = of(await doctor.files(elsewhere, address), Check.MISSING_FILES)
    assert "previous_blob_store" in missing.fix
    assert of(await doctor.files(settings, address), Check.MISSING_FILES) == []

    store, key = open_blobs(elsewhere), f"blobs/{app.app_id}/{uuid7()}"

    async def body() -> AsyncIterator[bytes]:
        yield b"text"

    try:
        await store.put(key, body(), size=4, content_type="text/plain")
    finally:
        await store.close()
    assert of(await doctor.files(elsewhere, address), Check.ORPHANED_FILES) == [], "it may be that of an upload"
    for path in list(tmp_path.rglob("*")):  # noqa: ASYNC240 - nothing else runs here
        os.utime(path, (time.time() - 2 * DAY,) * 2)
    (orphans,) = of(await doctor.files(elsewhere, address), Check.ORPHANED_FILES)
    assert orphans.sentence == "1 of 1 objects in the store belong to no file."
    place = {"PILOTIS_BLOB_STORE": str(tmp_path)}
    await run_beside("storage", "reconcile", "--apply", *server.place, **place)
    assert of(await doctor.files(elsewhere, address), Check.ORPHANED_FILES) == []


async def test_apps_whose_tables_are_open_are_counted_where_others_reach_them(app: App, connection: asyncpg.Connection):
    public = Settings(host="0.0.0.0", base_url="https://api.example.com")
    before = await open_apps(connection)
    tables = [await app.table({"n": "int"}, title=title) for title in ("a", "b")]
    assert await open_apps(connection) == before + 1
    (found,) = of(await doctor.open_tables(public, connection), Check.ACCESS)
    assert f"{before + 1} apps have tables" in found.sentence
    assert await doctor.open_tables(Settings(), connection) == []
    async with app.client() as client:
        for table_id, title in zip(tables, ("a", "b"), strict=True):
            body = {"title": title, "schema": {"n": "int"}, "access_level": "Creator"}
            answer = await client.patch(f"/v1/public/tables/{table_id}", json=body)
            assert answer.status_code == 200, answer.text
    assert await open_apps(connection) == before


# What is between clients and the server.


@contextmanager
def answering(context: ssl.SSLContext) -> Iterator[str]:
    """A server that completes TLS handshakes, and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listening.accept()
                    with suppress(OSError), context.wrap_socket(plain, server_side=True):
                        pass

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"https://localhost:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


@pytest.mark.parametrize(("days", "level"), [(3, Level.PROBLEM), (10, Level.WARNING), (60, Level.OK)])
def test_a_certificate_that_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, level: Level):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    with answering(authority.context("localhost", days=days)) as url:
        found = doctor.certificate(url)
        assert [(one.id, one.level) for one in found] == [(Check.CERTIFICATE, level)]
        assert abs(proxy_check.certificate_days(url) - days) < 0.1
    assert doctor.certificate("http://127.0.0.1:1") == []
    assert doctor.certificate("https://127.0.0.1:1") == []


def test_a_server_that_is_asked_by_its_address(server: Server, settings: Settings):
    found = doctor.examine_url(settings, server.url)
    assert {one.id for one in found} == {Check.PROXY}
    assert all(one.fix for one in found), "no proxy is in front"
    (nobody,) = doctor.examine_url(settings, "http://127.0.0.1:1")
    assert "does not lead to this version" in nobody.sentence
