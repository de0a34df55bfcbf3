"""The documents between two stages: something to select from, and what its columns mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilotis.kit import json
from pilotis.rows.aggregate import values
from pilotis.rows.aggregate.values import Value
from pilotis.rows.operands import (
    CONVERSIONS,
    KINDS,
    Arguments,
    EncryptedColumnError,
    Kind,
    Operand,
    json_operand,
    unknown,
)
from pilotis.tables.schema import Column, ColumnType, TableSchema


class Relation(NamedTuple):
    """Documents: where they come from, their fields, and their order.

    `source` can stand in FROM. `fields` are expressions over it, by name. `rest` is jsonb with further fields, whose
    names are not known; they can be named where the relation is `open`. `order` holds columns of the source with a
    direction. `hidden` are encrypted columns, which may be there but not named.
    """

    source: str
    fields: Mapping[str, Value]
    order: Sequence[tuple[str, str]]
    rest: str | None = None
    hidden: frozenset[str] = frozenset()
    open: bool = False

    def resolve(self, path: str, arguments: Arguments) -> Value:
        """Return the value of a field, or of one inside it: `a`, `a.b`; `$ROOT` is the whole document."""
        if path == "$ROOT":
            return Value(f"{values.bounded(self.document(arguments))}::jsonb", Kind.JSON, computed=True)
        if path.count(".") >= json.MAX_DEPTH:
            raise unknown(path)
        name, *inside = path.removeprefix("$ROOT.").split(".")
        if name in self.hidden:
            raise EncryptedColumnError(name)
        value = self.fields.get(name)
        if value is None:
            if self.rest is None or not self.open:
                raise unknown(name)
            value = Value(f"({self.rest} -> {arguments.bind(name, 'text')})", Kind.JSON)
        return _inside(value, inside, path, arguments)

    def operand(self, path: str, arguments: Arguments) -> Operand:
        """Return a field as the `where` language takes it."""
        value = self.resolve(path, arguments)
        if value.members is not None:
            value = Value(values.as_json(value), Kind.JSON)
        if value.kind is Kind.JSON:
            return json_operand(path, value.sql)
        text = {Kind.TEXT: value.sql, Kind.UUID: f"({value.sql})::text", Kind.TIME: value.text}.get(value.kind)
        return Operand(path, value.kind, value.sql, text, CONVERSIONS[value.kind])

    def document(self, arguments: Arguments) -> str:
        """Return the expression for a document's JSON text."""
        if self.rest is None:
            return values.as_json_text(values.document(self.fields, arguments))
        fields = values.as_json_text(values.document(self.fields, arguments)) if self.fields else "'{}'::text"
        rest = f"nullif(substr({self.rest}::text, 2, length({self.rest}::text) - 2), '')"
        return f"'{{' || concat_ws(',', nullif(substr({fields}, 2, length({fields}) - 2), ''), {rest}) || '}}'"


def of_table(table: TableSchema) -> Relation:
    """Return the rows of a table as documents: `id`, the columns, `created_at`, `updated_at`."""
    columns = {column.name: _column(column) for column in table.columns if not column.encrypted}
    fields = {
        "id": Value("__id", Kind.UUID),
        **columns,
        "created_at": Value("__created_at", Kind.TIME),
        "updated_at": Value("__updated_at", Kind.TIME),
    }
    hidden = frozenset(column.name for column in table.columns if column.encrypted)
    return Relation(table.physical, fields, [("__id", "asc")], "__extra", hidden, table.is_free_form)


def _column(column: Column) -> Value:
    if column.type is ColumnType.DATE:
        return Value(column.time, Kind.TIME, text=column.physical)
    return Value(column.physical, KINDS[column.type])


def _inside(value: Value, path: Sequence[str], whole: str, arguments: Arguments) -> Value:
    for index, name in enumerate(path):
        if value.members is None:
            if value.kind is not Kind.JSON:
                raise unknown(whole)
            return Value(f"({value.sql} #> {arguments.bind(list(path[index:]), 'text[]')})", Kind.JSON)
        if name not in value.members:
            raise unknown(whole)
        value = value.members[name]
    return value
