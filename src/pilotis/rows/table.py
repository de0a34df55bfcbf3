"""What a node prepares for one table at one schema version: decoders, statements, and the merging of creates."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from asyncpg import Connection, Record

from pilotis.db.merging import Merger, Sharing
from pilotis.db.pool import Database
from pilotis.encryption.cipher import Cipher
from pilotis.rows.indexes.recorder import UseRecorder
from pilotis.rows.indexes.uses import Notes
from pilotis.rows.operands import Arguments, Hash
from pilotis.rows.statements import Statements
from pilotis.tables.schema import TableSchema
from pilotis.tables.sealing import Sealer
from pilotis.tables.values import Row, RowDecoder

_generations = itertools.count()


class PreparedTable:
    """A table ready for rows. Good for as long as its schema is current; a write with an older one fails."""

    def __init__(
        self, schema: TableSchema, database: Database, cipher: Cipher | None, uses: UseRecorder | None = None
    ) -> None:
        self.schema = schema
        self._generation = next(_generations)
        self.sealer = Sealer(schema, cipher) if cipher else None
        self.statements = Statements(schema)
        self.new_rows = RowDecoder(schema.columns)
        self.changes = RowDecoder(schema.columns, partial=True)
        self._database = database
        self._uses = uses
        self._share = database.share(schema.app_id)
        self.pages: Sharing[bytes] = Sharing()
        self._creates: Merger[bytes, datetime] = Merger(self._insert)
        self._reads: Merger[str, str | None] = Merger(self._read, most=200)

    @property
    def hash(self) -> Hash | None:
        """What finds equal values of encrypted columns, where the table has any."""
        return self.sealer.hash if self.sealer else None

    def sealed(self, row: Row, row_id: str) -> Row:
        """Return a row as it is stored."""
        return self.sealer.seal(row, UUID(row_id)) if self.sealer else row

    def opened(self, items: str) -> bytes:
        """Return a JSON array of rows as the caller may read it."""
        return self.sealer.open_items(items.encode()) if self.sealer else items.encode()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection out of the app's share."""
        async with self._share, self._database.connection() as connection:
            yield connection

    def planned_anew(self, sql: str) -> str:
        """Return a statement that PostgreSQL has not settled on a plan for before this object was made.

        What it settled on while there was no index, it would keep to for as long as the connection lives.
        """
        return f"{sql} -- {self._generation}"

    @contextmanager
    def noting(self, notes: Notes | None) -> Generator[None]:
        """Time what happens within, a statement that reads the table by what the notes say."""
        started = time.perf_counter()
        try:
            yield
        finally:
            # One that was cut off for being slow counts as well.
            if notes is not None and self._uses is not None:
                self._uses.note(self.schema, notes, time.perf_counter() - started)

    async def fetch(self, query: str, arguments: Arguments) -> list[Record]:
        """Run one statement that was compiled from a request, on a connection of the app's share, and time it."""
        async with self.connection() as connection:
            with self.noting(arguments.notes):
                return await connection.fetch(self.planned_anew(query), *arguments.values)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """Run one statement on a connection of the app's share; return its first row's first column, or None."""
        async with self._share:
            return await self._database.fetchval(query, *arguments)

    async def insert(self, record: bytes) -> datetime:
        """Insert one row, given as `record` makes it, and return the moment of its creation."""
        return await self._creates.submit(record)

    async def insert_many(self, records: Sequence[bytes]) -> datetime:
        """Insert rows in one statement and return the moment of their creation."""
        return (await self._insert(records))[0]

    async def _insert(self, records: Sequence[bytes]) -> Sequence[datetime]:
        rows = (b"[" + b",".join(records) + b"]").decode()
        created: datetime = await self.fetchval(self.statements.insert, rows)
        return [created] * len(records)

    async def read(self, row_id: str) -> str | None:
        """Return one row's JSON text by its id, or None."""
        return await self._reads.submit(row_id)

    async def _read(self, row_ids: Sequence[str]) -> Sequence[str | None]:
        async with self._share:
            rows = await self._database.fetch(self.statements.select_many, row_ids)
        found = {row["id"]: row["item"] for row in rows}
        return [found.get(row_id) for row_id in row_ids]
