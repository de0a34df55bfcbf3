"""The routes of tables and columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import msgspec

from pilotis.data.tables.columns import (
    ColumnBeingRewrittenError,
    ColumnExistsError,
    ColumnNotFoundError,
    RowsDoNotFitError,
)
from pilotis.data.tables.keys import KeyNotReadyError, UnknownKeyError
from pilotis.data.tables.references import (
    CascadeCycleError,
    NotForReferencesError,
    TableReferencedError,
    UsedAsProfilesError,
)
from pilotis.data.tables.schema import InvalidColumnNameError, NewReference, normal_path
from pilotis.data.tables.service import (
    RulesNeedEditorError,
    SchemaLockedError,
    TableBusyError,
    TableNotFoundError,
    Tables,
    TitleTakenError,
)
from pilotis.data.tables.types import (
    ColumnChange,
    ColumnList,
    ColumnRename,
    ColumnResult,
    NewColumn,
    ProfileTable,
    SchemaPreview,
    ShownProfileTable,
    Table,
    TableDefinition,
    TableList,
    TableResult,
)
from pilotis.http.api.endpoint import Endpoints, delete, get, patch, post, put
from pilotis.http.api.principals import Access, Role, console, public
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Whole
from pilotis.kit.errors import QueryTimeoutError
from pilotis.kit.ids import is_uuid

READ = public(scope="tables:read")
WRITE = public(scope="tables:write")


class TableEndpoints(Endpoints, tag="Tables and columns"):
    """Tables and their columns. The public key is sufficient unless the app's schema is locked."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @get("/v1/public/tables", access=READ)
    async def all(self, call: Call, query: Whole) -> TableList:
        """List the app's tables."""
        return TableList(await self._tables.all(call.app))

    @get("/v1/public/tables/:table_id", access=READ, errors=[TableNotFoundError])
    async def read(self, call: Call, table_id: UUID) -> Table:
        """Read a table."""
        return await self._tables.read(call.app, table_id)

    @post(
        "/v1/public/tables",
        access=WRITE,
        rate="schema",
        status=201,
        creates="table_id",
        again="created",
        errors=[
            TitleTakenError,
            InvalidColumnNameError,
            CascadeCycleError,
            NotForReferencesError,
            UnknownKeyError,
            KeyNotReadyError,
            SchemaLockedError,
            RulesNeedEditorError,
        ],
    )
    async def create(self, call: Call, body: TableDefinition) -> TableResult:
        """Create a table.

        `schema` maps each column's name to its type, or to an object with `type` and the options `required`,
        `default`, `description`, `encrypted`. With an empty schema the table accepts any field. With `rules` it is
        never open to others, not even until the next request.
        """
        await _require_unlocked(call, self._tables)
        _require_editor_for_rules(call, body)
        await _require_unlocked_targets(call, self._tables, _targets(body))
        table_id = await self._tables.create(call.app, call.actor, body, UUID(call.new_id()))
        return TableResult("Table created.", table_id)

    async def created(self, call: Call, table_id: UUID) -> TableResult:
        """Return the answer for a created table."""
        return TableResult("Table created.", (await self._tables.read(call.app, table_id)).id)

    @patch(
        "/v1/public/tables/:table_id",
        access=WRITE,
        rate="schema",
        errors=[
            TableNotFoundError,
            TitleTakenError,
            InvalidColumnNameError,
            RowsDoNotFitError,
            ColumnBeingRewrittenError,
            CascadeCycleError,
            NotForReferencesError,
            UnknownKeyError,
            KeyNotReadyError,
            SchemaLockedError,
            RulesNeedEditorError,
            TableBusyError,
        ],
    )
    async def replace(self, call: Call, table_id: UUID, body: TableDefinition) -> TableResult:
        """Replace a table's title, schema and access level, and its rules where they are given.

        Columns missing from the schema go to the trash for 7 days; columns with another type are cast.
        """
        await _require_unlocked(call, self._tables, table_id)
        _require_editor_for_rules(call, body)
        await _require_unlocked_targets(call, self._tables, _targets(body))
        await self._tables.replace(call.app, call.actor, table_id, body)
        return TableResult("Table updated.", table_id)

    @delete(
        "/v1/public/tables/:table_id",
        access=WRITE,
        rate="schema",
        errors=[TableNotFoundError, TableReferencedError, UsedAsProfilesError, SchemaLockedError, TableBusyError],
    )
    async def drop(self, call: Call, table_id: UUID) -> TableResult:
        """Drop a table. A console user can restore it for 7 days."""
        await _require_unlocked(call, self._tables, table_id)
        await self._tables.drop(call.app, call.actor, table_id)
        return TableResult("Table deleted.", table_id)

    @get("/v1/public/tables/:table_id/columns", access=READ, errors=[TableNotFoundError])
    async def columns(self, call: Call, table_id: UUID, query: Whole) -> ColumnList:
        """List a table's columns with their order."""
        return ColumnList(await self._tables.columns(call.app, table_id))

    @post(
        "/v1/public/tables/:table_id/columns",
        access=WRITE,
        rate="schema",
        status=201,
        creates="name",
        again="added",
        errors=[
            TableNotFoundError,
            ColumnExistsError,
            InvalidColumnNameError,
            RowsDoNotFitError,
            CascadeCycleError,
            NotForReferencesError,
            UnknownKeyError,
            KeyNotReadyError,
            SchemaLockedError,
            TableBusyError,
        ],
    )
    async def add_column(self, call: Call, table_id: UUID, body: NewColumn) -> ColumnResult:
        """Add a column to a table."""
        await _require_unlocked(call, self._tables, table_id)
        await _require_unlocked_targets(call, self._tables, [body.references] if body.references else [])
        await self._tables.add_column(call.app, call.actor, table_id, body)
        return ColumnResult("Column added.", table_id, normal_path(body.name))

    async def added(self, call: Call, table_id: UUID, body: NewColumn) -> ColumnResult:
        """Return the answer for an added column."""
        name = normal_path(body.name)
        for column in await self._tables.columns(call.app, table_id):
            if column.name == name and column.data_type == body.data_type:
                return ColumnResult("Column added.", table_id, name)
        raise ColumnNotFoundError

    @patch(
        "/v1/public/tables/:table_id/columns/:name",
        access=WRITE,
        rate="schema",
        errors=[
            TableNotFoundError,
            ColumnNotFoundError,
            RowsDoNotFitError,
            ColumnBeingRewrittenError,
            CascadeCycleError,
            NotForReferencesError,
            UnknownKeyError,
            KeyNotReadyError,
            SchemaLockedError,
            TableBusyError,
        ],
    )
    async def change_column(self, call: Call, table_id: UUID, name: str, body: ColumnChange) -> ColumnResult:
        """Change a column's type or options; options that are not given stay as they are.

        Changing the type casts the stored values. If some cannot be cast, nothing is changed and the error counts
        them. Changing `encrypted` rewrites all values, in a large table in the background; until then the column
        behaves as before.
        """
        await _require_unlocked(call, self._tables, table_id)
        if isinstance(body.references, NewReference):
            await _require_unlocked_targets(call, self._tables, [body.references])
        name = normal_path(name)
        goes_on = await self._tables.change_column(call.app, call.actor, table_id, name, body)
        message = "Column updated; its values are rewritten in the background." if goes_on else "Column updated."
        return ColumnResult(message, table_id, name)

    @delete(
        "/v1/public/tables/:table_id/columns/:name",
        access=WRITE,
        rate="schema",
        errors=[TableNotFoundError, ColumnNotFoundError, SchemaLockedError, TableBusyError],
    )
    async def drop_column(self, call: Call, table_id: UUID, name: str) -> ColumnResult:
        """Drop a column. A console user can restore it for 7 days."""
        await _require_unlocked(call, self._tables, table_id)
        name = normal_path(name)
        await self._tables.drop_column(call.app, call.actor, table_id, name)
        return ColumnResult("Column deleted.", table_id, name)


class SchemaEndpoints(Endpoints, tag="Tables and columns"):
    """What a console user can do with a table's schema in addition to the public routes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @post(
        "/v1/apps/:app_id/tables/:table_id/schema-preview",
        access=Access.APP_EDITOR,
        errors=[TableNotFoundError, InvalidColumnNameError, QueryTimeoutError],
    )
    async def preview(self, call: Call, app_id: UUID, table_id: UUID, body: TableDefinition) -> SchemaPreview:
        """Preview what replacing a table's schema would do to its rows.

        The body is that of `PATCH /v1/public/tables/{table_id}`. Nothing is changed.
        """
        return await self._tables.preview(call.app, table_id, body)

    @get("/v1/apps/:app_id/profiles", access=console(Role.VIEWER, secret_key=True))
    async def profile_table(self, call: Call, app_id: UUID) -> ShownProfileTable:
        """Read which table has the profiles of the app's members."""
        return await self._tables.profile_table(call.app)

    @put(
        "/v1/apps/:app_id/profiles",
        access=console(Role.EDITOR, secret_key=True),
        errors=[UnknownKeyError, NotForReferencesError, KeyNotReadyError, TableNotFoundError, TableBusyError],
    )
    async def set_profile_table(self, call: Call, app_id: UUID, body: ProfileTable) -> ShownProfileTable:
        """Set which table has the profiles of the app's members.

        `expand` shows the member's row of it in the place of a member, under its own rules.
        """
        return await self._tables.set_profile_table(call.app, call.actor, body)

    @post(
        "/v1/apps/:app_id/tables/:table_id/columns/:name/rename",
        access=Access.APP_EDITOR,
        errors=[
            TableNotFoundError,
            ColumnNotFoundError,
            ColumnExistsError,
            InvalidColumnNameError,
            RowsDoNotFitError,
            ColumnBeingRewrittenError,
            TableBusyError,
        ],
    )
    async def rename_column(
        self, call: Call, app_id: UUID, table_id: UUID, name: str, body: ColumnRename
    ) -> ColumnResult:
        """Rename a column. Its values and indexes stay; callers must use the new name from then on."""
        renamed = await self._tables.rename_column(call.app, call.actor, table_id, normal_path(name), body.name)
        return ColumnResult("Column renamed.", table_id, renamed)


def _require_editor_for_rules(call: Call, body: TableDefinition) -> None:
    if body.rules is not msgspec.UNSET and not call.principal.may(Role.EDITOR):
        raise RulesNeedEditorError


async def _require_unlocked(call: Call, tables: Tables, table_id: UUID | None = None) -> None:
    if call.principal.may(Role.EDITOR):
        return
    if call.app.schema_locked:
        raise SchemaLockedError
    if table_id is not None:
        await tables.require_unlocked(call.app, table_id)


def _targets(body: TableDefinition) -> list[NewReference]:
    """Return the references of a definition; what is wrong with it is told when it is read."""
    found = []
    for definition in body.schema.values():
        with suppress(msgspec.ValidationError):
            if isinstance(definition, dict) and definition.get("references") is not None:
                found.append(msgspec.convert(definition["references"], NewReference))
    return found


async def _require_unlocked_targets(call: Call, tables: Tables, references: Sequence[NewReference]) -> None:
    """Raise `SchemaLockedError` for a reference to a table with rules: whoever refers to a row can keep it from going.

    Those who pass rules may refer to every table.
    """
    if call.principal.may(Role.EDITOR):
        return
    for reference in references:
        table = reference.table
        if table is None:
            continue
        table_id = UUID(table) if is_uuid(table) else await tables.id_of(call.app.app_id, table)
        if table_id is not None:
            await tables.require_unlocked(call.app, table_id)
