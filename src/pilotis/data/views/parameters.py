"""The parameters of views: their definitions, the values of a call, and their places in a pipeline. Pure.

A value is data wherever it stands: in an expression it is a literal, so that a text such as `$salary` names no field,
and no value is an object, which could be read as operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from pilotis.data.query.aggregate.union import UNION
from pilotis.data.tables.schema import ColumnType
from pilotis.data.views.types import Parameters, ParameterType, ViewParameter
from pilotis.data.where.operands import CONVERSIONS, KINDS, is_number
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, Detail, PilotisError, ValidationError, invalid
from pilotis.limits import Limits

Json = Any

MAX_PARAMETERS = 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SAMPLES: Mapping[ParameterType, Json] = {
    "string": "x",
    "number": 1,
    "int": 1,
    "boolean": True,
    "date": "2026-01-01T00:00:00Z",
    "uuid": "00000000-0000-7000-8000-000000000000",
    "array": [],
}
_EXPECTED: Mapping[ParameterType, str] = {
    "string": "a text",
    "number": "a number",
    "int": "a whole number of 64 bits",
    "boolean": "true or false",
    "date": "an RFC 3339 time, such as 2026-01-31T12:00:00Z",
    "uuid": "a UUID",
    "array": "a list of texts, numbers and booleans",
}
# Types whose values stand in a query string as they are; all others as JSON.
_TEXTS = frozenset({"string", "date", "uuid"})
# In these stages a value is an operand of `where`, a number or a direction; in all others part of an expression.
_PLAIN_STAGES = frozenset({"$match", "$limit", "$skip", "$sort", "$lookup"})
_DATE_OPERATORS = frozenset({"$dateToString", "$dateTrunc", "$year", "$month", "$dayOfMonth", "$hour"})
_DATE_EXPRESSIONS = frozenset({"date", "onNull"})


class ParameterMissingError(BadRequestError):
    """400 `PARAMETER_MISSING`: the call of a view lacks a parameter that has no default."""

    code = "PARAMETER_MISSING"


def check_definitions(params: Parameters, limits: Limits) -> None:
    """Raise a 400 error, which names the place, for wrong definitions."""
    if len(params) > MAX_PARAMETERS:
        raise invalid("params", f"A view has at most {MAX_PARAMETERS} parameters.")
    for name, parameter in params.items():
        if not _NAME.fullmatch(name):
            raise invalid(f"params.{name[:100]}", "A parameter's name has letters, digits and _, at most 63.")
        if parameter.default is not msgspec.UNSET:
            _check(parameter, parameter.default, f"params.{name}.default", limits)


def samples(params: Parameters) -> dict[str, Json]:
    """Return a value of each parameter, to compile a pipeline with: its default, or one of its type."""
    return {
        name: _SAMPLES[parameter.type] if parameter.default is msgspec.UNSET else parameter.default
        for name, parameter in params.items()
    }


def values(params: Parameters, given: Mapping[str, Json], limits: Limits) -> dict[str, Json]:
    """Return the value of each parameter in a call; raises a 400 error that names the parameter."""
    for name in given:
        if name not in params:
            raise _unknown(name, params)
    found: dict[str, Json] = {}
    for name, parameter in params.items():
        if name in given:
            _check(parameter, given[name], f"params.{name}", limits)
            found[name] = given[name]
        elif parameter.default is msgspec.UNSET:
            raise ParameterMissingError(f"The parameter {name} is missing.").at(f"params.{name}")
        else:
            found[name] = parameter.default
    return found


def from_query(params: Parameters, query_string: bytes) -> dict[str, Json]:
    """Return the values that a query string has: texts, dates and UUIDs as they are, all others as JSON.

    Raises a 400 error that names the parameter.
    """
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise BadRequestError("The query string is invalid: it must be percent-encoded UTF-8.") from None
    found: dict[str, Json] = {}
    for name, text in pairs:
        if name in found:
            raise invalid(f"params.{name[:100]}", f"{name[:100]} is given twice.")
        parameter = params.get(name)
        if parameter is None:
            raise _unknown(name, params)
        if parameter.type in _TEXTS:
            found[name] = text
        else:
            try:
                found[name] = json.decode(text.encode())
            except PilotisError:
                raise _wrong(parameter, f"params.{name}") from None
    return found


def _unknown(name: str, params: Parameters) -> ValidationError:
    known = f"it takes {', '.join(params)}" if params else "it takes none"
    message = f"The view has no parameter {name[:100]}; {known}."
    return ValidationError(message, details=[Detail(f"params.{name[:100]}", "UNKNOWN_PARAMETER", message)])


def _wrong(parameter: ViewParameter, place: str) -> ValidationError:
    return invalid(place, f"{place} is {_EXPECTED[parameter.type]}.")


def _check(parameter: ViewParameter, value: Json, place: str, limits: Limits) -> None:
    if parameter.type == "array":
        if not isinstance(value, list) or not all(isinstance(one, str | bool) or is_number(one) for one in value):
            raise _wrong(parameter, place)
        if len(value) > limits.where_list_values:
            raise invalid(place, f"{place} has at most {limits.where_list_values} values.")
    elif CONVERSIONS[KINDS[ColumnType(parameter.type)]](value) is None:
        raise _wrong(parameter, place)
    if "\0" in str(value):
        raise invalid(place, f"{place}: the character U+0000 cannot be stored, so nothing can match it.")


def substituted(pipeline: Sequence[Json], given: Mapping[str, Json]) -> list[Json]:
    """Return a pipeline with values in the place of its parameters; raises a 400 error for one that has no value."""
    return [_stage(stage, given, f"pipeline[{index}]") for index, stage in enumerate(pipeline)]


def _stage(stage: Json, given: Mapping[str, Json], place: str) -> Json:
    if not isinstance(stage, Mapping):
        return stage
    return {name: _operand(name, operand, given, f"{place}.{name}") for name, operand in stage.items()}


def _operand(name: str, operand: Json, given: Mapping[str, Json], place: str) -> Json:
    if name == UNION and isinstance(operand, Mapping) and isinstance(operand.get("pipeline"), list):
        stages = [_stage(one, given, f"{place}.pipeline[{index}]") for index, one in enumerate(operand["pipeline"])]
        return {**operand, "pipeline": stages}
    return (_plain if name in _PLAIN_STAGES else _expression)(operand, given, place)


def _parameter(value: Json, given: Mapping[str, Json], place: str) -> Json | None:
    """Return a list of the value of a parameter that stands there; None for anything else."""
    if not isinstance(value, Mapping) or len(value) != 1 or "$param" not in value:
        return None
    name = value["$param"]
    if not isinstance(name, str) or name not in given:
        known = f"There are {', '.join(given)}." if given else "params defines none."
        raise invalid(place, f"$param names a parameter of the view. {known}", "UNKNOWN_PARAMETER")
    return [given[name]]


def _plain(value: Json, given: Mapping[str, Json], place: str) -> Json:
    if found := _parameter(value, given, place):
        return found[0]
    if isinstance(value, Mapping):
        return {name: _plain(item, given, f"{place}.{name[:100]}") for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, given, f"{place}[{index}]") for index, item in enumerate(value)]
    return value


def _expression(value: Json, given: Mapping[str, Json], place: str) -> Json:
    if found := _parameter(value, given, place):
        return {"$literal": found[0]}
    if isinstance(value, list):
        return [_expression(item, given, f"{place}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    result: dict[str, Json] = {}
    for name, item in value.items():
        at = f"{place}.{name[:100]}"
        if name == "$literal":
            result[name] = item
        elif name in _DATE_OPERATORS and isinstance(item, Mapping) and "$param" not in item:
            result[name] = {
                key: (_expression if key in _DATE_EXPRESSIONS else _plain)(part, given, f"{at}.{key[:100]}")
                for key, part in item.items()
            }
        else:
            result[name] = _expression(item, given, at)
    return result
