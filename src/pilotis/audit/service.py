"""The audit log: every console action and every schema change, written in the transaction that makes the change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from asyncpg import Connection, Record

from pilotis.audit.types import AuditEntry, AuditQuery
from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.http.principals import Actor, AppInfo
from pilotis.http.shapes import ItemPage
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.ids import uuid7


async def record(
    connection: Connection,
    app_id: UUID,
    actor: Actor,
    action: str,
    target: object = None,
    **details: Any,
) -> None:
    """Write one entry, such as `table.create` on a table's id. `details` must hold no secrets."""
    await connection.execute(
        """
        insert into pilotis.audit_log
            (app_id, entry_id, actor_kind, actor_id, action, target, details, request_id)
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        """,
        app_id,
        uuid7(),
        actor.kind,
        actor.id,
        action,
        None if target is None else str(target),
        json.encode(details).decode(),
        actor.request_id,
    )


class AuditLog:
    """Reads the audit log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, query: AuditQuery) -> ItemPage[AuditEntry]:
        """Return a page of the app's entries, newest first."""
        limit = min(query.limit, app.limits.page_rows)
        rows, total = await fetch_page(
            self._database,
            """
            select l.*, case when l.actor_kind = 'console_user' then
                (select u.email from pilotis.users u where u.user_id = l.actor_id::uuid)
            end as email
            from pilotis.audit_log l
            where l.app_id = $1
                and ($2::text is null or l.action = $2 or starts_with(l.action, $2 || '.'))
                and ($3::text is null or l.actor_id = $3)
            """,
            (app.app_id, query.action, query.actor),
            order_by="entry_id desc",
            limit=limit,
            offset=query.offset,
        )
        return ItemPage([_entry(row) for row in rows], total, limit, query.offset)


def _entry(row: Record) -> AuditEntry:
    return AuditEntry(
        row["entry_id"],
        rfc3339(row["at"]),
        row["actor_kind"],
        row["actor_id"],
        row["email"],
        row["action"],
        row["target"],
        msgspec.Raw(row["details"].encode()),
        row["request_id"],
    )
