"""`pilotis doctor`: is everything there that this server needs? Looks at everything, changes nothing."""

from __future__ import annotations

import asyncio
import enum
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from asyncpg import Connection

from pilotis import master_key
from pilotis.cli import exposure
from pilotis.db import migrations
from pilotis.db.migrations import MigrationError
from pilotis.rows.indexes.service import report as index_report
from pilotis.serve import data_directory, database, installation
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings, SettingsError

EXTENSIONS = {
    "pg_trgm": "search and autocomplete",
    "cube": "geo queries",
    "earthdistance": "geo queries",
    "btree_gin": "search together with other conditions",
    "unaccent": "search that ignores accents",
    "fuzzystrmatch": "autocomplete despite typing errors",
}
_LEAST_FREE_BYTES = 1 << 30
_MOST_CLOCK_SECONDS = 1.0


class Level(enum.Enum):
    """How a finding bears on serving."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """One thing looked at."""

    level: Level
    sentence: str


def examine(settings: Settings, app_id: UUID | None) -> list[Finding]:
    """Return what was found; raises `CommandError` only for an app that does not exist."""
    findings = _data_directory(Path(settings.data_dir))
    try:
        with database.for_command(settings) as source:
            return findings + asyncio.run(_database(settings, source.connect_arguments, app_id))
    except _AppNotFoundError:
        raise
    except CommandError as error:
        return [*findings, Finding(Level.PROBLEM, str(error))]


class _AppNotFoundError(CommandError):
    pass


def _data_directory(directory: Path) -> list[Finding]:
    if not directory.is_dir():
        return [Finding(Level.NOTE, f"The data directory {directory} is not there yet; `pilotis serve` makes it.")]
    findings = [Finding(Level.OK, f"The data directory is {directory.absolute()}.")]
    mode = directory.stat().st_mode & 0o777
    if mode & ~data_directory.MODE:
        findings.append(Finding(Level.PROBLEM, f"{directory} has mode {mode:04o}; others may enter it: chmod 700 it."))
    free = shutil.disk_usage(directory).free
    level = Level.OK if free >= _LEAST_FREE_BYTES else Level.PROBLEM
    findings.append(Finding(level, f"{free / (1 << 30):.1f} GiB are free on its disk; at least 1 should be."))
    return findings


async def _database(settings: Settings, connect_arguments: dict[str, Any], app_id: UUID | None) -> list[Finding]:
    connection = await installation.connect(connect_arguments)
    try:
        version = connection.get_server_version()
        findings = [
            Finding(Level.OK, f"The database answers; it is PostgreSQL {version.major}.{version.minor}."),
            *await _extensions(connection),
            await _clock(connection),
        ]
        ready = await _migrations(connection)
        findings.append(ready)
        if ready.level is Level.OK:
            findings += await _master_key(connection, settings)
            findings += [Finding(Level.OK, sentence) for sentence in await index_report(connection)]
            if app_id is not None:
                findings += await _app(connection, app_id)
        return findings
    finally:
        await connection.close()


async def _extensions(connection: Connection) -> list[Finding]:
    rows = await connection.fetch("select name from pg_available_extensions where name = any($1)", list(EXTENSIONS))
    absent = EXTENSIONS.keys() - {row["name"] for row in rows}
    if not absent:
        return [Finding(Level.OK, f"The extensions {', '.join(EXTENSIONS)} are available.")]
    return [
        Finding(Level.NOTE, f"The extension {name} is not available; {purpose} will be missing.")
        for name, purpose in EXTENSIONS.items()
        if name in absent
    ]


async def _clock(connection: Connection) -> Finding:
    before = time.time()
    there: float = await connection.fetchval("select extract(epoch from clock_timestamp())::float8")
    after = time.time()
    # What the question itself took is no difference.
    difference = max(before - there, there - after, 0.0)
    sentence = f"The clocks of this machine and of the database differ by {difference:.3f} s."
    if difference <= _MOST_CLOCK_SECONDS:
        return Finding(Level.OK, sentence)
    return Finding(Level.PROBLEM, f"{sentence} Tokens expire by both: synchronise them.")


async def _migrations(connection: Connection) -> Finding:
    try:
        missing = await migrations.pending(connection)
    except MigrationError as error:
        return Finding(Level.PROBLEM, str(error))
    if missing:
        names = ", ".join(migration.name for migration in missing)
        return Finding(Level.PROBLEM, f"Migrations are pending: {names}; `pilotis migrate` applies them.")
    return Finding(Level.OK, "No migration is pending.")


async def _master_key(connection: Connection, settings: Settings) -> list[Finding]:
    try:
        problem = await installation.master_key_problem(connection, settings)
        keys = master_key.existing_keys(settings)
    except SettingsError as error:
        return [Finding(Level.PROBLEM, " ".join(error.problems))]
    if problem or keys is None:
        return [Finding(Level.PROBLEM, problem or "There is no master key.")]
    findings = [Finding(Level.OK, "The master key is the one of this database.")]
    if keys.previous is not None:
        findings.append(
            Finding(
                Level.NOTE,
                "A previous master key is accepted too; `pilotis key rotate-master --forget-previous` ends it.",
            )
        )
    return findings


async def _app(connection: Connection, app_id: UUID) -> list[Finding]:
    found = await exposure.of_app(connection, app_id)
    if found is None:
        raise _AppNotFoundError(f"There is no app {app_id}; `pilotis app list` shows those there are.")
    return [Finding(Level.NOTE if open_ else Level.OK, sentence) for open_, sentence in exposure.told(found)]
