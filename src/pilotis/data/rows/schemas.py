"""JSON Schemas of conditions and pipelines for the OpenAPI document.

They define the types of generated clients; the compilers validate the requests.
"""

from __future__ import annotations

from typing import Annotated, Any

from pilotis.http.api.json_schemas import Json, described_by, reference

_ANY: Json = {}
_WHERE = reference("Where")
_EXPRESSION = reference("Expression")
_LIST: Json = {"type": "array", "items": {}}
_ORDERED: Json = {"anyOf": [{"type": "number"}, {"type": "string"}]}
_NAME: Json = {"type": "string", "minLength": 1}

_CONDITION_OPERATORS: Json = {
    "$eq": {"description": "Equal to the value."},
    "$ne": {"description": "Not equal to the value; includes rows without the field."},
    "$gt": {**_ORDERED, "description": "Greater than."},
    "$gte": {**_ORDERED, "description": "Greater than or equal to."},
    "$lt": {**_ORDERED, "description": "Less than."},
    "$lte": {**_ORDERED, "description": "Less than or equal to."},
    "$between": {
        "type": "array",
        "items": _ORDERED,
        "minItems": 2,
        "maxItems": 2,
        "description": "Between two values, both included.",
    },
    "$in": {**_LIST, "description": "Equal to one of the values."},
    "$nin": {**_LIST, "description": "Equal to none of the values."},
    "$isNull": {"type": "boolean", "description": "Whether the field is null or absent."},
    "$contains": {"type": "string", "description": "A text that contains this one."},
    "$startsWith": {"type": "string", "description": "A text that starts with this one."},
    "$endsWith": {"type": "string", "description": "A text that ends with this one."},
    "$ieq": {"type": "string", "description": "Equal to this text, whatever the case of letters."},
    "$icontains": {"type": "string", "description": "A text that contains this one, whatever the case of letters."},
    "$istartsWith": {
        "type": "string",
        "description": "A text that starts with this one, whatever the case of letters.",
    },
    "$matches": {"type": "string", "maxLength": 256, "description": "A text that matches the regular expression."},
    "$arrayContains": {"description": "A list with all of these elements."},
    "$arrayContainsAny": {**_LIST, "description": "A list with at least one of these elements."},
    "$within": {
        "type": "object",
        "description": "A point in a circle (`center`, `radius` in metres), in a box (`south_west`, `north_east`) or "
        "in a `polygon`.",
    },
    "$not": {**reference("Condition")},
}

WHERE: dict[str, Json] = {
    "Where": {
        "description": "The condition on rows. Each key is a column, or a path such as `address.city`, with a value "
        "to equal or an object of operators; all must be true.",
        "type": "object",
        "properties": {
            "$and": {"type": "array", "items": _WHERE, "description": "All of them are true."},
            "$or": {"type": "array", "items": _WHERE, "description": "At least one of them is true."},
            "$not": _WHERE,
        },
        # Any type: those of `$and` and `$or` must be among them in TypeScript, and none may be a list in Java.
        "additionalProperties": {"description": "A value to equal, or a `Condition`."},
    },
    "Condition": {
        "description": "The condition on a value: operators, all of which must be true, or an object to equal.",
        "type": "object",
        "properties": _CONDITION_OPERATORS,
        "additionalProperties": True,
    },
}

ACCUMULATORS = ("$sum", "$avg", "$min", "$max", "$count", "$first", "$last", "$push", "$addToSet")


def _fields(value: Json, description: str) -> Json:
    return {"type": "object", "additionalProperties": value, "description": description}


def _stage(operator: str, operand: Json) -> Json:
    return {"type": "object", "properties": {operator: operand}, "required": [operator], "additionalProperties": False}


_STAGES: dict[str, Json] = {
    "MatchStage": _stage("$match", _WHERE),
    "GroupStage": _stage(
        "$group",
        {
            "type": "object",
            "properties": {"_id": _EXPRESSION},
            "required": ["_id"],
            "additionalProperties": {"anyOf": [reference("Accumulator"), _EXPRESSION]},
            "description": "One document for each value of `_id`; null groups everything.",
        },
    ),
    "SortStage": _stage("$sort", _fields({"type": "integer", "enum": [1, -1]}, "1 is ascending, -1 descending.")),
    "LimitStage": _stage("$limit", {"type": "integer", "minimum": 1}),
    "SkipStage": _stage("$skip", {"type": "integer", "minimum": 0}),
    "ProjectStage": _stage(
        "$project", _fields(_EXPRESSION, "1 includes a field, 0 excludes it; any other value computes it.")
    ),
    "AddFieldsStage": _stage("$addFields", _fields(_EXPRESSION, "Adds or replaces fields.")),
    "UnwindStage": _stage(
        "$unwind",
        {
            "description": "The path of an array, such as `$tags`; one document for each element.",
            "anyOf": [{"type": "string"}, reference("UnwindOptions")],
        },
    ),
    "LookupStage": _stage("$lookup", reference("Lookup")),
    "UnionWithStage": _stage("$unionWith", reference("UnionWith")),
    "CountStage": _stage("$count", {**_NAME, "description": "The name of the field with the number of documents."}),
}

PIPELINE: dict[str, Json] = {
    **WHERE,
    "Expression": {
        "description": "A constant, a field such as `$price`, or an operator such as `{$multiply: [$price, 2]}`.",
    },
    "Accumulator": {
        "description": "One accumulator over the documents of a group.",
        "type": "object",
        "properties": {
            name: _fields(_ANY, "Takes an empty object.") if name == "$count" else _EXPRESSION for name in ACCUMULATORS
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    },
    "UnwindOptions": {
        "description": "How to unwind an array.",
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "includeArrayIndex": {"type": "string", "description": "The name of a field for the element's index."},
            "preserveNullAndEmptyArrays": {"type": "boolean", "default": False},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "Lookup": {
        "description": "What is added to each document: with `localField` the row to which a field refers, or null; "
        "with `from`, such as `comments.post`, the list of the rows that refer to the document's own.",
        "type": "object",
        "properties": {
            "as": {**_NAME, "description": "The name of the field that is added."},
            "localField": {**_NAME, "description": "A field that refers to rows of another table."},
            "from": {**_NAME, "description": "A table, and its column that refers to this one."},
            "fields": {"type": "array", "items": {"type": "string"}, "description": "The columns that are shown."},
            "where": _WHERE,
            "order_by": {"type": "string"},
            "order_direction": {"type": "string", "enum": ["asc", "desc"]},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Required with `from`."},
        },
        "required": ["as"],
        "additionalProperties": False,
    },
    "UnionWith": {
        "description": "Another table, by its id or title, and a pipeline over it: its documents follow the others.",
        "type": "object",
        "properties": {
            "table": {**_NAME, "description": "The table's id or title."},
            "pipeline": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["table"],
        "additionalProperties": False,
    },
    **_STAGES,
    "Stage": {"description": "One stage of a pipeline.", "anyOf": [reference(name) for name in _STAGES]},
}

_COORDINATES = reference("Coordinates")
_RINGS: Json = {
    "type": "array",
    "items": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3},
    },
    "description": "Rings of `[longitude, latitude]`: the outer one first, then holes.",
}

POLYGON: dict[str, Json] = {
    "PointsPolygon": {
        "description": "A polygon by its corners, in order.",
        "type": "object",
        "properties": {"points": {"type": "array", "items": _COORDINATES}},
        "required": ["points"],
        "additionalProperties": False,
    },
    "GeoJsonPolygon": {
        "description": "A Polygon of GeoJSON (RFC 7946, section 3.1.6).",
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["Polygon"]}, "coordinates": _RINGS},
        "required": ["type", "coordinates"],
        "additionalProperties": True,
    },
    "GeoJsonMultiPolygon": {
        "description": "A MultiPolygon of GeoJSON (RFC 7946, section 3.1.7).",
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["MultiPolygon"]},
            "coordinates": {"type": "array", "items": _RINGS},
        },
        "required": ["type", "coordinates"],
        "additionalProperties": True,
    },
    "Polygon": {
        "description": "A polygon: its corners, or a Polygon or MultiPolygon of GeoJSON.",
        # The server takes a bare list of corners too; in Java a union with a list does not compile.
        "anyOf": [reference("PointsPolygon"), reference("GeoJsonPolygon"), reference("GeoJsonMultiPolygon")],
    },
}

_ROW_REFERENCE: dict[str, Json] = {
    "RowReference": {
        "description": "In a transaction: the id of the row that operation `$ref` created.",
        "type": "object",
        "properties": {"$ref": {"type": "integer", "minimum": 0}},
        "required": ["$ref"],
        "additionalProperties": False,
    },
    "RowByKey": {
        "description": "The row that has the values of a unique key; a key of several columns takes a list.",
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {}},
        "required": ["key", "value"],
        "additionalProperties": False,
    },
    "RowName": {
        "description": "A row that is named otherwise than by its id.",
        "anyOf": [reference("RowReference"), reference("RowByKey")],
    },
}

WhereObject = Annotated[dict[str, Any], described_by("Where", WHERE)]
StageObject = Annotated[dict[str, Any], described_by("Stage", PIPELINE)]
PolygonObject = Annotated[Any, described_by("Polygon", POLYGON)]
ReferenceObject = Annotated[dict[str, Any], described_by("RowName", _ROW_REFERENCE)]
