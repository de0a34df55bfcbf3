"""A server is backed up while it works, destroyed, and restored to a moment, with exactly the rows of then."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilotis.backup import wal
from pilotis.backup.copying import NICE
from pilotis.backup.place import opened
from pilotis.backup.prune import prune
from pilotis.db.embedded import running_address
from pilotis.db.embedded.cluster import WAL_SPOOL
from pilotis.kit.clock import now, parse_rfc3339
from pilotis.settings import load
from tests import commands, forked
from tests.archive.test_routes import written
from tests.backstage import run_sql
from tests.blobs import swift
from tests.conftest import first_console_user, new_app
from tests.realtime.listening import listening
from tests.security.world import _stored_file
from tests.support import App, Server, plain_client
from tests.waiting import reserved_port, until, wait_until
from tests.whole import sample, times

pytestmark = pytest.mark.embedded("base backups are of the embedded database")
Environment = dict[str, str]


def environment(folder: Path, store: str | None = None) -> Environment:
    return {
        "PILOTIS_BACKUP_STORE": store or str(folder / "store"),
        "PILOTIS_BACKUP_KEY_FILE": str(folder / "backup.key"),
        "PILOTIS_BACKUP_FULL": "",
        "PILOTIS_BACKUP_INCREMENTAL": "",
        "PILOTIS_BACKUP_REHEARSE": "",
        "PILOTIS_S3_ACCESS_KEY": swift.ACCESS_KEY,
        "PILOTIS_S3_SECRET_KEY": swift.SECRET_KEY,
    }


def backup(where: Server, *arguments: str, status: int = 0) -> Any:
    """Run `pilotis backup …` beside a server, and return what it prints as JSON; or its error, with another status."""
    done = commands.run("backup", *arguments, *where.place, "--json", **where.environment)
    assert done.returncode == status, done
    return done.stderr if status and not done.stdout else json.loads(done.stdout)


async def backup_beside(where: Server, *arguments: str, status: int = 0) -> Any:
    return await asyncio.to_thread(backup, where, *arguments, status=status)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backup")


@pytest.fixture(scope="module")
def source(place: Path) -> Iterator[Server]:
    """A server with a backup store."""
    with reserved_port() as port:
        running = Server(place / "data", environment={**environment(place), "PILOTIS_METRICS_PORT": str(port)}).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
def shop(source: Server) -> App:
    return new_app(source, first_console_user(source))


@pytest.fixture(scope="module")
async def first(source: Server, shop: App) -> dict[str, Any]:
    """A backup with a row and a file."""
    shop.table_id = await shop.table({"name": "string"})
    await shop.row(shop.table_id, {"name": "before"})
    shop.file = await _stored_file(shop, "kept.txt")
    return await backup_beside(source, "create")


async def names(app: App, table_id: str) -> list[str]:
    async with app.client() as client:
        answer = await client.get(f"/v1/public/tables/{table_id}/data", params={"limit": 100})
    assert answer.status_code == 200, answer.text
    return sorted(row["data"]["name"] for row in answer.json()["data"])


async def moment(server: Server) -> str:
    """A moment between two commits."""
    await asyncio.sleep(0.01)
    found = await run_sql(server, "select clock_timestamp()")
    await asyncio.sleep(0.01)
    return found.isoformat().replace("+00:00", "Z")


async def shipped(server: Server) -> None:
    """Wait until the log of everything until now is in the store."""
    segment = await run_sql(server, "select pg_walfile_name(pg_switch_wal() - 1)")
    folder = server.data_dir / "postgres" / WAL_SPOOL

    async def is_shipped() -> bool:
        archived = await run_sql(server, "select last_archived_wal from pg_stat_archiver")
        return archived is not None and archived[:24] >= segment and not any(folder.glob("[0-9A-F]*"))

    await until(is_shipped)


@pytest.mark.parametrize("kind", ["directory", "s3"])
async def test_a_destroyed_server_is_restored_to_a_moment(kind: str, tmp_path: Path, request: pytest.FixtureRequest):
    url = request.getfixturevalue("s3_url") if kind == "s3" else None
    server = Server(tmp_path / "data", environment=environment(tmp_path, url)).start()
    app = new_app(server, first_console_user(server))
    table_id = await app.table({"name": "string"})
    listens = {"id": "a", "table_id": table_id}
    async with app.client() as client, listening(client, listens):
        await app.row(table_id, {"name": "before the backup"})
    storage, file = await _stored_file(app, "kept.txt")
    assert (await written(app))["status"] == "completed"
    made = await backup_beside(server, "create")
    assert made["files"] == 1
    listens = {"id": "a", "table_id": table_id}
    async with app.client() as client, listening(client, listens) as told:
        await app.row(table_id, {"name": "after the backup"})
        then = await moment(server)
        await app.row(table_id, {"name": "too late"})
        await told.next(2)
        seen = told.last_id
    await shipped(server)
    server.kill()
    master_key = (server.data_dir / "master.key").read_text()
    await until(lambda: not (server.data_dir / "postgres" / "postmaster.pid").exists())
    shutil.rmtree(server.data_dir)

    key_file = tmp_path / "saved.key"
    key_file.write_text(master_key)
    restored = Server(tmp_path / "new", environment=server.environment, from_nothing=True)
    asked = ["restore", "--to", str(tmp_path / "new"), "--at", then, "--master-key-file", str(key_file)]
    done = commands.run("backup", *asked, "--json", "--data-dir", str(tmp_path / "new"), **server.environment)
    assert done.returncode == 0, done
    fields = json.loads(done.stdout)
    assert (fields["rows"], fields["files"], fields["missing_files"]) == (2, 1, 0)
    assert parse_rfc3339(fields["last_commit"]) <= parse_rfc3339(then)

    restored.start()
    try:
        app.server = restored
        assert await names(app, table_id) == ["after the backup", "before the backup"]
        async with app.client() as client:
            assert (await client.get(f"/files/{storage}/{file}/kept.txt")).content == b"text"
            async with listening(client, listens, after=seen) as told:
                assert told.ready["resumed"] is False
                assert await told.next() == [("reset", {"subscription": "a", "reason": "gap"})]
            # Sessions of the moment have ended.
            answer = await client.get("/v1/apps", headers={"Authorization": f"Bearer {app.console['access_token']}"})
            assert answer.status_code == 401, answer.text
        # The bytes of its archive were not in the backup, and the list says so.
        archive = await run_sql(restored, "select array[state, error] from pilotis.app_archives")
        assert archive[0] == "failed"
        assert "restored from a backup" in archive[1]
        # A restored server is quiet until it is accepted: nothing is shipped, and no schedule fires.
        segment = await run_sql(restored, "select pg_walfile_name(pg_switch_wal())")
        assert segment.startswith("00000002")
        assert await run_sql(restored, "select count(*) from pilotis.jobs where state = 'running'") == 0
        (restored.data_dir / "restored.quiet").stat()
    finally:
        restored.stop()
    restored.assert_no_failure()
    done = commands.run("backup", "accept", *restored.place)
    assert "from its next start on" in done.stdout
    done = commands.run("backup", "accept", *restored.place)
    assert "not a restored one" in done.stdout


async def test_a_backup_is_unproven_until_it_was_restored(source: Server, first: dict[str, Any]):
    def state() -> str:
        return next(one["state"] for one in backup(source, "list") if one["backup_id"] == first["backup_id"])

    assert state() == "unproven"
    assert any("unproven" in warning for warning in backup(source, "status")["warnings"])
    doctor = commands.run("doctor", *source.place, "--json", **source.environment)
    levels = {finding["sentence"]: finding["level"] for finding in json.loads(doctor.stdout)}
    assert levels["The newest of 1 backups is unproven."] == "ok"
    assert any(level == "warning" for sentence, level in levels.items() if "all are unproven" in sentence)
    assert backup(source, "verify", first["backup_id"])["state"] == "verified"
    assert state() == "verified"
    proven = backup(source, "rehearse", first["backup_id"])
    assert (proven["state"], proven["rows"]) == ("rehearsed", 1)
    assert state() == "rehearsed"
    assert list(source.data_dir.glob("scratch-*")) == []


async def test_no_plain_text_is_in_the_store(source: Server, shop: App, first: dict[str, Any], place: Path):
    await shop.row(shop.table_id, {"name": "a very plain text"})
    await shipped(source)
    digest = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"  # of "text"
    for path in (place / "store" / "objects").rglob("*"):
        assert digest not in path.name
        if path.is_file():
            assert b"very plain" not in path.read_bytes()
            if path.suffix != ".json":
                assert path.read_bytes()[:5] == b"PLTB\x01"


async def test_what_would_do_harm_is_refused(source: Server, first: dict[str, Any], tmp_path: Path):
    assert "is not empty" in backup(source, "restore", "--to", str(source.data_dir), status=3)
    wrong = tmp_path / "wrong.key"
    wrong.write_text("00" * 32)
    key = ["--master-key-file", str(wrong)]
    assert "not the master key" in backup(source, "restore", "--to", str(tmp_path / "a"), *key, status=3)
    assert not (tmp_path / "a").exists()
    early = "2020-01-01T00:00:00Z"
    assert "no backup from before" in backup(source, "restore", "--to", str(tmp_path / "b"), "--at", early, status=1)
    late = ["--at", "2100-01-01T00:00:00Z"]
    assert "does not reach" in backup(source, "restore", "--to", str(tmp_path / "c"), *late, status=1)
    lost = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_KEY_FILE": str(tmp_path / "no")})
    assert "There is no backup key" in backup(lost, "verify", status=3)
    other = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_KEY": "11" * 32})
    assert "another backup key" in backup(other, "verify", status=1)
    none = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_STORE": ""})
    assert "no backup store" in backup(none, "create", status=3)
    external = [*source.place, "--database-url", "postgresql://localhost:1/x"]
    done = commands.run("backup", "create", *external, **source.environment)
    assert done.returncode == 3
    assert "its operator's" in done.stderr
    unknown = "01900000-0000-7000-8000-000000000000"
    assert f"no backup {unknown}" in backup(source, "verify", unknown, status=1)


async def test_one_backup_at_a_time_and_none_of_another_server(source: Server, first: dict[str, Any], tmp_path: Path):
    both = await asyncio.gather(
        *(
            asyncio.to_thread(
                forked.run,
                "pilotis",
                "backup",
                "create",
                *source.place,
                environment={**os.environ, **source.environment},
            )
            for _ in range(2)
        )
    )
    assert sorted(done.returncode for done in both) == [0, 3], both
    assert "Another backup" in next(done.stderr for done in both if done.returncode)
    stranger = Server(tmp_path / "data", environment=source.environment)
    assert commands.run("init", *stranger.place, **source.environment).returncode == 0
    assert "of another server" in backup(stranger, "create", status=3)


def killed(where: Server, *arguments: str, ready: Callable[[], bool]) -> None:
    """Run a command, and kill it without warning once something is so."""
    command = [sys.executable, "-m", "pilotis", "backup", *arguments]
    process = subprocess.Popen(command, env={**os.environ, **where.environment}, stdout=subprocess.PIPE)
    wait_until(lambda: ready() or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="only Linux schedules sessions as groups")
async def test_all_that_copies_gives_way_to_requests(source: Server, first: dict[str, Any]):
    slowly = Server(
        source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_BYTES_PER_SECOND": str(8 << 20)}
    )

    cluster = source.data_dir / "postgres"
    postgres = psutil.Process(int((cluster / "postmaster.pid").read_text().split()[0]))
    address = running_address(cluster)
    assert address is not None

    def priorities() -> list[str]:
        """Those of the sessions of what sends a copy of the cluster and of what receives it."""
        found = []
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                line = process.cmdline()
                if "walsender" in "".join(line) if process.ppid() == postgres.pid else address.host in line:
                    found.append(Path(f"/proc/{process.pid}/autogroup").read_text().split()[-1])
        return found

    making = asyncio.create_task(backup_beside(slowly, "create", "--full"))
    await until(lambda: set(priorities()) == {str(NICE)} or making.done())
    assert priorities() == 2 * [str(NICE)]
    assert (await making)["kind"] == "full"


async def test_a_create_that_was_killed_leaves_nothing_and_runs_again(
    source: Server, first: dict[str, Any], place: Path
):
    folder = place / "store" / "objects" / "backups"
    before = len(backup(source, "list"))
    chance = random.Random(1)
    for _ in range(times(2, whole=20)):
        there, pause = set(folder.iterdir()), time.monotonic() + chance.random()

        def is_due(there: set[Path] = there, pause: float = pause) -> bool:
            return set(folder.iterdir()) != there or time.monotonic() > pause + 10

        await asyncio.to_thread(killed, source, "create", *source.place, ready=is_due)
    known = {one["backup_id"] for one in backup(source, "list")}
    made = await backup_beside(source, "create")
    folders = {path.parent.name for path in folder.glob("*/backup.json")}
    assert folders == {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
    assert folders == known | {made["backup_id"]}
    assert len(folders) >= before + 1
    assert backup(source, "verify")["state"] == "verified"


@pytest.fixture
def copied(source: Server, first: dict[str, Any], place: Path, tmp_path: Path) -> tuple[Server, Path]:
    """The server with a copy of its store, which may be harmed."""
    store = tmp_path / "store"
    shutil.copytree(place / "store", store)
    return Server(
        source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_STORE": str(store)}
    ), store / "objects"


def harm_bytes(objects: Path, made: str) -> None:
    path = next((objects / "backups" / made / "base").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)


def harm_end(objects: Path, made: str) -> None:
    path = next((objects / "backups" / made / "base").glob("*.end"))
    path.rename(path.with_name("00000"))


def harm_wal(objects: Path, made: str) -> None:
    entry = json.loads((objects / "backups" / made / "backup.json").read_bytes())["entry"]
    (objects / "wal" / entry["end_wal"].lower()).unlink()


def exchange_wal(objects: Path, made: str) -> None:
    entry = json.loads((objects / "backups" / made / "backup.json").read_bytes())["entry"]
    one, other = objects / "wal" / entry["start_wal"].lower(), objects / "wal" / entry["end_wal"].lower()
    data = one.read_bytes()
    one.unlink()
    one.write_bytes(other.read_bytes())
    other.unlink()
    other.write_bytes(data)


def harm_files(objects: Path, made: str) -> None:
    shutil.rmtree(objects / "files")


@pytest.mark.parametrize("harm", sample([harm_bytes, harm_end, harm_wal, exchange_wal, harm_files], 0.6))
async def test_a_store_that_lies_is_found_out(
    harm: Any, copied: tuple[Server, Path], first: dict[str, Any], tmp_path: Path
):
    where, objects = copied
    harm(objects, first["backup_id"])
    found = backup(where, "verify", first["backup_id"], status=1)
    assert found["state"] == "damaged", found
    assert found["error"]
    target = ["restore", "--to", str(tmp_path / "new"), "--backup", first["backup_id"]]
    restored = backup(where, *target, status=1)
    # A restore goes on without the bytes of files, which it counts, and without nothing else.
    assert isinstance(restored, str) or restored["missing_files"] == 1


async def test_an_entry_that_was_changed_or_hidden_is_found_out(copied: tuple[Server, Path], first: dict[str, Any]):
    where, objects = copied
    newest = backup(where, "list")[-1]["backup_id"]
    assert backup(where, "status")["problems"] == []
    (objects / "backups" / newest / "backup.json").unlink()
    if newest != first["backup_id"]:
        assert "less than was written" in backup(where, "verify", status=1)["warning"]
        assert "less than was written" in backup(where, "status", status=1)["problems"][0]
    path = objects / "backups" / first["backup_id"] / "backup.json"
    if path.exists():
        changed = path.read_bytes().replace(b'"files":1', b'"files":0')
        path.unlink()
        path.write_bytes(changed)
        assert "was changed" in backup(where, "list", status=1)


async def scraped(server: Server) -> str:
    async with plain_client(server.metrics_url) as client:
        return (await client.get("/metrics")).text


async def test_the_log_waits_while_the_store_is_away_and_catches_up(
    source: Server, shop: App, first: dict[str, Any], place: Path
):
    """The folder of the store becomes a file, so that nothing can be written into it.

    An hour on a quiet server is a segment each minute. They wait without taking the room of whole segments.
    """
    objects, away = place / "store" / "objects", place / "store" / "away"
    await shipped(source)
    objects.rename(away)
    objects.write_text("")
    try:
        minutes = times(5, whole=60)
        for number in range(minutes):
            await shop.row(shop.table_id, {"name": f"while away {number}"})
            await run_sql(source, "select pg_switch_wal()")

        def waits_in_little_room() -> bool:
            spool = wal.waiting(source.data_dir / "postgres")
            return spool.files >= minutes and spool.bytes < minutes << 20

        await until(waits_in_little_room)
        await shop.row(shop.table_id, {"name": "still served"})
        away_metrics = await scraped(source)
        assert float(re.search(r"^pilotis_backup_spool_bytes (\S+)$", away_metrics, re.MULTILINE)[1]) > 0
        assert float(re.search(r"^pilotis_backup_spool_seconds (\S+)$", away_metrics, re.MULTILINE)[1]) > 0
    finally:
        objects.unlink()
        away.rename(objects)
    await until(lambda: wal.waiting(source.data_dir / "postgres").files == 0)
    metrics = await scraped(source)
    assert re.search(r"^pilotis_backup_spool_bytes 0(\.0)?$", metrics, re.MULTILINE)
    assert float(re.search(r"^pilotis_backup_age_seconds (\S+)$", metrics, re.MULTILINE)[1]) < 3600
    assert backup(source, "verify")["state"] in {"verified", "rehearsed"}


async def test_prune_keeps_what_the_days_need(source: Server, first: dict[str, Any], place: Path, tmp_path: Path):
    await backup_beside(source, "create", "--full")
    store, objects = tmp_path / "store", tmp_path / "store" / "objects"
    shutil.copytree(place / "store", store)
    where = Server(source.data_dir, environment={**source.environment, "PILOTIS_BACKUP_STORE": str(store)})
    known = [one["backup_id"] for one in backup(where, "list")]
    assert backup(where, "prune")["backup_ids"] == []
    (objects / "files" / ("0" * 64)).mkdir()
    nobodys = objects / "files" / ("0" * 64) / "00000.end"
    nobodys.write_bytes(b"nobody's")
    os.utime(nobodys, ns=(0, 0))
    # What was stored since the oldest of those that stay may be of a file from between two backups.
    shutil.copytree(nobodys.parent, objects / "files" / ("1" * 64), copy_function=shutil.copyfile)
    settings = load({"data_dir": str(where.data_dir)}, where.environment)
    async with opened(settings) as opened_place:
        done = await prune(opened_place, now() + timedelta(days=31))
    assert sorted(done.backup_ids) == sorted(known[:-1])
    assert done.segments
    assert done.files == 1
    assert not nobodys.exists()
    assert (objects / "files" / ("1" * 64) / "00000.end").exists()
    assert [one["backup_id"] for one in backup(where, "list")] == known[-1:]
    assert backup(where, "verify")["state"] in {"verified", "rehearsed"}


@pytest.mark.whole
async def test_a_server_makes_and_tries_its_backups_when_they_are_due(tmp_path: Path):
    """Of two processes one does; the other goes on when that one is killed."""
    due = {"PILOTIS_BACKUP_FULL": "* * * * *"}
    server = Server(tmp_path / "data", "--workers", "2", environment={**environment(tmp_path), **due}).start()
    try:
        app = new_app(server, first_console_user(server))
        await app.table({"name": "string"})

        def has(count: int) -> bool:
            return len(list((tmp_path / "store").glob("objects/backups/*/backup.json"))) >= count

        await until(lambda: has(1))
        lock = server.data_dir / "postgres" / WAL_SPOOL / "pilotis.lock"
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]  # noqa: ASYNC240
        (holder,) = (int(line[4]) for line in held if line[5].endswith(f":{lock.stat().st_ino}"))
        os.kill(holder, signal.SIGKILL)
        await until(lambda: has(2))
    finally:
        server.stop()
