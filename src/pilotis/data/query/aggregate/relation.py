"""The documents between two stages: a source to select from, and the meaning of its columns. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.values import Value
from pilotis.data.tables.schema import Column, ColumnType, TableSchema, normal_path
from pilotis.data.tables.values import UnknownColumnError, unknown_column
from pilotis.data.where.operands import (
    CONVERSIONS,
    KINDS,
    Arguments,
    ColumnNotReadableError,
    EncryptedColumnError,
    Kind,
    Operand,
    json_operand,
    text_array,
)
from pilotis.kit import json


class Relation(NamedTuple):
    """Documents: where they come from, their fields, and their order.

    `source` is a FROM item. `fields` are expressions over it, by name. `rest` is jsonb with further fields of unknown
    names, which can be referenced if the relation is `open`. `order` are columns of the source with a direction.
    `hidden` are encrypted columns, which exist but cannot be referenced, `unreadable` those that the caller may not
    read.
    """

    source: str
    fields: Mapping[str, Value]
    order: Sequence[tuple[str, str]]
    rest: str | None = None
    hidden: frozenset[str] = frozenset()
    open: bool = False
    unreadable: frozenset[str] = frozenset()

    def resolve(self, path: str, arguments: Arguments, place: str) -> Value:
        """Return the value of a field or a nested one: `a`, `a.b`; `$ROOT` is the whole document.

        For a column without a value it distinguishes an explicit null, which `rest` records. `place` is where the
        pipeline names the field, for errors.
        """
        try:
            value = self._find(path, arguments)
        except (ColumnNotReadableError, EncryptedColumnError, UnknownColumnError) as error:
            error.at(place)
            raise
        name = normal_path(path.removeprefix("$ROOT."))
        known = value.null is not None or value.computed or value.members is not None
        if known or self.rest is None or self.open or name not in self.fields:
            return value
        return value._replace(null=f"coalesce({self.rest} ? {arguments.bind(name, 'text')}, false)")

    def _find(self, path: str, arguments: Arguments) -> Value:
        if path == "$ROOT":
            return Value(f"{values.bounded(self.document(arguments))}::jsonb", Kind.JSON, computed=True)
        if path.count(".") >= json.MAX_DEPTH:
            raise _unknown(path, self.fields)
        name, *inside = normal_path(path.removeprefix("$ROOT.")).split(".")
        if name in self.hidden:
            raise EncryptedColumnError(name, "A pipeline cannot read it; find its rows by where, on the query route.")
        value = self.fields.get(name)
        if value is None:
            if name in self.unreadable:
                raise ColumnNotReadableError(name)
            if self.rest is None or not self.open:
                raise _unknown(name, self.fields)
            value = Value(f"({self.rest} -> {arguments.bind(name, 'text')})", Kind.JSON)
        return _inside(value, inside, path, arguments, self.fields)

    def operand(self, path: str, arguments: Arguments) -> Operand:
        """Return a field as an operand of the `where` language."""
        value = self._find(path, arguments)
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
        "id": Value("__id", Kind.UUID, target=table.table_id),
        **columns,
        "created_at": Value("__created_at", Kind.TIME),
        "updated_at": Value("__updated_at", Kind.TIME),
    }
    hidden = frozenset(column.name for column in table.columns if column.encrypted)
    rest = f"(__extra - {text_array(table.hidden)})" if table.hidden else "__extra"
    return Relation(table.physical, fields, [("__id", "asc")], rest, hidden, table.is_free_form, table.hidden)


def _column(column: Column) -> Value:
    if column.type is ColumnType.DATE:
        return Value(column.time, Kind.TIME, text=column.physical)
    target = None if column.references is None or column.references.key else column.references.table_id
    return Value(column.physical, KINDS[column.type], target=target)


def _inside(value: Value, path: Sequence[str], whole: str, arguments: Arguments, fields: Collection[str]) -> Value:
    for index, name in enumerate(path):
        if value.members is None:
            if value.kind is not Kind.JSON:
                raise _unknown(whole, value.members or fields)
            return Value(f"({value.sql} #> {arguments.bind(list(path[index:]), 'text[]')})", Kind.JSON)
        if name not in value.members:
            raise _unknown(whole, value.members or fields)
        value = value.members[name]
    return value


def _unknown(path: str, fields: Collection[str]) -> UnknownColumnError:
    return unknown_column(path, fields, lacks="The documents have no field", has="At this stage they have")
