"""Prepares a database for serving. Several nodes may do this at once on an empty database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.apps.feature import AppsFeature
from pilotis.blobs.errors import InvalidStoreUrlError
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.tables.schema import AccessLevel
from pilotis.data.tables.types import TableDefinition
from pilotis.db import migrations
from pilotis.db.pool import Database
from pilotis.feature import Features
from pilotis.floor import Floor, open_floor
from pilotis.http.api.principals import OPERATOR
from pilotis.jobs.node import expire_nodes
from pilotis.kit import json
from pilotis.kit.crypto import fingerprint
from pilotis.security import master_key
from pilotis.serve import snapshot as snapshots
from pilotis.serve.errors import CommandError
from pilotis.settings import Settings
from pilotis.users.feature import UsersFeature

OLDEST_POSTGRES = 15
_FIRST_START_LOCK = 0x46495253  # "FIRS"
_log = structlog.get_logger("pilotis.installation")
_UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)


class MasterKeyError(CommandError):
    """The master key is not the one with which the database was set up."""


class Sample(NamedTuple):
    """What the first start created to experiment with: an app, and a table that its public key may use."""

    app_id: UUID
    public_key: str
    table_id: UUID


class Prepared(NamedTuple):
    """A database that is ready. `sample` is set on the first start, `setup_token` while there is no console user.

    `applied` has the names of the migrations that an existing database lacked, `snapshot` a sentence that says where
    its copy of before them is.
    """

    sample: Sample | None
    setup_token: str | None
    applied: Sequence[str] = ()
    snapshot: str | None = None


async def connect(connect_arguments: dict[str, Any]) -> Connection:
    """Open a connection without a statement timeout; raises `CommandError` with the reason."""
    database = Database(connect_arguments)
    try:
        connection = await database.dedicated(name="command", statement_seconds=0)
    except _UNREACHABLE as error:
        raise CommandError(f"The database cannot be reached: {_reason(error)}.") from error
    version = connection.get_server_version()
    if version.major < OLDEST_POSTGRES:
        await connection.close()
        raise CommandError(f"The database is PostgreSQL {version.major}; Pilotis needs {OLDEST_POSTGRES} or newer.")
    return connection


async def prepare(settings: Settings, connect_arguments: dict[str, Any], *, snapshot: bool = True) -> Prepared:
    """Migrate the database, and create the first app if there has never been one.

    With `snapshot` an embedded database is copied before it is migrated.

    Whatever can be wrong with the settings, the master key and the object store is found before the first migration:
    after one, the version before might not start any more. Raises `CommandError`, `SettingsError` or `MigrationError`.
    """
    connection = await connect(connect_arguments)
    try:
        missing = await migrations.pending(connection)
        is_new = len(missing) == len(migrations.all_migrations())
        if (
            not is_new
            and await _stored_fingerprint(connection)
            and (problem := await master_key_problem(connection, settings))
        ):
            raise MasterKeyError(problem)
        async with _features(settings, connect_arguments) as features:
            copied, seconds = None, settings.migration_wait_seconds
            due = [] if is_new else [*missing, *await migrations.contracts(connection)]
            if due and snapshot:
                copied = await snapshots.take(settings, connect_arguments, due)
            applied = await migrations.migrate(connection, wait_seconds=seconds, waits=_say)
            if settings.database_url is None:
                # No other server can use an embedded database, so every process in the table has died.
                await expire_nodes(connection)
                applied += await migrations.contract(connection, wait_seconds=seconds, waits=_say)
            if applied and not is_new:
                _log.info("database migrated", applied=applied, snapshot=copied)
            if copied:
                snapshots.forget_older(settings, due)
            await require_master_key(connection, settings)
            # A session lock: it is released when the connection closes.
            await connection.execute("select pg_advisory_lock($1)", _FIRST_START_LOCK)
            sample = await _first_app(connection, features)
            token = await features.get(UsersFeature).users.new_setup_token()
            return Prepared(sample, token, () if is_new else applied, copied)
    finally:
        await connection.close()


def _say(sentence: str) -> None:
    _log.warning("migration waits", reason=sentence)


async def require_master_key(connection: Connection, settings: Settings) -> None:
    """Raise `MasterKeyError` unless the master key is the database's; a database without one adopts ours.

    A new key is generated only for a database that has none.
    """
    if not await _stored_fingerprint(connection):
        await connection.execute(
            "insert into pilotis.installation (key, value) values ('master_key', $1) on conflict do nothing",
            json.encode({"fingerprint": fingerprint(master_key.load(settings))}).decode(),
        )
    if problem := await master_key_problem(connection, settings):
        raise MasterKeyError(problem)


async def master_key_problem(connection: Connection, settings: Settings) -> str | None:
    """Return a sentence if the master key is missing, or if neither it nor the previous one fits; else None."""
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


async def _first_app(connection: Connection, features: Features) -> Sample | None:
    """Create the first app with a table in it, once in the lifetime of a database; None if that has been done."""
    made = await connection.fetchval(
        "select exists (select from pilotis.apps) or exists (select from pilotis.installation where key = 'first_app')"
    )
    if made:
        return None
    apps, tables = features.get(AppsFeature).apps, features.get(TablesFeature).tables
    app_id, public_key = await apps.create_sample("first app")
    table = TableDefinition("notes", {"text": {"type": "string", "required": True}}, AccessLevel.PUBLIC)
    table_id = await tables.create(await apps.by_id(app_id), OPERATOR, table)
    await connection.execute(
        "insert into pilotis.installation (key, value) values ('first_app', $1)",
        json.encode({"app_id": app_id}).decode(),
    )
    return Sample(app_id, public_key, table_id)


@asynccontextmanager
async def _features(settings: Settings, connect_arguments: dict[str, Any]) -> AsyncGenerator[Features]:
    """Create all features, as a server does, and so find what prevents it, such as an object store without a place."""
    from pilotis.server import FEATURES  # here: commands use this module too, and most need only a few features

    database = Database(connect_arguments, size=2)
    floor = _floor(settings, database)
    features = Features(floor)
    try:
        try:
            for kind in FEATURES:
                features.get(kind)
        except ValueError as error:
            raise CommandError(str(error)) from error
        yield features
    finally:
        await floor.close_passwords()
        await floor.close_blobs()
        await database.close()


def _floor(settings: Settings, database: Database) -> Floor:
    try:
        floor = open_floor(settings, database)
    except OSError as error:
        raise CommandError(f"The master key cannot be stored: {_reason(error)}.") from error
    try:
        _ = floor.blobs
    except InvalidStoreUrlError as error:
        raise CommandError(f"blob_store: {error}") from error
    except OSError as error:
        place = settings.blob_store or settings.data_dir
        raise CommandError(f"The directory for files, {place}, cannot be used: {_reason(error)}.") from error
    return floor


def _reason(error: BaseException) -> str:
    return (getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)).strip().rstrip(".")
