"""Numbered plain SQL migrations, applied once, in order, under an advisory lock, each with a checksum.

A migration has a phase. One of the phase *expand* is applied by the start of a version: the version before does not
notice it. One of the phase *contract* takes away or restricts something. It names in a line `-- needs: NUMBER` the
newest migration that a program must know to work on the database afterwards, and in a line `-- version: VERSION` the
first version that does. It waits in `pilotis.pending_migrations` until every process knows that migration. So a program
can tell whether it works on a schema that is newer than itself, and which version it needs otherwise.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from importlib import resources
from typing import Literal, NamedTuple

from asyncpg import Connection, DeadlockDetectedError, LockNotAvailableError

from pilotis.db import sharding, versions

WAIT_SECONDS = 60.0
"""How long a migration waits for other transactions by default."""

_LOCK = 0x50494C4F  # "PILO"
_NAME = re.compile(r"(\d{4})_\w+\.sql")
_PHASE = re.compile(r"^-- phase: (expand|contract)$", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: (\d+)$", re.MULTILINE)
_VERSION = re.compile(r"^-- version: (\d[\w.]*)$", re.MULTILINE)
_CONCURRENTLY = re.compile(r"^create (?:unique )?index concurrently (\w+) on pilotis\.", re.MULTILINE)
_LOCK_POLL_SECONDS = 0.05
# Statements of other nodes queue behind a migration that waits for its lock, so it gives up its place now and then.
_QUEUE_SECONDS = 2.0
_PAUSE_SECONDS = 0.5


class MigrationError(Exception):
    """The database cannot be migrated to this version; the message gives the reason and the remedy."""


class Migration(NamedTuple):
    """One file of `db/sql/`: its number, file name and SQL."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the SQL, in hex."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def phase(self) -> Literal["expand", "contract"]:
        """When it is applied; those of before the phases are of the phase expand."""
        found = _PHASE.search(self.sql)
        return "contract" if found and found[1] == "contract" else "expand"

    @property
    def least_version(self) -> str | None:
        """The first version of the program that knows the migration which `needs` names."""
        found = _VERSION.search(self.sql)
        return found[1] if found else None

    @property
    def concurrent_index(self) -> str | None:
        """The index that this migration, and nothing else of it, builds while others write; None for any other."""
        found = _CONCURRENTLY.search(self.sql)
        return found[1] if found else None

    @property
    def needs(self) -> int:
        """The newest migration that a program must know to work on the schema that has this one; 0 if it is none."""
        found = _NEEDS.search(self.sql)
        return int(found[1]) if found else 0


@functools.cache
def all_migrations() -> list[Migration]:
    """Return every migration of this version, by number."""
    folder = resources.files("pilotis.db") / "sql"
    found = [
        Migration(int(match[1]), entry.name, entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return sorted(found)


async def migrate(
    connection: Connection, *, wait_seconds: float = WAIT_SECONDS, waits: Callable[[str], object] = lambda _: None
) -> list[str]:
    """Apply the missing migrations of the phase expand, list the others, and return the names of what was applied.

    An empty database gets all of them. A migration waits up to `wait_seconds` for transactions that use its tables;
    meanwhile `waits` is called with a sentence that says which ones. Raises `MigrationError` if they go on, if an
    applied file has changed since, or if the database is too new for this program.
    """
    async with _locked(connection):
        names = []
        for migration in await pending(connection):
            await _apply_patiently(connection, migration, wait_seconds, waits)
            names.append(migration.name)
        if waiting := await contracts(connection):
            await _list(connection, waiting)
        await sharding.configure_nodes(connection)
        return names


async def contract(
    connection: Connection, *, wait_seconds: float = WAIT_SECONDS, waits: Callable[[str], object] = lambda _: None
) -> list[str]:
    """Apply what waits for the last process that uses what it takes away, and return the names of the files.

    Raises `MigrationError` that names processes of older versions while there are any, and as `migrate` does.
    """
    async with _locked(connection):
        names = []
        for migration in await contracts(connection):
            if older := await versions.processes_without(connection, migration.needs):
                raise MigrationError(
                    f"Migration {migration.name} takes away what {', '.join(older)} may still use. "
                    f"It waits until each process is of version {migration.least_version} or newer."
                )
            await _apply_patiently(connection, migration, wait_seconds, waits)
            names.append(migration.name)
        return names


async def pending(connection: Connection) -> list[Migration]:
    """Return the migrations that a start applies: the missing ones of the phase expand, or all to an empty database.

    The database may have newer ones that this version need not know. Raises `MigrationError` as `migrate` does.
    """
    missing, is_new = await _missing(connection)
    return [migration for migration in missing if is_new or migration.phase == "expand"]


async def contracts(connection: Connection) -> list[Migration]:
    """Return the missing migrations of the phase contract; raises `MigrationError` as `migrate` does."""
    missing, is_new = await _missing(connection)
    return [] if is_new else [migration for migration in missing if migration.phase == "contract"]


async def _missing(connection: Connection) -> tuple[list[Migration], bool]:
    """Return the migrations that were not applied, and whether none was."""
    if not await connection.fetchval("select to_regclass('pilotis.migrations') is not null"):
        return all_migrations(), True
    # As JSON, because the first versions of the table lack these columns.
    rows = await connection.fetch(
        """
        select number, checksum, coalesce((to_jsonb(m) ->> 'needs')::integer, 0) as needs,
            to_jsonb(m) ->> 'least_version' as version
        from pilotis.migrations m
        """
    )
    applied: dict[int, str] = {number: checksum for number, checksum, _, _ in rows}
    known = all_migrations()
    needs, version = max(
        ((needs, version) for _, _, needs, version in rows), default=(0, None), key=lambda pair: pair[0]
    )
    _require_compatible(applied, needs, version, known)
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationError(
                f"Migration {migration.name} has changed since it was applied to this database, so this version cannot "
                "upgrade it. Start the version that last ran on it, export the tables with `pilotis table export`, and "
                "import them into a new database."
            )
    return [migration for migration in known if migration.number not in applied], not applied


@asynccontextmanager
async def _locked(connection: Connection) -> AsyncGenerator[None]:
    """Hold the lock of migrations.

    It is asked for again and again: an index that is built beside writers would wait for a statement that waits here.
    """
    while not await connection.fetchval("select pg_try_advisory_lock($1)", _LOCK):  # noqa: ASYNC110 - PostgreSQL sets no event
        await asyncio.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)


async def _list(connection: Connection, waiting: list[Migration]) -> None:
    """Store which migrations wait, for operators and other processes."""
    await connection.executemany(
        """
        insert into pilotis.pending_migrations (number, name, needs) values ($1, $2, $3) on conflict do nothing
        """,
        [(migration.number, migration.name, migration.needs) for migration in waiting],
    )


async def require_current(connection: Connection) -> None:
    """Raise `MigrationError` unless this version works on the schema.

    That is one with all of its migrations, and with newer ones only if this version need not know them.
    """
    if missing := await pending(connection):
        raise MigrationError(f"Migration {missing[0].name} has not been applied to this database.")


def _require_compatible(applied: Collection[int], needs: int, version: str | None, known: list[Migration]) -> None:
    if needs <= known[-1].number:
        return
    needed = f"version {version} or a newer one" if version else "the version that wrote it, or a newer one"
    raise MigrationError(
        f"The database has migration {max(applied)}, and is used by versions that know migration {needs}; "
        f"this version of Pilotis knows those up to {known[-1].number}. Start it with {needed}."
    )


async def _apply_patiently(
    connection: Connection, migration: Migration, wait_seconds: float, waits: Callable[[str], object]
) -> None:
    """Apply a migration, again and again while other transactions use its tables, until the time is over."""
    began = time.monotonic()
    while True:
        left = wait_seconds - (time.monotonic() - began)
        try:
            await _apply(connection, migration, max(min(_QUEUE_SECONDS, left), 0.1))
            return
        except (LockNotAvailableError, DeadlockDetectedError) as error:
            sentence = f"Migration {migration.name} waits for {await _holders(connection)}."
            if left <= _QUEUE_SECONDS:
                raise MigrationError(
                    f"{sentence} It has waited {wait_seconds:g} s; nothing of it was applied. Let that end, or end it "
                    "with pg_terminate_backend, and start again; the setting migration_wait_seconds says how long to "
                    "wait."
                ) from error
            waits(sentence)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _holders(connection: Connection) -> str:
    """Return which other transactions have locks on tables of Pilotis, those that began first, as words."""
    rows = await connection.fetch(
        """
        select a.pid, a.usename, a.application_name,
            extract(epoch from clock_timestamp() - a.xact_start)::float8 as seconds
        from pg_stat_activity a
        where a.datname = current_database() and a.pid <> pg_backend_pid() and exists (
            select from pg_locks l join pg_class c on c.oid = l.relation
            where l.pid = a.pid and l.granted and c.relnamespace = to_regnamespace('pilotis')
        )
        order by a.xact_start nulls last limit 3
        """
    )
    names = [
        f"process {pid} of PostgreSQL ({name or 'without a name'}, user {user}"
        + (f", in a transaction for {seconds:.0f} s)" if seconds is not None else ")")
        for pid, user, name, seconds in rows
    ]
    return ", ".join(names) or "a transaction that has just ended"


async def _apply(connection: Connection, migration: Migration, lock_seconds: float) -> None:
    if migration.concurrent_index:
        await _build_index(connection, migration, migration.concurrent_index, lock_seconds)
    async with connection.transaction():
        await connection.execute(f"set local {_lock_timeout(lock_seconds)}; set local statement_timeout = 0")
        if not migration.concurrent_index:
            await sharding.distribute_new_schemas(connection, False)
            await connection.execute(migration.sql)
        await _record(connection, migration)


async def _build_index(connection: Connection, migration: Migration, name: str, lock_seconds: float) -> None:
    """Build an index outside of a transaction, after removing what a run that failed has left of it."""
    await connection.execute(f"set {_lock_timeout(lock_seconds)}; set statement_timeout = 0")
    try:
        await connection.execute(f"drop index concurrently if exists pilotis.{name}")
        await connection.execute(migration.sql)
    finally:
        await connection.execute("reset lock_timeout; reset statement_timeout")


async def _record(connection: Connection, migration: Migration) -> None:
    await connection.execute(
        "insert into pilotis.migrations (number, name, checksum) values ($1, $2, $3)",
        migration.number,
        migration.name,
        migration.checksum,
    )
    # The first migrations create the columns of the last ones.
    if migration.needs:
        await connection.execute(
            "update pilotis.migrations set needs = $2 where number = $1", migration.number, migration.needs
        )
    if migration.phase == "contract":
        await connection.execute(
            "update pilotis.migrations set least_version = $2 where number = $1",
            migration.number,
            migration.least_version,
        )
        await connection.execute("delete from pilotis.pending_migrations where number = $1", migration.number)


def _lock_timeout(seconds: float) -> str:
    return f"lock_timeout = {round(seconds * 1000)}"
