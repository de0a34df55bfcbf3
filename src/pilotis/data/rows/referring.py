"""References of rows: the rows to which a caller may refer, and the errors about references."""

from __future__ import annotations

from typing import NamedTuple

from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import Column, Referrer
from pilotis.data.where.operands import Arguments
from pilotis.kit.errors import BadRequestError, ConflictError, Detail


class ReferenceNotFoundError(BadRequestError):
    """400 `REFERENCE_NOT_FOUND`: a row that is to be written refers to none, or to one that the caller may not read."""

    code = "REFERENCE_NOT_FOUND"

    def __init__(self, column: str) -> None:
        text = f"{column} is not the id of a row that you can refer to."
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


class Referring(NamedTuple):
    """A reference, the other table's name in PostgreSQL, and those of its rows that the caller may read, if any."""

    column: Column
    physical: str
    visible: Visibility | None

    @property
    def is_free(self) -> bool:
        """Whether the caller may refer to every row of the other table."""
        return self.visible is not None and self.visible.is_everything

    def finds(self, value: str, arguments: Arguments) -> str:
        """Return the condition that an expression is the id of a row to which the caller may refer."""
        if self.visible is None:
            return "false"
        # Rules name columns of the other table, the id alone does not.
        version = "" if self.is_free else f" and {self.visible.whole.at_this_version}"
        rule = self.visible.and_condition(arguments)
        return f"exists (select from {self.physical} where __id = {value}{rule}{version})"

    def holds(self, row: str, arguments: Arguments) -> str:
        """Return the condition that a new row refers to a row to which the caller may refer, or to none."""
        value = f"{row}.{self.column.physical}"
        return f"({value} is null or {self.finds(value, arguments)})"
