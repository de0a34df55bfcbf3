"""The routes of tables and columns (interface: Tables and columns)."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, delete, get, patch, post
from pilotis.http.principals import Access, Role
from pilotis.tables.columns import (
    ColumnBeingRewrittenError,
    ColumnExistsError,
    ColumnNotFoundError,
    RowsDoNotFitError,
)
from pilotis.tables.schema import InvalidColumnNameError
from pilotis.tables.service import (
    SchemaLockedError,
    TableBusyError,
    TableNotFoundError,
    Tables,
    TitleTakenError,
)
from pilotis.tables.types import (
    ColumnChange,
    ColumnDone,
    ColumnList,
    Done,
    NewColumn,
    Table,
    TableDefinition,
    TableList,
)


class TableEndpoints(Endpoints, tag="Tables and columns"):
    """Tables and their columns, by the public key alone unless the app's schema is locked."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @get("/v1/public/tables", access=Access.PUBLIC_KEY)
    async def all(self, call: Call) -> TableList:
        """List the app's tables."""
        return TableList(await self._tables.all(call.app))

    @get("/v1/public/tables/:table_id", access=Access.PUBLIC_KEY, errors=[TableNotFoundError])
    async def read(self, call: Call, table_id: UUID) -> Table:
        """Read a table."""
        return await self._tables.read(call.app, table_id)

    @post(
        "/v1/public/tables",
        access=Access.PUBLIC_KEY,
        status=201,
        errors=[TitleTakenError, InvalidColumnNameError, SchemaLockedError],
    )
    async def create(self, call: Call, body: TableDefinition) -> Done:
        """Make a table.

        `schema` maps each column's name to its type, or to an object with `type` and the options `required`,
        `default`, `description`, `encrypted`. With an empty schema the table takes any field.
        """
        _require_unlocked(call)
        return Done("Table created.", await self._tables.create(call.app, call.actor, body))

    @patch(
        "/v1/public/tables/:table_id",
        access=Access.PUBLIC_KEY,
        errors=[
            TableNotFoundError,
            TitleTakenError,
            InvalidColumnNameError,
            RowsDoNotFitError,
            ColumnBeingRewrittenError,
            SchemaLockedError,
            TableBusyError,
        ],
    )
    async def replace(self, call: Call, table_id: UUID, body: TableDefinition) -> Done:
        """Replace a table's title, schema and access level.

        A column that is no longer in the schema goes to the trash for 7 days; one with another type is cast.
        """
        _require_unlocked(call)
        await self._tables.replace(call.app, call.actor, table_id, body)
        return Done("Table updated.", table_id)

    @delete(
        "/v1/public/tables/:table_id",
        access=Access.PUBLIC_KEY,
        errors=[TableNotFoundError, SchemaLockedError, TableBusyError],
    )
    async def drop(self, call: Call, table_id: UUID) -> Done:
        """Drop a table. A console user can restore it for 7 days."""
        _require_unlocked(call)
        await self._tables.drop(call.app, call.actor, table_id)
        return Done("Table deleted.", table_id)

    @get("/v1/public/tables/:table_id/columns", access=Access.PUBLIC_KEY, errors=[TableNotFoundError])
    async def columns(self, call: Call, table_id: UUID) -> ColumnList:
        """List a table's columns with their order."""
        return ColumnList(await self._tables.columns(call.app, table_id))

    @post(
        "/v1/public/tables/:table_id/columns",
        access=Access.PUBLIC_KEY,
        status=201,
        errors=[
            TableNotFoundError,
            ColumnExistsError,
            InvalidColumnNameError,
            RowsDoNotFitError,
            SchemaLockedError,
            TableBusyError,
        ],
    )
    async def add_column(self, call: Call, table_id: UUID, body: NewColumn) -> ColumnDone:
        """Add a column to a table."""
        _require_unlocked(call)
        await self._tables.add_column(call.app, call.actor, table_id, body)
        return ColumnDone("Column added.", body.name)

    @patch(
        "/v1/public/tables/:table_id/columns/:name",
        access=Access.PUBLIC_KEY,
        errors=[
            TableNotFoundError,
            ColumnNotFoundError,
            RowsDoNotFitError,
            ColumnBeingRewrittenError,
            SchemaLockedError,
            TableBusyError,
        ],
    )
    async def change_column(self, call: Call, table_id: UUID, name: str, body: ColumnChange) -> ColumnDone:
        """Change a column's type or options; what is not given stays.

        Another type casts the stored values. If some do not cast, nothing is changed and the answer counts them.
        `encrypted` rewrites them all, on a large table in the background; until then the column is what it was.
        """
        _require_unlocked(call)
        goes_on = await self._tables.change_column(call.app, call.actor, table_id, name, body)
        message = "Column updated; its values are rewritten in the background." if goes_on else "Column updated."
        return ColumnDone(message, name)

    @delete(
        "/v1/public/tables/:table_id/columns/:name",
        access=Access.PUBLIC_KEY,
        errors=[TableNotFoundError, ColumnNotFoundError, SchemaLockedError, TableBusyError],
    )
    async def drop_column(self, call: Call, table_id: UUID, name: str) -> ColumnDone:
        """Drop a column. A console user can restore it for 7 days."""
        _require_unlocked(call)
        await self._tables.drop_column(call.app, call.actor, table_id, name)
        return ColumnDone("Column deleted.", name)


def _require_unlocked(call: Call) -> None:
    if call.app.schema_locked and not call.principal.may(Role.EDITOR):
        raise SchemaLockedError
