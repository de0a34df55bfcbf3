"""Rules of lists of files: what they ask of other tables is read first, and becomes values of the list's condition.

The tables are on another node than the files where a database has several, so no statement reads both. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from pilotis.data.rules.compile import compile_rule
from pilotis.data.rules.document import InvalidOperandError, column_name_of, is_reference
from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.operands import CREATOR_NAME, CREATOR_OPERAND, Arguments, Kind, qualified

Json = Any
Tables = Mapping[UUID, TableSchema]

MAX_VALUES = 10_000
"""How many values a list's condition takes from another table."""


class Question(NamedTuple):
    """A statement that answers an `$exists`: with `key`, the values of that fact of a file; else whether it holds."""

    key: str | None
    sql: str
    values: list[Any]


def check_lists(document: Mapping[str, Json]) -> None:
    """Raise `InvalidOperandError` unless lists can ask the rules that decide them; takes the document as it was sent.

    An `$exists` there names one `$row` at most, by an equality beside what else it asks.
    """
    if "list" in document and document["list"] is None:
        return
    for action in ("list", "read"):
        for place, where in _exists_in(document.get(action), f"rules.{action}", document.get("define") or {}):
            if _split(where) is None:
                message = (
                    "In a list, an $exists compares one column with a $row, by equality and not in an $or or $not. "
                    "Write it so, or close the list with null."
                )
                raise InvalidOperandError(message).at(place)


def _exists_in(rule: Json, place: str, defined: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the outermost `$exists` of a rule."""
    if isinstance(rule, list):
        for at, one in enumerate(rule):
            yield from _exists_in(one, f"{place}[{at}]", defined)
    elif isinstance(rule, Mapping):
        for name, value in rule.items():
            if name == "$exists":
                yield f"{place}.$exists", value["where"]
            elif name == "$use":
                yield from _exists_in(defined.get(value), f"rules.define.{value}", {})
            else:
                yield from _exists_in(value, f"{place}.{name}", defined)


def _split(where: Mapping[str, Json]) -> tuple[str | None, str | None, list[Json]] | None:
    """Return the column and the fact that an `$exists` compares, and its other conditions; None for another form."""
    own, rest = [], []
    for name, value in _parts(where):
        fact = value.get("$eq", value) if isinstance(value, Mapping) and set(value) == {"$eq"} else value
        if not name.startswith("$") and is_reference(fact) and "$row" in fact:
            own.append((name, fact["$row"]))
        elif _names_row({name: value}):
            return None
        else:
            rest.append({name: value})
    if len(own) > 1:
        return None
    return (*own[0], rest) if own else (None, None, rest)


def _parts(where: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    for name, value in where.items():
        if name == "$and":
            for one in value:
                yield from _parts(one)
        else:
            yield name, value


def _names_row(rule: Json) -> bool:
    """Return whether a condition names the judged file; inside another `$exists`, `$row` is the row around that."""
    if isinstance(rule, list):
        return any(map(_names_row, rule))
    if not isinstance(rule, Mapping):
        return False
    return (is_reference(rule) and "$row" in rule) or any(
        _names_row(value) for name, value in rule.items() if name != "$exists"
    )


def question(exists: Mapping[str, Json], tables: Tables) -> Question | None:
    """Return what answers a folded `$exists`; None for a form that `check_lists` refuses."""
    other = tables[UUID(exists["table"])]
    found = _split(exists["where"])
    if found is None:
        return None
    key, fact, rest = found
    arguments = Arguments()
    condition = compile_rule({"$and": rest}, other, tables, arguments, row="e") if rest else "true"
    source = f"from {other.physical} e where {condition} and (true or e.{other.version_column})"
    if key is None:
        return Question(None, arguments.complete(f"select exists (select {source}) as value"), arguments.values)
    if key == CREATOR_NAME:
        field = CREATOR_OPERAND._replace(sql=f"e.{CREATOR_OPERAND.sql}")
    else:
        field = qualified(other, column_name_of(other, key), arguments, "e")
    value = f"{field.sql}::text" if field.kind is Kind.UUID else field.sql
    sql = f"select distinct {value} as value {source} and {field.sql} is not null limit {MAX_VALUES + 1}"
    return Question(fact, arguments.complete(sql), arguments.values)


def asked(rule: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield the outermost `$exists` of a folded rule."""
    for name, value in rule.items():
        if name == "$exists":
            yield value
        elif name in {"$and", "$or"}:
            for one in value:
                yield from asked(one)
        elif name == "$not":
            yield from asked(value)


def answered(rule: Mapping[str, Json], answer: Callable[[Mapping[str, Json]], dict[str, Json]]) -> dict[str, Json]:
    """Return a folded rule with the answer, a condition on the file, in the place of each `$exists`."""
    parts: list[dict[str, Json]] = []
    for name, value in rule.items():
        if name == "$exists":
            parts.append(answer(value))
        elif name in {"$and", "$or"}:
            parts.append({name: [answered(one, answer) for one in value]})
        elif name == "$not":
            parts.append({name: answered(value, answer)})
        else:
            parts.append({name: value})
    return parts[0] if len(parts) == 1 else {"$and": parts}
