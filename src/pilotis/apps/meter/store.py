"""SQL statements for what apps use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from pilotis.db.pool import Database
from pilotis.db.waiters import BACKGROUND


class Use(NamedTuple):
    """What one app has used since the last flush."""

    app_id: UUID
    executions: int
    function_ms: int
    mails: int


async def add(database: Database, uses: Sequence[Use]) -> None:
    """Add to the current month, in UTC, of apps; those that no longer exist are skipped."""
    await database.execute(
        """
        insert into pilotis.metered as m (app_id, month, executions, function_ms, mails)
        select t.app_id, date_trunc('month', now() at time zone 'UTC')::date, t.executions, t.function_ms, t.mails
        from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) t (app_id, executions, function_ms, mails)
        join pilotis.apps using (app_id)
        order by app_id
        on conflict (app_id, month) do update set
            executions = m.executions + excluded.executions,
            function_ms = m.function_ms + excluded.function_ms,
            mails = m.mails + excluded.mails
        """,
        *zip(*uses, strict=True),
        tenant=BACKGROUND,
    )
