"""Statistics of apps' tables that were recently filled."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.data.tables.index_builds import CONNECTION_NAME
from pilotis.data.tables.schema import TableSchema
from pilotis.db.statistics import Statistics


class TableStatistics(Statistics[TableSchema]):
    """Counts the rows of apps' tables that one node writes, and analyzes those that have grown."""

    # Schema changes find it by this name and cancel it.
    connection_name = CONNECTION_NAME

    def written(self, table: TableSchema, rows: int) -> None:
        """Count committed rows."""
        self.count(table.table_id, table, rows)

    async def analyze(self, connection: Connection, table: TableSchema) -> int:
        """See `Statistics.analyze`."""
        # Does not wait for locks, such as that of another node's analysis.
        await connection.execute(f"analyze (skip_locked) {table.physical}")
        rows: int = await connection.fetchval(
            f"select coalesce(sum(rows), 0)::bigint from {table.counts} where table_id = $1", table.table_id
        )
        return rows
