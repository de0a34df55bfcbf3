"""The audit log: every console action and every schema change, written in the transaction that makes the change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from asyncpg import Connection

from pilotis.http.principals import Actor
from pilotis.kit import json
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
