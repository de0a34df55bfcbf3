"""The shapes of the trash."""

from __future__ import annotations

from uuid import UUID

import msgspec


class TrashedTable(msgspec.Struct, frozen=True):
    """A dropped table with the number of its rows. It can be restored until `restorable_until`."""

    table_id: UUID
    title: str
    rows: int
    dropped_at: str
    restorable_until: str


class TrashedColumn(msgspec.Struct, frozen=True):
    """A dropped column of a table that is not in the trash itself; `number` names it among the table's columns."""

    table_id: UUID
    table_title: str
    number: int
    name: str
    data_type: str
    dropped_at: str
    restorable_until: str


class Trash(msgspec.Struct, frozen=True):
    """What is in an app's trash, the latest first."""

    tables: list[TrashedTable]
    columns: list[TrashedColumn]


class TableDone(msgspec.Struct, frozen=True):
    """What was done, and to which table."""

    message: str
    id: UUID


class ColumnDone(msgspec.Struct, frozen=True):
    """What was done, and to which column of which table."""

    message: str
    id: UUID
    number: int
    name: str


class Emptied(msgspec.Struct, frozen=True):
    """How many tables and columns were ended for good."""

    message: str
    tables: int
    columns: int
