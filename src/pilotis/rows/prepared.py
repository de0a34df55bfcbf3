"""From a table's id to a table ready for rows, and again when its schema turns out to be gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import asyncpg

from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.http.principals import AppInfo
from pilotis.kit.errors import UnavailableError
from pilotis.rows.indexes import making_way
from pilotis.rows.indexes.recorder import UseRecorder
from pilotis.rows.table import PreparedTable
from pilotis.tables.schema import TableSchema
from pilotis.tables.service import Tables

Result = TypeVar("Result")

_MOST_TRIES = 5
# What PostgreSQL says to a statement that was compiled for a schema that is gone.
TOO_OLD = (
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.DatatypeMismatchError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidCachedStatementError,
)


class PreparedTables:
    """Keeps each schema's prepared table beside it, so that both are forgotten together."""

    def __init__(
        self, database: Database, tables: Tables, encryption: Encryption, uses: UseRecorder | None = None
    ) -> None:
        self._database = database
        self._tables = tables
        self._encryption = encryption
        self._uses = uses

    async def use(self, app: AppInfo, table_id: UUID, action: Callable[[PreparedTable], Awaitable[Result]]) -> Result:
        """Run an action on the current schema; run it anew, validation included, if the schema turns out to be gone."""
        failed_version = None
        for _ in range(_MOST_TRIES):
            table = await self._tables.current(app.app_id, table_id)
            try:
                return await action(await self.prepare(table))
            except asyncpg.DeadlockDetectedError:
                # PostgreSQL undid this statement to let another one finish.
                continue
            except asyncpg.ProgramLimitExceededError as error:
                if not await self.made_way(table, error):
                    raise
            except TOO_OLD:
                if table.version == failed_version:
                    raise
                failed_version = table.version
                self._tables.forget(table)
        raise UnavailableError("The table is busy. Try again shortly.")

    async def current(self, app: AppInfo, table_id: UUID) -> PreparedTable:
        """Return a table ready for rows, perhaps a moment old; see `Tables.current`."""
        return await self.prepare(await self._tables.current(app.app_id, table_id))

    async def prepare(self, schema: TableSchema) -> PreparedTable:
        """Return the prepared table of a schema."""
        prepared: PreparedTable | None = schema.__dict__.get("prepared")
        if prepared is None:
            sealed = any(column.encrypted for column in schema.columns)
            cipher = await self._encryption.cipher(schema.app_id) if sealed else None
            prepared = schema.__dict__["prepared"] = PreparedTable(schema, self._database, cipher, self._uses)
        return prepared

    async def made_way(self, table: TableSchema, error: asyncpg.ProgramLimitExceededError) -> bool:
        """Drop the index of ours that could not hold a value being written; False if there was none."""
        return await making_way.make_way(self._database, table, error)

    def forget(self, table: PreparedTable) -> None:
        """Drop a table whose schema turned out to be gone."""
        self._tables.forget(table.schema)
