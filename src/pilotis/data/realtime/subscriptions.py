"""Subscriptions, compiled: which changes of rows a caller is told, by the same rules as its queries.

A subscription is a rule, folded for the caller, and a condition. Their equalities of plain columns become its *key*,
the rest a condition of SQL; with the columns that the caller sees this makes the *shape*. All subscriptions of a shape
are judged by one statement, which returns each changed row with its key as it was before and as it is now, and a
lookup of the key finds the subscriptions. So a thousand members with rows of their own cost as much as one, and access
has no code of its own: PostgreSQL judges rows by conditions that the compilers of queries and rules have made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from pilotis.data.rows.change_log import rows_before
from pilotis.data.rows.query import order_of, statements_of
from pilotis.data.rows.related import Related
from pilotis.data.rows.statements import NOTHING_BESIDE
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Query, SortKey
from pilotis.data.rules.document import column_name_of
from pilotis.data.rules.files.listing import Question, question
from pilotis.data.rules.fold import Folded
from pilotis.data.rules.visibility import Visibility
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.compiler import compile_where
from pilotis.data.where.operands import CREATOR_NAME, CREATOR_OPERAND, Arguments, Kind, operand
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError
from pilotis.limits import Limits

Json = Any
Key = tuple[str | None, ...]

MAX_CONDITIONS = 20
MAX_SCOPE = 1000
"""Of a scope with more values the rule is judged for the one subscription."""
# A text that no row has: PostgreSQL's have no zero.
_NO_VALUE = "\0"
_TEXTS: Mapping[Kind, Callable[[Any], str]] = {
    Kind.TEXT: lambda value: value,
    Kind.UUID: str,
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.BIGINT: str,
}
"""The text of a value by which rows are looked up: as PostgreSQL casts the column's value to a text."""


class NotSupportedInSubscriptionError(BadRequestError):
    """400 `NOT_SUPPORTED_IN_SUBSCRIPTION`: a live subscription cannot have this condition."""

    code = "NOT_SUPPORTED_IN_SUBSCRIPTION"


class Shape(NamedTuple):
    """What subscriptions have in common: a statement for the rows `$1` and the numbers `$2` of entries of the log.

    Of the rows as they are, and of those before the entries, it returns `is_now`, `id`, `item` (the row's JSON, as it
    is now, or the entry's number), `key`, and `left_out`, the names of what the log does not have of a large row, whose
    `key` may be null.
    `identity` tells it from other shapes, and `condition` is what is evaluated of a row before.
    """

    table: PreparedTable
    identity: Hashable
    sql: str
    values: Sequence[Any]
    condition: str
    is_timed: bool = False
    tells_facts: bool = False
    """Whether it is about rows that rules look up."""
    related: Related | None = None
    """The rows that are shown beside each row."""

    def row(self, item: str) -> bytes:
        """Return a row's JSON, with its encrypted columns decrypted."""
        if self.related is None:
            return self.table.decrypted_item(item)
        return self.related.decrypted(self.table, f"[{item}]")[1:-1]

    def needs(self, left_out: Sequence[str]) -> bool:
        """Return whether its condition names one of the columns that the log does not have of a row."""
        return any(name in self.condition for name in left_out)


class Watched(NamedTuple):
    """A subscription as it is compiled: its shape and its keys."""

    shape: Shape
    keys: Sequence[Key]


class Shown(NamedTuple):
    """What a subscription shows of a row: the columns, by default all, its place in an order, and related rows."""

    fields: Sequence[str] | None = None
    order_by: str | Sequence[SortKey] | None = None
    expand: Sequence[str] | None = None

    @property
    def steps(self) -> Sequence[str]:
        """The columns whose rows are shown; raises an error for what is further away."""
        for number, name in enumerate(self.expand or ()):
            if "." in name:
                text = f"expand[{number}]: a subscription shows the rows that are one step away."
                raise NotSupportedInSubscriptionError(text)
        return self.expand or ()


class Scope(NamedTuple):
    """The rows that a `part` of a folded rule allows, as values of one column: what a member's teams are."""

    part: Mapping[str, Json]
    column: str
    values: Sequence[str]


def listed(rule: Folded) -> Scope | None:
    """Return the first comparison of a column with a list at the top of a folded rule; None without one."""
    for part in _parts(rule):
        ((name, value),) = part.items()
        if name.startswith("$") and name != CREATOR_NAME:
            continue
        values = value.get("$in") if isinstance(value, Mapping) and value.keys() == {"$in"} else None
        if isinstance(values, list) and len(values) <= MAX_SCOPE and all(isinstance(one, str) for one in values):
            return Scope(part, name, values)
    return None


def scope_question(rule: Folded, tables: Mapping[UUID, TableSchema]) -> tuple[Json, Question] | None:
    """Return the first `$exists` at the top of a folded rule that amounts to values of one column, and what asks them.

    None if there is no such one.
    """
    for part in _parts(rule):
        if part.keys() == {"$exists"} and not part["$exists"].get("path"):
            exists = part["$exists"]
            found = question(exists, tables)
            if found is not None and found.key is not None:
                return exists, found
    return None


def _parts(rule: Folded) -> Iterator[dict[str, Json]]:
    """Yield the conditions at the top of a rule, which hold together."""
    if isinstance(rule, dict):
        for name, value in rule.items():
            if name == "$and":
                for one in value:
                    yield from _parts(one)
            else:
                yield {name: value}


def compile_rows(
    table: PreparedTable,
    visible: Visibility,
    where: Mapping[str, Json] | None,
    row_id: UUID | None,
    asking: Shown,
    own: str | None,
    limits: Limits,
    scope: Scope | None = None,
    related: Related | None = None,
) -> Watched:
    """Compile a subscription to rows; `own` is the member's id. Raises the 400 and 403 errors of a query.

    `related` is what `asking.steps` name.
    """
    seen = table.seen_by(visible)
    asked: Mapping[str, Json] = {"id": str(row_id)} if row_id is not None else where or {}
    _require_simple(asked, seen.schema)
    # The whole condition, for its errors.
    _compile(asked, seen, Arguments(hash_=seen.hash, creators=visible.shows_creator, own=own), limits)
    rule = visible.rule if isinstance(visible.rule, dict) else {}
    equal: dict[str, str] = {}
    scoped = None if scope is None else _scoped(scope, table)
    if scoped is not None and scope is not None:
        rule = {"$and": [part for part in _parts(rule) if part != scope.part]}
    rest_of_rule = _without_equalities(rule, table, equal, of_rule=True, own=own)
    rest_of_where = _without_equalities(asked, seen, equal, of_rule=False, own=own)
    if scoped is not None:
        column, values = scoped
        # A value beside it that is none of them meets no row.
        texts = [value for value in ([equal[column]] if column in equal else values) if value in values]
        texts = list(dict.fromkeys(texts)) or [_NO_VALUE]
        equal[column] = texts[0]
    equal = dict(sorted(equal.items()))
    remaining = msgspec.structs.replace(visible, rule=rest_of_rule or True)

    arguments = Arguments([], [], hash_=seen.hash, creators=visible.shows_creator, own=own)

    def holds(row: str = "") -> str:
        rule = remaining.and_condition(arguments, row=row)
        return f"true{rule} and {_compile(rest_of_where, seen, arguments, limits)}"

    beside, item = _item(seen, asking, visible, arguments, limits, related)
    condition = holds("b")
    besides = () if related is None else related.tables
    versions = tuple((one.table_id, one.version) for one in besides)
    identity = "rows", remaining.key, json.encode([rest_of_where, asking]), related and related.key, versions
    sql = _statement(table.schema, list(equal), item, holds(), condition, beside)
    watched = _watched(table, seen, identity, equal, arguments, sql, condition)
    is_timed = any(map(_is_timed, [table.schema, *besides]))
    watched = watched._replace(shape=watched.shape._replace(is_timed=is_timed, related=related))
    if scoped is None:
        return watched
    return watched._replace(keys=[tuple((equal | {column: text}).values()) for text in texts])


def _item(
    seen: PreparedTable,
    asking: Shown,
    visible: Visibility,
    arguments: Arguments,
    limits: Limits,
    related: Related | None,
) -> tuple[str, str]:
    """Return the joins that a row is shown with, and the expression for its JSON."""
    query = Query(
        fields=None if asking.fields is None else list(asking.fields),
        order_by=asking.order_by if asking.order_by is None or isinstance(asking.order_by, str) else [*asking.order_by],
    )
    statements = statements_of(seen, query, visible, arguments)
    beside = NOTHING_BESIDE if related is None else related.compile(arguments, limits)
    if asking.order_by is not None:
        beside = beside.and_also(order_of(seen.schema, query, arguments).beside)
    return beside.joins, seen.showing(statements, beside).row


def _scoped(scope: Scope, table: PreparedTable) -> tuple[str, frozenset[str]] | None:
    """Return the expression of a scope's column, and the texts of its values; None if no rows are looked up by it."""
    found = CREATOR_OPERAND
    if scope.column != CREATOR_NAME:
        found = operand(table.schema, column_name_of(table.schema, scope.column), Arguments(hash_=table.hash))
    if found.kind not in {Kind.TEXT, Kind.UUID}:
        return None
    converted = map(found.convert, scope.values)
    return found.sql, frozenset(_TEXTS[found.kind](value) for value in converted if value is not None)


def compile_facts(table: PreparedTable, where: Mapping[str, Json]) -> Watched:
    """Compile what tells of changes of the rows that an `$exists` of a folded rule looks up, by its equalities."""
    equal: dict[str, str] = {}
    _without_equalities(where, table, equal, of_rule=True, own=None)
    equal = dict(sorted(equal.items()))
    sql = _statement(table.schema, list(equal), "null", "true", "true")
    watched = _watched(table, table, ("facts",), equal, Arguments([], []), sql, "true")
    return watched._replace(shape=watched.shape._replace(tells_facts=True))


def lookups(rule: Json) -> Iterator[tuple[UUID, Mapping[str, Json]]]:
    """Yield the table and the condition of each `$exists` of a folded rule, also of those inside of others."""
    if isinstance(rule, dict):
        for name, value in rule.items():
            if name == "$exists":
                yield UUID(value["table"]), value["where"]
                yield from lookups(value["where"])
            else:
                yield from lookups(value)
    elif isinstance(rule, list):
        for one in rule:
            yield from lookups(one)


def _statement(table: TableSchema, key: Sequence[str], item: str, holds: str, held: str, joins: str = "") -> str:
    """Return a shape's statement; `holds` is its condition on rows, `held` that on the rows `b` before."""
    keys = f"array[{', '.join(f'({sql})::text' for sql in key)}]::text[]"
    return f"""
        select true as is_now, __id::text as id, {item} as item, {keys} as key, null::text as left_out
        from (
            select * from {table.physical} where __id = any($1::uuid[]) and {holds} and {table.at_this_version}
        ) chosen{joins}
        union all {rows_before(table, "$2::bigint[]", held, keys)}
    """


def _watched(
    table: PreparedTable,
    seen: PreparedTable,
    identity: tuple[Hashable, ...],
    equal: Mapping[str, str],
    arguments: Arguments,
    sql: str,
    condition: str,
) -> Watched:
    columns = tuple(equal)
    shape = Shape(
        seen,
        (table.schema.table_id, table.schema.version, columns, *identity),
        arguments.complete(sql),
        arguments.values[2:],
        f"{condition} {' '.join(columns)}",
    )
    return Watched(shape, [tuple(equal.values())])


def _compile(where: Mapping[str, Json], table: PreparedTable, arguments: Arguments, limits: Limits) -> str:
    condition, _ = compile_where(
        where, functools.partial(operand, table.schema, arguments=arguments), limits, arguments
    )
    return condition


def _require_simple(where: Json, table: TableSchema) -> None:
    names = list(_names(where))
    if len(names) > MAX_CONDITIONS:
        raise NotSupportedInSubscriptionError(f"where: a subscription has at most {MAX_CONDITIONS} conditions.")
    for name in names:
        column = table.by_name.get(name.partition(".")[0])
        if "." in name and column is not None and column.references is not None:
            raise NotSupportedInSubscriptionError(f"where.{name}: a subscription does not follow references.")


def _names(where: Json) -> Iterator[str]:
    """Yield the names that a condition compares, once for each time; raises an error for what needs other rows."""
    if not isinstance(where, dict):
        return
    for name, value in where.items():
        if name in {"$and", "$or"} and isinstance(value, list):
            for one in value:
                yield from _names(one)
        elif name == "$not":
            yield from _names(value)
        elif name == "$exists":
            raise NotSupportedInSubscriptionError("where: a subscription takes no $exists.")
        else:
            if isinstance(value, dict) and "$matches" in json.encode(value).decode():
                raise NotSupportedInSubscriptionError(f"where.{name}: a subscription takes no $matches.")
            yield name


def _without_equalities(
    condition: Mapping[str, Json], table: PreparedTable, equal: dict[str, str], *, of_rule: bool, own: str | None
) -> dict[str, Json]:
    """Return a condition without the equalities of plain columns at its top, which go to `equal` by their SQL."""
    rest: dict[str, Json] = {}
    for name, value in condition.items():
        if name == "$and":
            inner = [_without_equalities(one, table, equal, of_rule=of_rule, own=own) for one in value]
            if left := [one for one in inner if one]:
                rest[name] = left
        elif (found := _equality(name, value, table, of_rule=of_rule, own=own)) is None:
            rest[name] = value
        elif equal.setdefault(found[0], found[1]) != found[1]:
            # Two values for one column: no row has both.
            rest[name] = value
    return rest


def _equality(
    name: str, value: Json, table: PreparedTable, *, of_rule: bool, own: str | None
) -> tuple[str, str] | None:
    """Return the expression and the text of an equality by which rows are looked up; None for other conditions."""
    if isinstance(value, dict) and value.keys() == {"$eq"}:
        value = value["$eq"]
    if name == CREATOR_NAME:
        found = CREATOR_OPERAND
        if value == {"$member": "id"}:
            value = own
    elif name.startswith("$"):
        return None
    else:
        schema = table.schema
        if "." in name or (not of_rule and name not in schema.by_name and name != "id"):
            return None
        found = operand(schema, column_name_of(schema, name) if of_rule else name, Arguments(hash_=table.hash))
    if value is None or isinstance(value, (dict, list)) or found.kind not in _TEXTS:
        return None
    converted = found.convert(value)
    return None if converted is None else (found.sql, _TEXTS[found.kind](converted))


def _is_timed(table: TableSchema) -> bool:
    return table.rules is not None and b'"$now"' in json.encode(table.rules)
