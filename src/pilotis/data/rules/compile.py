"""Compiles a folded rule to a condition of a statement. Pure: names are looked up, values are bound."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from pilotis.data.rules.document import column_name_of, is_reference
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.compiler import Compiler
from pilotis.data.where.operands import (
    CREATOR_NAME,
    CREATOR_OPERAND,
    Arguments,
    Kind,
    Operand,
    operand,
    qualified,
)
from pilotis.limits import Limits

Json = Any

# Rules were checked when they were saved, when limits may have been others.
_LIMITS = Limits(where_conditions=10_000, where_depth=100, where_list_values=100_000)
# Texts meet ids in this form alone: others, which PostgreSQL casts as well, are no ids in answers.
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def compile_rule(
    rule: Mapping[str, Json],
    table: TableSchema,
    tables: Mapping[UUID, TableSchema],
    arguments: Arguments,
    *,
    row: str = "",
    old: str = "",
    new: str = "",
    many: bool = False,
) -> str:
    """Return the SQL condition of a folded rule on a row of a table.

    `row` is what the statement calls the judged row where its columns' names alone are ambiguous, `old` and `new` the
    row before and after a change. `tables` are those that its `$exists` name. With `many` the statement judges many
    rows, so that what is looked up for all of them is looked up once.
    """
    compiler = _Rule(table, tables, arguments, row, old, new, many=many)
    return compiler._with_needed(compiler.conjunction(rule, "rules", 1))


class _Rule(Compiler):
    def __init__(
        self,
        table: TableSchema,
        tables: Mapping[UUID, TableSchema],
        arguments: Arguments,
        row: str,
        old: str = "",
        new: str = "",
        outer: tuple[tuple[TableSchema, str], ...] = (),
        *,
        many: bool,
    ) -> None:
        super().__init__(self._find, _LIMITS, arguments)
        self._table = table
        self._tables = tables
        self._row = row
        self._old = old
        self._new = new
        self._outer = outer
        self._many = many
        self._needed: list[str] = []
        """What other rows are compared with and must have a value, or their branch is false, also under `$not`."""
        self._negations = 0

    def _find(self, key: str) -> Operand:
        name = column_name_of(self._table, key)
        if self._row:
            return qualified(self._table, name, self._arguments, self._row)
        return operand(self._table, name, self._arguments)

    def _entry(self, name: str, value: Json, place: str, depth: int) -> str:
        if name == "$exists":
            if value.get("path") and self._negations:
                # Where it leads nowhere, nothing is said of it, and its branch is false.
                self._needed.append(self._led_to(value))
            return self._exists(value, depth)
        if name in {"$old", "$new"}:
            return self._of(self._old if name == "$old" else self._new, value, depth)
        if name == CREATOR_NAME:
            field = CREATOR_OPERAND
            if self._row:
                field = field._replace(sql=f"{self._row}.{field.sql}", column=None)
            return self._compared(field, value, place, depth)
        if name == "$not":
            with self._negated():
                return super()._entry(name, value, place, depth)
        return super()._entry(name, value, place, depth)

    def _branch(self, name: str, value: Json, place: str, depth: int) -> str:
        if name == "$and" or self._negations:
            return super()._branch(name, value, place, depth)
        around, self._needed = self._needed, []
        condition = self._with_needed(super()._branch(name, value, place, depth))
        self._needed = around
        return condition

    @contextmanager
    def _negated(self) -> Iterator[None]:
        self._negations += 1
        try:
            yield
        finally:
            self._negations -= 1

    def _with_needed(self, condition: str) -> str:
        if not self._needed:
            return condition
        return f"({condition}{''.join(f' and {value} is not null' for value in dict.fromkeys(self._needed))})"

    def _of(self, row: str, rule: Json, depth: int) -> str:
        row = row or self._row
        inner = _Rule(self._table, self._tables, self._arguments, row, self._old, self._new, self._outer, many=False)
        inner._negations = self._negations
        with self._arguments.access.ignored():
            condition = inner.conjunction(rule, "rules", depth + 1)
        if self._negations:
            self._needed += inner._needed
            return f"({condition})"
        return f"({inner._with_needed(condition)})"

    def _compared(self, field: Operand, value: Json, place: str, depth: int) -> str:
        if is_reference(value):
            return self._referring(field, "$eq", value)
        return super()._compared(field, value, place, depth)

    def _operator(self, field: Operand, name: str, value: Json, place: str, depth: int) -> str:
        if is_reference(value):
            return self._referring(field, name, value)
        if name == "$not":
            with self._negated():
                return super()._operator(field, name, value, place, depth)
        return super()._operator(field, name, value, place, depth)

    def _referring(self, field: Operand, operator: str, reference: Mapping[str, Json]) -> str:
        referred = self._referred(reference)
        mine, other = _value(field), _value(referred)
        if field.kind is Kind.UUID and referred.kind is Kind.TEXT:
            other = f"case when {other} ~ '{_UUID}' then {other}::uuid end"
        elif field.kind is Kind.TEXT and referred.kind is Kind.UUID:
            other = f"{other}::text"
        if operator == "$eq" and "$old" in reference:
            # Unchanged, also where there is no value.
            return f"{mine} is not distinct from {other}"
        if operator == "$ne" and "$old" in reference:
            return f"{mine} is distinct from {other}"
        if operator == "$ne" or self._negations:
            self._needed.append(other)
        if operator == "$arrayContains":
            return f"({other} is not null and {field.sql} @> jsonb_build_array({other}))"
        if operator == "$in":
            return f"({mine} is not null and {other} @> jsonb_build_array({mine}))"
        if operator == "$ne":
            return f"({mine} is distinct from {other})"
        return f"({mine} {_COMPARISONS[operator]} {other})"

    def _referred(self, reference: Mapping[str, Json]) -> Operand:
        ((kind, key),) = reference.items()
        table, row = (self._table, self._old) if kind == "$old" else self._outer[0]
        if key == CREATOR_NAME:
            return CREATOR_OPERAND._replace(sql=f"{row}.{CREATOR_OPERAND.sql}", column=None)
        return qualified(table, column_name_of(table, key), self._arguments, row)

    def _led_to(self, path: Mapping[str, Json]) -> str:
        """Return the id of the row to which a path leads."""
        table = self._tables[UUID(path["table"])]
        alias = f"e{len(self._outer) + 1}"
        around = (self._table, self._row or self._table.physical)
        inner = _Rule(table, self._tables, self._arguments, alias, "", "", (around, *self._outer), many=False)
        here, rest = path["where"]["$and"]
        beyond = rest.get("$exists", {})
        last = inner._led_to(beyond) if beyond.get("path") else f"{alias}.__id"
        ((referred, reference),) = here.items()
        leads = f"{inner._find(referred).sql} = {inner._referred(reference).sql}"
        return f"(select {last} from {table.physical} {alias} where {leads})"

    def _exists(self, exists: Mapping[str, Json], depth: int) -> str:
        table, where = self._tables[UUID(exists["table"])], exists["where"]
        alias = f"e{len(self._outer) + 1}"
        around = (self._table, self._row or self._table.physical)
        # The rows that have to do with the caller are few; of others PostgreSQL knows better how to look them up.
        if self._many and exists["mine"] and (found := self._listed(table, alias, where, depth)):
            return found
        inner = _Rule(table, self._tables, self._arguments, alias, "", "", (around, *self._outer), many=False)
        with self._arguments.access.ignored():
            condition = inner.conjunction(where, "rules", depth + 1)
        version = f"(true or {alias}.{table.version_column})"
        return f"exists (select from {table.physical} {alias} where {inner._with_needed(condition)} and {version})"

    def _listed(self, table: TableSchema, alias: str, where: Mapping[str, Json], depth: int) -> str | None:
        """Return the form that reads the other table once: for one `$row`, in an equality at the top; else None."""
        conditions = where["$and"] if set(where) == {"$and"} else [where]
        parts = [(key, value) for condition in conditions for key, value in condition.items()]
        rows = [(key, value) for key, value in parts if is_reference(value) and "$row" in value]
        if len(rows) != 1 or _count_rows(where) != 1 or rows[0][0].startswith("$"):
            return None
        key, reference = rows[0]
        if not str(reference["$row"]).startswith(("#", "id", "$")):
            return None
        rest = [{name: value} for name, value in parts if (name, value) != (key, reference)]
        around = (self._table, self._row or self._table.physical)
        inner = _Rule(table, self._tables, self._arguments, alias, "", "", (around, *self._outer), many=True)
        with self._arguments.access.ignored():
            condition = inner.conjunction({"$and": rest}, "rules", depth + 1) if rest else "true"
            condition = inner._with_needed(condition)
            looked_up = inner._find(key)
        judged = self._judged(reference["$row"])
        if looked_up.kind is not judged.kind or judged.kind is Kind.JSON:
            return None
        if judged.column is not None:
            self._arguments.access.add(AccessKind.IN, judged.column)
        version = f"(true or {alias}.{table.version_column})"
        listed = f"select {looked_up.sql} from {table.physical} {alias} where {condition} and {version}"
        return f"{judged.sql} = any(array({listed}))"

    def _judged(self, key: str) -> Operand:
        if key == CREATOR_NAME:
            return CREATOR_OPERAND
        return self._find(key)


def _value(field: Operand) -> str:
    """Return the expression for a field's value; JSON's null counts as absent, like SQL's."""
    return f"nullif({field.sql}, 'null')" if field.kind is Kind.JSON else field.sql


@functools.singledispatch
def _count_rows(_value: Json) -> int:
    return 0


@_count_rows.register
def _(value: dict) -> int:  # type: ignore[type-arg]
    if is_reference(value):
        return int("$row" in value)
    # Inside another `$exists` it is a column of that one's row.
    return sum(_count_rows(item) for name, item in value.items() if name != "$exists")


@_count_rows.register
def _(value: list) -> int:  # type: ignore[type-arg]
    return sum(map(_count_rows, value))
