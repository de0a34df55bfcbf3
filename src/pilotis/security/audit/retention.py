"""Retention of the audit log: by age, and by the number of entries per app.

Three kinds of entries are counted separately: those of callers without a console user's rights (the public key alone,
and members), those of executions that were started, and all others. So neither clients nor a program that starts
workflows can remove an owner's entries from the log by causing many of their own.
"""

from __future__ import annotations

from uuid import UUID

from asyncpg import Connection

from pilotis.limits import Limits

_BATCH = 5000
_SHARE = "case when action = 'workflow.execute' then 2 when actor_kind in ('public', 'member') then 1 else 0 end"


async def delete_old(connection: Connection, limits: Limits) -> int:
    """Delete entries older than `audit_days` or beyond an app's `audit_entries`, in batches; return how many."""
    total = 0
    if limits.audit_days:
        while deleted := await _delete_aged(connection, limits.audit_days):
            total += deleted
    if limits.audit_entries:
        for app_id, share in await _shares_beyond(connection, limits.audit_entries):
            total += await _delete_beyond(connection, app_id, share, limits.audit_entries)
    return total


async def _delete_aged(connection: Connection, days: int) -> int:
    return _count(
        await connection.execute(
            """
            delete from pilotis.audit_log where (app_id, entry_id) in (
                select app_id, entry_id from pilotis.audit_log
                where at < now() - make_interval(days => $1) order by at limit $2
            )
            """,
            days,
            _BATCH,
        )
    )


async def _shares_beyond(connection: Connection, limit: int) -> list[tuple[UUID, int]]:
    """Return the apps with more than `limit` entries of a kind, and that kind."""
    rows = await connection.fetch(
        f"select app_id, {_SHARE} as share from pilotis.audit_log group by app_id, share having count(*) > $1", limit
    )
    return [(app_id, share) for app_id, share in rows]


async def _delete_beyond(connection: Connection, app_id: UUID, share: int, limit: int) -> int:
    condition = f"app_id = $1 and ({_SHARE}) = $2"
    newest_to_go = await connection.fetchval(
        f"select entry_id from pilotis.audit_log where {condition} order by entry_id desc offset $3 limit 1",
        app_id,
        share,
        limit,
    )
    statement = f"""
        delete from pilotis.audit_log where app_id = $1 and entry_id in (
            select entry_id from pilotis.audit_log where {condition} and entry_id <= $3 order by entry_id limit $4
        )
    """
    total = 0
    while newest_to_go and (
        deleted := _count(await connection.execute(statement, app_id, share, newest_to_go, _BATCH))
    ):
        total += deleted
    return total


def _count(status: str) -> int:
    """Return the number of rows from a command tag such as `DELETE 5`."""
    return int(status.rpartition(" ")[2])
