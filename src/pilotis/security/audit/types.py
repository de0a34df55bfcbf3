"""The types of the audit log."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import Paging


class AuditQuery(Paging, forbid_unknown_fields=True):
    """Filters: `action`, such as `table.create`, or `table` for all actions on tables; `actor`, an `actor_id`."""

    action: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    actor: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what.

    `actor_kind` is `console_user`, `secret_key`, `member`, `public` (the public key alone),
    `anonymous` (nobody is signed in yet), `operator` (the command
    line) or `system` (automatic actions); `actor_id` the id of the console user, secret key or member;
    `actor_email` a console user's address. `target` is the id of the changed object,
    `request_id` that of the request that changed it.
    """

    entry_id: UUID
    created_at: str
    actor_kind: str
    actor_id: str | None
    actor_email: str | None
    action: str
    target: str | None
    details: JsonObject
    request_id: str | None
