"""The shapes of the audit log."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import msgspec

from pilotis.http.shapes import Paging


class AuditQuery(Paging):
    """Which entries: `action` such as `table.create`, or `table` for all that begin so; `actor` an `actor_id`."""

    action: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    actor: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class AuditEntry(msgspec.Struct, frozen=True):
    """Who changed what.

    `actor_kind` is `console_user`, `secret_key`, `member`, `public` (the public key alone), `operator` (the command
    line) or `system` (what happens by itself); `actor_id` the id of the console user, secret key or member;
    `actor_email` a console user's address. `target` is the id of what was changed,
    `request_id` the one of the request that changed it.
    """

    entry_id: UUID
    created_at: str
    actor_kind: str
    actor_id: str | None
    actor_email: str | None
    action: str
    target: str | None
    details: msgspec.Raw
    request_id: str | None
