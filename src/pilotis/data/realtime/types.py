"""The types of live subscriptions."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.data.rows.schemas import WhereObject
from pilotis.data.rows.types import TableName

SubscriptionId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
ChangeType = Literal["create", "update", "enter", "leave", "delete"]
ResetReason = Literal["gap", "overflow", "bulk", "schema", "access"]


class NewSubscription(msgspec.Struct, forbid_unknown_fields=True):
    """Rows of a table to be told of: those of a condition, one row, or all.

    `id` is the client's name for it, which its events carry. `types` are the changes to be told of, `fields` the
    columns to send; by default all.
    """

    id: SubscriptionId
    table_id: TableName
    where: WhereObject | None = None
    row_id: UUID | None = None
    types: Annotated[list[ChangeType], msgspec.Meta(min_length=1)] | None = None
    fields: Annotated[list[str], msgspec.Meta(max_length=1000)] | None = None


class OpenStream(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream tells. `after` is the id of the last event that the client has seen of an earlier stream."""

    subscriptions: list[NewSubscription] = []
    after: str | None = None


class LiveRow(msgspec.Struct, kw_only=True):
    """A row in an event. Without `data` it has left the subscription, was deleted, or is too large to be sent."""

    id: str
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    created_at: str | msgspec.UnsetType = msgspec.UNSET
    created_by: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str


class Change(msgspec.Struct, kw_only=True):
    """Data of the event `change`.

    `create`: a new row matches. `update`: a row that matched changed and still does. `enter`: it did not match or was
    not visible, and does now. `leave`: it matched and does not any more. `delete`: it matched and is gone. With
    `truncated` the row is larger than 64 kB; read it by its id.
    """

    subscription: str
    type: ChangeType
    row: LiveRow
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class Ready(msgspec.Struct, kw_only=True):
    """Data of the event `ready`: every change that commits from now on will be told, or a `reset`.

    `resumed` says whether the stream goes on after an earlier one; `started` names the subscriptions that begin now.
    """

    stream: str
    subscriptions: list[str]
    started: list[str]
    resumed: bool


class Reset(msgspec.Struct, kw_only=True):
    """Data of the event `reset`: read the rows of this subscription again.

    `gap`: the stream could not go on where it was. `overflow`: the client reads too slowly. `bulk`: too many rows
    changed at once. `schema`: the table changed. `access`: the caller may see other rows than before. With `code` the
    subscription has ended, with the error of that code.
    """

    subscription: str
    reason: ResetReason
    code: str | msgspec.UnsetType = msgspec.UNSET


class Bye(msgspec.Struct, kw_only=True):
    """Data of the event `bye`, the last one: the stream ends. Connect again after `retry_ms`, with a new token."""

    reason: Literal["token_expired", "session_ended", "going_away", "too_slow"]
    retry_ms: int
