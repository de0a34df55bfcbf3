"""What `pilotis doctor` says of backups: each finding is made to appear, and mended as its sentence says."""

import asyncio
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pilotis.backup import status
from pilotis.cli import doctor_machine
from pilotis.cli.findings import Check, Finding, Level
from pilotis.kit.clock import now, parse_rfc3339
from pilotis.settings import load
from tests.backstage import run_sql
from tests.backup.test_backups import backup, environment
from tests.support import Server
from tests.waiting import until, wait_until

pytestmark = pytest.mark.embedded("base backups are of the embedded database")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def source(place: Path) -> Iterator[Server]:
    running = Server(place / "data", environment=environment(place)).start()
    yield running
    running.stop()
    running.assert_no_failure()


def found(source: Server, check: Check, **changed: str) -> list[Finding]:
    """What the doctor finds wrong by this check, with other settings where they are given."""
    settings = load({"data_dir": str(source.data_dir)}, {**source.environment, **changed})
    findings = asyncio.run(doctor_machine.backups(settings))
    return [finding for finding in findings if finding.id is check and finding.level is not Level.OK]


def test_every_finding_about_backups_is_mended_as_it_says(
    source: Server, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    wait_until(lambda: (place / "backup.key").exists())
    (none,) = found(source, Check.BACKUP_AGE)
    assert (none.level, none.fix) == (Level.PROBLEM, "`pilotis backup create` makes one.")
    first = backup(source, "create")
    assert found(source, Check.BACKUP_AGE) == []

    # As if it were the day after tomorrow: an older backup needs no other code.
    age = now() - parse_rfc3339(first["ended_at"])
    monkeypatch.setattr(status, "OLDEST", age)
    (old,) = found(source, Check.BACKUP_AGE)
    assert old.level is Level.PROBLEM
    backup(source, "create")
    monkeypatch.setattr(status, "OLDEST", age + timedelta(seconds=60))
    assert found(source, Check.BACKUP_AGE) == []

    (unproven,) = found(source, Check.BACKUP_PROOF)
    assert (unproven.level, unproven.fix) == (Level.WARNING, "`pilotis backup rehearse` tries the newest.")
    monkeypatch.setattr(status, "UNPROVEN", now() - parse_rfc3339(first["ended_at"]))
    assert Level.PROBLEM in {one.level for one in found(source, Check.BACKUP_PROOF)}
    backup(source, "rehearse")
    monkeypatch.setattr(status, "UNPROVEN", timedelta(seconds=60))
    assert found(source, Check.BACKUP_PROOF) == []

    # The data directory and this key are on the same disk, wherever the tests run.
    (key,) = found(source, Check.BACKUP_KEY)
    assert key.level is Level.WARNING
    text = (place / "backup.key").read_text().strip()
    assert found(source, Check.BACKUP_KEY, PILOTIS_BACKUP_KEY_FILE="", PILOTIS_BACKUP_KEY=text) == []
    (lost,) = found(source, Check.BACKUPS, PILOTIS_BACKUP_KEY_FILE=str(tmp_path / "none"))
    assert lost.level is Level.PROBLEM


async def test_a_log_that_waits_for_its_store_is_found(source: Server, monkeypatch: pytest.MonkeyPatch):
    """PostgreSQL goes on while the server, which ships its log, is stopped."""
    monkeypatch.setattr(status, "SPOOL_SECONDS", 0.5)

    async def waits() -> list[Finding]:
        return await asyncio.to_thread(found, source, Check.BACKUP_SPOOL)

    async def mended() -> bool:
        return not await waits()

    source.process.send_signal(signal.SIGSTOP)
    try:
        await run_sql(source, "select pg_logical_emit_message(true, 'doctor', 'x')")
        await run_sql(source, "select pg_switch_wal()")
        (waiting,) = await until(waits)
        assert waiting.level is Level.PROBLEM
        assert "Start the server" in waiting.fix
        # Where the store is away, that is known of what waits for it all the same.
        away = {"PILOTIS_BACKUP_STORE": "s3://backups/away?endpoint=http://127.0.0.1:1"}
        assert await asyncio.to_thread(found, source, Check.BACKUPS, **away)
        assert len(await asyncio.to_thread(found, source, Check.BACKUP_SPOOL, **away)) == 1
    finally:
        source.process.send_signal(signal.SIGCONT)
    await until(mended)
