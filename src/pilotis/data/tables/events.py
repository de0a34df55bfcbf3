"""The events of tables. A change of a column is a change of its table."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from pilotis.data.tables.schema import AccessLevel, TableSchema
from pilotis.events.types import EventType, NewEvent
from pilotis.http.api.principals import Actor

SCOPE = "tables:read"


class TableData(msgspec.Struct, frozen=True):
    """The data of a table in events."""

    id: UUID
    title: str
    access_level: AccessLevel


class TableEvent(msgspec.Struct, frozen=True):
    """Data of an event about a table: its state after the change."""

    table: TableData


class ImportEvent(msgspec.Struct, frozen=True):
    """Data of a finished import: the number of rows created, and of rejected lines."""

    table: TableData
    created: int
    rejected: int


_ORDERS = TableData(UUID("0199c0de-0000-7000-8000-0000007ab1e5"), "orders", AccessLevel.APP_MEMBER)


def _type(name: str, description: str) -> EventType[TableEvent]:
    return EventType(name=name, data=TableEvent, description=description, example=TableEvent(_ORDERS), scope=SCOPE)


TABLE_CREATED = _type("table.created", "A table was created.")
TABLE_UPDATED = _type("table.updated", "A table's title, access level or columns were changed.")
TABLE_DELETED = _type("table.deleted", "A table was moved to the trash.")
TABLE_RESTORED = _type("table.restored", "A table was restored from the trash.")
TABLE_IMPORTED = EventType(
    name="table.imported",
    data=ImportEvent,
    description="An import has finished.",
    example=ImportEvent(_ORDERS, created=1998, rejected=2),
    scope=SCOPE,
)
EVENT_TYPES: tuple[EventType[Any], ...] = (TABLE_CREATED, TABLE_UPDATED, TABLE_DELETED, TABLE_RESTORED, TABLE_IMPORTED)

OF_ACTION = {
    "table.update": TABLE_UPDATED,
    "table.drop": TABLE_DELETED,
    "table.restore": TABLE_RESTORED,
    "column.create": TABLE_UPDATED,
    "column.update": TABLE_UPDATED,
    "column.drop": TABLE_UPDATED,
    "column.rename": TABLE_UPDATED,
    "column.restore": TABLE_UPDATED,
}
"""The events by the audit log's actions that change what callers see of a table."""


def about(type_: EventType[TableEvent], actor: Actor, table: TableSchema) -> NewEvent:
    """Return an event about a table."""
    return type_.event(TableEvent(_data(table)), actor, **_of(table))


def imported(actor: Actor, table: TableSchema, created: int, rejected: int) -> NewEvent:
    """Return the event of a finished import."""
    return TABLE_IMPORTED.event(ImportEvent(_data(table), created, rejected), actor, **_of(table))


def _data(table: TableSchema) -> TableData:
    return TableData(table.table_id, table.title, table.access_level)


def _of(table: TableSchema) -> dict[str, Any]:
    return {"subject": f"tables/{table.table_id}", "table_id": table.table_id}
