"""SQL statements for what processes tell each other of their live streams."""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.db.pool import Database

_SECONDS = 60


async def nodes(database: Database, app_id: UUID) -> dict[UUID, str]:
    """Return the processes that are alive, by id, with their names."""
    rows = await database.fetch(
        "select node_id, name from pilotis.nodes where lease_until > now() order by name, node_id", tenant=app_id
    )
    return {row["node_id"]: row["name"] for row in rows}


async def answer(database: Database, app_id: UUID, question: UUID, node_id: UUID, report: str) -> None:
    """Store a process's answer."""
    await database.execute(
        """
        insert into pilotis.live_reports (app_id, question, node_id, report) values ($1, $2, $3, $4)
        on conflict do nothing
        """,
        app_id,
        question,
        node_id,
        report,
        tenant=app_id,
    )


async def answers(database: Database, app_id: UUID, question: UUID) -> dict[UUID, str]:
    """Return the answers that are there, by process."""
    rows = await database.fetch(
        "select node_id, report from pilotis.live_reports where app_id = $1 and question = $2",
        app_id,
        question,
        tenant=app_id,
    )
    return {row["node_id"]: row["report"] for row in rows}


async def forget(connection: Connection) -> None:
    """Delete the answers of the past."""
    await connection.execute("delete from pilotis.live_reports where at < now() - make_interval(secs => $1)", _SECONDS)
