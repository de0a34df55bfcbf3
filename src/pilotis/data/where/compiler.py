"""The `where` language, compiled to one SQL condition. Pure: names are looked up, values are bound.

Every condition is two-valued, as in MongoDB's language: an absent or null field equals only null and satisfies no
comparison, and `$ne`, `$nin` and `$not` are true wherever their operand is not. In SQL a leaf may yield null, which
WHERE, AND and OR treat as false; only a negation needs `is not true`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pilotis.data.tables.values import UnknownColumnError
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.index_expressions import case_key, caseless, caseless_trigrams_of, trigrams_of
from pilotis.data.where.inside import inside
from pilotis.data.where.operands import (
    CREATOR_NAME,
    CREATOR_OPERAND,
    Arguments,
    CreatorNotYoursError,
    EncryptedColumnError,
    Inside,
    Kind,
    Operand,
    as_bigint,
    is_number,
    parameter,
)
from pilotis.data.where.shapes import MAX_SHAPES, shape_within
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, invalid
from pilotis.limits import Limits

Json = Any
Resolve = Callable[[str], Operand]
Through = Callable[[str, Json, str], tuple[str, list[str]] | None]
"""Takes a name with a dot, its value and the place of the condition.

Returns the condition and its `$matches` patterns; None if the name does not go through a reference.
"""

_NEVER = "false"
_CREATOR_HIDDEN = (
    "$creator is for secret keys, console users and functions; a signed-in member may compare it with its own id."
)


class InvalidOperatorError(BadRequestError):
    """400 `INVALID_OPERATOR`: the operator does not exist, or does not apply to the column's type."""

    code = "INVALID_OPERATOR"


class InvalidRegexError(BadRequestError):
    """400 `INVALID_REGEX`: PostgreSQL cannot read the pattern of a `$matches`."""

    code = "INVALID_REGEX"
    message = "The pattern of $matches is not a valid regular expression."


class WhereTooComplexError(BadRequestError):
    """400 `WHERE_TOO_COMPLEX`: nested too deeply, or too many conditions."""

    code = "WHERE_TOO_COMPLEX"


def compile_where(
    where: Mapping[str, Json],
    resolve: Resolve,
    limits: Limits,
    arguments: Arguments,
    place: str = "where",
    through: Through | None = None,
) -> tuple[str, list[str]]:
    """Return the SQL condition, `true` for an empty `where`, and its `$matches` patterns.

    `resolve` looks up the operand of a name; values are added to `arguments`. Raises a 400 error that names the field
    by its path, which begins with `place`. `through` compiles what is about rows to which a column refers.
    """
    compiler = Compiler(resolve, limits, arguments, through)
    return compiler.conjunction(where, place, 1), compiler.patterns


class Compiler:
    """Compiles conditions; rules add to what an entry may be."""

    def __init__(self, resolve: Resolve, limits: Limits, arguments: Arguments, through: Through | None = None) -> None:
        self._resolve = resolve
        self._through = through
        self._limits = limits
        self._arguments = arguments
        self._conditions = 0
        self._nodes = 0
        self._shapes = 0
        self._max_nodes = 2 * limits.where_conditions * limits.where_depth
        self.patterns: list[str] = []

    def conjunction(self, where: Json, place: str, depth: int) -> str:
        """Compile an object: its columns and logical operators, combined by AND."""
        self._count_node()
        if not isinstance(where, Mapping):
            raise invalid(place, f"{place} must be an object of conditions.")
        if depth > self._limits.where_depth:
            raise WhereTooComplexError(f"Conditions are nested at most {self._limits.where_depth} deep.").at(place)
        parts = [self._entry(name, value, place, depth) for name, value in where.items()]
        return _joined(parts, " and ", "true")

    def _entry(self, name: str, value: Json, place: str, depth: int) -> str:
        self._count_node()
        if name in {"$and", "$or"}:
            if not isinstance(value, list):
                raise invalid(f"{place}.{name}", f"{name} takes a list of conditions.")
            if len(value) > self._limits.where_conditions:
                raise self._too_many()
            parts = [self._branch(name, item, f"{place}.{name}[{i}]", depth + 1) for i, item in enumerate(value)]
            return _joined(parts, " and ", "true") if name == "$and" else _joined(parts, " or ", "false")
        if name == "$not":
            with self._arguments.access.ignored():
                return f"({self.conjunction(value, f'{place}.$not', depth + 1)}) is not true"
        if name == CREATOR_NAME:
            return self._creator(value, f"{place}.{name}", depth)
        if name.startswith("$"):
            raise _unknown_operator(name, place, ["$and", "$or", "$not"])
        if self._through is not None and "." in name and (found := self._through(name, value, place)) is not None:
            self._count()
            self.patterns += found[1]
            return found[0]
        return self._field(name, value, f"{place}.{name[:100]}", depth)

    def _branch(self, name: str, value: Json, place: str, depth: int) -> str:
        if name == "$and":
            return self.conjunction(value, place, depth)
        with self._arguments.access.alternative():
            return self.conjunction(value, place, depth)

    def _field(self, name: str, value: Json, place: str, depth: int) -> str:
        try:
            field = self._resolve(name)
        except (EncryptedColumnError, UnknownColumnError) as error:
            error.at(place)
            raise
        return self._compared(field, value, place, depth)

    def _compared(self, field: Operand, value: Json, place: str, depth: int) -> str:
        if not _has_operators(value):
            self._count()
            if isinstance(value, dict) and field.convert(value) is None:
                raise _no_operators(field, value, place)
            if isinstance(value, list) and field.convert(value) is None:
                message = f"{field.name} holds no lists, so it never equals one. Did you mean $in?"
                raise InvalidOperatorError(message).at(place)
            return self._equal(field, value)
        parts = [self._operator(field, key, item, place, depth) for key, item in value.items()]
        return _joined(parts, " and ", "true")

    def _creator(self, value: Json, place: str, depth: int) -> str:
        value = self._with_own_id(value, place)
        if not _has_operators(value) and not isinstance(value, str | None):
            raise invalid(place, "$creator is compared with a member's id, a text, or null.")
        return self._compared(CREATOR_OPERAND, value, place, depth)

    def _with_own_id(self, value: Json, place: str) -> Json:
        """Return what `$creator` is compared with; callers who do not learn who created rows name themselves alone."""
        own = self._arguments.own
        operand = value["$eq"] if isinstance(value, dict) and set(value) == {"$eq"} else value
        if operand == {"$member": "id"}:
            if own is None:
                raise InvalidOperatorError("Nobody is signed in whose rows these could be.").at(place)
            return own
        if self._arguments.creators:
            return value
        if own is None:
            raise InvalidOperatorError(_CREATOR_HIDDEN).at(place)
        if operand != own:
            raise CreatorNotYoursError().at(place)
        return own

    def _operator(self, field: Operand, name: str, value: Json, place: str, depth: int) -> str:
        self._count()
        if name == "$not":
            if not _has_operators(value) or depth >= self._limits.where_depth:
                raise invalid(f"{place}.$not", "$not takes an object of operators here.")
            with self._arguments.access.ignored():
                parts = [self._operator(field, key, item, f"{place}.$not", depth + 1) for key, item in value.items()]
            return f"({_joined(parts, ' and ', 'true')}) is not true"
        compile_ = OPERATORS.get(name)
        if compile_ is None:
            raise _unknown_operator(name, place, [*OPERATORS, "$not"])
        if field.kind is Kind.ENCRYPTED and name not in _ON_ENCRYPTED:
            raise EncryptedColumnError(field.name).at(f"{place}.{name}")
        if field is CREATOR_OPERAND and name not in _ON_ENCRYPTED:
            operators = ", ".join(sorted(_ON_ENCRYPTED))
            raise InvalidOperatorError(f"$creator takes {operators} and $not.").at(f"{place}.{name}")
        return compile_(self, field, value, f"{place}.{name}")

    def _count_node(self) -> None:
        """Count an object or a member of one: empty ones take time as well."""
        self._nodes += 1
        if self._nodes > self._max_nodes:
            raise self._too_many()

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > self._limits.where_conditions:
            raise self._too_many()

    def _too_many(self) -> WhereTooComplexError:
        return WhereTooComplexError(f"A where has at most {self._limits.where_conditions} conditions.")

    def _bind(self, field: Operand, value: Json) -> str | None:
        """Bind a value to compare with the field; None if no value of the field can equal it."""
        bound = field.convert(value)
        return None if bound is None else self._arguments.bind(bound, parameter(field.kind))

    def _equal(self, field: Operand, value: Json, _place: str = "") -> str:
        if value is None:
            return _is_null(field)
        if field.kind is Kind.BIGINT and is_number(value) and as_bigint(value) is None:
            return _never(field)
        bound = self._bind(field, value)
        if bound is None:
            return _never(field)
        if field.inside is not None:
            return f"({field.sql} = {bound} and {self._contained(field.inside, value)})"
        self._record_access(AccessKind.EQUALITY, field)
        return f"{field.sql} = {bound}"

    def _contained(self, inside: Inside, value: Json) -> str:
        """Return a condition implied by a path's equality, which one index can serve for every path."""
        for name in reversed(inside.path):
            value = {name: value}
        self._arguments.access.add(AccessKind.CONTAINMENT, inside.column)
        return f"{inside.sql} @> {self._arguments.bind(json.encode(value).decode(), 'jsonb')}"

    def _record_access(self, kind: AccessKind, field: Operand) -> None:
        if field.kind is not Kind.JSON:
            self._arguments.access.add(kind, field.column)

    def _not_equal(self, field: Operand, value: Json, place: str) -> str:
        with self._arguments.access.ignored():
            return f"({self._equal(field, value, place)}) is not true"

    def _in(self, field: Operand, value: Json, place: str) -> str:
        values = self._list(value, place)
        bound = [item for item in map(field.convert, values) if item is not None]
        parts = []
        if bound:
            array = self._arguments.bind(bound, parameter(field.kind, "[]"))
            parts.append(f"{field.sql} = any({array})")
            self._record_access(AccessKind.IN, field)
        if None in values:
            parts.append(_is_null(field))
        return _joined(parts, " or ", _never(field))

    def _not_in(self, field: Operand, value: Json, place: str) -> str:
        with self._arguments.access.ignored():
            return f"({self._in(field, value, place)}) is not true"

    def _compare(self, sign: str, field: Operand, value: Json, place: str) -> str:
        if value is None or isinstance(value, (dict, list)):
            raise invalid(place, f"{place.rpartition('.')[2]} takes a text, a number or a boolean.")
        if field.kind is Kind.JSON:
            return self._compare_json(sign, field, value)
        if field.kind is Kind.BIGINT and is_number(value) and as_bigint(value) is None:
            return f"{field.sql}::numeric {sign} {self._arguments.bind(value, 'numeric')}"
        self._record_access(AccessKind.RANGE, field)
        bound = self._bind(field, value)
        return _never(field) if bound is None else f"{field.sql} {sign} {bound}"

    def _compare_json(self, sign: str, field: Operand, value: Json) -> str:
        if field.text is None:
            # A column of objects or arrays, which cannot be ordered.
            return _never(field)
        if isinstance(value, str):
            return f"{field.text} {sign} {self._arguments.bind(value, 'text')}"
        type_ = "boolean" if isinstance(value, bool) else "number"
        bound = self._arguments.bind(json.encode(value).decode(), "jsonb")
        return f"(jsonb_typeof({field.sql}) = '{type_}' and {field.sql} {sign} {bound})"

    def _between(self, field: Operand, value: Json, place: str) -> str:
        if not isinstance(value, list) or len(value) != 2:
            raise invalid(place, "$between takes a list of two values, [min, max].")
        low, high = (self._compare(sign, field, item, place) for sign, item in zip((">=", "<="), value, strict=True))
        return f"({low} and {high})"

    def _is_null(self, field: Operand, value: Json, place: str) -> str:
        if not isinstance(value, bool):
            raise invalid(place, "$isNull takes true or false.")
        return _is_null(field) if value else f"({_is_null(field)}) is not true"

    def _text(self, condition: str, field: Operand, value: Json, place: str) -> str:
        operator = place.rpartition(".")[2]
        if not isinstance(value, str):
            raise invalid(place, f"{operator} takes a text.")
        if field.text is None:
            raise InvalidOperatorError(f"{operator} works on text; {field.name} is of another type.").at(place)
        if field.kind is Kind.TEXT:
            self._record_access(_TEXT_ACCESS.get(operator, AccessKind.TRIGRAM), field)
        return condition.format(text=field.text, value=self._arguments.bind(value, "text"))

    def _like(self, pattern: str, field: Operand, value: Json, place: str) -> str:
        if isinstance(value, str):
            value = pattern.format(_WILDCARD.sub(r"\\\g<0>", value))
        return self._text(f"{_TRIGRAMS} like {{value}}", field, value, place)

    def _matches(self, field: Operand, value: Json, place: str) -> str:
        if isinstance(value, str):
            if len(value) > self._limits.regex_length:
                limit = self._limits.regex_length
                raise InvalidRegexError(f"The pattern of $matches has at most {limit} characters.").at(place)
            self.patterns.append(value)
        return self._text(f"{_TRIGRAMS} ~ {{value}}", field, value, place)

    def _array_contains(self, field: Operand, value: Json, place: str) -> str:
        _require_json(field, place)
        elements = value if isinstance(value, list) else [value]
        self._arguments.access.add(AccessKind.CONTAINMENT, field.column)
        return f"{field.sql} @> {self._arguments.bind(json.encode(elements).decode(), 'jsonb')}"

    def _array_contains_any(self, field: Operand, value: Json, place: str) -> str:
        _require_json(field, place)
        elements = [json.encode([item]).decode() for item in self._list(value, place)]
        if len(elements) > _MAX_CONTAINMENTS:
            return f"{field.sql} @> any({self._arguments.bind(elements, 'jsonb[]')})"
        self._arguments.access.add(AccessKind.CONTAINMENT, field.column)
        # A GIN index serves @>, but not @> any (…).
        parts = [f"{field.sql} @> {self._arguments.bind(element, 'jsonb')}" for element in elements]
        return _joined(parts, " or ", _never(field))

    def _within(self, field: Operand, value: Json, place: str) -> str:
        cube = self._arguments.cube
        if cube is None:
            raise InvalidOperatorError("$within is for the conditions of requests on rows.").at(place)
        if field.kind is not Kind.JSON:
            raise InvalidOperatorError(f"$within works on points, objects; {field.name} is of another type.").at(place)
        self._shapes += 1
        if self._shapes > MAX_SHAPES:
            raise WhereTooComplexError(f"A where has at most {MAX_SHAPES} places.").at(place)
        shape = shape_within(value, place)
        if field.column is not None:
            self._arguments.access.add(AccessKind.GEO, field.column)
        return f"({inside(field.sql, shape, cube, self._arguments)})"

    def _list(self, value: Json, place: str) -> list[Json]:
        if not isinstance(value, list):
            raise invalid(place, f"{place.rpartition('.')[2]} takes a list.")
        if len(value) > self._limits.where_list_values:
            limit = self._limits.where_list_values
            raise WhereTooComplexError(f"A list in a where has at most {limit} values.").at(place)
        return value


def _like(pattern: str) -> Callable[[Compiler, Operand, Json, str], str]:
    return lambda compiler, field, value, place: compiler._like(pattern, field, value, place)


def _comparison(sign: str) -> Callable[[Compiler, Operand, Json, str], str]:
    return lambda compiler, field, value, place: compiler._compare(sign, field, value, place)


def _text(condition: str) -> Callable[[Compiler, Operand, Json, str], str]:
    return lambda compiler, field, value, place: compiler._text(condition, field, value, place)


# The special characters of LIKE, including the escape.
_WILDCARD = re.compile(r"[\\%_]")
# Conditions on a text are templates of the field's `text` and of the `value`.
_TRIGRAMS = trigrams_of("{text}")
_CASELESS, _CASELESS_VALUE = caseless("{text}"), case_key("{value}")
# What becomes a special character by `case_key` is escaped after it.
_CASELESS_PART = rf"""replace(replace(replace({_CASELESS_VALUE}, '\', '\\'), '%', '\%'), '_', '\_')"""
_TEXT_ACCESS = {
    "$startsWith": AccessKind.RANGE,
    "$ieq": AccessKind.CASELESS,
    "$istartsWith": AccessKind.CASELESS,
    "$icontains": AccessKind.CASELESS_TRIGRAM,
}
_MAX_CONTAINMENTS = 50
_ON_ENCRYPTED = frozenset({"$eq", "$ne", "$in", "$nin", "$isNull"})

OPERATORS: dict[str, Callable[[Compiler, Operand, Json, str], str]] = {
    "$eq": Compiler._equal,
    "$ne": Compiler._not_equal,
    "$gt": _comparison(">"),
    "$gte": _comparison(">="),
    "$lt": _comparison("<"),
    "$lte": _comparison("<="),
    "$in": Compiler._in,
    "$nin": Compiler._not_in,
    "$between": Compiler._between,
    "$isNull": Compiler._is_null,
    "$contains": _like("%{}%"),
    "$startsWith": _text("{text} ^@ {value}"),
    "$endsWith": _like("%{}"),
    "$ieq": _text(f"{_CASELESS} = {_CASELESS_VALUE}"),
    "$icontains": _text(f"{caseless_trigrams_of('{text}')} like '%' || {_CASELESS_PART} || '%'"),
    "$istartsWith": _text(f"{_CASELESS} ^@ {_CASELESS_VALUE}"),
    "$matches": Compiler._matches,
    "$arrayContains": Compiler._array_contains,
    "$arrayContainsAny": Compiler._array_contains_any,
    "$within": Compiler._within,
}
"""The operators behind the name of a field."""


def _joined(parts: list[str], word: str, empty: str) -> str:
    if set(parts) == {"true"}:
        return "true"
    if len(parts) < 2:
        return parts[0] if parts else empty
    return "(" + word.join(parts) + ")"


def _never(field: Operand) -> str:
    # The field's path, if it has one, is already bound, and must be mentioned.
    return f"({field.sql} is null and false)" if "$" in field.sql else _NEVER


def _has_operators(value: Json) -> bool:
    """Return whether an object has operators; otherwise, and if it is empty, it is a value to compare with."""
    return isinstance(value, dict) and any(key.startswith("$") for key in value)


def _is_null(field: Operand) -> str:
    if field.kind is Kind.JSON:
        return f"coalesce(jsonb_typeof({field.sql}), 'null') = 'null'"
    return f"{field.sql} is null"


def _require_json(field: Operand, place: str) -> None:
    if field.kind is not Kind.JSON:
        operator = place.rpartition(".")[2]
        raise InvalidOperatorError(f"{operator} works on arrays; {field.name} is of another type.").at(place)


def _unknown_operator(name: str, place: str, known: Iterable[str]) -> InvalidOperatorError:
    name = name[:100]
    meant = f" Did you mean ${name}?" if f"${name}" in known else ""
    message = f"{name} is not an operator here; the operators are {', '.join(known)}.{meant}"
    return InvalidOperatorError(message).at(f"{place}.{name}")


def _no_operators(field: Operand, value: Mapping[str, Json], place: str) -> InvalidOperatorError:
    """Return the error about an object, which no value of the field can equal: its keys were meant as operators."""
    known = [*OPERATORS, "$not"]
    if value:
        return _unknown_operator(next(iter(value)), place, known)
    message = f"{field.name} holds no objects, so it never equals one; compare it by {', '.join(known)}."
    return InvalidOperatorError(message).at(place)
