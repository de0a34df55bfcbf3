"""Numbered plain SQL migrations, applied once, in order, under an advisory lock, each with a checksum."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import NamedTuple

from asyncpg import Connection

from pilotis.db import sharding

_LOCK = 0x50494C4F  # "PILO"
_NAME = re.compile(r"(\d{4})_\w+\.sql")


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


def all_migrations() -> list[Migration]:
    """Return every migration of this version, by number."""
    folder = resources.files("pilotis.db") / "sql"
    found = [
        Migration(int(match[1]), entry.name, entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return sorted(found)


async def migrate(connection: Connection) -> list[str]:
    """Apply the missing migrations and return the names of their files.

    Raises `MigrationError` if an applied file has changed since, or the database is newer than this program.
    """
    await connection.execute("select pg_advisory_lock($1)", _LOCK)
    try:
        names = await _migrate(connection)
        await sharding.configure_nodes(connection)
        return names
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)


async def pending(connection: Connection) -> list[Migration]:
    """Return the migrations that have not been applied; raises `MigrationError` as `migrate` does."""
    if not await connection.fetchval("select to_regclass('pilotis.migrations') is not null"):
        return all_migrations()
    applied = {row["number"]: row for row in await connection.fetch("select * from pilotis.migrations")}
    known = all_migrations()
    if newer := applied.keys() - {migration.number for migration in known}:
        raise MigrationError(
            f"The database has migration {max(newer)}, which this version of Pilotis does not know. "
            "Start it with the version that wrote it, or a newer one."
        )
    for migration in known:
        row = applied.get(migration.number)
        if row and row["checksum"] != migration.checksum:
            raise MigrationError(f"Migration {migration.name} has changed since it was applied to this database.")
    return [migration for migration in known if migration.number not in applied]


async def require_current(connection: Connection) -> None:
    """Raise `MigrationError` unless exactly the migrations of this version have been applied."""
    if missing := await pending(connection):
        raise MigrationError(f"Migration {missing[0].name} has not been applied to this database.")


async def _migrate(connection: Connection) -> list[str]:
    names = []
    for migration in await pending(connection):
        async with connection.transaction():
            await connection.execute("set local lock_timeout = '5s'; set local statement_timeout = 0")
            await sharding.distribute_new_schemas(connection, False)
            await connection.execute(migration.sql)
            await connection.execute(
                "insert into pilotis.migrations (number, name, checksum) values ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.checksum,
            )
        names.append(migration.name)
    return names
