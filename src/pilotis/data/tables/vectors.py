"""The words of a searched column, stored in its row for indexing and ranking.

Extracting the words of a text takes a hundred times as long as ranking by them. So when the first search index of a
string column is built, a schema change adds an empty column for its words. From then on every write of the column
stores its words too, under the same schema version on every node; older rows are filled in the background. A row lacks
the words exactly if they must still be extracted, so the rows themselves record the progress.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from asyncpg import Connection

from pilotis.data.tables.schema import Column, TableSchema

_BATCH = 200
"""The number of rows whose words one statement stores; they are locked until it ends."""
_FIRST = UUID(int=0)


def words_of(text: str) -> str:
    """Return the expression for the words of a text, a tsvector."""
    return f"pilotis.search_words({text})"


def stored_words_of(column: Column) -> str:
    """Return the expression for the words of a column that stores them, a tsvector.

    Without `coalesce` PostgreSQL would underestimate the cost of comparing them, and read whole tables.
    """
    return f"coalesce({column.words}, {words_of(column.physical)})"


def add(table: TableSchema, column: Column) -> str:
    """Return the statement that adds the empty column for a column's words, in constant time."""
    return f"alter table {table.physical} add column {column.words} tsvector"


def drop(table: TableSchema, column: Column) -> str:
    """Return the statement that drops the words and their index."""
    return f"alter table {table.physical} drop column {column.words}"


async def fill(connection: Connection, table: TableSchema, column: Column) -> None:
    """Store the words of every row that lacks them, in batches, leaving half of the time for other work."""
    while await connection.fetchval(f"select exists (select from {table.physical} where {_lacks_words(column)})"):
        after: UUID = _FIRST
        while True:
            started = time.monotonic()
            ids = await _fill_batch(connection, table, column, after)
            if not ids:
                break
            after = max(ids)
            await asyncio.sleep(time.monotonic() - started)


async def _fill_batch(connection: Connection, table: TableSchema, column: Column, after: UUID) -> Sequence[UUID]:
    async with connection.transaction():
        # PostgreSQL assumes that few rows lack a value of a new column, and would read the whole table for each batch.
        await connection.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
        rows = await connection.fetch(
            f"""
            with batch as (
                select __id as id from {table.physical} where {_lacks_words(column)} and __id > $1
                order by __id limit {_BATCH} for no key update
            )
            update {table.physical} t set {column.words} = {words_of(f"t.{column.physical}")}
            from batch where t.__id = batch.id returning t.__id as id
            """,
            after,
        )
    return [row_id for (row_id,) in rows]


def _lacks_words(column: Column) -> str:
    return f"{column.physical} is not null and {column.words} is null"
