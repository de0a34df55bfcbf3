"""Tables and columns: the catalogue and the physical tables, changed together in one transaction.

A schema change acquires its locks with a short time limit and tries again, so it never queues other statements behind
one long reader. It ends by renaming the column that carries the schema's version, after which every statement compiled
for the old version fails on every node.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.tables import archiving, ddl, events, index_builds, reclaiming, references, store
from pilotis.data.tables.checks import merged, require_sensible
from pilotis.data.tables.columns import ColumnExistsError, ColumnNotFoundError, Columns
from pilotis.data.tables.preview import preview
from pilotis.data.tables.schema import (
    AccessLevel,
    Column,
    NewReference,
    TableSchema,
    check_makers,
    check_reference,
    column_name,
    column_type,
    given_checks,
    numbered,
    parse_schema,
    steps_of,
    unique_columns,
)
from pilotis.data.tables.types import (
    ArchivedTable,
    ColumnChange,
    ColumnItem,
    NewColumn,
    NewUniqueKey,
    ProfileTable,
    ReferencedBy,
    SchemaPreview,
    ShownProfileTable,
    ShownReference,
    Table,
    TableDefinition,
    shown_key,
)
from pilotis.data.tables.values import check_default
from pilotis.db.control import Control
from pilotis.db.locks import lock_app
from pilotis.db.pool import Database, TenantDatabase
from pilotis.db.topics import Topic, publish
from pilotis.events.service import Events, Wanted, register_outbox
from pilotis.http.api.principals import SYSTEM, Actor, AppInfo
from pilotis.jobs.queue import Jobs
from pilotis.kit.clock import rfc3339
from pilotis.kit.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
    invalid,
)
from pilotis.kit.ids import is_uuid, uuid7
from pilotis.security.audit.service import record
from pilotis.security.encryption.service import Encryption

_KEPT = 10_000
_LOCK_MILLISECONDS = 300
RETRY_SECONDS = 15.0
_DDL_SECONDS = 600
# The places of a column's options on the column routes; see `check_makers`.
_MADE = ("default_value", "on_update", "normalize")


class TableNotFoundError(NotFoundError):
    """404: the app has no such table."""

    code = "TABLE_NOT_FOUND"
    message = "The app has no such table."


class TitleTakenError(ConflictError):
    """409: another table of the app already has this title."""

    code = "TABLE_TITLE_TAKEN"
    message = "Another table of this app already has this title."


class RulesNeedEditorError(ForbiddenError):
    """403 `RULES_NEED_EDITOR`: only a secret key, a console user or a function gives a table rules."""

    code = "RULES_NEED_EDITOR"
    message = "Rules are for the app's own side: use a secret key, or a console user with the role editor."


class SchemaLockedError(ForbiddenError):
    """403: the app's schema is locked; a secret key or a console user with the role editor may change it."""

    code = "SCHEMA_LOCKED"
    message = "The schema of this app is locked. Use a secret key or the console to change tables."


class TooManyChangesError(ConflictError):
    """409: the table has used up PostgreSQL's limit of 1600 columns, which includes dropped ones."""

    code = "TOO_MANY_SCHEMA_CHANGES"
    message = "Columns of this table were added and dropped too many times. Copy its rows to a new table."


class TableBusyError(UnavailableError):
    """503: a long transaction kept the table locked while the change was tried."""

    code = "TABLE_BUSY"
    message = "The table is busy with a long query. Nothing was changed; try again shortly."


MIGRATE = "columns.migrate"
"""The periodic task that migrates columns after changes of `encrypted`."""

Edit = Callable[[Connection, TableSchema], Awaitable[None]]
IsWanted = Callable[[Connection], Awaitable[bool]]
Guard = Callable[[Connection, UUID, UUID], Awaitable[None]]
"""Raises an error, inside the transaction, for a change of a table of an app that something else does not allow."""


Namer = Callable[[TenantDatabase, UUID, UUID], Awaitable[bool]]
"""Says whether other rules than those of tables name a table of an app."""


class KeyKeeper(Protocol):
    """Changes the unique keys of a locked table to those that a definition wants."""

    async def keep(self, connection: Connection, table: TableSchema, wanted: Sequence[NewUniqueKey]) -> TableSchema:
        """Remove the keys that are not wanted, and return the table without them."""

    async def complete(
        self, connection: Connection, app: AppInfo, table_id: UUID, wanted: Sequence[tuple[str, NewUniqueKey]]
    ) -> None:
        """Add the keys that the table lacks, each given with its place in the request."""


RuleReader = Callable[[Connection, AppInfo, UUID, dict[str, Any]], Awaitable[str]]


class _UnchangedError(Exception):
    """There is nothing to change."""


class Tables:
    """Reads and changes tables and columns. A change of a busy table is retried for `retry_seconds`."""

    def __init__(
        self,
        database: Database,
        control: Control,
        encryption: Encryption,
        emitter: Events,
        jobs: Jobs | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._database = database
        self._events = emitter
        self._jobs = jobs
        emitter.attach(self)
        self._columns = Columns(encryption)
        self._retry_seconds = retry_seconds
        self._known: OrderedDict[tuple[UUID, UUID], TableSchema] = OrderedDict()
        self._changes = 0
        self.guards: list[Guard] = []
        self.namers: list[Namer] = []
        self.rule_reader: RuleReader | None = None
        """Returns rules in their stored form, checked; see `pilotis.data.rules.service`."""
        self.keys: KeyKeeper | None = None
        """Removes and adds unique keys; see `pilotis.data.keys.service`."""
        control.subscribe(Topic.TABLE, self._changed, self._forget_all)

    async def current(self, app_id: UUID, table_id: UUID) -> TableSchema:
        """Return a table's schema, which may be out of date; then a write compiled for it fails. Raises a 404 error."""
        key = app_id, table_id
        if table := self._known.get(key):
            return table
        changes = self._changes
        row = await store.live_table(self._database.of(app_id), app_id, table_id)
        if row is None:
            raise TableNotFoundError
        table = row.schema
        # A change during the query makes its result too old to cache.
        if changes == self._changes:
            self._known[key] = table
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return table

    def known(self, app_id: UUID, table_id: UUID) -> TableSchema | None:
        """Return what `current` would, if that needs no query; else None."""
        return self._known.get((app_id, table_id))

    async def id_of(self, app_id: UUID, title: str) -> UUID | None:
        """Return the id of the table with a title; None if there is none. It is read each time, since titles change."""
        return await store.id_of(self._database.of(app_id), app_id, title)

    def forget(self, table: TableSchema) -> None:
        """Drop an outdated schema from the cache."""
        self._changes += 1
        self._known.pop((table.app_id, table.table_id), None)

    def _forget_tables(self, app_id: UUID, table_ids: Iterable[UUID]) -> None:
        self._changes += 1
        for table_id in table_ids:
            self._known.pop((app_id, table_id), None)

    def forget_app(self, app_id: UUID) -> None:
        """Drop all schemas of an app from the cache."""
        self._forget_tables(app_id, [table_id for known_id, table_id in self._known if known_id == app_id])

    async def forget_outdated(self, table: TableSchema) -> bool:
        """Drop a schema from the cache if it is not the current one; return whether it was outdated."""
        row = await store.live_table(self._database.of(table.app_id), table.app_id, table.table_id)
        if row is not None:
            now = row.schema
            if (now.version, now.referrers) == (table.version, table.referrers):
                return False
        self.forget(table)
        return True

    async def require_unlocked(self, app: AppInfo, table_id: UUID) -> None:
        """Raise `SchemaLockedError` for a table with rules, or one that rules name: those who keep them change it."""
        database = self._database.of(app.app_id)
        ruled = await store.is_ruled(database, app.app_id, table_id)
        if ruled or any([await names(database, app.app_id, table_id) for names in self.namers]):
            raise SchemaLockedError("Rules depend on this table. Use a secret key or the console to change it.")

    async def schemas(self, app_id: UUID) -> list[TableSchema]:
        """Return the schemas of an app's tables."""
        return [row.schema for row in await store.live_tables(self._database.of(app_id), app_id)]

    async def archived(
        self, connection: Connection, app_id: UUID, *, with_encrypted: bool = True
    ) -> list[ArchivedTable]:
        """Return an app's tables in the connection's snapshot, as archives have them."""
        return await archiving.archived(connection, app_id, with_encrypted=with_encrypted)

    async def create_archived(self, connection: Connection, app: AppInfo) -> list[ArchivedTable]:
        """Create the tables that the catalogue of an app that is being imported has; raises a 400 error."""
        await archiving.create_tables(connection, app)
        return await archiving.archived(connection, app.app_id)

    async def complete_archived(self, connection: Connection, app: AppInfo, rows: Mapping[UUID, int]) -> None:
        """Complete the tables, which have their rows, and check the rules and views that name them."""
        await archiving.complete_tables(connection, app.app_id, rows)
        for table_id in await store.named_tables(connection, app.app_id):
            for guard in self.guards:
                await guard(connection, app.app_id, table_id)

    async def all(self, app: AppInfo) -> list[Table]:
        """Return the app's tables."""
        return [_table(row) for row in await store.live_tables(self._database.of(app.app_id), app.app_id)]

    async def read(self, app: AppInfo, table_id: UUID) -> Table:
        """Return one table."""
        row = await store.live_table(self._database.of(app.app_id), app.app_id, table_id)
        if row is None:
            raise TableNotFoundError
        return _table(row)

    async def columns(self, app: AppInfo, table_id: UUID) -> list[ColumnItem]:
        """Return a table's columns in their order."""
        table = await self.current(app.app_id, table_id)
        return [_column_item(column, order) for order, column in enumerate(table.columns, start=1)]

    async def create(
        self, app: AppInfo, actor: Actor, definition: TableDefinition, table_id: UUID | None = None
    ) -> UUID:
        """Create a table and return its id."""
        _check_title(definition.title)
        columns = numbered(parse_schema(definition.schema, app.limits), 1)
        for column in columns:
            check_default(column, app.limits.default_bytes, f"schema.{column.name}.default")
        self._check_members(columns)
        table = TableSchema(
            app.app_id, table_id or uuid7(), definition.title, definition.access_level, 1, tuple(columns)
        )
        try:
            async with _unique_title(), self._database.transaction(app.app_id) as connection:
                await require_room(connection, app)
                # The app's row is locked: a listener to all tables that is being added concurrently either sees this
                # table or is visible here.
                if emits := await self._events.operations_for(connection, app.app_id, table.table_id):
                    table = msgspec.structs.replace(table, emits=emits)
                    await register_outbox(connection, app.app_id)
                    await connection.execute(ddl.create_outbox(app.app_id))
                table = await _with_references(connection, table, "schema.")
                await store.insert_table(connection, table)
                for statement in ddl.create_table(table):
                    await connection.execute(statement)
                for column, _ in table.references:
                    await references.link(connection, table, column)
                for column in table.of_members:
                    await references.link_members(connection, table, column)
                neighbours = await _tell_neighbours(connection, table)
                await self._complete_keys(connection, app, table.table_id, definition)
                await self._set_rules(connection, app, table.table_id, definition.rules)
                given = {} if definition.rules is msgspec.UNSET else {"rules": definition.rules}
                await record(connection, app.app_id, actor, "table.create", table.table_id, title=table.title, **given)
                event = events.about(events.TABLE_CREATED, actor, table)
                await self._events.emit_all(connection, app.app_id, [event])
        except asyncpg.InvalidSchemaNameError:
            raise NotFoundError from None
        self._forget_tables(app.app_id, neighbours)
        return table.table_id

    async def replace(self, app: AppInfo, actor: Actor, table_id: UUID, definition: TableDefinition) -> None:
        """Change a table to match a definition: columns are added, changed, or moved to the trash."""
        asked = _wanted(app, definition)
        self._check_members(asked.values())

        async def edit(connection: Connection, table: TableSchema) -> None:
            wanted = await _looked_up(connection, table, definition.title, asked)
            if definition.unique is not msgspec.UNSET and self.keys is not None:
                table = await self.keys.keep(connection, table, [key for _, key in _keys_of(definition)])
            for column in table.columns:
                if column.name not in wanted:
                    await self._columns.trash(connection, table, column, app.limits.trash_columns)
            kept = msgspec.structs.replace(
                table, columns=tuple(column for column in table.columns if column.name in wanted)
            )
            for column in kept.columns:
                new = msgspec.structs.replace(
                    wanted[column.name],
                    number=column.number,
                    migrating=column.migrating,
                    vector=column.vector,
                    checks=merged(column.checks, given_checks(definition.schema, column.name)),
                )
                require_sensible(new.checks, new.type.value, f"schema.{column.name}")
                if await self._columns.change(connection, kept, column, new, app.limits.column_migration_rows):
                    await self._request_migration(connection)
            for name, column in wanted.items():
                if name not in table.by_name:
                    await self._columns.add(connection, kept, column)
            await self._complete_keys(connection, app, table_id, definition)
            await self._set_rules(connection, app, table_id, definition.rules)

        given: dict[str, Any] = {} if definition.rules is msgspec.UNSET else {"rules": definition.rules}
        await self.change(
            app.app_id,
            actor,
            table_id,
            edit,
            "table.update",
            title=definition.title,
            access_level=definition.access_level,
            locks_app=bool(given) or any(column.references is not None for column in asked.values()),
            **given,
        )

    async def _complete_keys(
        self, connection: Connection, app: AppInfo, table_id: UUID, definition: TableDefinition
    ) -> None:
        if (wanted := _keys_of(definition)) and self.keys is not None:
            await self.keys.complete(connection, app, table_id, wanted)

    async def _make_unique(
        self, connection: Connection, app: AppInfo, table_id: UUID, name: str, unique: bool | None
    ) -> None:
        """Give a column a key of its own, unless it has one."""
        if unique and self.keys is not None:
            await self.keys.complete(connection, app, table_id, [("unique", NewUniqueKey(columns=[name]))])

    async def _set_rules(
        self, connection: Connection, app: AppInfo, table_id: UUID, rules: dict[str, Any] | msgspec.UnsetType | None
    ) -> None:
        """Set the rules of a table that has just been changed, while the app is locked; unset ones stay."""
        if rules is msgspec.UNSET:
            return
        assert self.rule_reader is not None, "the feature of rules gives it"
        text = None if rules is None else await self.rule_reader(connection, app, table_id, rules)
        await store.set_rules(connection, app.app_id, table_id, text)

    async def preview(self, app: AppInfo, table_id: UUID, definition: TableDefinition) -> SchemaPreview:
        """Return what `replace` would do to the table's columns and rows; changes nothing.

        Raises `QueryTimeoutError` if the table is too large to scan.
        """
        wanted = _wanted(app, definition)
        try:
            async with self._database.transaction(app.app_id, isolation="repeatable_read") as connection:
                # Before the snapshot: the table that it shows must have the columns that its schema has there.
                await connection.execute(ddl.lock_form(app.app_id, table_id))
                row = await store.live_table(connection, app.app_id, table_id)
                if row is None:
                    raise TableNotFoundError
                table = row.schema
                wanted = await _looked_up(connection, table, definition.title, wanted)
                return await preview(connection, table, wanted, app.limits.column_migration_rows)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            raise TableNotFoundError from None

    async def rename_column(self, app: AppInfo, actor: Actor, table_id: UUID, name: str, new_name: str) -> str:
        """Rename a column and return its new name in NFC.

        Raises `ColumnExistsError`, `ColumnBeingRewrittenError`, and `RowsDoNotFitError` if rows have kept a field under
        the new name since the table was free-form.
        """
        new_name = column_name(new_name, app.limits.column_name_bytes)

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = _column(table, name)
            if new_name in table.by_name:
                raise ColumnExistsError
            await self._columns.rename(connection, table, column, new_name)

        await self.change(app.app_id, actor, table_id, edit, "column.rename", column=name, name=new_name)
        return new_name

    async def drop(self, app: AppInfo, actor: Actor, table_id: UUID) -> None:
        """Move a table to the trash."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            references.require_unreferenced(table)
            for column, _ in table.references:
                await references.unlink(connection, table, column)
            await store.trash_table(connection, table)

        # Nothing comes to refer to it meanwhile.
        await self.change(app.app_id, actor, table_id, edit, "table.drop", locks_app=True)
        for oldest in await store.trashed_tables_beyond(self._database, app.app_id, app.limits.trash_tables):
            with suppress(TableNotFoundError, TableBusyError):
                await self.purge(app.app_id, SYSTEM, oldest)

    async def profiles(self, app_id: UUID) -> UUID | None:
        """Return the id of the table with the profiles of an app's members; None if there is none."""
        return await store.profiles_of(self._database.of(app_id), app_id)

    async def profile_table(self, app: AppInfo) -> ShownProfileTable:
        """Return the table with the profiles of an app's members."""
        table_id = await self.profiles(app.app_id)
        if table_id is None:
            return ShownProfileTable(None, None, None)
        table = await self.current(app.app_id, table_id)
        return ShownProfileTable(table_id, table.title, table.profile_key)

    async def set_profile_table(self, app: AppInfo, actor: Actor, wanted: ProfileTable) -> ShownProfileTable:
        """Set the table with the profiles of an app's members, and return it; raises a 400 error."""
        before = await self.profiles(app.app_id)
        table_id = None
        if wanted.table is not None:
            named = UUID(wanted.table) if is_uuid(wanted.table) else await self.id_of(app.app_id, wanted.table)
            if named is None or await store.live_table(self._database.of(app.app_id), app.app_id, named) is None:
                raise invalid("table", f"The app has no table {wanted.table[:100]}.", "TABLE_NOT_FOUND")
            table_id = named

        async def end(connection: Connection, table: TableSchema) -> None:
            await store.set_profile_key(connection, table.app_id, table.table_id, None)

        async def begin(connection: Connection, table: TableSchema) -> None:
            key = references.profile_key(table, wanted.key)
            await store.set_profile_key(connection, table.app_id, table.table_id, key.name)

        if before is not None and before != table_id:
            await self.change(app.app_id, actor, before, end, "profiles.update", touch=False)
        if table_id is not None:
            await self.change(app.app_id, actor, table_id, begin, "profiles.update", touch=False, key=wanted.key)
        return await self.profile_table(app)

    async def purge(self, app_id: UUID, actor: Actor, table_id: UUID) -> None:
        """Permanently delete a table in the trash, with its row counts."""

        async def once() -> None:
            async with schema_transaction(self._database, app_id) as connection:
                row = await store.lock_table(connection, app_id, table_id, trashed=True)
                if row is None:
                    raise TableNotFoundError
                table = row.schema
                await connection.execute(ddl.drop_table(table))
                await store.delete_counts(connection, table)
                await store.delete_table(connection, app_id, table_id)
                await record(connection, app_id, actor, "table.purge", table_id, title=table.title)

        await self._retry_while_locked(app_id, table_id, once)

    async def add_column(self, app: AppInfo, actor: Actor, table_id: UUID, new: NewColumn) -> None:
        """Add a column; rows of a free-form table keep the value they have under its name."""
        column = Column(
            0,
            column_name(new.name, app.limits.column_name_bytes),
            column_type(new.data_type, "data_type"),
            new.is_required,
            new.default_value,
            new.description,
            new.encrypted,
            references=None if new.references is None else new.references.stored,
            of_member=None if new.references is None else new.references.of_member,
            checks=merged(None, new),
            on_update=new.on_update,
            normalize=steps_of(new.normalize),
        )
        check_reference(column, "", new.references)
        self._check_members([column])
        check_makers(column, _MADE)
        require_sensible(column.checks, column.type.value, "")
        check_default(column, app.limits.default_bytes, "default_value")

        async def edit(connection: Connection, table: TableSchema) -> None:
            if len(table.columns) >= app.limits.columns:
                raise invalid("name", f"A table has at most {app.limits.columns} columns.", "TOO_MANY_COLUMNS")
            if column.name in table.by_name:
                raise ColumnExistsError
            await self._columns.add(
                connection, table, await references.looked_up(connection, table, column, "references")
            )
            await self._make_unique(connection, app, table_id, column.name, new.unique)

        refers = column.references is not None
        await self.change(app.app_id, actor, table_id, edit, "column.create", locks_app=refers, column=column.name)

    async def change_column(self, app: AppInfo, actor: Actor, table_id: UUID, name: str, change: ColumnChange) -> bool:
        """Change a column; True if it continues in the background: see `pilotis.data.tables.column_migrator`.

        Raises `RowsDoNotFitError` if stored values cannot be cast, and `ColumnBeingRewrittenError`.
        """
        goes_on = False

        async def edit(connection: Connection, table: TableSchema) -> None:
            nonlocal goes_on
            column = _column(table, name)
            new = _changed_column(column, change)
            check_reference(new, "", change.references or None)
            self._check_members([new])
            check_makers(new, _MADE)
            require_sensible(new.checks, new.type.value, "")
            if new.references != column.references:
                new = await references.looked_up(connection, table, new, "references")
            check_default(new, app.limits.default_bytes, "default_value")
            goes_on = await self._columns.change(connection, table, column, new, app.limits.column_migration_rows)
            if change.validate:
                await self._columns.validate(connection, table, new)
            await self._make_unique(connection, app, table_id, new.name, change.unique)
            if goes_on:
                await self._request_migration(connection)

        refers = isinstance(change.references, NewReference)
        await self.change(app.app_id, actor, table_id, edit, "column.update", locks_app=refers, column=name)
        return goes_on

    def _check_members(self, columns: Iterable[Column]) -> None:
        """Raise a 400 error for a reference to members where these are on another node than the rows."""
        for column in columns:
            if column.of_member is not None and self._database.is_sharded:
                raise invalid(f"{column.name}.references.member", "On Citus no column refers to members.")

    async def _request_migration(self, connection: Connection) -> None:
        if self._jobs is not None:
            await self._jobs.request(MIGRATE, connection)

    async def finish_migration(self, app_id: UUID, table_id: UUID, number: int) -> None:
        """Finish the migration of a column: its other form replaces it; see `data.tables.column_migrator`."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = next((column for column in table.columns if column.number == number), None)
            if column is None or not column.migrating:
                raise ColumnNotFoundError
            await self._columns.swap_forms(connection, table, column)

        await self.change(app_id, SYSTEM, table_id, edit, "column.rewritten", number=number)

    async def add_words(self, app_id: UUID, table_id: UUID, number: int) -> None:
        """Store the words of a text column with every write from now on; see `pilotis.data.tables.vectors`.

        Raises `ColumnNotFoundError` if the column has changed since then.
        """

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = next((column for column in table.columns if column.number == number), None)
            if column is None or not column.may_store_words:
                raise ColumnNotFoundError
            if column.vector is None:
                await self._columns.add_words(connection, table, column)

        await self.change(app_id, SYSTEM, table_id, edit, "column.words_kept", number=number)

    async def mark_words_stored(self, connection: Connection, table: TableSchema, number: int) -> None:
        """Make searches read the stored words of a column; every row must have them."""
        async with connection.transaction():
            if not await store.mark_words_stored(connection, table.app_id, table.table_id, number):
                raise ColumnNotFoundError
            await publish(connection, Topic.TABLE, f"{table.app_id}/{table.table_id}")
        self.forget(table)

    async def drop_words(self, app_id: UUID, table_id: UUID, number: int) -> None:
        """Drop the stored words of a column, if there are any."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            column = next((column for column in table.columns if column.number == number), None)
            if column is None or column.vector is None:
                raise ColumnNotFoundError
            await self._columns.drop_words(connection, table, column)

        with suppress(ColumnNotFoundError, TableNotFoundError):
            await self.change(app_id, SYSTEM, table_id, edit, "column.words_dropped", number=number)

    async def drop_column(self, app: AppInfo, actor: Actor, table_id: UUID, name: str) -> None:
        """Move a column to the trash."""

        async def edit(connection: Connection, table: TableSchema) -> None:
            await self._columns.trash(connection, table, _column(table, name), app.limits.trash_columns)

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
        locks_app: bool = False,
        prepare: Edit | None = None,
        touch: bool = True,
        **details: Any,
    ) -> None:
        """Run an edit on a locked table under a new version and audit it; every change of a table goes through here.

        With `trashed` the table is one in the trash; with `locks_app` the app is locked before it; without `touch` its
        `update_time` stays, for what its users do not see. `prepare` runs before, under the old version. Retries while
        the table is locked. Raises `TableNotFoundError`, `TitleTakenError`, `TableBusyError`, and what the edit raises.
        """
        neighbours = set[UUID]()

        async def once() -> None:
            async with _unique_title(), schema_transaction(self._database, app_id) as connection:
                if locks_app:
                    await lock_app(connection, app_id)
                row = await store.lock_table(connection, app_id, table_id, trashed=trashed)
                if row is None:
                    raise TableNotFoundError
                table = row.schema
                if title is not None and title != table.title:
                    _check_title(title)
                if prepare is not None:
                    await prepare(connection, table)
                # First, so that no write under the old version happens after this transaction has its locks.
                await connection.execute(ddl.change_version(table, table.version + 1))
                await edit(connection, table)
                now = msgspec.structs.replace(
                    table, title=title or table.title, access_level=access_level or table.access_level
                )
                await _publish(connection, table, now.title, now.access_level, touch=touch)
                # What comes back from the trash may not fit any more; then it is closed.
                for guard in () if trashed else self.guards:
                    await guard(connection, app_id, table_id)
                neighbours.update(await _tell_neighbours(connection, table))
                await record(connection, app_id, actor, action, table_id, **details)
                if type_ := events.OF_ACTION.get(action):
                    await self._events.emit_all(connection, app_id, [events.about(type_, actor, now)])
            self.forget(table)
            self._forget_tables(app_id, neighbours)

        try:
            await self._retry_while_locked(app_id, table_id, once)
        except TooManyChangesError:
            if trashed or edit is reclaiming.replace:
                raise
            await self.reclaim(app_id, table_id)
            await self._retry_while_locked(app_id, table_id, once)

    async def tables_of(self, app_id: UUID) -> list[UUID]:
        """Return the ids of an app's tables."""
        return await store.table_ids(self._database, app_id)

    async def emits(self, app_id: UUID, table_id: UUID) -> bool:
        """Return whether a table emits events of its rows."""
        row = await store.live_table(self._database.of(app_id), app_id, table_id)
        return row is not None and bool(row.schema.emits)

    async def set_emitted(self, app_id: UUID, table_id: UUID, wanted: Wanted) -> None:
        """Make a table emit events for exactly the wanted operations on its rows; see `pilotis.data.rows.emitting`.

        This is a schema change, so every statement that begins after it, on any node, emits them. `wanted` is asked
        while the table is locked: whoever stops its events beside one who listens to it sees that one, or is seen.
        """
        is_so = False

        async def check() -> None:
            nonlocal is_so
            async with schema_transaction(self._database, app_id) as connection:
                row = await store.lock_table(connection, app_id, table_id)
                is_so = row is None or row.schema.emits == await wanted(connection)

        async def edit(connection: Connection, table: TableSchema) -> None:
            operations = await wanted(connection)
            if operations:
                await register_outbox(connection, app_id)
                await connection.execute(ddl.create_outbox(app_id))
            await store.set_emits(connection, table, operations)

        with suppress(TableNotFoundError):
            await self._retry_while_locked(app_id, table_id, check)
            if not is_so:
                await self.change(app_id, SYSTEM, table_id, edit, "table.arm", touch=False)

    async def set_watched(self, app_id: UUID, table_id: UUID, is_wanted: IsWanted, *, watched: bool) -> None:
        """Make the statements on a table's rows write the app's log of changes, or stop them.

        This is a schema change: every statement that begins after it, on any node, writes the log. `is_wanted` is asked
        in its transaction. Raises `TableBusyError` and `TableNotFoundError`.
        """

        async def edit(connection: Connection, table: TableSchema) -> None:
            if table.watched is watched or not await is_wanted(connection):
                raise _UnchangedError
            if watched:
                for statement in ddl.create_change_log(app_id, is_sharded=self._database.is_sharded):
                    await connection.execute(statement)
            await store.set_watched(connection, table, watched=watched)

        with suppress(_UnchangedError):
            await self.change(app_id, SYSTEM, table_id, edit, "table.watch", touch=False)

    async def reclaim(self, app_id: UUID, table_id: UUID) -> None:
        """Rewrite a table without its dropped columns; see `pilotis.data.tables.reclaiming`."""
        await self.change(app_id, SYSTEM, table_id, reclaiming.replace, "table.rewrite", prepare=reclaiming.copy)

    async def reclaim_all(self, connection: Connection) -> None:
        """Rewrite every table that has accumulated too many dropped columns."""
        for app_id, table_id in await reclaiming.tables_to_rewrite(connection):
            with suppress(TableNotFoundError, TableBusyError):
                await self.reclaim(app_id, table_id)

    async def absorb(self, connection: Connection, table: TableSchema, column: Column) -> None:
        """Move the values that free-form rows have under a column's name into the column; see `Columns.absorb`."""
        await self._columns.absorb(connection, table, column)

    async def _retry_while_locked(self, app_id: UUID, table_id: UUID, change: Callable[[], Awaitable[None]]) -> None:
        """Run a change in a `schema_transaction`, and retry it while the table is locked."""
        deadline = time.monotonic() + self._retry_seconds
        while True:
            try:
                return await change()
            except UnavailableError as error:
                if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                    raise
                if time.monotonic() > deadline:
                    raise TableBusyError from error
            # An index build keeps the table locked until it is done, and can be repeated later.
            await index_builds.cancel_builds(self._database, app_id, table_id)
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
    """Yield a connection inside a transaction that waits only briefly for locks, and may run long once it has them.

    Raises `TableNotFoundError` if the app no longer exists, and `TooManyChangesError`.
    """
    try:
        async with database.transaction(app_id, statement_seconds=_DDL_SECONDS) as connection:
            await connection.execute(f"set local lock_timeout = {_LOCK_MILLISECONDS}")
            yield connection
    except asyncpg.TooManyColumnsError:
        raise TooManyChangesError from None
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        raise TableNotFoundError from None


def _check_title(title: str) -> None:
    """Raise an error for a title that is a UUID: in a path it would be taken for an id."""
    if is_uuid(title):
        raise invalid("title", "The title of a table is not a UUID, or it would be taken for an id.")


@asynccontextmanager
async def _unique_title() -> AsyncGenerator[None]:
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "table_title_unique":
            raise TitleTakenError from None
        raise


async def _with_references(connection: Connection, table: TableSchema, place: str) -> TableSchema:
    """Return a new table with the tables that its columns refer to."""
    columns = [
        await references.looked_up(connection, table, column, f"{place}{column.name}.references")
        for column in table.columns
    ]
    return msgspec.structs.replace(table, columns=tuple(columns))


async def _looked_up(
    connection: Connection, table: TableSchema, title: str, wanted: dict[str, Column]
) -> dict[str, Column]:
    """Return the columns of a definition with the tables that they refer to; the table gets a title with them."""
    named = msgspec.structs.replace(table, title=title)
    return {
        name: await references.looked_up(connection, named, column, f"schema.{name}.references")
        for name, column in wanted.items()
    }


async def _tell_neighbours(connection: Connection, table: TableSchema) -> set[UUID]:
    """Make every node forget the tables to which a changed table refers, or that refer to it; return them."""
    neighbours = await store.neighbours(connection, table.app_id, table.table_id)
    neighbours |= {reference.target for _, reference in table.references}
    neighbours -= {table.table_id}
    for neighbour in neighbours:
        await publish(connection, Topic.TABLE, f"{table.app_id}/{neighbour}")
    return neighbours


async def require_room(connection: Connection, app: AppInfo) -> None:
    """Raise `ConflictError` if the app has reached its limit of tables; else lock the app for the transaction."""
    if await store.count_tables(connection, app.app_id) >= app.limits.tables:
        raise ConflictError(f"An app has at most {app.limits.tables} tables.")


async def _publish(
    connection: Connection, table: TableSchema, title: str, access_level: AccessLevel, *, touch: bool = True
) -> None:
    await store.update_table(connection, table, title, access_level, table.version + 1, touch=touch)
    for statement in ddl.index_creators(msgspec.structs.replace(table, access_level=access_level)):
        await connection.execute(statement)
    await publish(connection, Topic.TABLE, f"{table.app_id}/{table.table_id}")


def _keys_of(definition: TableDefinition) -> list[tuple[str, NewUniqueKey]]:
    """Return the unique keys that a definition asks for, with their places: its own, and those of single columns."""
    listed = [] if definition.unique is msgspec.UNSET else definition.unique
    own = [(f"schema.{name}.unique", NewUniqueKey(columns=[name])) for name in unique_columns(definition.schema)]
    return [*((f"unique[{at}]", key) for at, key in enumerate(listed)), *own]


def _wanted(app: AppInfo, definition: TableDefinition) -> dict[str, Column]:
    """Return the columns of a definition by name; raises a 400 error."""
    wanted = {column.name: column for column in parse_schema(definition.schema, app.limits)}
    for column in wanted.values():
        check_default(column, app.limits.default_bytes, f"schema.{column.name}.default")
    return wanted


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
        "on_update": change.on_update,
    }
    given |= {field: value for field, value in options.items() if value is not msgspec.UNSET}
    if change.references is None:
        given |= {"references": None, "of_member": None}
    elif isinstance(change.references, NewReference):
        given |= {"references": change.references.stored, "of_member": change.references.of_member}
    if change.normalize is not msgspec.UNSET:
        given["normalize"] = steps_of(change.normalize)
    given["checks"] = merged(column.checks, change)
    return msgspec.structs.replace(column, **given)


def _table(row: store.TableRecord) -> Table:
    table = row.schema
    return Table(
        id=table.table_id,
        app_id=table.app_id,
        title=table.title,
        schema={column.name: column.definition() for column in table.columns},
        is_active=True,
        access_level=table.access_level,
        create_time=rfc3339(row.created_at),
        update_time=rfc3339(row.updated_at),
        has_rules=True if table.rules is not None else msgspec.UNSET,
        unique=[shown_key(table, key) for key in table.keys] or msgspec.UNSET,
        referenced_by=[
            ReferencedBy(
                table_id=one.table_id,
                table=one.table,
                column=one.column,
                on_delete=one.on_delete,
                key=one.key or msgspec.UNSET,
            )
            for one in table.referrers
        ]
        or msgspec.UNSET,
    )


def _shown_reference(column: Column) -> ShownReference | msgspec.UnsetType:
    if column.of_member is not None:
        return ShownReference(member=True, on_delete=column.of_member)
    if (refers := column.references) is None:
        return msgspec.UNSET
    return ShownReference(
        table=refers.table, table_id=refers.target, key=refers.key or msgspec.UNSET, on_delete=refers.on_delete
    )


def _column_item(column: Column, order: int) -> ColumnItem:
    return ColumnItem(
        name=column.name,
        data_type=column.type.data_type,
        is_required=bool(column.required),
        default_value=column.default,
        description=column.description,
        encrypted=bool(column.encrypted),
        order=order,
        references=_shown_reference(column),
        checks=column.shown_checks or msgspec.UNSET,
        on_update=msgspec.UNSET if column.on_update is None else column.on_update,
        normalize=column.shown_normalize or msgspec.UNSET,
        migrating=("decrypting" if column.encrypted else "encrypting") if column.migrating else msgspec.UNSET,
    )
