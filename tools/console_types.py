"""Writes the types of all answers of the API, for the console's modules, from the OpenAPI document.

.venv/bin/python tools/console_types.py            writes
.venv/bin/python tools/console_types.py --check    exits 1 if the file is not what it would write
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pilotis.http.api.openapi import document
from pilotis.server import endpoint_table

FILE = Path(__file__).parent / "javascript" / "api.d.ts"
BEGIN = """// Written by tools/console_types.py from the OpenAPI document.

/** The types of the API: a schema by its name, and what each route answers. */
declare namespace Api {
"""
# A path as the console writes it, `/v1/apps/${id}/members`, names its route when each parameter becomes `{}`.
END = """
  type Segment<S extends string> = string extends S ? "{}" : S;
  type Route<P extends string> = P extends `${infer First}/${infer Rest}`
    ? `${Segment<First>}/${Route<Rest>}`
    : Segment<P>;
  /** What a request with a method to a path answers. */
  type Answer<M extends string, P extends string> = `${M} ${Route<P>}` extends infer R
    ? R extends keyof Answers
      ? Answers[R]
      : any
    : never;
}
"""
_METHODS = ("get", "put", "post", "patch", "delete")


def types() -> str:
    """Return the file's text."""
    described = document(endpoint_table(), base_url="http://127.0.0.1", version="0")
    schemas = described["components"]["schemas"]
    answers = dict(_answers(described["paths"]))
    used = _reachable(answers.values(), schemas)
    lines = [_declared(name, schemas[name]) for name in sorted(used)]
    routes = [f"    {json.dumps(route)}: {_type(schema)};" for route, schema in sorted(answers.items())]
    return "\n".join([BEGIN.rstrip("\n"), *lines, "  interface Answers {", *routes, "  }", END.strip("\n"), ""])


def _answers(paths: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each route with the schema of its answer; None where it has no JSON."""
    for path, methods in paths.items():
        for method in _METHODS:
            if operation := methods.get(method):
                _, answer = min((status, one) for status, one in operation["responses"].items() if status[0] in "23")
                content = answer.get("content", {}).get("application/json", {})
                yield f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}", content.get("schema")


def _reachable(roots: Any, schemas: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = [name for root in roots for name in _references(root)]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(schema: Any) -> list[str]:
    return re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema))


def _declared(name: str, schema: Mapping[str, Any]) -> str:
    if schema.get("properties"):
        return f"  interface {_name(name)} {_object(schema, '    ', '  ')}"
    return f"  type {_name(name)} = {_type(schema)};"


def _name(schema: str) -> str:
    return re.sub(r"\W", "_", schema)


def _type(schema: Mapping[str, Any] | None) -> str:
    """Return a schema as a type of TypeScript."""
    if schema is None:
        return "undefined"
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(_type(one) for one in schema[union]))
    match schema.get("type"):
        case "array":
            return f"Array<{_type(schema.get('items', {}))}>"
        case "object":
            return _object(schema)
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as name:
            return str(name)
    return "any"


def _object(schema: Mapping[str, Any], indent: str = "", end: str = "") -> str:
    required = set(schema.get("required", ()))
    fields = [
        f"{name if name.isidentifier() else json.dumps(name)}{'' if name in required else '?'}: {_type(one)}"
        for name, one in schema.get("properties", {}).items()
    ]
    further = schema.get("additionalProperties")
    if not fields:
        return f"Record<string, {_type(further) if isinstance(further, dict) else 'any'}>"
    if not indent:
        return f"{{ {'; '.join(fields)} }}"
    return "\n".join(["{", *(f"{indent}{field};" for field in fields), f"{end}}}"])


if __name__ == "__main__":
    text = types()
    if "--check" in sys.argv:
        sys.exit(int(FILE.read_text("utf-8") != text))
    FILE.write_text(text, "utf-8")
