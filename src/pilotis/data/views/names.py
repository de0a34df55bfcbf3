"""The stored form of a pipeline: columns by number, tables by id, so that renaming changes nothing. Pure.

`#3` is the column with the number 3 of the table whose documents stand there. Fields that the pipeline itself adds keep
their names. What a name means is followed from stage to stage: behind a `$group` there are only its own fields, and
behind a `$lookup` the columns of another table are members of the field that it adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.query.aggregate.expressions import InvalidPipelineError
from pilotis.data.query.aggregate.joins import referrer
from pilotis.data.tables.schema import OWN_FIELDS, TableSchema, normal_path
from pilotis.data.tables.values import UnknownColumnError

Json = Any
Tables = Mapping[UUID, TableSchema]

_DATE_OPERATORS = frozenset({"$dateToString", "$dateTrunc", "$year", "$month", "$dayOfMonth", "$hour"})
_DATE_EXPRESSIONS = frozenset({"date", "onNull"})
_CONSTANTS = frozenset({"$literal", "$param"})
_ROOTS = ("$$ROOT.", "$$CURRENT.")


def stored(pipeline: Sequence[Json], table: TableSchema, tables: Tables) -> tuple[list[Json], set[UUID]]:
    """Return the stored form of a pipeline that compiles, and the ids of the tables that it reads."""
    walk = _Walk(table, tables, stores=True)
    return walk.stages(pipeline), walk.named


def shown(pipeline: Sequence[Json], table: TableSchema, tables: Tables) -> list[Json]:
    """Return a stored pipeline with today's names; raises a 400 error if it names what is no longer there."""
    return _Walk(table, tables, stores=False).stages(pipeline)


class _Field(NamedTuple):
    """A field: its name in the result, the table to whose rows it refers, and the one whose rows, or row, it is."""

    name: str
    target: UUID | None = None
    rows: UUID | None = None


_Scope = dict[str, _Field]


class _Walk:
    def __init__(self, table: TableSchema, tables: Tables, *, stores: bool) -> None:
        self._table = table
        self._tables = tables
        self._stores = stores
        self._scope = self._fields_of(table)
        self.named = {table.table_id}

    def stages(self, pipeline: Sequence[Json]) -> list[Json]:
        return [{name: self._stage(name, operand) for name, operand in stage.items()} for stage in pipeline]

    def _stage(self, name: str, operand: Json) -> Json:
        match name:
            case "$match":
                return self._condition(operand, self._scope)
            case "$sort":
                return self._keys(operand)
            case "$group":
                return self._group(operand)
            case "$project":
                return self._project(operand)
            case "$addFields":
                return self._add_fields(operand)
            case "$unwind":
                return self._unwind(operand)
            case "$count":
                self._scope = {operand: _Field(operand)}
            case "$lookup":
                return self._lookup(operand)
            case "$unionWith":
                return self._union(operand)
        return operand

    def _fields_of(self, table: TableSchema) -> _Scope:
        """Return the fields of a table's documents by the names that they have in what is read."""
        fields: _Scope = {name: _Field(name) for name in OWN_FIELDS}
        fields["id"] = _Field("id", table.table_id)
        for column in table.columns:
            key = f"#{column.number}"
            target = None if column.references is None or column.references.key else column.references.table_id
            if self._stores:
                fields[column.name] = _Field(key, target)
            else:
                fields[key] = _Field(column.name, target)
        return fields

    def _path(self, path: str, scope: _Scope) -> str:
        first, dot, rest = (normal_path(path) if self._stores else path).partition(".")
        field = scope.get(first)
        if field is None:
            return self._own_name(first) + dot + rest
        if rest and field.rows is not None:
            rest = self._path(rest, self._fields_of(self._tables[field.rows]))
        return field.name + dot + rest

    def _own_name(self, name: str) -> str:
        """Return the other form of a name that is not a column's."""
        if self._stores:
            return f"#{name}" if name.startswith("#") else name
        if name.startswith("##"):
            return name[1:]
        if name.startswith("#"):
            raise UnknownColumnError("The pipeline names a column that the table does not have any more.")
        return name

    def _named(self, scope: _Scope, name: str, field: _Field | None = None) -> str:
        """Set a field of the documents, by its name or a path into it; return the other form of that."""
        path = self._path(name, scope)
        first, shown = name.partition(".")[0], path.partition(".")[0]
        for other in [key for key, one in scope.items() if one.name == shown and key != first]:
            # Its name is taken from it, so nothing can mean it any more.
            del scope[other]
        scope[first] = (field or _Field(""))._replace(name=shown)
        return path

    def _condition(self, where: Mapping[str, Json], scope: _Scope) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for name, value in where.items():
            if name in {"$and", "$or"}:
                result[name] = [self._condition(one, scope) for one in value]
            elif name == "$not":
                result[name] = self._condition(value, scope)
            elif name.startswith("$"):
                result[name] = value
            else:
                _put(result, self._path(name, scope), value)
        return result

    def _keys(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for name, value in operand.items():
            _put(result, self._path(name, self._scope), value)
        return result

    def _group(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        fields: _Scope = {"_id": _Field("_id", self._target(operand["_id"]))}
        result: dict[str, Json] = {"_id": self._expression(operand["_id"])}
        for name, accumulator in operand.items():
            if name != "_id":
                key = self._named(fields, name)
                _put(result, key, {each: self._expression(value) for each, value in accumulator.items()})
        self._scope = fields
        return result

    def _project(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        before = self._scope
        result: dict[str, Json] = {}
        excluded = {name for name, item in operand.items() if _is_flag(item) and not item}
        if excluded == set(operand):
            result = self._keys(operand)
            self._scope = {name: field for name, field in before.items() if name not in excluded}
            return result
        identity = "_id" if "_id" in before else "id"
        fields: _Scope = {}
        if identity in before and identity not in excluded:
            fields[identity] = before[identity]
        for name, item in operand.items():
            first = name.partition(".")[0]
            if name in excluded:
                _put(result, self._path(name, before), item)
            elif _is_flag(item):
                key = self._path(name, before)
                fields[first] = before.get(first, _Field(key.partition(".")[0]))
                _put(result, key, item)
            else:
                _put(result, self._computed(fields, name, item, before), self._expression(item))
        self._scope = fields
        return result

    def _computed(self, fields: _Scope, name: str, item: Json, before: _Scope) -> str:
        """Set a field to what an expression yields; return the other form of its name.

        One that has a column's name keeps it with the column's.
        """
        first = name.partition(".")[0]
        if first not in fields and first in before:
            fields[first] = before[first]
        return self._named(fields, name, _Field("", None if "." in name else self._target(item)))

    def _add_fields(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        after = dict(self._scope)
        result: dict[str, Json] = {}
        for name, item in operand.items():
            _put(result, self._named(after, name, _Field("", self._target(item))), self._expression(item))
        self._scope = after
        return result

    def _unwind(self, operand: Json) -> Json:
        if isinstance(operand, str):
            return self._expression(operand)
        result = dict(operand) | {"path": self._expression(operand["path"])}
        if index := operand.get("includeArrayIndex"):
            result["includeArrayIndex"] = self._named(self._scope, index)
        return result

    def _lookup(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        result = dict(operand)
        if "localField" in operand:
            local = self._scope.get(normal_path(operand["localField"]) if self._stores else operand["localField"])
            result["localField"] = self._path(operand["localField"], self._scope)
            other = None if local is None else local.target
        else:
            other, result["from"] = self._referring(operand["from"])
        if other is None or other not in self._tables:
            raise UnknownColumnError("The pipeline follows a reference that is not there any more.")
        self.named.add(other)
        columns = self._fields_of(self._tables[other])
        if "where" in operand and operand["where"] is not None:
            result["where"] = self._condition(operand["where"], columns)
        if operand.get("order_by") is not None:
            result["order_by"] = self._path(operand["order_by"], columns)
        if operand.get("fields") is not None:
            result["fields"] = [self._path(name, columns) for name in operand["fields"]]
        result["as"] = self._named(self._scope, operand["as"], _Field("", rows=other))
        return result

    def _union(self, operand: Mapping[str, Json]) -> dict[str, Json]:
        """Return the other form of a `$unionWith`. What comes out has names of its own, which no column changes."""
        named = operand["table"]
        table = next((one for one in self._tables.values() if named in {one.title, str(one.table_id)}), None)
        if table is None:
            raise UnknownColumnError("The pipeline reads a table that is not there any more.")
        inner = _Walk(table, self._tables, stores=self._stores)
        stages = inner.stages(operand.get("pipeline", []))
        self.named |= inner.named
        self._scope = {}
        return {"table": str(table.table_id) if self._stores else table.title, "pipeline": stages}

    def _referring(self, named: str) -> tuple[UUID | None, str]:
        """Return the table that a `from` names, and the other form of that."""
        if self._stores:
            found = referrer(self._table, named)
            if found is None or found[0] not in self._tables:
                return None, named
            column = self._tables[found[0]].by_name[found[1]]
            return found[0], f"{found[0]}.#{column.number}"
        table_id, _, key = named.partition(".")
        table = self._tables.get(UUID(table_id))
        if table is None:
            return None, named
        return table.table_id, f"{table.table_id}.{self._path(key, self._fields_of(table))}"

    def _target(self, expression: Json) -> UUID | None:
        if not isinstance(expression, str) or not expression.startswith("$"):
            return None
        field = self._scope.get(expression.removeprefix("$$CURRENT.").removeprefix("$"))
        return None if field is None else field.target

    def _expression(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._field_path(value)
        if isinstance(value, list):
            return [self._expression(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        return {name: self._operand(name, item) for name, item in value.items()}

    def _operand(self, name: str, item: Json) -> Json:
        if name in _CONSTANTS:
            return item
        if name in _DATE_OPERATORS and isinstance(item, Mapping) and "date" in item:
            return {key: self._expression(part) if key in _DATE_EXPRESSIONS else part for key, part in item.items()}
        return self._expression(item)

    def _field_path(self, text: str) -> str:
        if not text.startswith("$") or text == "$$ROOT":
            return text
        for root in _ROOTS:
            if text.startswith(root):
                return root + self._path(text.removeprefix(root), self._scope)
        return f"${self._path(text[1:], self._scope)}"


def _put(result: dict[str, Json], name: str, value: Json) -> None:
    if name in result:
        raise InvalidPipelineError(f"Two fields of one stage are called {name[:100]}.")
    result[name] = value


def _is_flag(item: Json) -> bool:
    return isinstance(item, (bool, int, Decimal))
