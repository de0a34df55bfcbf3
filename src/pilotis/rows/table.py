"""What a node prepares for one table at one schema version: decoders, statements, and the merging of creates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pilotis.db.merging import Merger, Sharing
from pilotis.db.pool import Database
from pilotis.rows.statements import Statements
from pilotis.tables.schema import TableSchema
from pilotis.tables.values import RowDecoder


class PreparedTable:
    """A table ready for rows. Good for as long as its schema is current; a write with an older one fails."""

    def __init__(self, schema: TableSchema, database: Database) -> None:
        self.schema = schema
        self.statements = Statements(schema)
        self.new_rows = RowDecoder(schema.columns)
        self.changes = RowDecoder(schema.columns, partial=True)
        self._database = database
        self.pages: Sharing[bytes] = Sharing()
        self._creates: Merger[bytes, datetime] = Merger(self._insert)
        self._reads: Merger[str, str | None] = Merger(self._read, most=200)

    async def insert(self, record: bytes) -> datetime:
        """Insert one row, given as `record` makes it, and return the moment of its creation."""
        return await self._creates.submit(record)

    async def insert_many(self, records: Sequence[bytes]) -> datetime:
        """Insert rows in one statement and return the moment of their creation."""
        return (await self._insert(records))[0]

    async def _insert(self, records: Sequence[bytes]) -> Sequence[datetime]:
        rows = (b"[" + b",".join(records) + b"]").decode()
        created: datetime = await self._database.fetchval(self.statements.insert, rows)
        return [created] * len(records)

    async def read(self, row_id: str) -> str | None:
        """Return one row's JSON text by its id, or None."""
        return await self._reads.submit(row_id)

    async def _read(self, row_ids: Sequence[str]) -> Sequence[str | None]:
        rows = await self._database.fetch(self.statements.select_many, row_ids)
        found = {row["id"]: row["item"] for row in rows}
        return [found.get(row_id) for row_id in row_ids]
