"""A server is backed up while it works, and restored to a moment out of that history.

What was acknowledged before the moment is there, what began afterwards is not, and the accounts have their sum.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pilotis.db.embedded.cluster import WAL_SPOOL
from tests import commands
from tests.backstage import run_sql
from tests.cluster.checkers.bank import check_bank
from tests.cluster.checkers.history import Outcome, Write, as_of
from tests.cluster.checkers.sets import check_set
from tests.cluster.loads.base import Load, Place
from tests.cluster.loads.rows import BankLoad, SetLoad
from tests.conftest import first_console_user, new_app
from tests.support import App, Server
from tests.waiting import until

_AFTER_SECONDS = 2.0


class Restored(msgspec.Struct, kw_only=True):
    """A restore: how much had been acknowledged before the moment, how long it took, and what was found."""

    acknowledged: int
    share: float
    seconds: float
    findings: list[str]


class Experiment:
    """A server with a backup store, below a folder."""

    def __init__(self, folder: Path, choice: random.Random) -> None:
        self._choice = choice
        self._folder = folder
        environment = {
            "PILOTIS_BACKUP_STORE": str(folder / "store"),
            "PILOTIS_BACKUP_KEY_FILE": str(folder / "backup.key"),
            "PILOTIS_BACKUP_FULL": "",
            "PILOTIS_BACKUP_REHEARSE": "",
        }
        self._server = Server(folder / "data", environment=environment)

    async def run(self, seconds: float) -> Restored:
        """Work for some seconds, with a backup and a crash meanwhile, and restore to a moment after the backup."""
        # In the main thread, with which its database ends.
        self._server.start()
        app = new_app(self._server, first_console_user(self._server))
        place = Place(None, app)
        rows, bank = SetLoad(place, self._choice), BankLoad(place, self._choice)
        for load in (rows, bank):
            await load.prepare()
            await load.begin()
        # Backups have what was there when they began; the moment is after that.
        backed_up, moment, ended = await self._work([rows, bank], seconds)
        await self._shipped()
        await rows.close()
        await bank.close()
        self._server.stop()
        at = backed_up + (moment - backed_up) * self._choice.random()
        began = time.monotonic()
        restored = await self._restore(at)
        took = time.monotonic() - began
        try:
            findings = await self._check(restored, app, (rows, bank), at)
        finally:
            restored.stop()
        before = [write for write in rows.writes if write.outcome is Outcome.ACKNOWLEDGED and write.span.ended < at]
        share = (at - backed_up) / (ended - backed_up)
        return Restored(acknowledged=len(before), share=round(share, 2), seconds=round(took, 2), findings=findings)

    async def _work(self, loads: list[Load], seconds: float) -> tuple[float, float, float]:
        """Return when the backup was done, the last moment to restore to, and when work ended, by the loop's clock."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        working = [
            asyncio.create_task(load.run(worker, stopped, 1.0)) for load in loads for worker in range(load.workers)
        ]
        await asyncio.sleep(seconds / 4)
        place = self._server.place
        done = await asyncio.to_thread(commands.run, "backup", "create", *place, **self._server.environment)
        assert done.returncode == 0, done
        backed_up = loop.time()
        await asyncio.sleep(seconds / 2)
        self._kill_database()
        await asyncio.sleep(seconds / 2)
        moment = loop.time()
        await asyncio.sleep(_AFTER_SECONDS)
        stopped.set()
        await asyncio.gather(*working)
        return backed_up, moment, loop.time()

    def _kill_database(self) -> None:
        """Kill the database, which the server starts again."""
        pid = int((self._server.data_dir / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)

    async def _shipped(self) -> None:
        """Wait until all of the log is in the store."""
        segment = await run_sql(self._server, "select pg_walfile_name(pg_switch_wal() - 1)")
        spool = self._server.data_dir / "postgres" / WAL_SPOOL

        async def is_shipped() -> bool:
            archived = await run_sql(self._server, "select last_archived_wal from pg_stat_archiver")
            return archived is not None and archived[:24] >= segment and not any(spool.glob("[0-9A-F]*"))

        await until(is_shipped)

    async def _restore(self, at: float) -> Server:
        moment = datetime.fromtimestamp(time.time() - asyncio.get_running_loop().time() + at, UTC)
        target = self._folder / "restored"
        arguments = ["restore", "--to", str(target), "--at", moment.isoformat().replace("+00:00", "Z")]
        key = str(self._server.data_dir / "master.key")
        done = await asyncio.to_thread(
            commands.run, "backup", *arguments, "--master-key-file", key, **self._server.environment
        )
        assert done.returncode == 0, done
        return Server(target).start()

    async def _check(self, server: Server, app: App, loads: tuple[SetLoad, BankLoad], at: float) -> list[str]:
        rows, bank = loads
        place = Place(None, App(server, app.app_id, app.public_key, app.secret_key, app.console))
        rows.place = bank.place = place
        end = max(write.element for write in rows.writes) + 1
        async with place.client() as client:
            found = await rows.found(client, end)
            balances = await bank.balances(client)
        writes: list[Write] = as_of(rows.writes, at)
        return [finding.text for finding in check_set(writes, found) + check_bank([balances], BankLoad.TOTAL)]
