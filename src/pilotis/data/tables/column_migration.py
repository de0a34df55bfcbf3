"""Encrypts or decrypts a column: its other form is added, filled, and replaces the column.

For a small table all of this happens in the transaction of the schema change; for a large one see
`pilotis.data.tables.column_migrator`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.data.tables import ddl
from pilotis.data.tables.encrypted_columns import ColumnCipher
from pilotis.data.tables.schema import PHYSICAL_TYPES, Column, TableSchema
from pilotis.kit import json

BATCH = 1000
FIRST = UUID(int=0)


async def migrate(connection: Connection, table: TableSchema, column: Column, cipher: ColumnCipher) -> None:
    """Encrypt the values of a plain column, or decrypt those of an encrypted one; the caller holds the table lock."""
    await connection.execute(ddl.add_column(table, column.other_form))
    await finish(connection, table, column, cipher)


async def finish(connection: Connection, table: TableSchema, column: Column, cipher: ColumnCipher) -> None:
    """Fill the remaining rows and drop the column's current form; the caller holds the table lock.

    After encryption, no copy of the plain values is left in the table's file.
    """
    after = FIRST
    while rows := await fill(connection, table, column, cipher, after):
        after = rows[-1]
    await connection.execute(ddl.drop_column(table, column))
    if not column.encrypted:
        await connection.execute(ddl.rewrite(table, column.other_form))


async def fill(
    connection: Connection, table: TableSchema, column: Column, cipher: ColumnCipher, after: UUID
) -> Sequence[UUID]:
    """Fill the other form of a column in the next rows after an id that lack it, and return their ids.

    They stay locked until the transaction ends. Rows locked by other transactions are skipped.
    """
    value = column.physical if column.encrypted else f"to_json({column.physical})::text"
    # PostgreSQL assumes that few rows lack a value of a new column, and would read the whole table for each batch.
    await connection.execute("set local enable_seqscan = off; set local enable_bitmapscan = off")
    rows = await connection.fetch(
        f"""
        select __id as id, {value} as value from {table.physical}
        where {column.physical} is not null and {column.other_form.physical} is null and __id > $1
        order by __id limit {BATCH} for no key update skip locked
        """,
        after,
    )
    if rows:
        await (_decrypt if column.encrypted else _encrypt)(connection, table, column, cipher, rows)
    return [row_id for (row_id, *_) in rows]


async def _encrypt(
    connection: Connection, table: TableSchema, plain: Column, cipher: ColumnCipher, rows: Sequence[Record]
) -> None:
    def encrypt() -> list[tuple[bytes, bytes]]:
        return [cipher.encrypt_value(plain, json.decode(value.encode()), row_id) for row_id, value in rows]

    # In a thread, so that the event loop keeps serving other requests.
    values, hashes = zip(*await asyncio.to_thread(encrypt), strict=True)
    encrypted = plain.other_form
    await connection.execute(
        f"""
        update {table.physical} t set {encrypted.physical} = v.encrypted, {encrypted.hash} = v.hash
        from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as v(id, encrypted, hash) where t.__id = v.id
        """,
        [row_id for (row_id, *_) in rows],
        values,
        hashes,
    )


async def _decrypt(
    connection: Connection, table: TableSchema, encrypted: Column, cipher: ColumnCipher, rows: Sequence[Record]
) -> None:
    def decrypt() -> bytes:
        decrypted = [(row_id, cipher.decrypt_value(encrypted, value, row_id)) for row_id, value in rows]
        return json.encode([{"id": str(row_id), "value": msgspec.Raw(value)} for row_id, value in decrypted])

    values = (await asyncio.to_thread(decrypt)).decode()
    plain = encrypted.other_form
    time = f", {plain.time} = pilotis.try_time(v.value)" if plain.has_time else ""
    await connection.execute(
        f"""
        update {table.physical} t set {plain.physical} = v.value{time}
        from json_to_recordset($1) as v(id uuid, value {PHYSICAL_TYPES[plain.type]}) where t.__id = v.id
        """,
        values,
    )
