"""Turning `encrypted` on or off: the column's other form is added beside it, filled, and takes its place.

A table of few rows goes through all of that in the schema change's own transaction; for a large one see
`pilotis.tables.rewriting`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.kit import json
from pilotis.tables import ddl
from pilotis.tables.schema import PHYSICAL_TYPES, Column, TableSchema
from pilotis.tables.sealing import Sealer

BATCH = 1000
FIRST = UUID(int=0)


async def reseal(connection: Connection, table: TableSchema, column: Column, sealer: Sealer) -> None:
    """Seal the values of a plain column, open those of a sealed one; the transaction holds the table."""
    await connection.execute(ddl.add_column(table, column.converse))
    await take_over(connection, table, column, sealer)


async def take_over(connection: Connection, table: TableSchema, column: Column, sealer: Sealer) -> None:
    """Fill what is left to fill and drop the column's present form; the transaction holds the table.

    After sealing, no copy of the plain values is left in the table's file.
    """
    after = FIRST
    while rows := await fill(connection, table, column, sealer, after):
        after = rows[-1]
    await connection.execute(ddl.drop_column(table, column))
    if not column.encrypted:
        await connection.execute(ddl.write_anew(table, column.converse))


async def fill(
    connection: Connection, table: TableSchema, column: Column, sealer: Sealer, after: UUID
) -> Sequence[UUID]:
    """Give the other form of a column to the next rows past an id that lack it, and return their ids.

    They stay locked until the transaction ends. Rows that somebody else has locked are passed over.
    """
    value = column.physical if column.encrypted else f"to_json({column.physical})::text"
    # PostgreSQL takes a new column for full, expects few rows to lack it, and would read all of it for each batch.
    await connection.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
    rows = await connection.fetch(
        f"""
        select __id as id, {value} as value from {table.physical}
        where {column.physical} is not null and {column.converse.physical} is null and __id > $1
        order by __id limit {BATCH} for no key update skip locked
        """,
        after,
    )
    if rows:
        await (_open if column.encrypted else _seal)(connection, table, column, sealer, rows)
    return [row["id"] for row in rows]


async def _seal(
    connection: Connection, table: TableSchema, plain: Column, sealer: Sealer, rows: Sequence[Record]
) -> None:
    def seal() -> list[tuple[bytes, bytes]]:
        return [sealer.seal_value(plain, json.decode(row["value"].encode()), row["id"]) for row in rows]

    # In a thread, for the sake of the requests that this process answers meanwhile.
    values, hashes = zip(*await asyncio.to_thread(seal), strict=True)
    sealed = plain.converse
    await connection.execute(
        f"""
        update {table.physical} t set {sealed.physical} = v.sealed, {sealed.hash} = v.hash
        from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as v(id, sealed, hash) where t.__id = v.id
        """,
        [row["id"] for row in rows],
        values,
        hashes,
    )


async def _open(
    connection: Connection, table: TableSchema, sealed: Column, sealer: Sealer, rows: Sequence[Record]
) -> None:
    def open_() -> bytes:
        opened = [(row["id"], sealer.open_value(sealed, row["value"], row["id"])) for row in rows]
        return json.encode([{"id": str(row_id), "value": msgspec.Raw(value)} for row_id, value in opened])

    values = (await asyncio.to_thread(open_)).decode()
    plain = sealed.converse
    time = f", {plain.time} = pilotis.try_time(v.value)" if plain.has_time else ""
    await connection.execute(
        f"""
        update {table.physical} t set {plain.physical} = v.value{time}
        from json_to_recordset($1) as v(id uuid, value {PHYSICAL_TYPES[plain.type]}) where t.__id = v.id
        """,
        values,
    )
