"""Statistics of executions: their tables grow by thousands of rows in seconds."""

from __future__ import annotations

from asyncpg import Connection

from pilotis.db.statistics import Statistics

_TABLES = "pilotis.workflow_executions, pilotis.workflow_steps, pilotis.workflow_events"


class ExecutionStatistics(Statistics[str]):
    """Counts the executions that one node starts, and analyzes the tables of executions when they have grown."""

    def started(self) -> None:
        """Count an execution."""
        self.count(_TABLES, _TABLES, 1)

    async def analyze(self, connection: Connection, table: str) -> int:
        """See `Statistics.analyze`."""
        await connection.execute(f"analyze (skip_locked) {table}")
        rows: float = await connection.fetchval(
            "select reltuples from pg_class where oid = 'pilotis.workflow_executions'::regclass"
        )
        return max(0, int(rows))
