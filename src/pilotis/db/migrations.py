"""Numbered plain SQL migrations, applied once, in order, under an advisory lock, each with a checksum.

A migration *expands* the schema: the version before does not notice it. One that takes away or restricts something says
so in a line `-- needs: NUMBER`, the newest migration that a program must know to work on the database afterwards. So a
program can tell whether it works on a schema that is newer than itself.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
import time
from collections.abc import Callable, Collection
from importlib import resources
from typing import NamedTuple

from asyncpg import Connection, LockNotAvailableError

from pilotis.db import sharding

WAIT_SECONDS = 60.0
"""How long a migration waits for other transactions by default."""

_LOCK = 0x50494C4F  # "PILO"
_NAME = re.compile(r"(\d{4})_\w+\.sql")
_NEEDS = re.compile(r"^-- needs: (\d+)$", re.MULTILINE)
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
    """Apply the missing migrations and return the names of their files.

    A migration waits up to `wait_seconds` for transactions that use its tables; meanwhile `waits` is called with a
    sentence that says which ones. Raises `MigrationError` if they go on, if an applied file has changed since, or if
    the database is too new for this program.
    """
    await connection.execute("select pg_advisory_lock($1)", _LOCK)
    try:
        names = []
        for migration in await pending(connection):
            await _apply_patiently(connection, migration, wait_seconds, waits)
            names.append(migration.name)
        await sharding.configure_nodes(connection)
        return names
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)


async def pending(connection: Connection) -> list[Migration]:
    """Return the migrations that have not been applied.

    The database may have newer ones that this version need not know. Raises `MigrationError` as `migrate` does.
    """
    if not await connection.fetchval("select to_regclass('pilotis.migrations') is not null"):
        return all_migrations()
    # As JSON, because the first versions of the table lack the column `needs`.
    rows = await connection.fetch(
        """
        select number, checksum, coalesce((to_jsonb(m) ->> 'needs')::integer, 0) as needs from pilotis.migrations m
        """
    )
    applied: dict[int, str] = {number: checksum for number, checksum, _ in rows}
    known = all_migrations()
    _require_compatible(applied, max((needs for _, _, needs in rows), default=0), known)
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationError(
                f"Migration {migration.name} has changed since it was applied to this database, so this version cannot "
                "upgrade it. Start the version that last ran on it, export the tables with `pilotis table export`, and "
                "import them into a new database."
            )
    return [migration for migration in known if migration.number not in applied]


async def require_current(connection: Connection) -> None:
    """Raise `MigrationError` unless this version works on the schema.

    That is one with all of its migrations, and with newer ones only if this version need not know them.
    """
    if missing := await pending(connection):
        raise MigrationError(f"Migration {missing[0].name} has not been applied to this database.")


def _require_compatible(applied: Collection[int], needs: int, known: list[Migration]) -> None:
    if needs <= known[-1].number:
        return
    raise MigrationError(
        f"The database has migration {max(applied)}, and is used by versions that know migration {needs}; "
        f"this version of Pilotis knows those up to {known[-1].number}. "
        "Start it with the version that wrote it, or a newer one."
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
        except LockNotAvailableError as error:
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
    async with connection.transaction():
        await connection.execute(
            f"set local lock_timeout = {round(lock_seconds * 1000)}; set local statement_timeout = 0"
        )
        await sharding.distribute_new_schemas(connection, False)
        await connection.execute(migration.sql)
        await connection.execute(
            "insert into pilotis.migrations (number, name, checksum) values ($1, $2, $3)",
            migration.number,
            migration.name,
            migration.checksum,
        )
        if migration.needs:
            await connection.execute(
                "update pilotis.migrations set needs = $2 where number = $1", migration.number, migration.needs
            )
