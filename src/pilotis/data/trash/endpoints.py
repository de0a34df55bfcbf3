"""The console routes of the trash."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.tables.columns import ColumnExistsError, ColumnNotFoundError, RowsDoNotFitError
from pilotis.data.tables.service import TableBusyError, TableNotFoundError, TitleTakenError
from pilotis.data.trash.service import TrashService
from pilotis.data.trash.types import EmptiedTrash, Trash, TrashColumnResult, TrashTableResult
from pilotis.http.api.endpoint import Endpoints, delete, get, post
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Whole

_TABLE = "/v1/apps/:app_id/trash/tables/:table_id"
_COLUMN = f"{_TABLE}/columns/:number"
_LARGEST_NUMBER = 2**31 - 1


class TrashEndpoints(Endpoints, tag="Trash"):
    """Dropped tables and columns, for console users."""

    def __init__(self, trash: TrashService) -> None:
        self._trash = trash

    @get("/v1/apps/:app_id/trash", access=Access.APP_VIEWER)
    async def contents(self, call: Call, app_id: UUID, query: Whole) -> Trash:
        """List what can be restored: tables, and columns of tables that are not in the trash themselves."""
        return await self._trash.contents(call.app)

    @post(f"{_TABLE}/restore", access=Access.APP_EDITOR, errors=[TableNotFoundError, TitleTakenError, TableBusyError])
    async def restore_table(self, call: Call, app_id: UUID, table_id: UUID) -> TrashTableResult:
        """Restore a dropped table with its rows, columns and the trash of its columns."""
        await self._trash.restore_table(call.app, call.actor, table_id)
        return TrashTableResult("Table restored.", table_id)

    @post(
        f"{_COLUMN}/restore",
        access=Access.APP_EDITOR,
        errors=[TableNotFoundError, ColumnNotFoundError, ColumnExistsError, RowsDoNotFitError, TableBusyError],
    )
    async def restore_column(self, call: Call, app_id: UUID, table_id: UUID, number: str) -> TrashColumnResult:
        """Restore a dropped column with its values, at its old position.

        If the table was free-form since then, rows keep the newer values under the column's name; the error is 409
        `ROWS_DO_NOT_FIT` if these are not of the column's type.
        """
        place = _number(number)
        name = await self._trash.restore_column(call.app, call.actor, table_id, place)
        return TrashColumnResult(message="Column restored.", id=table_id, number=place, name=name)

    @delete(_TABLE, access=Access.APP_EDITOR, errors=[TableNotFoundError, TableBusyError])
    async def purge_table(self, call: Call, app_id: UUID, table_id: UUID) -> TrashTableResult:
        """Permanently delete a dropped table."""
        await self._trash.purge_table(call.app.app_id, call.actor, table_id)
        return TrashTableResult("Table deleted permanently.", table_id)

    @delete(_COLUMN, access=Access.APP_EDITOR, errors=[TableNotFoundError, ColumnNotFoundError, TableBusyError])
    async def purge_column(self, call: Call, app_id: UUID, table_id: UUID, number: str) -> TrashColumnResult:
        """Permanently delete a dropped column."""
        place = _number(number)
        name = await self._trash.purge_column(call.app.app_id, call.actor, table_id, place)
        return TrashColumnResult(message="Column deleted permanently.", id=table_id, number=place, name=name)

    @delete("/v1/apps/:app_id/trash", access=Access.APP_EDITOR, errors=[TableBusyError])
    async def empty(self, call: Call, app_id: UUID) -> EmptiedTrash:
        """Permanently delete everything in the trash."""
        return await self._trash.empty(call.app, call.actor)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST_NUMBER):
        raise ColumnNotFoundError("The trash has no such column of this table.")
    return int(text)
