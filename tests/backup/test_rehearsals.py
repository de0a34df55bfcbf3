"""A server tries its backup while it answers requests, and nothing of the trial stays, however it ends."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pilotis.backup import proof
from pilotis.backup.errors import BackupError
from pilotis.backup.place import opened
from pilotis.db.embedded import find_binaries
from pilotis.db.embedded.account import server_account
from pilotis.db.embedded.binaries import usable_binaries
from pilotis.settings import load
from tests.backup.test_backups import backup, environment
from tests.conftest import first_console_user, new_app
from tests.support import App, Server
from tests.waiting import until

pytestmark = pytest.mark.embedded("base backups are of the embedded database")

_SLOW = """#!/bin/sh
# PostgreSQL that waits before it replays its log, for at most half a minute, and then ends.
if [ -e "$PGDATA/recovery.signal" ]; then
    echo $$ > {folder}/begun
    for _ in $(seq 600); do
        [ -e {folder}/fails ] && exit 1
        [ -e {folder}/waits ] || exec {program} "$@"
        sleep 0.05
    done
    exit 1
fi
exec {program} "$@"
"""


class Slow(NamedTuple):
    """Programs of PostgreSQL, of which a restored server's `postgres` waits while a file `waits` is in the folder."""

    folder: Path

    @property
    def binaries(self) -> Path:
        return self.folder / "bin"

    @property
    def begun(self) -> Path:
        """There once it waits, with its process id."""
        return self.folder / "begun"

    @property
    def waits(self) -> Path:
        return self.folder / "waits"

    def is_running(self) -> bool:
        try:
            os.kill(int(self.begun.read_text()), 0)
        except ProcessLookupError:
            return False
        return True


@pytest.fixture(scope="module")
def slow() -> Iterator[Slow]:
    # Below /tmp, since PostgreSQL's user cannot reach the folders of tests.
    folder = Path(tempfile.mkdtemp(prefix="pilotis-slow-"))
    folder.chmod(0o777)
    programs = usable_binaries(find_binaries(None), server_account(folder / "none")).directory
    (folder / "bin").mkdir(mode=0o755)
    for program in programs.iterdir():
        if program.name != "postgres":
            (folder / "bin" / program.name).symlink_to(program)
    postgres = folder / "bin" / "postgres"
    postgres.write_text(_SLOW.format(folder=folder, program=programs / "postgres"))
    postgres.chmod(0o755)
    yield Slow(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, slow: Slow) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rehearsals")
    own = {**environment(folder), "PILOTIS_POSTGRES_BINARIES": str(slow.binaries)}
    running = Server(folder / "data", environment=own).start()
    yield running
    running.stop()
    running.assert_no_failure()


@pytest.fixture(scope="module")
async def shop(source: Server) -> App:
    app = new_app(source, first_console_user(source))
    app.table_id = await app.table({"name": "string"})
    await app.row(app.table_id, {"name": "before"})
    await asyncio.to_thread(backup, source, "create")
    return app


@pytest.fixture(autouse=True)
def nothing_stays(source: Server, slow: Slow) -> Iterator[None]:
    yield
    slow.waits.unlink(missing_ok=True)
    slow.begun.unlink(missing_ok=True)
    (slow.folder / "fails").unlink(missing_ok=True)
    assert list(source.data_dir.glob("scratch-*")) == []


async def test_requests_are_answered_while_a_backup_is_tried(source: Server, shop: App, slow: Slow):
    """The server tries it as soon as it is due, each second; its PostgreSQL takes as long as the test wants."""
    source.stop()
    source.environment["PILOTIS_BACKUP_REHEARSE"] = "* * * * * *"
    slow.waits.touch()
    source.start()
    await until(slow.begun.exists)
    for number in range(5):
        await shop.row(shop.table_id, {"name": f"meanwhile {number}"})
    assert slow.is_running()
    assert list(source.data_dir.glob("scratch-*"))
    # The server stops although PostgreSQL has not started, and leaves neither.
    source.stop()
    assert not slow.is_running()
    assert list(source.data_dir.glob("scratch-*")) == []

    source.environment["PILOTIS_BACKUP_REHEARSE"] = ""
    slow.waits.unlink()
    source.start()
    proven = await asyncio.to_thread(backup, source, "rehearse")
    assert (proven["state"], proven["rows"]) == ("rehearsed", 6)


async def test_a_trial_that_is_given_up_or_fails_leaves_nothing(source: Server, shop: App, slow: Slow):
    settings = load({"data_dir": str(source.data_dir)}, source.environment)
    async with opened(settings) as place:
        known = await place.catalogue.find(None)
        slow.waits.touch()
        trial = asyncio.create_task(proof.rehearse(place, known))
        await until(lambda: slow.begun.exists() and slow.begun.read_text())
        trial.cancel()
        with suppress(asyncio.CancelledError):
            await trial
        assert trial.cancelled()
        assert not slow.is_running()
        assert list(source.data_dir.glob("scratch-*")) == []
        slow.begun.unlink()
        (slow.folder / "fails").touch()
        with pytest.raises(BackupError, match="could not replay its log"):
            await proof.rehearse(place, known)
