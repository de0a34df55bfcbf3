"""What archives read and write of the database: rows by COPY, on a connection of their own.

The names of tables and columns come from the declarations of features, and those of an app's schema from its catalogue;
none comes from an archive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.kit.archiving import Copied

Output = Callable[[bytes], Coroutine[Any, Any, None]]


class ArchivedAppRow(msgspec.Struct, frozen=True):
    """An app as an archive has it; `limits` and `account_settings` are JSON objects."""

    name: str
    schema_locked: bool
    allow_id_password_login: bool
    allow_guest_login: bool
    limits: str
    account_settings: str
    has_key: bool


class NamedBlob(NamedTuple):
    """A row that names bytes: their SHA-256 in hexadecimal, their id in the key, and their size."""

    sha256: str
    blob_id: UUID
    size: int


async def begin(connection: Connection) -> None:
    """Let the transaction last as long as an archive takes."""
    await connection.execute("set local idle_in_transaction_session_timeout = 0; set local lock_timeout = '5s'")


async def read_app(connection: Connection, app_id: UUID) -> ArchivedAppRow | None:
    """Return an app that is not deleted."""
    row = await connection.fetchrow(
        """
        select name, schema_locked, allow_id_password_login, allow_guest_login, limits, account_settings,
            encryption_key is not null as has_key
        from pilotis.apps where app_id = $1 and deleted_at is null
        """,
        app_id,
    )
    return None if row is None else ArchivedAppRow(**row)


async def schema_number(connection: Connection) -> int:
    """Return the number of the newest migration of the database."""
    number: int = await connection.fetchval("select max(number) from pilotis.migrations")
    return number


async def copy_out(
    connection: Connection, table: str, copied: Copied, app_id: UUID, hidden: Sequence[str], output: Output
) -> int:
    """Send the rows of a server's table to `output`, and return how many they are. `hidden` columns are null."""
    names = ["null" if name in hidden else f"t.{name}" for name in copied.names]
    where = f" and ({copied.where})" if copied.where else ""
    query = f"select {', '.join(names)} from pilotis.{table} t where t.app_id = '{app_id}'{where}"
    return await copy_query_out(connection, query, output)


async def copy_query_out(connection: Connection, query: str, output: Output) -> int:
    """Send the rows of a query without parameters to `output`, and return how many they are."""
    return _count(await connection.copy_from_query(query, output=output))


async def copy_in(
    connection: Connection, schema: str, table: str, columns: Sequence[str], lines: AsyncIterator[bytes]
) -> int:
    """Insert rows, and return how many they were."""
    return _count(await connection.copy_to_table(table, schema_name=schema, columns=columns, source=lines))


def _count(tag: str) -> int:
    return int(tag.removeprefix("COPY "))


def blobs_query(app_id: UUID, tables: Sequence[tuple[str, Copied]]) -> str:
    """Return the query for the bytes that an app's rows name: digest, id and size, in the order of the digests."""
    parts = [
        f"select encode(t.{named.sha256}, 'hex'), t.{named.blob_id}, t.{named.size} from pilotis.{table} t"
        f" where t.app_id = '{app_id}' and t.{named.blob_id} is not null"
        + (f" and ({copied.where})" if copied.where else "")
        for table, copied in tables
        if (named := copied.blobs) is not None
    ]
    return (
        f"select * from ({' union all '.join(parts)}) named (sha256, blob_id, size)"
        ' order by sha256 collate "C", blob_id'
    )


async def each_blob(
    connection: Connection, app_id: UUID, tables: Sequence[tuple[str, Copied]]
) -> AsyncIterator[NamedBlob]:
    """Yield what `blobs_query` finds, inside a transaction."""
    async for row in connection.cursor(blobs_query(app_id, tables), prefetch=500):
        yield NamedBlob(*row)


async def not_null(connection: Connection, table: str) -> set[str]:
    """Return the columns of a server's table that cannot be null."""
    rows = await connection.fetch(
        "select attname from pg_attribute where attrelid = $1::regclass and attnotnull and attnum > 0",
        f"pilotis.{table}",
    )
    return {name for (name,) in rows}


async def finish(connection: Connection, tables: Sequence[tuple[str, Copied]], app_id: UUID) -> None:
    """Run what features declare to follow after all rows."""
    for _, copied in tables:
        for statement in copied.finishing:
            await connection.execute(statement, app_id)


async def branch(
    connection: Connection, tables: Sequence[tuple[str, Copied]], branch_id: UUID, parent_id: UUID
) -> None:
    """Run what features declare to give a branch from its parent on this server."""
    for _, copied in tables:
        for statement in copied.branching:
            await connection.execute(statement, branch_id, parent_id)


async def has_app(connection: Connection, app_id: UUID) -> bool:
    """Return whether there is an app with this id, deleted ones included."""
    found: bool = await connection.fetchval("select exists (select from pilotis.apps where app_id = $1)", app_id)
    return found
