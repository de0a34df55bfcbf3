"""Builds the unique keys of large tables in the background, so that writers never wait.

The schema change that adds such a key only records it as `building`. From then on writes expect that it may forbid a
row, since PostgreSQL enforces an index before it is complete. A build that is interrupted, by a schema change or with
its node, leaves an index that no query uses; the next run drops it and starts again. If rows have the same values, the
key has `failed`, and says how many they are.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
import structlog
from asyncpg import Connection

from pilotis.data.tables import keys, store
from pilotis.data.tables.index_builds import KEY_BUILDS
from pilotis.data.tables.keys import UniqueKey
from pilotis.data.tables.schema import TableSchema
from pilotis.data.tables.service import TableNotFoundError, Tables
from pilotis.db.connecting import set_client_seconds
from pilotis.http.api.principals import SYSTEM
from pilotis.kit.errors import PilotisError

BUILD = KEY_BUILDS
"""The periodic task that builds unique keys."""
RUN_SECONDS = 60.0
_log = structlog.get_logger("pilotis.unique_keys")


class _GoneError(Exception):
    """The key was removed, or is built, meanwhile."""


class _Found(NamedTuple):
    """A table, and its key that is being built."""

    table: TableSchema
    key: UniqueKey

    @property
    def index_name(self) -> str:
        """The qualified name of the key's index."""
        return f"{self.table.schema_name}.{keys.index_name(self.table.table_id.hex, self.key.number)}"


class KeyBuilder:
    """Builds the keys that schema changes have recorded."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def run_once(self, connection: Connection) -> None:
        """Build every recorded key in sequence; the next run retries one that was interrupted.

        `connection` is outside the pool; the caller ensures that no other node runs this at the same time.
        """
        set_client_seconds(connection, None)
        # Where the platform supports it, a build ends with the node that began it.
        with suppress(asyncpg.PostgresError):
            await connection.execute("set client_connection_check_interval = '2s'")
        for app_id, table_id, number in await store.building_keys(connection):
            try:
                await self._build(connection, await _found(connection, app_id, table_id, number))
            except (_GoneError, TableNotFoundError):
                continue
            except (PilotisError, asyncpg.PostgresError) as error:
                # Most likely a schema change interrupted it.
                _log.warning("key not built yet", table_id=str(table_id), key=number, error=repr(error))

    async def _build(self, connection: Connection, found: _Found) -> None:
        table, key, index = found.table, found.key, found.index_name
        if not await connection.fetchval("select indisvalid from pg_index where indexrelid = to_regclass($1)", index):
            await connection.execute(f"drop index concurrently if exists {index}")
            try:
                await connection.execute(
                    keys.create(key, table.key_columns, table.table_id.hex, table.physical, concurrently=True)
                )
            except (asyncpg.UniqueViolationError, asyncpg.ProgramLimitExceededError) as error:
                await connection.execute(f"drop index concurrently if exists {index}")
                await self._fail(connection, found, is_too_long=isinstance(error, asyncpg.ProgramLimitExceededError))
                return
        await self._settle(found, "ready")
        _log.info("key built", table_id=str(table.table_id), key=key.name)

    async def _fail(self, connection: Connection, found: _Found, *, is_too_long: bool) -> None:
        table, key = found.table, found.key
        row = await connection.fetchrow(keys.duplicates(key, table.key_columns, table.physical))
        assert row is not None
        total, pairs = row
        if not total and not is_too_long:
            return  # They have gone meanwhile; the next run builds it.
        await self._settle(found, "failed", total, tuple(pairs or ()))
        _log.warning("key not built", table_id=str(table.table_id), key=key.name, rows=total)

    async def _settle(
        self, found: _Found, state: Literal["ready", "failed"], conflicts: int = 0, pairs: tuple[str, ...] = ()
    ) -> None:
        """Record what became of a key, under a new version of the table, which every node then reads."""
        number = found.key.number

        async def edit(connection: Connection, table: TableSchema) -> None:
            if not any(key.number == number and key.state == "building" for key in table.keys):
                raise _GoneError
            if state == "ready" and not await connection.fetchval(
                "select indisvalid from pg_index where indexrelid = to_regclass($1)", found.index_name
            ):
                raise _GoneError
            known = [
                msgspec.structs.replace(key, state=state, conflicts=conflicts, pairs=pairs)
                if key.number == number
                else key
                for key in table.keys
            ]
            await store.set_keys(connection, table.app_id, table.table_id, known)

        table = found.table
        await self._tables.change(
            table.app_id, SYSTEM, table.table_id, edit, f"unique_key.{state}", touch=False, name=found.key.name
        )


async def _found(connection: Connection, app_id: UUID, table_id: UUID, number: int) -> _Found:
    row = await store.live_table(connection, app_id, table_id)
    if row is None:
        raise TableNotFoundError
    table = row.schema
    for key in table.keys:
        if key.number == number and key.state == "building":
            return _Found(table, key)
    raise _GoneError
