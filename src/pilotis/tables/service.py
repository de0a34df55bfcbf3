"""Tables and columns: the catalogue and the physical tables, changed together in one transaction.

A schema change takes its locks with a short time limit and tries again, so it never makes everybody wait behind one
long reader. It ends by renaming the column that carries the schema's version, after which every statement compiled
for the old version fails on every node.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.audit.service import record
from pilotis.db.notifications import Notifications, notify
from pilotis.db.pool import Database
from pilotis.encryption.service import Encryption
from pilotis.http.principals import SYSTEM, Actor, AppInfo
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
    invalid,
)
from pilotis.kit.ids import uuid7
from pilotis.tables import built, ddl, store
from pilotis.tables.columns import ColumnExistsError, ColumnNotFoundError, Columns
from pilotis.tables.schema import (
    AccessLevel,
    Column,
    TableSchema,
    column_name,
    column_type,
    numbered,
    parse_schema,
)
from pilotis.tables.types import ColumnChange, ColumnItem, NewColumn, Table, TableDefinition
from pilotis.tables.values import check_default

TOPIC = "table"
_KEPT = 10_000
_LOCK_MILLISECONDS = 300
GIVE_UP_SECONDS = 15.0
_DDL_SECONDS = 600


class TableNotFoundError(NotFoundError):
    """404: the app has no such table."""

    code = "TABLE_NOT_FOUND"
    message = "The app has no such table."


class TitleTakenError(ConflictError):
    """409: another table of the app has this title."""

    code = "TABLE_TITLE_TAKEN"
    message = "Another table of this app has this title."


class SchemaLockedError(ForbiddenError):
    """403: the app's schema is locked; a secret key or a console user with the role editor may change it."""

    code = "SCHEMA_LOCKED"
    message = "The schema of this app is locked. Use a secret key or the console to change tables."


class TooManyChangesError(ConflictError):
    """409: PostgreSQL gives a table 1600 columns in its life, dropped ones included, and they are used up."""

    code = "TOO_MANY_SCHEMA_CHANGES"
    message = "Columns of this table were added and dropped too many times. Copy its rows to a new table."


class TableBusyError(UnavailableError):
    """503: a long transaction holds the table; the change was tried for a while."""

    code = "TABLE_BUSY"
    message = "The table is busy with a long query. Nothing was changed; try again shortly."


Edit = Callable[[Connection, TableSchema], Awaitable[None]]


class Tables:
    """Reads and changes tables and columns. A change of a busy table is tried for `give_up_seconds`."""

    def __init__(
        self,
        database: Database,
        notifications: Notifications,
        encryption: Encryption,
        *,
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:
        self._database = database
        self._columns = Columns(encryption)
        self._give_up_seconds = give_up_seconds
        self._known: OrderedDict[tuple[UUID, UUID], TableSchema] = OrderedDict()
        self._changes = 0
        notifications.subscribe(TOPIC, self._changed, self._forget_all)

    async def current(self, app_id: UUID, table_id: UUID) -> TableSchema:
        """Return a table's schema, perhaps a moment old: a write compiled for it fails if it is. Raises a 404 error."""
        key = app_id, table_id
        if table := self._known.get(key):
            return table
        changes = self._changes
        row = await store.live_table(self._database, app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = store.table_schema(row)
        # A change that arrives while the answer is on its way makes the answer too old to keep.
        if changes == self._changes:
            self._known[key] = table
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return table

    def forget(self, table: TableSchema) -> None:
        """Drop a schema that turned out to be too old."""
        self._changes += 1
        self._known.pop((table.app_id, table.table_id), None)

    async def all(self, app: AppInfo) -> list[Table]:
        """Return the app's tables."""
        return [_table(row) for row in await store.live_tables(self._database, app.app_id)]

    async def read(self, app: AppInfo, table_id: UUID) -> Table:
        """Return one table."""
        row = await store.live_table(self._database, app.app_id, table_id)
        if row is None:
            raise TableNotFoundError
        return _table(row)

    async def columns(self, app: AppInfo, table_id: UUID) -> list[ColumnItem]:
        """Return a table's columns in their order."""
        table = await self.current(app.app_id, table_id)
        return [_column_item(column, order) for order, column in enumerate(table.columns, start=1)]

    async def create(self, app: AppInfo, actor: Actor, definition: TableDefinition) -> UUID:
        """Make a table and return its id."""
        columns = numbered(parse_schema(definition.schema, app.limits.columns), 1)
        for column in columns:
            check_default(column)
        table = TableSchema(app.app_id, uuid7(), definition.title, definition.access_level, 1, tuple(columns))
        try:
            async with self._database.transaction() as connection:
                await require_room(connection, app)
                await store.insert_table(connection, table)
                for statement in ddl.create_table(table):
                    await connection.execute(statement)
                await record(connection, app.app_id, actor, "table.create", table.table_id, title=table.title)
        except asyncpg.UniqueViolationError:
            raise TitleTakenError from None
        except asyncpg.InvalidSchemaNameError:
            raise NotFoundError from None
        return table.table_id

    async def replace(self, app: AppInfo, actor: Actor, table_id: UUID, definition: TableDefinition) -> None:
        """Make a table what the definition says: columns are added, changed, or put into the trash."""
        wanted = {column.name: column for column in parse_schema(definition.schema, app.limits.columns)}

        async def edit(connection: Connection, table: TableSchema) -> None:
            for column in table.columns:
                if column.name not in wanted:
                    await self._columns.trash(connection, table, column)
            kept = msgspec.structs.replace(
                table, columns=tuple(column for column in table.columns if column.name in wanted)
            )
            for column in kept.columns:
                new = msgspec.structs.replace(wanted[column.name], number=column.number, rewriting=column.rewriting)
                await self._columns.change(connection, kept, column, new, app.limits.reseal_rows)
            for name, column in wanted.items():
                if name not in table.by_name:
                    await self._columns.add(connection, kept, column)

        await self.change(
            app.app_id,
            actor,
            table_id,
            edit,
            "table.update",
            title=definition.title,
            access_level=definition.access_level,
        )

    async def drop(self, app: AppInfo, actor: Actor, table_id: UUID) -> None:
        """Put a table into the trash."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            await store.trash_table(connection, table)

        await self.change(app.app_id, actor, table_id, edit, "table.drop")

    async def purge(self, app_id: UUID, actor: Actor, table_id: UUID) -> None:
        """End a table in the trash for good; `pilotis.rows.counts` clears its tally away."""

        async def once() -> None:
            async with schema_transaction(self._database, app_id) as connection:
                row = await store.lock_table(connection, app_id, table_id, trashed=True)
                if row is None:
                    raise TableNotFoundError
                await connection.execute(ddl.drop_table(store.table_schema(row)))
                await store.delete_table(connection, app_id, table_id)
                await record(connection, app_id, actor, "table.purge", table_id, title=row["title"])

        await self._patiently(app_id, table_id, once)

    async def add_column(self, app: AppInfo, actor: Actor, table_id: UUID, new: NewColumn) -> None:
        """Add a column; rows of a table that took any field keep what they have under its name."""
        column = Column(
            0,
            column_name(new.name),
            column_type(new.data_type, "data_type"),
            new.is_required,
            new.default_value,
            new.description,
            new.encrypted,
        )

        async def edit(connection: Connection, table: TableSchema) -> None:
            if len(table.columns) >= app.limits.columns:
                raise invalid("name", f"A table has at most {app.limits.columns} columns.", "TOO_MANY_COLUMNS")
            if column.name in table.by_name:
                raise ColumnExistsError
            await self._columns.add(connection, table, column)

        await self.change(app.app_id, actor, table_id, edit, "column.create", column=column.name)

    async def change_column(self, app: AppInfo, actor: Actor, table_id: UUID, name: str, change: ColumnChange) -> bool:
        """Change a column; True if it goes on in the background: see `pilotis.tables.rewriting`.

        Raises `RowsDoNotFitError` if stored values do not cast, and `ColumnBeingRewrittenError`.
        """
        goes_on = False

        async def edit(connection: Connection, table: TableSchema) -> None:
            nonlocal goes_on
            column = _column(table, name)
            new = _changed_column(column, change)
            goes_on = await self._columns.change(connection, table, column, new, app.limits.reseal_rows)

        await self.change(app.app_id, actor, table_id, edit, "column.update", column=name)
        return goes_on

    async def end_rewriting(self, app_id: UUID, table_id: UUID, number: int) -> None:
        """Let the other form of a column that is being rewritten take its place; see `pilotis.tables.rewriting`."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = next((column for column in table.columns if column.number == number), None)
            if column is None or not column.rewriting:
                raise ColumnNotFoundError
            await self._columns.take_over(connection, table, column)

        await self.change(app_id, SYSTEM, table_id, edit, "column.rewritten", number=number)

    async def drop_column(self, app: AppInfo, actor: Actor, table_id: UUID, name: str) -> None:
        """Put a column into the trash."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            await self._columns.trash(connection, table, _column(table, name))

        await self.change(app.app_id, actor, table_id, edit, "column.drop", column=name)

    async def change(
        self,
        app_id: UUID,
        actor: Actor,
        table_id: UUID,
        edit: Edit,
        action: str,
        *,
        title: str | None = None,
        access_level: AccessLevel | None = None,
        trashed: bool = False,
        **details: Any,
    ) -> None:
        """Run an edit on a locked table under a new version and put it in the audit log: the one way to alter a table.

        With `trashed` the table is one in the trash. Tries again while somebody holds the table. Raises
        `TableNotFoundError`, `TitleTakenError`, `TableBusyError`, and what the edit raises.
        """

        async def once() -> None:
            try:
                async with schema_transaction(self._database, app_id) as connection:
                    row = await store.lock_table(connection, app_id, table_id, trashed=trashed)
                    if row is None:
                        raise TableNotFoundError
                    table = store.table_schema(row)
                    # First, so that nothing is written under the old version once this transaction has its locks.
                    await connection.execute(ddl.change_version(table, table.version + 1))
                    await edit(connection, table)
                    await _publish(connection, table, title or table.title, access_level or table.access_level)
                    await record(connection, app_id, actor, action, table_id, **details)
            except asyncpg.UniqueViolationError:
                raise TitleTakenError from None
            self.forget(table)

        await self._patiently(app_id, table_id, once)

    async def absorb(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Move what free-form rows hold under a column's name into the column; see `Columns.absorb`."""
        await self._columns.absorb(connection, table, column)

    async def _patiently(self, app_id: UUID, table_id: UUID, change: Callable[[], Awaitable[None]]) -> None:
        """Run a change made of a `schema_transaction`, again and again while somebody holds the table."""
        deadline = time.monotonic() + self._give_up_seconds
        while True:
            try:
                return await change()
            except UnavailableError as error:
                if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                    raise
                if time.monotonic() > deadline:
                    raise TableBusyError from error
            # Building an index keeps a table locked for as long as it takes, and can wait.
            await built.cancel_builds(self._database, app_id, table_id)
            await asyncio.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - only spreads the tries

    def _changed(self, key: str) -> None:
        self._changes += 1
        app_id, _, table_id = key.partition("/")
        self._known.pop((UUID(app_id), UUID(table_id)), None)

    def _forget_all(self) -> None:
        self._changes += 1
        self._known.clear()


@asynccontextmanager
async def schema_transaction(database: Database, app_id: UUID) -> AsyncGenerator[Connection]:
    """Lend a connection inside a transaction that waits for locks only briefly, and may work long once it has them.

    Raises `TableNotFoundError` where the app and with it its tables are gone, and `TooManyChangesError`.
    """
    try:
        async with database.share(app_id), database.transaction() as connection:
            await connection.execute(
                f"set local lock_timeout = {_LOCK_MILLISECONDS}; set local statement_timeout = '{_DDL_SECONDS}s'"
            )
            yield connection
    except asyncpg.TooManyColumnsError:
        raise TooManyChangesError from None
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        raise TableNotFoundError from None


async def require_room(connection: Connection, app: AppInfo) -> None:
    """Raise `ConflictError` if the app has as many tables as it may; else keep it so until the transaction ends."""
    if await store.lock_app(connection, app.app_id) >= app.limits.tables:
        raise ConflictError(f"An app has at most {app.limits.tables} tables.")


async def _publish(connection: Connection, table: TableSchema, title: str, access_level: AccessLevel) -> None:
    await store.update_table(connection, table, title, access_level, table.version + 1)
    for statement in ddl.index_creators(msgspec.structs.replace(table, access_level=access_level)):
        await connection.execute(statement)
    await notify(connection, TOPIC, f"{table.app_id}/{table.table_id}")


def _column(table: TableSchema, name: str) -> Column:
    column = table.by_name.get(name)
    if column is None:
        raise ColumnNotFoundError
    return column


def _changed_column(column: Column, change: ColumnChange) -> Column:
    given: dict[str, Any] = {}
    if change.data_type is not msgspec.UNSET:
        given["type"] = column_type(change.data_type, "data_type")
    options = {
        "required": change.is_required,
        "default": change.default_value,
        "description": change.description,
        "encrypted": change.encrypted,
    }
    given |= {field: value for field, value in options.items() if value is not msgspec.UNSET}
    return msgspec.structs.replace(column, **given)


def _table(row: asyncpg.Record) -> Table:
    table = store.table_schema(row)
    return Table(
        table.table_id,
        table.app_id,
        table.title,
        {column.name: column.definition() for column in table.columns},
        True,
        table.access_level,
        rfc3339(row["created_at"]),
        rfc3339(row["updated_at"]),
    )


def _column_item(column: Column, order: int) -> ColumnItem:
    return ColumnItem(
        column.name,
        column.type.data_type,
        bool(column.required),
        column.default,
        column.description,
        bool(column.encrypted),
        order,
        ("opening" if column.encrypted else "sealing") if column.rewriting else msgspec.UNSET,
    )
