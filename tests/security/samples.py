"""A value that a schema of the OpenAPI document allows."""

from typing import Any

from pilotis.http.api.openapi import Json

_MAX_DEPTH = 3
_SIMPLE = {"integer": 1, "number": 1, "boolean": True, "null": None}
_FORMATS = {"uuid": "00000000-0000-0000-0000-000000000000", "date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01"}


def sample(schema: Json, document: Json, depth: int = 0) -> Any:
    """Return a value with the fields that the schema requires, or with the first one where it requires none."""
    if reference := schema.get("$ref"):
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in schema:
            return sample(schema[alternatives][0], document, depth)
    for exact in ("const", "default"):
        if exact in schema:
            return schema[exact]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        names = schema.get("required") or list(properties)[:1]
        return {name: sample(properties[name], document, depth + 1) for name in names} if depth < _MAX_DEPTH else {}
    if kind == "array":
        return [sample(schema.get("items", {}), document, depth + 1)]
    return _SIMPLE.get(str(kind), _FORMATS.get(schema.get("format"), "…"))
