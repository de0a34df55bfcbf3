"""The event types of rows, which `pilotis.data.rows.emitting` writes."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

import msgspec

from pilotis.events.types import ROWS_CHANGED, EventType

SCOPE = "rows:read"
Names = list[str] | msgspec.UnsetType


class RowState(msgspec.Struct, frozen=True, kw_only=True):
    """A row in an event; unlike in answers, its creator is not named."""

    id: str
    data: dict[str, Any]
    created_at: str
    updated_at: str


class RowEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of an event about a row: its state after the change, or before a deletion.

    It never contains encrypted columns; `omitted` lists them, and is absent if there are none.
    """

    table_id: UUID
    table_title: str
    row: RowState
    omitted: Names = msgspec.UNSET


class RowUpdatedEvent(RowEvent, frozen=True, kw_only=True):
    """Data of a changed row, with its previous state and the names that the request set, encrypted ones included."""

    previous: RowState
    changed: list[str]


class RowsChangedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the single event for a statement that changed more than 1,000 rows."""

    table_id: UUID
    table_title: str
    operation: Literal["created", "updated", "deleted"]
    count: int


_ORDERS = UUID("0199c0de-0000-7000-8000-0000007ab1e5")


def _row(**data: Any) -> RowState:
    at = "2026-11-22T07:30:00.123Z"
    return RowState(id="0199c0de-0000-7000-8000-00000000a0e1", data=data, created_at=at, updated_at=at)


def _type(name: str, description: str, **omitted: Any) -> EventType[RowEvent]:
    example = RowEvent(table_id=_ORDERS, table_title="orders", row=_row(item="tea", paid=False), **omitted)
    return EventType(name=name, data=RowEvent, description=description, example=example, scope=SCOPE)


EVENT_TYPES: tuple[EventType[Any], ...] = (
    _type("row.created", "A row was created.", omitted=["card_number"]),
    EventType(
        name="row.updated",
        data=RowUpdatedEvent,
        description="A row was changed.",
        example=RowUpdatedEvent(
            table_id=_ORDERS,
            table_title="orders",
            row=_row(item="tea", paid=True),
            previous=_row(item="tea", paid=False),
            changed=["paid"],
        ),
        scope=SCOPE,
    ),
    _type("row.deleted", "A row was deleted."),
    EventType(
        name=ROWS_CHANGED,
        data=RowsChangedEvent,
        description="One statement changed more than 1,000 rows; there are no events for single rows.",
        example=RowsChangedEvent(table_id=_ORDERS, table_title="orders", operation="deleted", count=1200),
        scope=SCOPE,
    ),
)
