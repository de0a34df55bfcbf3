"""The types of the trash."""

from __future__ import annotations

from uuid import UUID

import msgspec


class TrashedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped table with the number of its rows. It can be restored until `restorable_until`."""

    table_id: UUID
    title: str
    rows: int
    dropped_at: str
    restorable_until: str


class TrashedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A dropped column of a live table; `number` identifies it among the table's columns."""

    table_id: UUID
    table_title: str
    number: int
    name: str
    data_type: str
    dropped_at: str
    restorable_until: str


class Trash(msgspec.Struct, frozen=True):
    """The content of an app's trash, latest first."""

    tables: list[TrashedTable]
    columns: list[TrashedColumn]


class TrashTableResult(msgspec.Struct, frozen=True):
    """The table, and a message about the change."""

    message: str
    id: UUID


class TrashColumnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The column with its table, and a message about the change."""

    message: str
    id: UUID
    number: int
    name: str


class EmptiedTrash(msgspec.Struct, frozen=True):
    """The number of tables and columns that were permanently deleted."""

    message: str
    tables: int
    columns: int
