"""The types of tables and columns."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from pilotis.data.tables.checks import GivenChecks
from pilotis.data.tables.keys import CREATOR, CREATOR_NUMBER, MAX_COLUMNS, UniqueKey
from pilotis.data.tables.schema import AccessLevel, Description, NewReference, Normalize, OnDelete, TableSchema
from pilotis.data.tables.schemas import ColumnDefinition, ColumnDefinitions, ColumnTypeName
from pilotis.http.api.schemas import UuidText

Title = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class NewUniqueKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A unique key to create.

    `columns` are names of columns, or `$creator` for the member that created the row. The `name` is that of a column;
    without one it is the columns, joined by `_`. With `ignore_case`, texts that differ only in letter case are equal.
    With `nulls` "distinct", a row that lacks one of the values is outside of the key. `where` limits the key to the
    rows that fulfil it.
    """

    columns: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_COLUMNS)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)] | msgspec.UnsetType = msgspec.UNSET
    ignore_case: bool = False
    nulls: Literal["distinct", "equal"] = "distinct"
    where: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ShownUniqueKey(msgspec.Struct, kw_only=True):
    """A unique key: no two rows that it covers have the same values in its columns.

    `state` is present while it is being built in the background, `building`, and if that has `failed`, because `rows`
    have the values of other rows; `pairs` has the ids of some of them.
    """

    name: str
    columns: list[str]
    ignore_case: bool
    nulls: Literal["distinct", "equal"]
    where: dict[str, Any] | None
    state: Literal["building", "failed"] | msgspec.UnsetType = msgspec.UNSET
    rows: int | msgspec.UnsetType = msgspec.UNSET
    pairs: list[list[str]] | msgspec.UnsetType = msgspec.UNSET


def shown_key(table: TableSchema, key: UniqueKey) -> ShownUniqueKey:
    """Return a table's key with the names of its columns."""
    names = {column.number: column.name for column in table.columns} | {CREATOR_NUMBER: CREATOR}
    has_failed = key.state == "failed"
    return ShownUniqueKey(
        name=key.name,
        columns=[names[number] for number in key.columns],
        ignore_case=key.ignore_case,
        nulls=key.nulls,
        where={names[int(number)]: operators for number, operators in key.where.items()} or None,
        state=msgspec.UNSET if key.state == "ready" else key.state,
        rows=key.conflicts if has_failed else msgspec.UNSET,
        pairs=[pair.split(" ") for pair in key.pairs] if has_failed else msgspec.UNSET,
    )


class ReferencedBy(msgspec.Struct, kw_only=True):
    """A column, of this or of another table, that refers to the table, and what the deletion of a row does."""

    table_id: UUID
    table: str
    column: str
    on_delete: OnDelete
    key: str | msgspec.UnsetType = msgspec.UNSET
    """The unique key to which it refers, in place of the rows' ids."""


class ShownReference(msgspec.Struct, kw_only=True):
    """The table to whose rows a column refers, by their ids or by a `key`, and what the deletion of one does.

    `member` is present, in place of a table, where the column refers to members.
    """

    table: str | msgspec.UnsetType = msgspec.UNSET
    table_id: UUID | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET
    member: bool | msgspec.UnsetType = msgspec.UNSET
    on_delete: OnDelete


class Table(msgspec.Struct, kw_only=True):
    """A table. `schema` maps each column's name to its type, or to an object with its type and options.

    `has_rules` is present where rules decide in place of `access_level`, `unique` where there are unique keys,
    `referenced_by` where columns refer to it.
    """

    id: UUID
    app_id: UUID
    title: str
    schema: ColumnDefinitions
    is_active: bool
    access_level: AccessLevel
    create_time: str
    update_time: str
    has_rules: bool | msgspec.UnsetType = msgspec.UNSET
    unique: list[ShownUniqueKey] | msgspec.UnsetType = msgspec.UNSET
    referenced_by: list[ReferencedBy] | msgspec.UnsetType = msgspec.UNSET


class ProfileTable(msgspec.Struct, forbid_unknown_fields=True):
    """The table whose rows are the profiles of the app's members, and its unique key of the member's id.

    `table` is its title or id; null for none. `key` is a key of one string column, or of `$creator`.
    """

    table: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=63)] | None = None


class ShownProfileTable(msgspec.Struct):
    """The table whose rows are the profiles of the app's members, by its id and title; null for none."""

    table_id: UUID | None
    table: str | None
    key: str | None


class TableList(msgspec.Struct):
    """The app's tables, in the order of their creation."""

    tables: list[Table]


class TableDefinition(msgspec.Struct, forbid_unknown_fields=True):
    """The definition of a table to create or replace.

    `rules` say who may do what, in place of the access level; see the guide on rules. Only a secret key, a console user
    or a function may give them. Absent, those of an existing table stay; null removes them.

    `unique` are its unique keys; of an existing table those that are not named are removed. Absent, they stay.
    """

    title: Title
    schema: ColumnDefinitions
    access_level: AccessLevel
    rules: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    unique: list[NewUniqueKey] | msgspec.UnsetType = msgspec.UNSET


class NewColumn(GivenChecks, forbid_unknown_fields=True):
    """A column to add; `min` to `format` are checks of its values. With `unique` it gets a unique key of its own.

    `on_update` is the value after each change that does not name the column, `normalize` the steps to the normal form
    of a text.
    """

    name: Annotated[str, msgspec.Meta(max_length=255)]
    data_type: ColumnTypeName
    is_required: bool | None = None
    default_value: Any = None
    description: Description | None = None
    encrypted: bool | None = None
    references: NewReference | None = None
    on_update: Any = None
    normalize: Normalize | None = None
    unique: bool | None = None


class ColumnChange(GivenChecks, forbid_unknown_fields=True):
    """Changes of a column; absent fields stay as they are.

    A null `default_value`, `on_update`, `normalize`, `description` or `references`, or a check of its values (`min` to
    `format`), is removed.
    Checks hold for what is written from then on; with `validate` the rows that are there must keep them, too. `unique`
    gives the column a unique key of its own, unless it has one; it never takes one away.
    """

    data_type: ColumnTypeName | msgspec.UnsetType = msgspec.UNSET
    is_required: bool | msgspec.UnsetType = msgspec.UNSET
    default_value: Any = msgspec.UNSET
    description: Description | msgspec.UnsetType | None = msgspec.UNSET
    encrypted: bool | msgspec.UnsetType = msgspec.UNSET
    references: NewReference | msgspec.UnsetType | None = msgspec.UNSET
    on_update: Any = msgspec.UNSET
    normalize: Normalize | msgspec.UnsetType | None = msgspec.UNSET
    validate: bool = False
    unique: bool | None = None


class ColumnRename(msgspec.Struct, forbid_unknown_fields=True):
    """The new name of a column."""

    name: Annotated[str, msgspec.Meta(max_length=255)]


class CastSample(msgspec.Struct, frozen=True, kw_only=True):
    """A row's value before a change, and after it, or the reason why it does not fit; at most 200 characters each."""

    row_id: UuidText
    before: str
    after: str | None = None
    message: str | None = None


class SchemaPreviewChange(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen to a column: its definition before (null if added) and after (null if dropped), and its rows.

    `rows` have a value in the column. `rows_that_do_not_fit` would make the change fail; null if only the change
    itself can determine it, because the values are encrypted.
    """

    kind: Literal["added", "dropped", "changed"]
    name: str
    from_: ColumnDefinition | None = msgspec.field(name="from")
    to: ColumnDefinition | None
    rows: int
    rows_that_do_not_fit: int | None
    samples: list[CastSample]


class SchemaPreview(msgspec.Struct, frozen=True):
    """What a schema would change. `locks` is `background` if values are rewritten after the response."""

    changes: list[SchemaPreviewChange]
    locks: Literal["brief", "background"]


class ColumnItem(msgspec.Struct, kw_only=True):
    """A column on the column routes; `order` counts from 1 in the order in which columns were added.

    `references` is present where the column refers to rows, `checks` where its values have checks, `on_update` and
    `normalize` where they are set, `migrating` only while the values are encrypted or decrypted in the background.
    """

    name: str
    data_type: ColumnTypeName
    is_required: bool
    default_value: Any
    description: str | None
    encrypted: bool
    order: int
    references: ShownReference | msgspec.UnsetType = msgspec.UNSET
    checks: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    on_update: Any = msgspec.UNSET
    normalize: list[str] | msgspec.UnsetType = msgspec.UNSET
    migrating: Literal["encrypting", "decrypting"] | msgspec.UnsetType = msgspec.UNSET


class ColumnList(msgspec.Struct):
    """A table's columns, in their order."""

    columns: list[ColumnItem]


class TableResult(msgspec.Struct):
    """The table, and a message about the change."""

    message: str
    id: UUID


class ColumnResult(msgspec.Struct):
    """The column with its table, and a message about the change: `id` is the table's."""

    message: str
    id: UUID
    name: str


class ArchivedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table as archives have it: where its rows are, the columns in their order, and the query that reads them.

    The query fails if the schema has changed since the catalogue was read. `encrypted` are the encrypted columns, each
    with its number and its place in `columns`.
    """

    table_id: UUID
    title: str
    schema: str
    name: str
    columns: list[str]
    query: str
    row_count: int
    encrypted: list[tuple[int, int]]
    is_migrating: bool
