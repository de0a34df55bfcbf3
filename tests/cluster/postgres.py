"""PostgreSQL with a standby that confirms each commit: its failures, and the failover that an operator's tools make.

The primary starts on a copy of the tests' cluster, with all migrations; PostgreSQL does not flush there, so that a
process may be killed at any moment, but the machine may not.
"""

import asyncio
import contextlib
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import asyncpg

from pilotis.db.embedded.account import Account, server_account, spawn
from pilotis.db.embedded.binaries import Binaries, find_binaries, usable_binaries
from pilotis.db.embedded.lockfile import DATABASE, SUPERUSER
from tests import cluster_template
from tests.cluster.links import Link, to_socket
from tests.waiting import until

PORT = 5432
STANDBY = "standby"
_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_directories": ".",
    "wal_level": "replica",
    "max_wal_senders": "8",
    "max_connections": "150",
    "hot_standby": "on",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_retrieve_retry_interval": "200ms",
}


class Instance:
    """One PostgreSQL server on a data directory."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.account: Account | None = server_account(directory)
        self.binaries: Binaries = usable_binaries(find_binaries(None), self.account)
        self._settings = _SETTINGS | (settings or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """The path of its unix socket."""
        return str(self.directory / f".s.PGSQL.{PORT}")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments with which asyncpg connects to it directly."""
        return {"host": str(self.directory), "port": PORT, "user": SUPERUSER, "database": DATABASE}

    def launch(self) -> None:
        """Start the process, on the main thread: it ends with the thread that has started it."""
        arguments = [str(self.binaries.directory / "postgres")]
        arguments += [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self.directory.with_suffix(".log").open("ab") as log:
            self.process = spawn(
                arguments, account=self.account, data=self.directory, parent_death_signal=signal.SIGINT, stdout=log
            )

    async def ready(self) -> None:
        """Wait until it accepts connections."""

        async def accepts() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.directory.with_suffix(".log").read_text()[-2000:]
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                connection = await asyncpg.connect(**self.arguments)
                await connection.close()
                return True
            return False

        await until(accepts)

    async def run(self, *statements: str) -> Any:
        """Run statements, and return the value of the last."""
        connection = await asyncpg.connect(**self.arguments)
        try:
            value = None
            for statement in statements:
                value = await connection.fetchval(statement)
            return value
        finally:
            await connection.close()

    async def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End it: at once by SIGQUIT, as after a crash, or with a checkpoint by SIGINT."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            await asyncio.to_thread(process.wait, 60)


class Pair:
    """A primary and a standby; `link` leads to the primary, as an address does that moves at a failover."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self.primary = self._first()
        self.standby: Instance | None = None
        self.replication = Link(None)
        """Between the primary and the standby."""

    def _first(self) -> Instance:
        cluster_template.copy_to(self._folder / "first", {})
        (self._folder / "first" / "postgres").rename(self._folder / "pg0")
        return Instance(self._folder / "pg0")

    async def start(self, *, with_standby: bool) -> None:
        """Start the primary, and its standby with synchronous commits."""
        self.primary.launch()
        await self.primary.ready()
        await self.replication.open()
        self.replication.leads_to = to_socket(self.primary.socket)
        if with_standby:
            await self.add_standby()

    async def add_standby(self) -> None:
        """Copy the primary to a new standby, and let each commit wait for it from then on."""
        self._number += 1
        directory = self._folder / f"pg{self._number}"
        primary = self.primary
        directory.mkdir(mode=0o700)
        if primary.account:
            shutil.chown(directory, primary.account.uid, primary.account.gid)
        command = [
            str(primary.binaries.directory / "pg_basebackup"),
            "-D",
            str(directory),
            "-c",
            "fast",
            "-X",
            "stream",
        ]
        command += ["-h", str(primary.directory), "-p", str(PORT), "-U", SUPERUSER, "--no-sync"]
        copying = spawn(command, account=primary.account, data=None, parent_death_signal=signal.SIGKILL)
        output, _ = await asyncio.to_thread(copying.communicate)
        assert copying.returncode == 0, output.decode()
        # It is in the same directory as the socket of the primary, so that it is copied.
        (directory / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
        (directory / "standby.signal").touch(mode=0o600)
        if primary.account:
            shutil.chown(directory / "standby.signal", primary.account.uid, primary.account.gid)
        conninfo = f"host=127.0.0.1 port={self.replication.port} user={SUPERUSER} application_name={STANDBY}"
        self.standby = Instance(directory, {"primary_conninfo": f"{conninfo} sslmode=disable gssencmode=disable"})
        self.standby.launch()
        await self.standby.ready()
        await primary.run(f"alter system set synchronous_standby_names = '{STANDBY}'", "select pg_reload_conf()")
        await until(self._is_synchronous)

    async def restart(self) -> None:
        """Let the primary crash, and recover."""
        await self.primary.stop()
        self.primary.launch()
        await self.primary.ready()

    async def fail_over(self, link_to: list[Link]) -> float:
        """Lose the primary, let the standby take over, and lead the links to it.

        Returns when it accepted writes, by the clock of the event loop.
        """
        assert self.standby is not None
        for link in link_to:
            link.leads_to = None
            link.cut_all()
        lost, self.primary, self.standby = self.primary, self.standby, None
        await lost.stop(signal.SIGQUIT)
        # It would wait for a standby of its own, which is not there yet.
        await self.primary.run("alter system set synchronous_standby_names = ''", "select pg_reload_conf()")
        await self.primary.run("select pg_promote(true, 60)")
        accepts = asyncio.get_running_loop().time()
        for link in [*link_to, self.replication]:
            link.leads_to = to_socket(self.primary.socket)
        shutil.rmtree(lost.directory)
        return accepts

    async def stop(self) -> None:
        """End both."""
        for instance in (self.standby, self.primary):
            if instance is not None:
                with contextlib.suppress(ProcessLookupError):
                    await instance.stop(signal.SIGQUIT)
        await self.replication.close()

    async def _is_synchronous(self) -> bool:
        state = await self.primary.run("select max(sync_state) from pg_stat_replication")
        return state in {"sync", "quorum"}
