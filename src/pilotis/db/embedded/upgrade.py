"""Carries the embedded database to the programs' major version of PostgreSQL.

Everything happens beside the old cluster, in the folder `postgres.upgrade`. Files go this way: the old cluster is
copied, its own programs start and stop the copy, so that it is whole, and pg_upgrade links the copy's files into a new
cluster. So no program of the new version ever sees the old cluster. By an archive: the old programs serve the old
cluster and send its contents to a new one.

When the new cluster is complete it has the same number of rows in each table. Only then is the old one renamed to
`postgres-15`, and the new one to `postgres`. A run that was killed is begun again by the same command: it removes what
it finds in the folder, except a complete cluster, of which only the renaming is left.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import asyncpg
from asyncpg import Connection

from pilotis.db.embedded import upgrade_store
from pilotis.db.embedded.account import Account, server_account
from pilotis.db.embedded.binaries import SYSTEM, Binaries, find_binaries, is_complete, usable_binaries
from pilotis.db.embedded.cluster import create_cluster, user_settings, write_settings
from pilotis.db.embedded.errors import EmbeddedPostgresError
from pilotis.db.embedded.lockfile import DATABASE, DatabaseAddress, await_release, end_leftover
from pilotis.db.embedded.programs import copy_database, run_pg_upgrade
from pilotis.db.embedded.server import EmbeddedPostgres
from pilotis.kit.disk import size_of, sync_directory, sync_file, sync_filesystem

Result = TypeVar("Result")

_ROOM_BYTES = 256 << 20
_READY_SECONDS = 24 * 3600.0
_COMPLETE = "complete"
# pg_upgrade creates our database with the number that it had, which is that of initdb's `postgres`; and it connects to
# one of that name.
_FREE_NUMBER = (
    "create database helper template template0;\ndrop database postgres;\nalter database helper rename to postgres;\n"
)


class UpgradeRefusedError(EmbeddedPostgresError):
    """The upgrade cannot be made; nothing was changed. The message gives the reason and the remedy."""


class Upgraded(NamedTuple):
    """From which major version to which, with how many tables and rows, and where the old cluster is."""

    old: int
    new: int
    tables: int
    rows: int
    old_directory: str


def work_folder(directory: Path) -> Path:
    """Return the folder in which the cluster `directory` is upgraded."""
    return directory.with_name(f"{directory.name}.upgrade")


def require_no_swap(directory: Path) -> None:
    """Raise if an upgrade was killed between its two renamings, when there is no cluster to start on."""
    if not directory.exists() and (work_folder(directory) / _COMPLETE).exists():
        raise EmbeddedPostgresError(
            "An upgrade of PostgreSQL was interrupted in its last step. Run `pilotis postgres upgrade` again."
        )


class Upgrade:
    """The upgrade of the cluster `directory`, which nothing else uses meanwhile. Use it in the main thread."""

    def __init__(
        self,
        directory: Path,
        *,
        binaries: Path | None = None,
        old_binaries: Path | None = None,
        said: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Store the arguments: the clusters' directory, and the programs to go to and to come from.

        Without `old_binaries` those of the system are used. `said` is told what begins.
        """
        self._directory = directory.absolute()
        self._work = work_folder(self._directory)
        self._log = self._directory.with_name(f"{directory.name}-upgrade.log")
        self._binaries = binaries
        self._old_binaries = old_binaries
        self._said = said

    def check(self) -> Binaries:
        """Raise `UpgradeRefusedError` or `EmbeddedPostgresError` with what prevents an upgrade by files.

        The old programs serve the old cluster for a moment, as they always did. Returns the old programs.
        """
        account, old, new = self._begin()
        with self._temporary():
            with self._served(self._directory, old) as address:
                _require_carried(_ask(address, upgrade_store.obstacles), _ask(address, upgrade_store.databases))
            self._said("checking with pg_upgrade")
            create_cluster(self._work / "new", new.directory, new.major, account, _FREE_NUMBER)
            self._pg_upgrade(self._directory, old, new, account, "--check")
        return old

    def run(self, *, by_archive: bool = False) -> Upgraded:
        """Upgrade, and leave the old cluster beside the new one.

        Raises `UpgradeRefusedError` before anything was changed, and `EmbeddedPostgresError` if a program failed; then
        the old cluster is as it was.
        """
        if (self._work / _COMPLETE).exists():
            return self._finish()
        account, old, new = self._begin()
        self._require_room()
        with self._temporary():
            way = self._by_archive if by_archive else self._by_files
            counts = way(account, old, new)
            self._complete(new, account, counts, old.major)
        return self._finish()

    def forget_old(self) -> list[str]:
        """Delete the old clusters, and return their paths."""
        if not (self._directory / "PG_VERSION").exists():
            raise UpgradeRefusedError(f"There is no database in {self._directory}.")
        found = sorted(self._old_directories())
        for path in found:
            await_release(path)
            shutil.rmtree(path)
        return [str(path) for path in found]

    def _begin(self) -> tuple[Account | None, Binaries, Binaries]:
        """Remove what a killed run has left, and return the account, the old programs and the new ones."""
        try:
            version = int((self._directory / "PG_VERSION").read_text())
        except (OSError, ValueError):
            raise UpgradeRefusedError(f"There is no database in {self._directory}.") from None
        account = server_account(self._directory)
        new = usable_binaries(find_binaries(self._binaries), account)
        if version >= new.major:
            self._remove_work()
            raise UpgradeRefusedError(f"The database is PostgreSQL {version}, as the programs are: nothing is to do.")
        if existing := [path for path in self._old_directories() if path.name.endswith(f"-{version}")]:
            raise UpgradeRefusedError(
                f"{existing[0]} is from an earlier upgrade. `pilotis postgres upgrade --forget-old` deletes it."
            )
        old = usable_binaries(self._find_old(version), account)
        if old.major != version:
            raise UpgradeRefusedError(f"{old.directory} has PostgreSQL {old.major}; the database needs {version}.")
        self._remove_work()
        await_release(self._directory)
        return account, old, new

    def _find_old(self, version: int) -> Path:
        found = self._old_binaries or SYSTEM / str(version) / "bin"
        if not is_complete(found):
            where = (
                f"{found} has no programs"
                if self._old_binaries
                else f"The programs of PostgreSQL {version} are missing"
            )
            raise UpgradeRefusedError(
                f"{where}. Install them (on Debian the package postgresql-{version}), or name the directory with "
                "--old-binaries."
            )
        return found.absolute()

    def _old_directories(self) -> Iterator[Path]:
        for path in self._directory.parent.glob(f"{self._directory.name}-*"):
            if path.name.rpartition("-")[2].isdecimal() and (path / "PG_VERSION").exists():
                yield path

    def _require_room(self) -> None:
        needed, free = size_of(self._directory) + _ROOM_BYTES, shutil.disk_usage(self._directory.parent).free
        if needed > free:
            raise UpgradeRefusedError(
                f"A copy of the database needs {needed >> 20} MiB, and {free >> 20} MiB are free on its disk."
            )

    @contextmanager
    def _temporary(self) -> Iterator[None]:
        """Have the folder in which the upgrade works, and remove it unless it has a complete cluster."""
        self._work.mkdir(mode=0o700)
        try:
            yield
        finally:
            if not (self._work / _COMPLETE).exists():
                self._remove_work()

    def _remove_work(self) -> None:
        if not self._work.exists():
            return
        for cluster in (self._work / "old", self._work / "new", *self._work.glob("new.new-*")):
            end_leftover(cluster, wanted=False)
        # pg_upgrade starts the old programs on the old cluster, to check it.
        end_leftover(self._directory, wanted=True)
        shutil.rmtree(self._work)

    @contextmanager
    def _served(self, directory: Path, binaries: Binaries) -> Iterator[DatabaseAddress]:
        postgres = EmbeddedPostgres(directory, binaries=binaries.directory, ready_seconds=_READY_SECONDS)
        try:
            yield postgres.start()
        finally:
            postgres.stop()

    def _by_files(self, account: Account | None, old: Binaries, new: Binaries) -> Mapping[str, int]:
        copy, cluster = self._work / "old", self._work / "new"
        self._said("copying the old cluster")
        _copy(self._directory, copy)
        self._said(f"starting PostgreSQL {old.major} on the copy")
        with self._served(copy, old) as address:
            databases = _ask(address, upgrade_store.databases)
            _require_carried(_ask(address, upgrade_store.obstacles), databases)
            for name in (*databases, "template1"):
                _ask(address._replace(database=name), upgrade_store.forget_versions_of_columns)
            counts = _ask(address, upgrade_store.row_counts)
        self._said(f"upgrading to PostgreSQL {new.major}")
        create_cluster(cluster, new.directory, new.major, account, _FREE_NUMBER)
        self._pg_upgrade(copy, old, new, account, "--link")
        shutil.rmtree(cluster / "pg_upgrade_output.d", ignore_errors=True)
        return counts

    def _by_archive(self, account: Account | None, old: Binaries, new: Binaries) -> Mapping[str, int]:
        cluster = self._work / "new"
        create_cluster(cluster, new.directory, new.major, account)
        with self._served(self._directory, old) as source, self._served(cluster, new) as target:
            if others := _ask(source, upgrade_store.databases) - upgrade_store.OWN_DATABASES:
                raise UpgradeRefusedError(f"The cluster has other databases, which you must move: {_names(others)}.")
            counts = _ask(source, upgrade_store.row_counts)
            self._said(f"copying the database from PostgreSQL {old.major} to {new.major}")
            copy_database((source, old.directory), (target, new.directory), self._log)
        return counts

    def _pg_upgrade(self, directory: Path, old: Binaries, new: Binaries, account: Account | None, how: str) -> None:
        cluster = self._work / "new"
        write_settings(cluster, new.major, account)
        arguments = [how, "--jobs", str(min(os.cpu_count() or 1, 8))]
        run_pg_upgrade((directory, old), (cluster, new), account, arguments, self._log)

    def _complete(self, new: Binaries, account: Account | None, counts: Mapping[str, int], old_major: int) -> None:
        """Prove that the new cluster has everything, and mark it as complete."""
        cluster = self._work / "new"
        self._said("counting the rows and collecting statistics")
        with self._served(cluster, new) as address:
            found = _ask(address, upgrade_store.row_counts)
            if lost := {name for name in counts if counts[name] != found.get(name)}:
                raise EmbeddedPostgresError(f"The new database has other rows than the old one in {_names(lost)}.")
            unwanted = _ask(address, upgrade_store.databases) - {DATABASE}
            _ask(address, lambda connection: upgrade_store.finish(connection, sorted(unwanted & {"postgres"})))
        user_settings(self._directory, cluster, account)
        shutil.rmtree(self._work / "old", ignore_errors=True)
        sync_filesystem(self._work)
        with (self._work / _COMPLETE).open("w") as file:
            file.write(f"{old_major} {new.major} {len(counts)} {sum(counts.values())}\n")
            file.flush()
            sync_file(file.fileno())
        sync_directory(self._work)

    def _finish(self) -> Upgraded:
        """Put the new cluster in the place of the old one. A run that is killed here is continued by the next."""
        old, new, tables, rows = map(int, (self._work / _COMPLETE).read_text().split())
        aside, cluster = self._directory.with_name(f"{self._directory.name}-{old}"), self._work / "new"
        if cluster.exists():
            if self._directory.exists():
                self._directory.rename(aside)
            cluster.rename(self._directory)
            sync_directory(self._directory.parent)
        # The mark goes last but one: without it the folder is that of an unfinished run.
        shutil.rmtree(self._work)
        return Upgraded(old, new, tables, rows, str(aside))


def _require_carried(obstacles: list[str], databases: set[str]) -> None:
    if obstacles:
        raise UpgradeRefusedError(f"The database cannot be upgraded by files: {' '.join(obstacles)} Use --by-archive.")
    if others := databases - upgrade_store.OWN_DATABASES:
        raise UpgradeRefusedError(f"The cluster has other databases, which you must move: {_names(others)}.")


def _ask(address: DatabaseAddress, question: Callable[[Connection], Coroutine[Any, Any, Result]]) -> Result:
    async def ask() -> Result:
        connection = await asyncpg.connect(**address._asdict(), command_timeout=None)
        try:
            return await question(connection)
        finally:
            await connection.close()

    return asyncio.run(ask())


def _copy(source: Path, target: Path) -> None:
    """Copy a cluster of a server that does not run, as clones of its files where the file system can."""
    clone = ["--reflink=auto"] if sys.platform == "linux" else ["-c"]
    done = subprocess.run(["cp", "-a", *clone, str(source), str(target)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode:
        raise EmbeddedPostgresError(f"{source} could not be copied: {done.stderr.strip()}")


def _names(found: set[str]) -> str:
    return ", ".join(sorted(found)[:5])
