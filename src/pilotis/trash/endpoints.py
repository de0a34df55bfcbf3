"""The console routes of the trash."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, delete, get, post
from pilotis.http.principals import Access
from pilotis.tables.columns import ColumnExistsError, ColumnNotFoundError, RowsDoNotFitError
from pilotis.tables.service import (
    TableBusyError,
    TableNotFoundError,
    TitleTakenError,
)
from pilotis.trash.service import Trashes
from pilotis.trash.types import ColumnDone, Emptied, TableDone, Trash

_TABLE = "/v1/apps/:app_id/trash/tables/:table_id"
_COLUMN = f"{_TABLE}/columns/:number"
_LARGEST_NUMBER = 2**31 - 1


class TrashEndpoints(Endpoints, tag="Trash"):
    """Dropped tables and columns, for console users."""

    def __init__(self, trashes: Trashes) -> None:
        self._trashes = trashes

    @get("/v1/apps/:app_id/trash", access=Access.APP_VIEWER)
    async def contents(self, call: Call, app_id: UUID) -> Trash:
        """List what can be restored: tables, and columns of tables that are not in the trash themselves."""
        return await self._trashes.contents(call.app)

    @post(f"{_TABLE}/restore", access=Access.APP_EDITOR, errors=[TableNotFoundError, TitleTakenError, TableBusyError])
    async def restore_table(self, call: Call, app_id: UUID, table_id: UUID) -> TableDone:
        """Restore a dropped table with its rows, columns and the trash of its columns."""
        await self._trashes.restore_table(call.app, call.actor, table_id)
        return TableDone("Table restored.", table_id)

    @post(
        f"{_COLUMN}/restore",
        access=Access.APP_EDITOR,
        errors=[TableNotFoundError, ColumnNotFoundError, ColumnExistsError, RowsDoNotFitError, TableBusyError],
    )
    async def restore_column(self, call: Call, app_id: UUID, table_id: UUID, number: str) -> ColumnDone:
        """Restore a dropped column with its values, in its old place.

        If the table has had no schema meanwhile, rows keep what they have been given under the column's name since;
        the answer is 409 `ROWS_DO_NOT_FIT` if that is not of the column's type.
        """
        place = _number(number)
        name = await self._trashes.restore_column(call.app, call.actor, table_id, place)
        return ColumnDone("Column restored.", table_id, place, name)

    @delete(_TABLE, access=Access.APP_EDITOR, errors=[TableNotFoundError, TableBusyError])
    async def purge_table(self, call: Call, app_id: UUID, table_id: UUID) -> TableDone:
        """End a dropped table for good."""
        await self._trashes.purge_table(call.app.app_id, call.actor, table_id)
        return TableDone("Table deleted for good.", table_id)

    @delete(_COLUMN, access=Access.APP_EDITOR, errors=[TableNotFoundError, ColumnNotFoundError, TableBusyError])
    async def purge_column(self, call: Call, app_id: UUID, table_id: UUID, number: str) -> ColumnDone:
        """End a dropped column for good."""
        place = _number(number)
        name = await self._trashes.purge_column(call.app.app_id, call.actor, table_id, place)
        return ColumnDone("Column deleted for good.", table_id, place, name)

    @delete("/v1/apps/:app_id/trash", access=Access.APP_EDITOR, errors=[TableBusyError])
    async def empty(self, call: Call, app_id: UUID) -> Emptied:
        """End everything in the trash for good."""
        return await self._trashes.empty(call.app, call.actor)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST_NUMBER):
        raise ColumnNotFoundError("The trash holds no such column of this table.")
    return int(text)
