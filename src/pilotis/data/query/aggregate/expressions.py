"""Aggregation expressions, compiled to SQL. Pure: constants are bound, fields are looked up.

Where MongoDB and SQL differ, MongoDB's manual applies: division is never integer division, arithmetic with a missing
operand is null, comparisons order values of different types instead of failing, and every value but false, zero,
null and missing counts as true.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import available_timezones

from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.values import NUMBERS, Value
from pilotis.data.where.operands import Arguments, Kind, parameter
from pilotis.kit import json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import BadRequestError, Detail

Json = Any
Resolve = Callable[[str, str], Value]

_DEEPEST = 20
_MAX_EXPRESSIONS = 1000
_LONGEST_SQL = 1_000_000
_MAX_ROOTS = 10
# A function takes at most 100 arguments.
_MAX_ARGUMENTS = 90


class InvalidPipelineError(BadRequestError):
    """400 `INVALID_PIPELINE`: a stage, an accumulator or an expression is unknown or has the wrong form."""

    code = "INVALID_PIPELINE"


def wrong(place: str, message: str) -> InvalidPipelineError:
    """Return the error at one place of the pipeline, such as `pipeline[1].$group.total`."""
    return InvalidPipelineError(message, details=[Detail(place, "INVALID_PIPELINE", message)])


class Budget:
    """The budget of one pipeline's expressions: their number, and the length of their SQL.

    Some operators repeat an operand, so the SQL can grow exponentially with nesting.
    """

    def __init__(self) -> None:
        self._expressions = _MAX_EXPRESSIONS
        self._characters = _LONGEST_SQL
        self._roots = _MAX_ROOTS

    def count(self, place: str) -> None:
        """Count an expression before it is compiled; raises `InvalidPipelineError` beyond the limit."""
        self._expressions -= 1
        if self._expressions < 0:
            raise wrong(place, f"A pipeline has at most {_MAX_EXPRESSIONS} expressions.")

    def count_root(self, place: str) -> None:
        """Count a reference to `$$ROOT`, each of which can double the documents."""
        self._roots -= 1
        if self._roots < 0:
            raise wrong(place, f"A pipeline mentions $$ROOT at most {_MAX_ROOTS} times.")

    def spend(self, value: Value, place: str) -> None:
        """Count the SQL of a compiled expression; raises `InvalidPipelineError` beyond the limit."""
        self._characters -= len(value.sql) + len(value.null or "")
        if self._characters < 0:
            raise wrong(place, "The expressions of this pipeline are too large together; split or simplify them.")


class Expressions:
    """Compiles expressions; `resolve` looks up a field of the documents, named at a place of the pipeline."""

    def __init__(self, resolve: Resolve, arguments: Arguments, budget: Budget) -> None:
        self._resolve = resolve
        self._arguments = arguments
        self._budget = budget
        self._constant_lists: dict[int, bool] = {}

    def compile(self, expression: Json, place: str, depth: int = 0) -> Value:
        """Return the value of an expression: `$field`, a constant, a document, or `{$operator: operands}`."""
        if depth > _DEEPEST:
            raise wrong(place, f"Expressions are nested at most {_DEEPEST} deep.")
        self._budget.count(place)
        value = self._compiled(expression, place, depth)
        self._budget.spend(value, place)
        return value

    def _compiled(self, expression: Json, place: str, depth: int) -> Value:
        if isinstance(expression, str) and expression.startswith("$"):
            if expression == "$$ROOT":
                self._budget.count_root(place)
            return self._resolve(expression.removeprefix("$$CURRENT.").removeprefix("$"), place)
        if isinstance(expression, Mapping):
            return self._mapping(expression, place, depth)
        if isinstance(expression, list) and not self._is_constant(expression):
            items = [self.compile(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(expression)]
            return Value(_array([values.as_json(item) for item in items]), Kind.JSON, computed=True)
        return self.constant(expression)

    def _is_constant(self, expression: Json) -> bool:
        """Return whether an expression other than a document is a constant. Each list is walked once."""
        if not isinstance(expression, list):
            return not isinstance(expression, Mapping) and not (
                isinstance(expression, str) and expression.startswith("$")
            )
        known = self._constant_lists.get(id(expression))
        if known is None:
            # Identity is safe as a key: the lists belong to the request, which outlives this compiler.
            known = self._constant_lists[id(expression)] = all(map(self._is_constant, expression))
        return known

    def constant(self, value: Json) -> Value:
        """Return a bound constant."""
        if isinstance(value, bool):
            return Value(self._arguments.bind(value, "boolean"), Kind.BOOLEAN, computed=True)
        if isinstance(value, (int, Decimal)):
            return Value(self._arguments.bind(value, "numeric"), Kind.NUMERIC, computed=True)
        if isinstance(value, str):
            return Value(self._arguments.bind(value, "text"), Kind.TEXT, computed=True, moment=self._moment(value))
        return Value(self._arguments.bind(json.encode(value).decode(), "jsonb"), Kind.JSON, computed=True)

    def _moment(self, text: str) -> str | None:
        moment = parse_rfc3339(text)
        return None if moment is None else self._arguments.bind(moment.isoformat(), parameter(Kind.TIME))

    def _mapping(self, expression: Mapping[str, Json], place: str, depth: int) -> Value:
        operators = [name for name in expression if name.startswith("$")]
        if not operators:
            return values.document(
                {name: self.compile(item, f"{place}.{name}", depth + 1) for name, item in expression.items()},
                self._arguments,
            )
        if len(expression) != 1:
            raise wrong(place, "An expression has exactly one operator.")
        name = operators[0]
        operand = expression[name]
        place = f"{place}.{name}"
        if name == "$literal":
            return self.constant(operand)
        if name == "$cond":
            return self._cond(operand, place, depth)
        if name in {"$dateToString", "$dateTrunc"}:
            return self._date(name, operand, place, depth)
        if name in _DATE_PARTS and isinstance(operand, Mapping) and "date" in operand:
            return self._date_part(name, operand, place, depth)
        found = _OPERATORS.get(name)
        if found is None:
            known = ", ".join(sorted({*_OPERATORS, "$literal", "$cond", "$dateToString", "$dateTrunc"}))
            raise wrong(place, f"{name[:64]} is not an expression operator; the operators are {known}.")
        minimum, limit, compile_ = found
        items = operand if isinstance(operand, list) else [operand]
        if not minimum <= len(items) <= limit:
            expected = (
                str(minimum) if minimum == limit else f"{minimum} or more" if limit > 99 else f"{minimum} to {limit}"
            )
            raise wrong(place, f"{name} takes {expected} operands.")
        compiled = [self.compile(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(items)]
        return compile_([_date(compiled[0], name, place)] if name in _DATE_PARTS else compiled)

    def _cond(self, operand: Json, place: str, depth: int) -> Value:
        if isinstance(operand, Mapping) and set(operand) == {"if", "then", "else"}:
            operand = [operand["if"], operand["then"], operand["else"]]
        if not isinstance(operand, list) or len(operand) != 3:
            raise wrong(place, "$cond takes {if, then, else} or a list of the three.")
        condition, *results = [self.compile(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(operand)]
        kind, (then, otherwise) = _common(results)
        test = values.as_condition(condition)
        sql = f"(case when {test} then {then} else {otherwise} end)"
        if kind is Kind.JSON or all(result.computed for result in results):
            return Value(sql, kind, computed=kind is not Kind.JSON)
        then, otherwise = (str(result.computed).lower() if result.null is None else result.null for result in results)
        return Value(sql, kind, null=f"(case when {test} then {then} else {otherwise} end)")

    def _date(self, name: str, operand: Json, place: str, depth: int) -> Value:
        allowed = {"date", "format", "timezone", "onNull"} if name == "$dateToString" else {
            "date", "unit", "binSize", "timezone", "startOfWeek"
        }  # fmt: skip
        if not isinstance(operand, Mapping) or "date" not in operand or not set(operand) <= allowed:
            raise wrong(
                place, f"{name} takes an object with date and, where wanted, {', '.join(sorted(allowed - {'date'}))}."
            )
        moment = values.as_time(_date(self.compile(operand["date"], f"{place}.date", depth + 1), name, place))
        zone = self._time_zone(operand.get("timezone", "UTC"), place)
        if name == "$dateTrunc":
            return _truncated(moment, operand, zone, place)
        text = _formatted(f"({moment} at time zone {zone})", operand.get("format", _ISO), zone, place, self._arguments)
        if "onNull" in operand:
            kind, (shown, instead) = _common(
                [Value(text, Kind.TEXT), self.compile(operand["onNull"], f"{place}.onNull", depth + 1)]
            )
            return Value(f"coalesce({shown}, {instead})", kind, computed=True)
        return Value(text, Kind.TEXT, computed=True)

    def _date_part(self, name: str, operand: Mapping[str, Json], place: str, depth: int) -> Value:
        if not set(operand) <= {"date", "timezone"}:
            raise wrong(place, f"{name} takes a date, or an object with date and, where wanted, timezone.")
        moment = values.as_time(_date(self.compile(operand["date"], f"{place}.date", depth + 1), name, place))
        zone = self._time_zone(operand.get("timezone", "UTC"), place)
        return _number(f"extract({_DATE_PARTS[name]} from {moment} at time zone {zone})")

    def _time_zone(self, name: Json, place: str) -> str:
        offset = _OFFSET.fullmatch(name) if isinstance(name, str) else None
        if offset is not None:
            # POSIX, and so PostgreSQL, reads text offsets as west of Greenwich; intervals follow ISO 8601.
            return self._arguments.bind(f"{offset[1]}:{offset[2] or '00'}", "text") + "::interval"
        if not isinstance(name, str) or name not in _time_zones():
            raise wrong(place, "timezone takes an Olson name such as Asia/Seoul, or an offset such as +09:00.")
        return self._arguments.bind(name, "text")


def _date(value: Value, name: str, place: str) -> Value:
    """Return the value if it may be a date; raises `InvalidPipelineError` for an object."""
    if value.members is not None:
        raise wrong(place, f"{name} takes a date, not an object.")
    return value


_NULL = "'null'"
_ISO = "%Y-%m-%dT%H:%M:%S.%LZ"
_FORMATS = {
    "Y": "YYYY", "m": "MM", "d": "DD", "H": "HH24", "M": "MI", "S": "SS", "L": "MS", "j": "DDD", "u": "ID",
    "V": "IW", "G": "IYYY", "b": "Mon", "B": "FMMonth",
}  # fmt: skip
_UNITS = {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"}
_DATE_PARTS = {"$year": "year", "$month": "month", "$dayOfMonth": "day", "$hour": "hour"}

_OFFSET = re.compile(r"([+-](?:[01]\d|2[0-3])):?([0-5]\d)?(?<!:)", re.ASCII)


@functools.cache
def _time_zones() -> frozenset[str]:
    # Names that refer to the machine's own settings and are unknown to PostgreSQL.
    return frozenset(available_timezones() - {"localtime", "Factory"})


def _array(items: list[str]) -> str:
    groups = [items[start : start + _MAX_ARGUMENTS] for start in range(0, len(items), _MAX_ARGUMENTS)]
    arrays = [f"jsonb_build_array({', '.join(f'coalesce({item}, {_NULL})' for item in group)})" for group in groups]
    size = " + ".join(f"coalesce(pg_column_size({item}), 0)::bigint" for item in items)
    return f"(case when {size} <= {values.MAX_BYTES} then {' || '.join(arrays)} else pilotis.refuse_size()::jsonb end)"


def _formatted(local: str, format_: Json, zone: str, place: str, arguments: Arguments) -> str:
    if not isinstance(format_, str) or len(format_) > 200:
        raise wrong(place, "format takes a text of at most 200 characters.")
    parts: list[str] = []
    pieces = iter(format_.split("%"))
    if first := next(pieces):
        parts.append(arguments.bind(first, "text"))
    for piece in pieces:
        letter, rest = piece[:1], piece[1:]
        if letter == "":
            # "%%": the next piece follows the escaped percent sign.
            parts.append("'%'::text")
            rest = next(pieces, "")
        elif letter in _FORMATS:
            parts.append(f"to_char({local}, '{_FORMATS[letter]}')")
        elif letter == "w":
            parts.append(f"(extract(dow from {local}) + 1)::text")
        elif letter == "U":
            parts.append(f"lpad(((extract(doy from {local}) + 6 - extract(dow from {local}))::int / 7)::text, 2, '0')")
        elif letter in {"z", "Z"}:
            parts.append(_offset(local, zone, minutes=letter == "Z"))
        else:
            raise wrong(place, f"%{letter} is no format specifier of $dateToString.")
        if rest:
            parts.append(arguments.bind(rest, "text"))
    text = " || ".join(parts) or "''::text"
    # A format without specifiers does not depend on the date, but a missing date still yields null.
    return f"(case when {local} is not null then {text} end)"


def _offset(local: str, zone: str, *, minutes: bool) -> str:
    seconds = f"extract(epoch from ({local} at time zone 'UTC') - ({local} at time zone {zone}))::int"
    if minutes:
        return f"({seconds} / 60)::text"
    sign = f"(case when {seconds} < 0 then '-' else '+' end)"
    return f"{sign} || lpad((abs({seconds}) / 3600)::text, 2, '0') || lpad((abs({seconds}) % 3600 / 60)::text, 2, '0')"


def _truncated(moment: str, operand: Mapping[str, Json], zone: str, place: str) -> Value:
    unit, size = operand.get("unit"), operand.get("binSize", 1)
    if not isinstance(unit, str) or unit not in _UNITS:
        raise wrong(place, f"unit takes one of {', '.join(sorted(_UNITS))}.")
    if size != 1:
        raise wrong(place, "binSize other than 1 is not supported.")
    local = f"({moment} at time zone {zone})"
    unit = {"millisecond": "milliseconds"}.get(unit, unit)
    start = operand.get("startOfWeek", "sunday")
    if unit != "week":
        truncated = f"date_trunc('{unit}', {local})"
    else:
        days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
        names = {day: index for index, day in enumerate(days)} | {day[:3]: index for index, day in enumerate(days)}
        if not isinstance(start, str) or start.lower() not in names:
            raise wrong(place, "startOfWeek takes the name of a day.")
        shift = f"interval '{names[start.lower()]} days'"
        truncated = f"(date_trunc('week', {local} - {shift}) + {shift})"
    return Value(f"({truncated} at time zone {zone})", Kind.TIME, computed=True)


def _common(items: list[Value]) -> tuple[Kind, list[str]]:
    """Return a common kind of the values and each value as that kind: their own if all agree, else JSON."""
    kinds = {item.kind for item in items}
    if kinds <= NUMBERS:
        return Kind.NUMERIC, [values.as_number(item) for item in items]
    if len(kinds) == 1 and Kind.JSON not in kinds:
        return kinds.pop(), [item.sql for item in items]
    return Kind.JSON, [values.collected(item) for item in items]


def _number(sql: str) -> Value:
    return Value(sql, Kind.NUMERIC, computed=True)


def _arithmetic(sign: str) -> Callable[[list[Value]], Value]:
    return lambda items: _number("(" + f" {sign} ".join(values.as_number(item) for item in items) + ")")


def _add(items: list[Value]) -> Value:
    moments = [item for item in items if item.kind is Kind.TIME]
    if len(moments) != 1:
        return _arithmetic("+")(items)
    return _moved(moments[0], "+", [item for item in items if item.kind is not Kind.TIME])


def _subtract(items: list[Value]) -> Value:
    first, second = items
    if first.kind is not Kind.TIME:
        return _arithmetic("-")(items)
    if second.kind is not Kind.TIME:
        return _moved(first, "-", [second])
    return _number(f"trunc(extract(epoch from {first.sql} - {second.sql}) * 1000)")


def _moved(moment: Value, sign: str, milliseconds: list[Value]) -> Value:
    """Return a moment moved by a number of milliseconds."""
    number = " + ".join(["0", *map(values.as_number, milliseconds)])
    return Value(f"({moment.sql} {sign} ({number})::float8 * interval '1 millisecond')", Kind.TIME, computed=True)


def _function(name: str) -> Callable[[list[Value]], Value]:
    return lambda items: _number(f"{name}({values.as_number(items[0])})")


def _round(items: list[Value]) -> Value:
    place = f"trunc({values.as_number(items[1])})::int" if len(items) == 2 else "0"
    number = values.as_number(items[0])
    # MongoDB rounds halves to even, PostgreSQL's numeric away from zero.
    scaled = f"({number} * power(10::numeric, {place}))"
    half = f"abs({scaled} - trunc({scaled})) = 0.5"
    even = f"(2 * round({scaled} / 2))"
    return _number(f"((case when {half} then {even} else round({scaled}) end) / power(10::numeric, {place}))")


def _if_null(items: list[Value]) -> Value:
    kind, sqls = _common(items)
    if kind is Kind.JSON:
        sqls = [*(f"nullif({sql}, 'null')" for sql in sqls[:-1]), sqls[-1]]
        return Value(f"coalesce({', '.join(sqls)})", kind)
    return Value(f"coalesce({', '.join(sqls)})", kind, computed=items[-1].computed, null=items[-1].null)


def _concat(items: list[Value]) -> Value:
    texts = [f"({values.as_text(item)})" for item in items]
    size = " + ".join(f"octet_length({text})::bigint" for text in texts)
    groups = [texts[start : start + _MAX_ARGUMENTS] for start in range(0, len(texts), _MAX_ARGUMENTS)]
    whole = f"concat({', '.join(f'concat({group})' for group in map(', '.join, groups))})"
    # Checked before it is built, because its memory is unbounded. If a text is null, so is the size.
    return Value(
        f"(case when {size} <= {values.MAX_BYTES} then {whole} when {size} is not null then pilotis.refuse_size() end)",
        Kind.TEXT,
        computed=True,
    )


def _substr(items: list[Value]) -> Value:
    text = f"coalesce({values.as_printed(items[0])}, '')"
    start, length = (f"trunc({values.as_number(item)})::int" for item in items[1:])
    taken = (
        f"(case when {start} < 0 then '' when {length} < 0 then substr({text}, {start} + 1) "
        f"else substr({text}, {start} + 1, {length}) end)"
    )
    return Value(taken, Kind.TEXT, computed=True)


def _cased(function: str) -> Callable[[list[Value]], Value]:
    return lambda items: Value(
        f'{function}(coalesce({values.as_printed(items[0])}, \'\') collate "default") collate "C"',
        Kind.TEXT,
        computed=True,
    )


def _part(field: str) -> Callable[[list[Value]], Value]:
    return lambda items: _number(f"extract({field} from {values.as_time(items[0])} at time zone 'UTC')")


def _size(items: list[Value]) -> Value:
    json_ = values.as_json(items[0])
    return _number(f"(case when jsonb_typeof({json_}) = 'array' then jsonb_array_length({json_}) end)::numeric")


def _in(items: list[Value]) -> Value:
    needle = f"coalesce({values.as_json(items[0])}, 'null')"
    array = values.as_json(items[1])
    return _boolean(
        f"(jsonb_typeof({array}) = 'array' and exists (select from jsonb_array_elements("
        f"case when jsonb_typeof({array}) = 'array' then {array} else '[]' end) e where e = {needle}))"
    )


def _boolean(sql: str) -> Value:
    return Value(f"coalesce({sql}, false)", Kind.BOOLEAN, computed=True)


def _comparison(sign: str) -> Callable[[list[Value]], Value]:
    def compile_(items: list[Value]) -> Value:
        left, right = _comparable_dates(*items)
        if (left.kind is right.kind and left.kind is not Kind.JSON) or {left.kind, right.kind} <= NUMBERS:
            collate = ' collate "C"' if left.kind is Kind.TEXT else ""
            return _boolean(_with_nulls(f"{left.sql}{collate}", sign, f"{right.sql}"))
        one, other = (f"coalesce({values.as_json(item)}, 'null')" for item in items)
        return _boolean(f"pilotis.bson_compare({one}, {other}) {sign} 0")

    return compile_


def _comparable_dates(left: Value, right: Value) -> tuple[Value, Value]:
    """Return both as moments if one is a date and the other a constant that parses as a moment."""
    if left.kind is Kind.TIME and right.moment is not None:
        return left, Value(right.moment, Kind.TIME)
    if right.kind is Kind.TIME and left.moment is not None:
        return Value(left.moment, Kind.TIME), right
    return left, right


def _with_nulls(left: str, sign: str, right: str) -> str:
    # Null sorts before everything else and equals itself.
    if sign == "=":
        return f"({left} is not distinct from {right})"
    if sign == "<>":
        return f"({left} is distinct from {right})"
    null_side = {">": (left, right), "<": (right, left)}.get(sign[0])
    assert null_side is not None
    some, none = null_side
    equal = f" or ({left} is null and {right} is null)" if sign.endswith("=") else ""
    return f"(coalesce({left} {sign} {right}, {some} is not null and {none} is null){equal})"


def _logical(word: str) -> Callable[[list[Value]], Value]:
    return lambda items: _boolean("(" + f" {word} ".join(map(values.as_condition, items)) + ")")


_MANY = 1000

_OPERATORS: dict[str, tuple[int, int, Callable[[list[Value]], Value]]] = {
    "$add": (1, _MANY, _add),
    "$subtract": (2, 2, _subtract),
    "$multiply": (1, _MANY, _arithmetic("*")),
    "$divide": (2, 2, _arithmetic("/")),
    "$mod": (2, 2, _arithmetic("%")),
    "$abs": (1, 1, _function("abs")),
    "$ceil": (1, 1, _function("ceil")),
    "$floor": (1, 1, _function("floor")),
    "$round": (1, 2, _round),
    "$ifNull": (2, _MANY, _if_null),
    "$concat": (1, _MANY, _concat),
    "$substr": (3, 3, _substr),
    "$toLower": (1, 1, _cased("lower")),
    "$toUpper": (1, 1, _cased("upper")),
    "$size": (1, 1, _size),
    "$in": (2, 2, _in),
    "$eq": (2, 2, _comparison("=")),
    "$ne": (2, 2, _comparison("<>")),
    "$gt": (2, 2, _comparison(">")),
    "$gte": (2, 2, _comparison(">=")),
    "$lt": (2, 2, _comparison("<")),
    "$lte": (2, 2, _comparison("<=")),
    "$and": (1, _MANY, _logical("and")),
    "$or": (1, _MANY, _logical("or")),
    "$not": (1, 1, lambda items: _boolean(f"not {values.as_condition(items[0])}")),
    **{name: (1, 1, _part(field)) for name, field in _DATE_PARTS.items()},
}
