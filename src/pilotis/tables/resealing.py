"""Turning `encrypted` on or off: what a column holds is rewritten in the schema change's own transaction."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.kit import json
from pilotis.tables.schema import Column, TableSchema, physical_type
from pilotis.tables.sealing import Sealer

_BATCH = 1000


async def seal_column(connection: Connection, table: TableSchema, plain: Column, sealer: Sealer) -> None:
    """Seal every value of a column, and leave no copy of the plain ones in the table's file."""
    old = f'"__p{plain.number}"'
    time = f", drop column {plain.time}" if plain.has_time else ""
    await connection.execute(f"alter table {table.physical} rename column {plain.physical} to {old}")
    await connection.execute(
        f"alter table {table.physical} add column {plain.physical} bytea, add column {plain.hash} bytea"
    )
    found = False
    async for rows in _batches(connection, table, old, f"to_json({old})::text"):
        found = True
        sealed = [(row_id, *sealer.seal_value(plain, json.decode(value.encode()), row_id)) for row_id, value in rows]
        ids, values, hashes = zip(*sealed, strict=True)
        await connection.execute(
            f"""
            update {table.physical} t set {plain.physical} = v.sealed, {plain.hash} = v.hash
            from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as v(id, sealed, hash) where t.__id = v.id
            """,
            ids,
            values,
            hashes,
        )
    await connection.execute(f"alter table {table.physical} drop column {old}{time}")
    if found:
        await _rewrite(connection, table, plain.hash)


async def open_column(connection: Connection, table: TableSchema, sealed: Column, sealer: Sealer) -> None:
    """Put the plain values of an encrypted column in the place of the sealed ones."""
    old, plain = f'"__p{sealed.number}"', msgspec.structs.replace(sealed, encrypted=None)
    await connection.execute(f"alter table {table.physical} rename column {sealed.physical} to {old}")
    added = [f"add column {plain.physical} {physical_type(plain)}"]
    if plain.has_time:
        added.append(f"add column {plain.time} timestamptz")
    await connection.execute(f"alter table {table.physical} {', '.join(added)}")
    time = f", {plain.time} = pilotis.try_time(v.value)" if plain.has_time else ""
    async for rows in _batches(connection, table, old, old):
        values = [
            {"id": str(row_id), "value": msgspec.Raw(sealer.open_value(sealed, value, row_id))}
            for row_id, value in rows
        ]
        await connection.execute(
            f"""
            update {table.physical} t set {plain.physical} = v.value{time}
            from json_to_recordset($1) as v(id uuid, value {physical_type(plain)}) where t.__id = v.id
            """,
            json.encode(values).decode(),
        )
    await connection.execute(f"alter table {table.physical} drop column {old}, drop column {sealed.hash}")


async def _batches(
    connection: Connection, table: TableSchema, present: str, value: str
) -> AsyncGenerator[list[tuple[UUID, Any]]]:
    last = UUID(int=0)
    while True:
        rows = await connection.fetch(
            f"""
            select __id, {value} as value from {table.physical}
            where {present} is not null and __id > $1 order by __id limit {_BATCH}
            """,
            last,
        )
        if not rows:
            return
        yield [(row["__id"], row["value"]) for row in rows]
        last = rows[-1]["__id"]


async def _rewrite(connection: Connection, table: TableSchema, column: str) -> None:
    # A dropped column's values and replaced rows stay in the file until it is written anew.
    await connection.execute(
        f"alter table {table.physical} alter column {column} type bytea using {column} || ''::bytea"
    )
