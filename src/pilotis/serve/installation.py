"""What a database needs before anybody serves from it. Several nodes may do this at once on an empty one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from asyncpg import Connection

from pilotis import master_key
from pilotis.db import migrations
from pilotis.db.pool import Database
from pilotis.http.principals import OPERATOR
from pilotis.kit import json
from pilotis.kit.crypto import fingerprint
from pilotis.serve.errors import CommandError
from pilotis.server import Services
from pilotis.settings import Settings
from pilotis.tables.schema import AccessLevel
from pilotis.tables.types import TableDefinition

OLDEST_POSTGRES = 15
_FIRST_START_LOCK = 0x46495253  # "FIRS"
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)


class MasterKeyError(CommandError):
    """The master key here is not the one the database was set up with."""


class Sample(NamedTuple):
    """What the first start made to try things with: an app and a table of it that its public key may use."""

    app_id: UUID
    public_key: str
    table_id: UUID


class Prepared(NamedTuple):
    """A database that is ready. `sample` is set on the very first start, `setup_token` while nobody can sign in."""

    sample: Sample | None
    setup_token: str | None


async def connect(connect_arguments: dict[str, Any]) -> Connection:
    """Open a connection without a statement timeout; raises `CommandError` with the reason."""
    database = Database(connect_arguments, statement_seconds=0)
    try:
        connection = await database.open_connection()
    except _UNREACHABLE as error:
        raise CommandError(f"The database cannot be reached: {_reason(error)}.") from error
    version = connection.get_server_version()
    if version.major < OLDEST_POSTGRES:
        await connection.close()
        raise CommandError(f"The database is PostgreSQL {version.major}; Pilotis needs {OLDEST_POSTGRES} or newer.")
    return connection


async def prepare(settings: Settings, connect_arguments: dict[str, Any]) -> Prepared:
    """Bring the database to this version, check the master key, and make the first app where there never was one.

    Raises `CommandError` or `MigrationError`.
    """
    connection = await connect(connect_arguments)
    try:
        await migrations.migrate(connection)
        await require_master_key(connection, settings)
        async with _services(settings, connect_arguments) as services:
            # The lock is the session's: it goes when the connection does.
            await connection.execute("select pg_advisory_lock($1)", _FIRST_START_LOCK)
            sample = await _first_app(connection, services)
            return Prepared(sample, await services.users.new_setup_token())
    finally:
        await connection.close()


async def require_master_key(connection: Connection, settings: Settings) -> None:
    """Raise `MasterKeyError` unless the master key is the database's; a database without one takes ours.

    A key is made only for a database that has none.
    """
    if not await _stored_fingerprint(connection):
        await connection.execute(
            "insert into pilotis.installation (key, value) values ('master_key', $1) on conflict do nothing",
            json.encode({"fingerprint": fingerprint(master_key.load(settings))}).decode(),
        )
    if problem := await master_key_problem(connection, settings):
        raise MasterKeyError(problem)


async def master_key_problem(connection: Connection, settings: Settings) -> str | None:
    """Return a sentence if the master key is absent here, or neither it nor the previous one is the database's."""
    keys = master_key.existing_keys(settings)
    place = master_key.place(settings)
    if keys is None:
        return (
            f"The database was set up with a master key, and {place} does not hold it; "
            "set PILOTIS_MASTER_KEY, or copy the file from the first node."
        )
    stored = await _stored_fingerprint(connection)
    if stored and stored not in map(fingerprint, keys.accepted):
        return (
            f"The master key in {place} is not the one this database was set up with; "
            "use that one on every node, or tokens and encrypted values cannot be read."
        )
    return None


async def _stored_fingerprint(connection: Connection) -> str | None:
    stored: str | None = await connection.fetchval(
        "select value ->> 'fingerprint' from pilotis.installation where key = 'master_key'"
    )
    return stored


async def _first_app(connection: Connection, services: Services) -> Sample | None:
    """Make the first app with a table in it, once in the life of a database; None when that is past."""
    made = await connection.fetchval(
        "select exists (select from pilotis.apps) or exists (select from pilotis.installation where key = 'first_app')"
    )
    if made:
        return None
    app = await services.apps.create("first app", None)
    table = TableDefinition("notes", {"text": {"type": "string", "required": True}}, AccessLevel.PUBLIC)
    table_id = await services.tables.create(await services.apps.by_id(app.app_id), OPERATOR, table)
    await connection.execute(
        "insert into pilotis.installation (key, value) values ('first_app', $1)",
        json.encode({"app_id": app.app_id}).decode(),
    )
    return Sample(app.app_id, app.public_key, table_id)


@asynccontextmanager
async def _services(settings: Settings, connect_arguments: dict[str, Any]) -> AsyncGenerator[Services]:
    database = Database(connect_arguments, size=2)
    services = Services(settings, database)
    try:
        yield services
    finally:
        services.passwords.close()
        await database.close()


def _reason(error: BaseException) -> str:
    return (getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)).strip().rstrip(".")
