"""The audit log: every console action and every schema change, written in the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from asyncpg import Connection

from pilotis.db.paging import fetch_page
from pilotis.db.pool import Database
from pilotis.http.api.principals import Actor, AppInfo
from pilotis.http.api.schemas import ItemPage, time_field
from pilotis.kit import json
from pilotis.kit.clock import rfc3339
from pilotis.kit.ids import is_uuid, uuid7
from pilotis.limits import Limits
from pilotis.security.audit.types import AuditEntry, AuditQuery, AuditTarget, AuditTargets

_CONSOLE = UUID(int=0)


ENTRY_COLUMNS = {
    "entry_id": "uuid",
    "actor_kind": "text",
    "actor_id": "text",
    "action": "text",
    "target": "text",
    "details": "jsonb",
    "request_id": "text",
}
"""The columns of an entry except its app, with their types."""


class Entry(NamedTuple):
    """An entry of the audit log, for a statement that writes it together with the change."""

    app_id: UUID
    actor: Actor
    action: str
    target: object = None
    details: Mapping[str, Any] = {}

    def values(self) -> tuple[Any, ...]:
        """Return the values of `ENTRY_COLUMNS`."""
        target = None if self.target is None else str(self.target)
        own = (self.actor.kind, self.actor.id, self.action, target, json.encode(self.details).decode())
        return (uuid7(), *own, self.actor.request_id)


def entries_insert(app_id: str, values: str, source: str = "") -> str:
    """Return an insert of an app's entries; `values` are expressions for `ENTRY_COLUMNS` on each row of `source`."""
    return f"""
        insert into pilotis.audit_log (app_id, {", ".join(ENTRY_COLUMNS)}) select {app_id}, {values} {source}
    """


_INSERT = entries_insert("$1::uuid", ", ".join(f"${n}::{type_}" for n, type_ in enumerate(ENTRY_COLUMNS.values(), 2)))


async def record(
    connection: Connection,
    app_id: UUID,
    actor: Actor,
    action: str,
    target: object = None,
    **details: Any,
) -> None:
    """Write one entry, such as `table.create` with a table's id. `details` must contain no secrets."""
    await connection.execute(_INSERT, app_id, *Entry(app_id, actor, action, target, details).values())


_MAX_TARGETS = 200
_UUIDS = "any($3::uuid[])"
_NAMED = {
    "table": ("tables", "table_id", "title"),
    "member": ("members", "member_id", "coalesce(nickname, login_id, member_id)"),
    "storage": ("file_storages", "storage_id", "name"),
    "site": ("web_storages", "storage_id", "name"),
    "function": ("functions", "function_id", "name"),
    "workflow": ("workflows", "workflow_id", "name"),
    "webhook": ("webhooks", "webhook_id", "coalesce(nullif(name, ''), url)"),
    "public_key": ("public_keys", "key_id", "name"),
    "secret_key": ("secret_keys", "key_id", "name"),
    "oauth_client": ("oauth_clients", "client_id", "name"),
}
# Targets are of every kind, and an id does not tell which. A member and a client have texts as ids.
_NAMES = " union all ".join(
    f"select {key}::text as id, '{kind}' as kind, {name} as name from pilotis.{table} where app_id = $1 and {key} = "
    + ("any($2::text[])" if kind in {"member", "oauth_client"} else _UUIDS)
    for kind, (table, key, name) in _NAMED.items()
)


class StoredEntry(msgspec.Struct, frozen=True):
    """An entry of the audit log, with its console user's e-mail address; `details` is a JSON object."""

    entry_id: UUID
    at: datetime
    actor_kind: str
    actor_id: str | None
    action: str
    target: str | None
    details: str
    request_id: str | None
    email: str | None


class AuditLog:
    """Reads the audit log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, app: AppInfo, query: AuditQuery) -> ItemPage[AuditEntry]:
        """Return a page of the app's entries, newest first."""
        return await self._page(app.app_id, None, query, app.limits)

    async def targets(self, app: AppInfo, ids: str) -> AuditTargets:
        """Return what the targets of entries are and how they are called."""
        wanted = sorted(set(ids.split(",")))[:_MAX_TARGETS]
        uuids = [UUID(one) for one in wanted if is_uuid(one)]
        rows = await self._database.fetch(_NAMES, app.app_id, wanted, uuids, tenant=app.app_id)
        return AuditTargets({target: AuditTarget(kind, name) for target, kind, name in rows})

    async def of_user(self, user_id: UUID, query: AuditQuery, limits: Limits) -> ItemPage[AuditEntry]:
        """Return a page of the console's entries that are by or about a console user, newest first."""
        return await self._page(_CONSOLE, str(user_id), query, limits)

    async def _page(self, app_id: UUID, user_id: str | None, query: AuditQuery, limits: Limits) -> ItemPage[AuditEntry]:
        limit = limits.page_size(query.limit)
        rows, total = await fetch_page(
            self._database,
            app_id,
            """
            select l.entry_id, l.at, l.actor_kind, l.actor_id, l.action, l.target, l.details, l.request_id,
                case when l.actor_kind = 'console_user' then
                (select u.email from pilotis.users u where u.user_id = l.actor_id::uuid)
            end as email
            from pilotis.audit_log l
            where l.app_id = $1
                and ($2::text is null or l.action = $2 or starts_with(l.action, $2 || '.'))
                and ($3::text is null or l.actor_id = $3)
                and ($4::text is null or l.actor_id = $4 or l.target = $4)
                and ($5::timestamptz is null or l.at >= $5) and ($6::timestamptz is null or l.at < $6)
                and ($7::text is null or l.request_id = $7)
                and ($8::text is null or position(lower($8) in lower(concat_ws(
                    ' ', l.action, l.target, l.details, l.request_id, l.actor_id,
                    (select u.email from pilotis.users u where u.user_id::text = l.actor_id)
                ))) > 0)
            """,
            (
                app_id,
                query.action,
                query.actor,
                user_id,
                time_field(query.from_, "from"),
                time_field(query.to, "to"),
                query.request_id,
                query.search or None,
            ),
            order_by="entry_id desc",
            limit=limit,
            offset=query.offset,
            record=StoredEntry,
        )
        return ItemPage(data=[_entry(row) for row in rows], total_count=total, limit=limit, offset=query.offset)


def _entry(row: StoredEntry) -> AuditEntry:
    return AuditEntry(
        entry_id=row.entry_id,
        created_at=rfc3339(row.at),
        actor_kind=row.actor_kind,
        actor_id=row.actor_id,
        actor_email=row.email,
        action=row.action,
        target=row.target,
        details=msgspec.Raw(row.details.encode()),
        request_id=row.request_id,
    )
