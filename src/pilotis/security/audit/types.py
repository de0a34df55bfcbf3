"""The types of the audit log."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec

from pilotis.http.api.json_schemas import JsonObject
from pilotis.http.api.schemas import Paging


class AuditQuery(Paging, forbid_unknown_fields=True):
    """Filters: `action`, such as `table.create`, or `table` for all actions on tables; `actor`, an `actor_id`.

    `from` and `to` are RFC 3339 times; `search` finds a part of the action, target, details, address of the actor or
    request id in either case.
    """

    action: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    actor: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    from_: Annotated[str, msgspec.Meta(max_length=40)] | None = msgspec.field(name="from", default=None)
    to: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    search: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    request_id: Annotated[str, msgspec.Meta(max_length=200)] | None = None


TargetKind = Literal[
    "table",
    "member",
    "storage",
    "site",
    "function",
    "workflow",
    "webhook",
    "public_key",
    "secret_key",
    "oauth_client",
    "user",
]


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


class AuditTargetsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The targets of entries, separated by commas."""

    ids: Annotated[str, msgspec.Meta(max_length=5_000)]


class AuditTarget(msgspec.Struct, frozen=True):
    """What a target is, and how it is called now."""

    kind: TargetKind
    name: str


class AuditTargets(msgspec.Struct, frozen=True):
    """Targets by id; those that no longer exist, or are of another kind, are left out."""

    targets: dict[str, AuditTarget]
