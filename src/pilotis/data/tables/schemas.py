"""JSON Schemas of column definitions for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pilotis.http.api.json_schemas import Json, described_by, reference

_TYPES = ["string", "number", "int", "boolean", "date", "object", "array", "uuid"]

_COLUMNS: dict[str, Json] = {
    "ColumnType": {
        "description": "A column's type. `bool` and `boolean` are the same.",
        "type": "string",
        "enum": [*_TYPES, "bool"],
    },
    "ColumnDefinition": {
        "description": "A column's type alone, or an object with its type and options.",
        "anyOf": [reference("ColumnType"), reference("ColumnOptions")],
    },
    "ColumnOptions": {
        "description": "A column's type with options.",
        "type": "object",
        "properties": {
            "type": reference("ColumnType"),
            "required": {"type": "boolean", "description": "Whether each row must have a value."},
            "default": {
                "description": 'The default value of new rows; `{"$now": true}` of a date, `{"$uuid": true}` of a '
                'uuid, `{"$secret": true}`, `{"$member": "id"}` and `{"$member": "nickname"}` of a string are made for '
                "each of them."
            },
            "on_update": {
                "type": "object",
                "description": 'What a change makes of the column that it does not name: `{"$now": true}` of a date, '
                '`{"$member": "id"}` of a string.',
            },
            "unique": {
                "type": "boolean",
                "description": "Gives the column a unique key of its own. False and absent take none away.",
            },
            "normalize": {
                "type": "array",
                "items": {"type": "string", "enum": ["trim", "lower", "html"]},
                "maxItems": 3,
                "description": "What is done to a string before it is checked and stored.",
            },
            "description": {"type": "string", "maxLength": 2000},
            "encrypted": {"type": "boolean", "description": "Whether values are encrypted at rest."},
            "references": reference("ColumnReference"),
            "min": {"description": "The smallest value of a number, an int or a date."},
            "max": {"description": "The greatest value of a number, an int or a date."},
            "min_length": {"type": "integer", "minimum": 0, "description": "Of a string in characters, of an array."},
            "max_length": {"type": "integer", "minimum": 0, "description": "Of a string in characters, of an array."},
            "enum": {
                "type": "array",
                "items": {},
                "minItems": 1,
                "maxItems": 200,
                "description": "The values of a string, a number or an int.",
            },
            "format": {
                "type": "string",
                "enum": ["email", "url", "slug", "hostname", "e164", "color"],
                "description": "The form of a string.",
            },
        },
        "required": ["type"],
        "additionalProperties": False,
    },
    "ColumnReference": {
        "description": "The table to whose rows a column refers, by its title or id: a uuid column to their ids, with "
        "`key` a column to their values of a unique key; or with `member` the members of the app. `on_delete` is what "
        "happens when such a row is deleted: `restrict` refuses that, `set_null` makes the column null, `cascade` "
        "deletes the row that refers to it. Of members it is `keep`, `set_null` or `cascade`.",
        "type": "object",
        "properties": {
            "table": {"type": "string", "minLength": 1, "maxLength": 255},
            "key": {"type": "string", "minLength": 1, "maxLength": 63},
            "member": {"type": "boolean", "const": True},
            "on_delete": {"type": "string", "enum": ["restrict", "set_null", "cascade", "keep"]},
        },
        "additionalProperties": False,
    },
}

ColumnDefinition = Annotated[Any, described_by("ColumnDefinition", _COLUMNS)]
ColumnDefinitions = dict[str, ColumnDefinition]
ColumnTypeName = Annotated[str, described_by("ColumnType", _COLUMNS)]
