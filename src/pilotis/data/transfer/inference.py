"""Infers a table's schema from the beginning of a file. Pure, and conservative: mixed columns are texts.

So a postcode keeps its leading zero, and a single word makes a column of numbers a column of texts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pilotis.data.tables.schema import LONGEST_NAME, OWN_FIELDS, ColumnType
from pilotis.data.transfer.formats import NULL, Record, is_number
from pilotis.kit import ids, json
from pilotis.kit.clock import parse_rfc3339
from pilotis.kit.errors import PilotisError

SAMPLE_RECORDS = 5000
SAMPLE_BYTES = 8 * 1024 * 1024


def infer_csv(names: Sequence[str], records: Iterable[Record]) -> dict[str, str]:
    """Return a schema for the header's names and the records that follow."""
    rows = [record.fields for record in records if len(record.fields) == len(names)]
    return {
        name: _of_fields([row[index] for row in rows if row[index] not in {"", NULL}])
        for index, name in enumerate(names)
    }


def infer_json_lines(records: Iterable[Record]) -> dict[str, str]:
    """Return a schema for all keys of the records, in the order of their first occurrence."""
    values: dict[str, list[Any]] = {}
    for record in records:
        try:
            fields = json.decode(record.text, _fields)
        except PilotisError:
            continue
        for name, value in fields.items():
            values.setdefault(name, [])
            if value is not None:
                values[name].append(value)
    return {name: _of_values(found) for name, found in values.items()}


def column_names(names: Sequence[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return the column name for each of a file's names: the name itself, or the closest valid column name.

    Invalid characters become `_`; reserved and duplicate names get a `_` at the end. `taken` are the names of existing
    columns, which stay unchanged.
    """
    found: dict[str, str] = {name: name for name in names if name in taken}
    for name in names:
        if name not in found:
            found[name] = _free(_valid(name), {*found.values()})
    return {name: found[name] for name in names}


def _valid(name: str) -> str:
    characters = [
        character if character == "_" or unicodedata.category(character)[0] in "LNM" else "_"
        for character in unicodedata.normalize("NFC", name.strip())
    ]
    valid = "".join(characters)
    if not valid or unicodedata.category(valid[0])[0] != "L":
        valid = "_" + valid.lstrip("_")
    while len(valid.encode()) > LONGEST_NAME - 4:
        valid = valid[:-1]
    return valid + "_" if valid in OWN_FIELDS else valid


def _free(name: str, taken: Collection[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _of_fields(fields: Sequence[str]) -> str:
    return _first(fields, _FIELD_TYPES)


def _of_values(values: Sequence[Any]) -> str:
    return _first(values, _VALUE_TYPES)


def _first(values: Sequence[Any], types: Mapping[ColumnType, Callable[[Any], bool]]) -> str:
    for type_, fits in types.items():
        if values and all(map(fits, values)):
            return type_.value
    return ColumnType.STRING.value


def _is_plain_int(field: str) -> bool:
    return field.isascii() and field.removeprefix("-").isdigit() and is_number(field) and _is_int64(int(field))


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_json(kind: type) -> Callable[[str], bool]:
    def fits(field: str) -> bool:
        try:
            return isinstance(json.decode(field.encode()), kind)
        except PilotisError:
            return False

    return fits


def _is_canonical_uuid(text: Any) -> bool:
    return isinstance(text, str) and ids.is_uuid(text) and text == text.lower()


def _is_date(text: Any) -> bool:
    return isinstance(text, str) and parse_rfc3339(text) is not None


def _is_exact_number(field: str) -> bool:
    # Spaces and exponents would not round-trip.
    return is_number(field) and field == field.strip() and "e" not in field.lower() and len(field) <= 300


_FIELD_TYPES: dict[ColumnType, Callable[[str], bool]] = {
    ColumnType.INT: _is_plain_int,
    ColumnType.NUMBER: _is_exact_number,
    ColumnType.BOOLEAN: lambda field: field in {"true", "false"},
    ColumnType.DATE: _is_date,
    ColumnType.UUID: _is_canonical_uuid,
    ColumnType.OBJECT: _is_json(dict),
    ColumnType.ARRAY: _is_json(list),
}
_VALUE_TYPES: dict[ColumnType, Callable[[Any], bool]] = {
    ColumnType.INT: _is_int64,
    ColumnType.NUMBER: lambda value: not isinstance(value, (bool, str, dict, list)),
    ColumnType.BOOLEAN: lambda value: isinstance(value, bool),
    ColumnType.DATE: _is_date,
    ColumnType.UUID: _is_canonical_uuid,
    ColumnType.OBJECT: lambda value: isinstance(value, dict),
    ColumnType.ARRAY: lambda value: isinstance(value, list),
}
_fields: msgspec.json.Decoder[dict[str, Any]] = json.decoder(dict[str, Any])
