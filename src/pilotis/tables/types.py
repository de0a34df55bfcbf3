"""The shapes of tables and columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.tables.schema import AccessLevel, Description

Title = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class Table(msgspec.Struct):
    """A table. `schema` maps each column's name to its type, or to an object with its type and options."""

    id: UUID
    app_id: UUID
    title: str
    schema: dict[str, Any]
    is_active: bool
    access_level: AccessLevel
    create_time: str
    update_time: str


class TableList(msgspec.Struct):
    """The app's tables, in the order of their creation."""

    tables: list[Table]


class TableDefinition(msgspec.Struct, forbid_unknown_fields=True):
    """A table to make, or what a table is to become."""

    title: Title
    schema: dict[str, Any]
    access_level: AccessLevel


class NewColumn(msgspec.Struct, forbid_unknown_fields=True):
    """A column to add."""

    name: Annotated[str, msgspec.Meta(max_length=255)]
    data_type: str
    is_required: bool | None = None
    default_value: Any = None
    description: Description | None = None
    encrypted: bool | None = None


class ColumnChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a column; what is not given stays. A null `default_value` or `description` removes it."""

    data_type: str | msgspec.UnsetType = msgspec.UNSET
    is_required: bool | msgspec.UnsetType = msgspec.UNSET
    default_value: Any = msgspec.UNSET
    description: Description | msgspec.UnsetType | None = msgspec.UNSET
    encrypted: bool | msgspec.UnsetType = msgspec.UNSET


class ColumnItem(msgspec.Struct):
    """A column as the column routes show it; `order` counts from 1 in the order in which columns were added.

    `rewriting` is there only while the values are being sealed, or opened, in the background.
    """

    name: str
    data_type: str
    is_required: bool
    default_value: Any
    description: str | None
    encrypted: bool
    order: int
    rewriting: Literal["sealing", "opening"] | msgspec.UnsetType = msgspec.UNSET


class ColumnList(msgspec.Struct):
    """A table's columns, in their order."""

    columns: list[ColumnItem]


class Done(msgspec.Struct):
    """What was done, and to which table."""

    message: str
    id: UUID


class ColumnDone(msgspec.Struct):
    """What was done, and to which column."""

    message: str
    name: str
