"""Building and dropping indexes in the background, on the one connection that holds the right to.

Both are done CONCURRENTLY, so writers never wait. A build that dies half-way leaves an index that PostgreSQL keeps up
to date and no query uses; the next turn finds it, drops it, and begins again. Before it begins, a build is written
down, so nothing is ever there that nobody knows of.
"""

from __future__ import annotations

from contextlib import suppress

import asyncpg
import structlog
from asyncpg import Connection

from pilotis.db.extensions import ExtensionMissingError, Extensions
from pilotis.db.notifications import notify
from pilotis.limits import Limits
from pilotis.rows.indexes import store
from pilotis.rows.indexes.definitions import Definition
from pilotis.rows.indexes.making_way import TOO_LONG
from pilotis.rows.indexes.selection import Wanted
from pilotis.tables.built import APPLICATION_NAME
from pilotis.tables.schema import TableSchema
from pilotis.tables.service import TOPIC

OVER_BUDGET = "The table's indexes together would be too large."
_log = structlog.get_logger("pilotis.indexes")


async def prepare(connection: Connection) -> None:
    """Make a connection one that may work for long; schema changes know it by its name, and may interrupt it."""
    await connection.execute(
        f"set application_name = '{APPLICATION_NAME}'; set statement_timeout = 0; set lock_timeout = 0"
    )
    # Where the platform can tell, a build ends with the node that began it.
    with suppress(asyncpg.PostgresError):
        await connection.execute("set client_connection_check_interval = '2s'")


async def recover(connection: Connection) -> None:
    """Settle builds that ended without a word: what was finished is ready, what was not is dropped."""
    for row in await store.unfinished(connection):
        key = row["app_id"], row["table_id"], row["name"]
        if row["valid"]:
            await store.ready(connection, *key)
        else:
            await store.interrupt(connection, *key)
    for name in await store.invalid(connection):
        _log.info("unfinished index dropped", index=name)
        await connection.execute(f"drop index concurrently if exists {name}")


async def build(connection: Connection, wanted: Wanted, limits: Limits, extensions: Extensions) -> bool:
    """Build an index; False if a schema change interrupted it, and building is to wait."""
    table, name = wanted.table, wanted.definition.name(wanted.table)
    await store.begin(connection, table, name, wanted.use, wanted.hits, wanted.total_ms)
    try:
        await _create(connection, table, wanted.definition, extensions)
    except asyncpg.QueryCanceledError:
        return False
    except (asyncpg.PostgresError, ExtensionMissingError) as error:
        await _give_up(connection, wanted, _reason(error))
        return True
    await store.ready(connection, table.app_id, table.table_id, name)
    rows = await store.of_table(connection, table.app_id, table.table_id)
    _, table_bytes = await store.size(connection, table)
    if sum(row["size_bytes"] for row in rows) > table_bytes * limits.index_percent / 100:
        await _give_up(connection, wanted, OVER_BUDGET)
        return True
    await store.forget_use(connection, table, wanted.text)
    # Every node is to let go of the statements that it has prepared for the table.
    await notify(connection, TOPIC, f"{table.app_id}/{table.table_id}")
    _log.info("index built", table_id=str(table.table_id), index=name, use=wanted.text)
    return True


async def drop_idle(connection: Connection, days: int) -> None:
    """Drop what no query has used for so many days."""
    for row in await store.idle(connection, days):
        await connection.execute(f"drop index concurrently if exists {row['schema']}.{row['name']}")
        reason = f"No query used it for {days} days."
        await store.dropped(connection, row["app_id"], row["table_id"], row["name"], reason)
        _log.info("unused index dropped", table_id=str(row["table_id"]), index=row["name"])


async def _create(connection: Connection, table: TableSchema, definition: Definition, extensions: Extensions) -> None:
    schema = await extensions.schema(definition.extension) if definition.extension else ""
    await connection.execute(definition.create(table, schema))
    # For the planner's figures, and for counts that need the index only.
    await connection.execute(f"vacuum (analyze) {table.physical}")


async def _give_up(connection: Connection, wanted: Wanted, reason: str) -> None:
    name = wanted.definition.name(wanted.table)
    schema = f"app_{wanted.table.app_id.hex}"
    await connection.execute(f"drop index concurrently if exists {schema}.{name}")
    await store.fail(connection, wanted.table, name, reason)
    await store.forget_use(connection, wanted.table, wanted.text)
    _log.warning("index not built", table_id=str(wanted.table.table_id), index=name, reason=reason)


def _reason(error: Exception) -> str:
    if isinstance(error, asyncpg.ProgramLimitExceededError):
        return TOO_LONG
    if isinstance(error, ExtensionMissingError):
        return error.text
    return f"PostgreSQL refused it: {type(error).__name__.removesuffix('Error')}."
