"""The rows that are made with a member, in its transaction; see `pilotis.members.arrivals`.

They belong to the member, and pass the checks and unique keys of their tables, but not the rules. The tables that the
settings name are closed to the public key, and a change that would stop sign-ups is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from asyncpg import Connection

from pilotis.data.rows import member_rows
from pilotis.data.rows.operations import perform, plan_create
from pilotis.data.rows.table import TOO_OLD, PreparedTable, PreparedTables
from pilotis.data.tables import store
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.db.blocks import after_commit
from pilotis.db.pool import Database, TenantDatabase
from pilotis.http.api.principals import AppInfo, AppItself, MemberInfo
from pilotis.http.api.repeating import ContendedError
from pilotis.kit import json
from pilotis.kit.account_settings import AccountSettings, SignUpField, SignUpRow
from pilotis.kit.errors import ConflictError, PilotisError, invalid
from pilotis.kit.ids import is_uuid
from pilotis.members.arrivals.types import MAX_ROWS, HookRow, MadeRow, Newcomer, R, Run

_NO_SESSION = UUID(int=0)
_TRIES = 3
SettingsOf = Callable[[Connection | TenantDatabase, UUID], Awaitable[AccountSettings]]
"""Returns an app's account settings as they are stored."""


class UsedOnSignUpError(ConflictError):
    """409 `USED_ON_SIGN_UP`: rows of the table are made with members, and could not be any more."""

    code = "USED_ON_SIGN_UP"
    message = "Rows of this table are made with members. Change on_sign_up in the account settings first."


class _Wanted(NamedTuple):
    table: PreparedTable
    row: SignUpRow


class Arrivals:
    """Makes the rows of members, and keeps what they need of their tables."""

    def __init__(self, database: Database, tables: Tables, prepared: PreparedTables, settings: SettingsOf) -> None:
        self._database = database
        self._prepared = prepared
        self._settings = settings
        tables.guards.append(self._require_possible)
        tables.namers.append(self._is_named)

    async def check(
        self, connection: Connection, app_id: UUID, rows: Sequence[SignUpRow]
    ) -> tuple[tuple[SignUpRow, ...], tuple[SignUpField, ...]]:
        """Return rows whose `table` was given, with the ids of their tables, and what they take from sign-ups.

        Locks the tables; raises a 400 error for a row that its table cannot have.
        """
        if len(rows) > MAX_ROWS:
            raise invalid("on_sign_up", f"At most {MAX_ROWS} rows are made with a member.", "TOO_MANY_ROWS")
        await store.share_tables(connection, app_id)
        schemas = [row.schema for row in await store.live_tables(connection, app_id)]
        by_name = {schema.title: schema for schema in schemas} | {str(schema.table_id): schema for schema in schemas}
        found, named = [], []
        for index, row in enumerate(rows):
            schema = by_name.get(row.table.lower() if is_uuid(row.table) else row.table)
            if schema is None:
                place = f"on_sign_up[{index}].table"
                raise invalid(place, f"{place}: the app has no table {row.table[:100]}.", "TABLE_NOT_FOUND")
            found.append(schema)
            named.append(msgspec.structs.replace(row, table_id=schema.table_id, table=schema.title))
        return tuple(named), member_rows.check(found, named)

    async def making(self, app: AppInfo, rows: Sequence[HookRow], run: Run[R]) -> R:
        """See `pilotis.members.arrivals`."""
        on_sign_up = app.accounts.on_sign_up
        for _ in range(_TRIES):
            try:
                wanted = [_Wanted(await self._prepared.current(app, row.table_id), row) for row in on_sign_up]
            except TableNotFoundError:
                # The settings have changed meanwhile: what they name now is there.
                on_sign_up = (await self._settings(self._database.of(app.app_id), app.app_id)).on_sign_up
                continue
            for hook_row in rows:
                table_id = await self._prepared.id_called(app.app_id, hook_row.table, "rows")
                table = await self._prepared.current(app, table_id)
                wanted.append(_Wanted(table, SignUpRow(table_id=table_id, table=hook_row.table, data=hook_row.data)))
            try:
                return await run(_Rows(app, wanted))
            except (*TOO_OLD, asyncpg.ForeignKeyViolationError):
                for table, _ in wanted:
                    self._prepared.forget(table)
            except PilotisError as error:
                outdated = [await self._prepared.forget_outdated(table.schema, error) for table, _ in wanted]
                if not any(outdated):
                    raise
        raise ContendedError

    async def _is_named(self, database: TenantDatabase, app_id: UUID, table_id: UUID) -> bool:
        """Return whether rows of a table are made with members."""
        stored = await self._settings(database, app_id)
        return any(row.table_id == table_id for row in stored.on_sign_up)

    async def _require_possible(self, connection: Connection, app_id: UUID, table_id: UUID) -> None:
        """Raise `UsedOnSignUpError` where a table has changed so that the rows of members cannot be made."""
        stored = await self._settings(connection, app_id)
        rows = stored.on_sign_up
        if not any(row.table_id == table_id for row in rows):
            return
        known = {row.schema.table_id: row.schema for row in await store.live_tables(connection, app_id)}
        schemas = [known[row.table_id] for row in rows if row.table_id in known]
        if [schema.title for schema in schemas] != [row.table for row in rows]:
            raise UsedOnSignUpError
        try:
            fields = member_rows.check(schemas, rows)
        except PilotisError as error:
            raise UsedOnSignUpError(f"{UsedOnSignUpError.message} {error.text}") from None
        # PostgreSQL keeps the order of lists, but not that of names.
        if {one.name: one for one in fields} != {one.name: one for one in stored.sign_up_fields}:
            raise UsedOnSignUpError


class _Rows:
    """Makes rows of prepared tables."""

    def __init__(self, app: AppInfo, wanted: Sequence[_Wanted]) -> None:
        self._app = app
        self._wanted = wanted

    async def make(self, connection: Connection, newcomer: Newcomer, made: Sequence[MadeRow] = ()) -> Sequence[MadeRow]:
        """See `pilotis.members.arrivals`."""
        member = MemberInfo(newcomer.member_id, _NO_SESSION, newcomer.is_guest, nickname=newcomer.nickname)
        principal = AppItself(self._app, member=member)
        left, all_made = list(made), list[MadeRow]()
        ids: list[str | None] = []
        for index, (table, row) in enumerate(self._wanted):
            if newcomer.is_guest and not row.guests:
                ids.append(None)
                continue
            known = next((one for one in left if one[0] == str(table.schema.table_id)), None)
            row_id = None
            if known is not None:
                left.remove(known)
                # What the guest has deleted meanwhile is missing: rows that follow may refer to it.
                row_id = await connection.fetchval(table.statements.lock, known[1])
            if row_id is None:
                data = member_rows.bound(row.data, newcomer, ids, index)
                row_id = await self._create(connection, principal, table, row, index, data)
            ids.append(row_id)
            all_made.append((str(table.schema.table_id), row_id))
        return all_made

    async def _create(
        self,
        connection: Connection,
        principal: AppItself,
        table: PreparedTable,
        row: SignUpRow,
        index: int,
        data: Mapping[str, Any],
    ) -> str:
        try:
            plan = plan_create(principal, table, self._app.limits, msgspec.Raw(json.encode(data)))
            await perform(connection.fetchrow, plan)
        except PilotisError as error:
            raise member_rows.at_input(error, row, index) from None

        def committed() -> None:
            table.written(1)
            plan.committed()

        after_commit(connection, committed)
        return plan.row_id
