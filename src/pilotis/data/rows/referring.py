"""References of rows: the rows to which a caller may refer, and the errors about references."""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.keys import CREATOR_NUMBER
from pilotis.data.tables.references import member_with
from pilotis.data.tables.schema import Column, ColumnType, Referrer, TableSchema
from pilotis.data.where.operands import Arguments
from pilotis.kit.errors import BadRequestError, ConflictError, Detail


class ReferenceNotFoundError(BadRequestError):
    """400 `REFERENCE_NOT_FOUND`: a row that is to be written refers to none, or to one that the caller may not read.

    Likewise where it refers to no member of the app.
    """

    code = "REFERENCE_NOT_FOUND"

    def __init__(self, column: str) -> None:
        text = f"{column} names nothing that you can refer to."
        super().__init__(text, details=[Detail(f"data.{column}", self.code, text)])


class RowReferencedError(ConflictError):
    """409 `ROW_REFERENCED`: other rows refer to the row, and `on_delete` is `restrict`.

    `table` and `column` say where. Callers whom the table's rules do not concern learn the `count` of these rows.
    """

    code = "ROW_REFERENCED"

    def __init__(self, referrer: Referrer) -> None:
        super().__init__(f"Rows of {referrer.table} refer to this by {referrer.column}. Delete or change them first.")
        self.referrer = referrer
        self.extra = {"table": referrer.table, "column": referrer.column}


class TooManyReferencesError(ConflictError):
    """409 `TOO_MANY_REFERENCES`: the deletion would take along more rows than one request may change."""

    code = "TOO_MANY_REFERENCES"


BOUND_AS = {ColumnType.UUID: "uuid", ColumnType.STRING: "text", ColumnType.INT: "bigint", ColumnType.NUMBER: "numeric"}
"""The types in PostgreSQL as which values of references are bound."""


class ToMember(NamedTuple):
    """A column that refers to members. Everybody may refer to each of them."""

    column: Column
    table: TableSchema

    @property
    def is_free(self) -> bool:
        """Whether the caller may refer to every member."""
        return True

    @property
    def is_closed(self) -> bool:
        """Whether the caller may refer to none."""
        return False

    def finds(self, value: str, arguments: Arguments) -> str:  # noqa: ARG002 - as of `Referring`
        """Return the condition that an expression is the id of a member."""
        return member_with(self.table, value)

    def holds(self, row: str, arguments: Arguments) -> str:
        """Return the condition that a new row refers to a member, or to none."""
        value = f"{row}.{self.column.physical}"
        return f"({value} is null or {self.finds(value, arguments)})"


class Referring(NamedTuple):
    """A reference, the other table's name in PostgreSQL, and those of its rows that the caller may read, if any.

    `referred` is the column to which it leads. By a unique key the caller refers to rows that it may also list, or it
    could learn by this which values the table has.
    """

    column: Column
    physical: str
    visible: Visibility | None
    referred: str = "__id"

    @property
    def is_free(self) -> bool:
        """Whether the caller may refer to every row of the other table."""
        return self.visible is not None and self.visible.is_everything

    @property
    def is_closed(self) -> bool:
        """Whether the caller may refer to no row of the other table."""
        return self.visible is None

    def finds(self, value: str, arguments: Arguments) -> str:
        """Return the condition that an expression is the id of a row to which the caller may refer."""
        if self.visible is None:
            return "false"
        # Rules name columns of the other table, the id alone does not.
        names = not self.is_free or self.referred != "__id"
        version = f" and {self.visible.whole.at_this_version_within}" if names else ""
        rule = self.visible.and_condition(arguments)
        return f"exists (select from {self.physical} where {self.referred} = {value}{rule}{version})"

    def holds(self, row: str, arguments: Arguments) -> str:
        """Return the condition that a new row refers to a row to which the caller may refer, or to none."""
        value = f"{row}.{self.column.physical}"
        return f"({value} is null or {self.finds(value, arguments)})"


Refers = Referring | ToMember


def without_hidden_key(visible: Visibility, column: Column) -> Visibility | None:
    """Return what a caller sees of the table to which a column refers; None where the key that it names is hidden.

    Who is shown the row that a value leads to knows the value that this row has.
    """
    number = None if column.references is None else column.references.column
    return visible if shows_column(visible.table, number) else None


def profile_column(table: TableSchema) -> int | None:
    """Return the number of the column with the member's id in a table of profiles; None for who created the row."""
    ((number, *_),) = [key.columns for key in table.keys if key.name == table.profile_key]
    return None if number == CREATOR_NUMBER else number


def shows_column(table: TableSchema, number: int | None) -> bool:
    """Return whether a table as a caller sees it has a column; None is the id, which every row shows."""
    return number is None or any(one.number == number for one in table.columns)
