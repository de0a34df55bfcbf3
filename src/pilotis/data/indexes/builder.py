"""Builds and drops indexes in the background, on one connection that holds the lock for it.

Both happen CONCURRENTLY, so writers never wait. A build that is interrupted leaves an index that PostgreSQL keeps up
to date and no query uses; the next run finds it, drops it, and starts again. Each build is recorded before it begins,
so no index exists that is not in the catalogue.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.data.indexes import store
from pilotis.data.indexes.definitions import Definition, column_of_words
from pilotis.data.indexes.drop_blocking_index import TOO_LONG
from pilotis.data.indexes.selection import Wanted
from pilotis.data.tables import vectors
from pilotis.data.tables.index_builds import APPLICATION_NAME
from pilotis.data.tables.schema import TableSchema, VectorState
from pilotis.data.tables.service import TableBusyError, TableNotFoundError, Tables
from pilotis.data.where.access_patterns import AccessPattern, decode
from pilotis.db.connecting import set_client_seconds
from pilotis.db.extensions import ExtensionMissingError, Extensions
from pilotis.db.topics import Topic, publish
from pilotis.kit.errors import NotFoundError
from pilotis.limits import Limits

OVER_BUDGET = "The table's indexes together would be too large."
_log = structlog.get_logger("pilotis.indexes")


async def prepare(connection: Connection) -> None:
    """Prepare a connection for long statements. Schema changes find it by its name and may interrupt it."""
    await connection.execute(
        f"set application_name = '{APPLICATION_NAME}'; set statement_timeout = 0; set lock_timeout = 0"
    )
    set_client_seconds(connection, None)
    # Where the platform supports it, a build ends with the node that began it.
    with suppress(asyncpg.PostgresError):
        await connection.execute("set client_connection_check_interval = '2s'")


async def recover(connection: Connection) -> None:
    """Clean up after interrupted builds: mark finished indexes as ready and drop unfinished ones."""
    for row in await store.unfinished(connection):
        key = row.app_id, row.table_id, row.name
        if row.valid:
            await store.ready(connection, *key)
        else:
            await store.interrupt(connection, *key)
    for name in await store.invalid(connection):
        _log.info("unfinished index dropped", index=name)
        await connection.execute(f"drop index concurrently if exists {name}")


async def build(connection: Connection, wanted: Wanted, limits: Limits, extensions: Extensions, tables: Tables) -> bool:
    """Build an index; False if a schema change interrupted it and the build must wait."""
    table, name = wanted.table, wanted.definition.name(wanted.table)
    await store.begin(connection, table, name, wanted.use, wanted.hits, wanted.total_ms)
    try:
        await _store_words(connection, wanted, tables)
        await _create(connection, table, wanted.definition, extensions)
    except (asyncpg.QueryCanceledError, asyncpg.UndefinedColumnError, TableBusyError, NotFoundError):
        return False
    except (asyncpg.PostgresError, ExtensionMissingError) as error:
        await _record_failure(connection, wanted, _reason(error), tables)
        return True
    await store.ready(connection, table.app_id, table.table_id, name)
    rows = await store.of_table(connection, table.app_id, table.table_id)
    _, table_bytes = await store.size(connection, table)
    if sum(row.size_bytes for row in rows) > table_bytes * limits.index_percent / 100:
        await _record_failure(connection, wanted, OVER_BUDGET, tables)
        return True
    await store.reset_pattern(connection, table, wanted.text)
    # Every node must discard its prepared statements for the table.
    await publish(connection, Topic.TABLE, f"{table.app_id}/{table.table_id}")
    _log.info("index built", table_id=str(table.table_id), index=name, use=wanted.text)
    return True


async def drop_idle(connection: Connection, days: int, tables: Tables) -> None:
    """Drop the indexes that no query has used for `idle_days`, and the words that were stored for them."""
    for row in await store.idle(connection, days):
        await connection.execute(f"drop index concurrently if exists {row.schema}.{row.name}")
        reason = f"No query used it for {days} days."
        await store.dropped(connection, row.app_id, row.table_id, row.name, reason)
        await _drop_words(tables, row.app_id, row.table_id, decode(row.use))
        _log.info("unused index dropped", table_id=str(row.table_id), index=row.name)


async def _store_words(connection: Connection, wanted: Wanted, tables: Tables) -> None:
    """Store the words of an indexed search column in every row that lacks them."""
    table = wanted.table
    column = column_of_words(table, wanted.use)
    if column is None or column.vector is VectorState.STORED:
        return
    if column.vector is None:
        await tables.add_words(table.app_id, table.table_id, column.number)
    await vectors.fill(connection, table, column)
    await tables.mark_words_stored(connection, table, column.number)


async def _drop_words(tables: Tables, app_id: UUID, table_id: UUID, use: AccessPattern) -> None:
    with suppress(TableNotFoundError):
        column = column_of_words(await tables.current(app_id, table_id), use)
        if column is not None and column.vector:
            await tables.drop_words(app_id, table_id, column.number)


async def _create(connection: Connection, table: TableSchema, definition: Definition, extensions: Extensions) -> None:
    schema = await extensions.schema(definition.extension) if definition.extension else ""
    await connection.execute(definition.create(table, schema))
    # Updates the planner's statistics, and allows index-only scans for counts.
    await connection.execute(f"vacuum (analyze) {table.physical}")


async def _record_failure(connection: Connection, wanted: Wanted, reason: str, tables: Tables) -> None:
    name = wanted.definition.name(wanted.table)
    schema = f"app_{wanted.table.app_id.hex}"
    await connection.execute(f"drop index concurrently if exists {schema}.{name}")
    await store.fail(connection, wanted.table, name, reason)
    await _drop_words(tables, wanted.table.app_id, wanted.table.table_id, wanted.use)
    await store.reset_pattern(connection, wanted.table, wanted.text)
    _log.warning("index not built", table_id=str(wanted.table.table_id), index=name, reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, asyncpg.ProgramLimitExceededError):
        return TOO_LONG
    if isinstance(error, ExtensionMissingError):
        return error.text
    return f"PostgreSQL rejected it: {type(error).__name__.removesuffix('Error')}."
