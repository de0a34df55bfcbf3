"""JSON Schemas of the API's types, in the form that client generators expect.

msgspec describes the types. This module normalises what msgspec leaves open: component names, the formats of times, ids
and numbers, and objects with arbitrary keys. Where a type is wider than what the service accepts, such as a condition
in a plain dict, `described_by` and `described_as` replace its schema with a hand-written one.

Generators in several languages determine the form; `tests/http/test_openapi.py` names the one behind each rule:

- No component is named `New…`, which is the constructor of another in Go. Of two enumerations with a common value one
  is in place: Go's constants have the name of the value alone.
- Integers are `int64` and numbers `double`: without a format Go, Java, Kotlin, Swift and C# use 32 bits.
- A default is part of the description: openapi-typescript makes a property with a `default` required, in requests too.
  What an answer always contains is required instead.
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any

import msgspec

from pilotis.http.api.multipart import Multipart

Json = dict[str, Any]

REFERENCE = "#/components/schemas/{name}"
_WRITTEN = "x-components"
_INSTEAD = "x-instead"
_TIME = re.compile(r"(_at|_until|^(create|update|auth)_time)$")
# Clients may choose it; see `request.request_id_of`.
_REQUEST_ID = r"^[A-Za-z0-9_.:-]{8,128}$"
# Without a format generators choose 32 bits.
_WIDE = {"integer": "int64", "number": "double"}


def reference(name: str) -> Json:
    """Return a schema that points to the component `name`."""
    return {"$ref": REFERENCE.format(name=name)}


def described_by(name: str, components: Mapping[str, Json]) -> msgspec.Meta:
    """Return an annotation that describes the value by the hand-written component `name` of `components`."""
    return msgspec.Meta(extra_json_schema={**reference(name), _WRITTEN: dict(components)})


def described_as(schema: Json) -> msgspec.Meta:
    """Return an annotation that describes the value by a hand-written schema, in place."""
    return msgspec.Meta(extra_json_schema={_INSTEAD: schema})


JsonObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
"""An object with arbitrary keys, already encoded."""

FilePart = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "string", "format": "binary"})]
"""The bytes of a file in a form, for structs that describe forms."""


class Schemas:
    """The schemas of the types that requests and answers have. `components` contains all referred to, by name."""

    def __init__(self, requests: Iterable[Any], answers: Iterable[Any]) -> None:
        self.components: dict[str, Json] = {}
        sent, received = (list(_distinct_members(kinds)) for kinds in (requests, answers))
        wanted = list(dict.fromkeys([*sent, *received]))
        schemas, components = msgspec.json.schema_components(wanted, ref_template=REFERENCE)
        in_requests = msgspec.json.schema_components(sent)[1]
        complete = {cls.__name__ for cls in _struct_classes(received) if not cls.__struct_config__.omit_defaults}
        names = {name: component_name(name, components) for name in components}
        for name, schema in components.items():
            if name not in in_requests:
                schema = _of_answer(schema, is_complete=name in complete)
            self.components[names[name]] = self._settled(schema, names)
        self._by_type = {kind: self._settled(schema, names) for kind, schema in zip(wanted, schemas, strict=True)}

    def of(self, kind: Any) -> Json:
        """Return the schema of one of the types, usually a reference to a component."""
        schemas = [self._by_type[member] for member in members(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def parameters(self, query: type) -> Iterable[tuple[str, Json, bool]]:
        """Yield the name, schema and `required` of each field of a query string's struct."""
        (reference,), components = msgspec.json.schema_components([query], ref_template="{name}")
        schema = self._settled(components.pop(reference["$ref"]), {})
        for name, component in components.items():
            self.components.setdefault(name, self._settled(component, {}))
        for name, field in schema["properties"].items():
            yield name, _without_null(field), name in schema.get("required", ())

    def _settled(self, schema: Any, names: Mapping[str, str], field: str = "") -> Any:
        """Return a normalised schema; `field` is the name of the property that it describes."""
        if isinstance(schema, list):
            return [self._settled(part, names, field) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if _INSTEAD in schema:
            return self._settled(schema[_INSTEAD], names, field)
        for name, written in schema.get(_WRITTEN, {}).items():
            self.components.setdefault(name, self._settled(written, names))
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return reference(names.get(name, name))
        settled = {
            key: {name: self._settled(part, names, name) for name, part in value.items()}
            if key == "properties"
            else self._settled(value, names, field)
            for key, value in schema.items()
            if key not in {"title", "default", _WRITTEN} and (key, value) != ("required", [])
        }
        return _with_format(_described(settled, schema.get("default")), field)


def _distinct_members(kinds: Iterable[Any]) -> Iterable[Any]:
    return dict.fromkeys(member for kind in kinds for member in members(kind))


def _struct_classes(kinds: Iterable[Any]) -> set[type[msgspec.Struct]]:
    """Return the structs that the types consist of."""
    found: set[type[msgspec.Struct]] = set()
    rest: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while rest:
        part = rest.pop()
        if isinstance(part, msgspec.inspect.StructType):
            cls = typing.get_origin(part.cls) or part.cls
            if cls in found:
                continue
            found.add(cls)
        for value in (getattr(part, name) for name in part.__struct_fields__):
            parts = value if isinstance(value, tuple) else (value,)
            rest += [one for one in parts if isinstance(one, msgspec.inspect.Type | msgspec.inspect.Field)]
    return found


def _of_answer(schema: Json, *, is_complete: bool) -> Json:
    """Return an object's schema, if it is only in answers: without defaults, which a complete one always contains."""
    given = [name for name, field in schema.get("properties", {}).items() if "default" in field]
    if not given:
        return schema
    properties = {
        name: {key: value for key, value in field.items() if key != "default"}
        for name, field in schema["properties"].items()
    }
    required = [*schema.get("required", ()), *(given if is_complete else ())]
    return {**schema, "properties": properties, "required": required}


def _described(schema: Json, default: Any) -> Json:
    """Return a schema with its description in one form, and with the default of a field in it."""
    text = schema.get("description")
    sentences = [inspect.cleandoc(text)] if isinstance(text, str) else []
    # An empty text stands for none.
    if default is not None and default != "":
        sentences.append(f"Default `{json.dumps(default)}`.")
    return {**schema, "description": " ".join(sentences)} if sentences else schema


def _with_format(schema: Json, field: str) -> Json:
    if "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
        return {"type": "string", **schema}
    kind = schema.get("type")
    if kind == "object" and "properties" not in schema:
        return {"additionalProperties": True, **schema}
    if kind == "object":
        return schema if schema["properties"] else {"additionalProperties": False, **schema}
    if kind in _WIDE and not {"format", "enum"} & schema.keys():
        return {**schema, "format": _WIDE[kind]}
    if kind == "string" and not {"format", "enum", "pattern", "maxLength"} & schema.keys():
        if _TIME.search(field):
            return {**schema, "format": "date-time"}
        if field == "request_id":
            return {**schema, "pattern": _REQUEST_ID}
    return schema


def place_enumerations(document: Json) -> Json:
    """Return the document with each enumeration in place that shares a value with an earlier component."""
    seen: set[str] = set()
    placed: Json = {}
    components = document["components"]["schemas"]
    for name, schema in components.items():
        constants = {re.sub(r"\W", "", value).casefold() for value in schema.get("enum", ())}
        if seen & constants:
            placed[REFERENCE.format(name=name)] = schema
        seen |= constants
    names = {target.rpartition("/")[2] for target in placed}
    rest = {name: schema for name, schema in components.items() if name not in names}
    moved = _placed({**document, "components": {**document["components"], "schemas": rest}}, placed)
    return typing.cast("Json", moved)


def _placed(part: Any, schemas: Json) -> Any:
    """Return a part of a document in which schemas replace the references to them."""
    if isinstance(part, list):
        return [_placed(one, schemas) for one in part]
    if not isinstance(part, dict):
        return part
    target = part.get("$ref")
    if isinstance(target, str) and target in schemas:
        return schemas[target]
    return {key: _placed(value, schemas) for key, value in part.items()}


def _without_null(schema: Json) -> Json:
    """Return the schema of a value in a query string, where null does not exist."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    return {**{k: v for k, v in schema.items() if k != "anyOf"}, **options[0]} if len(options) == 1 else schema


def component_name(name: str, others: Iterable[str] = ()) -> str:
    """Return a readable name: `AppPage` for msgspec's `ItemPage_App_`, `RowInput` for `NewRow`."""
    generic = re.fullmatch(r"Item(Page|List)_(\w+)_", name)
    if generic:
        return generic[2] + generic[1]
    plain = name.removesuffix("Body")
    chosen = name if plain in others else plain
    return re.sub(r"^New([A-Z]\w+)$", r"\1Input", chosen)


_WITHOUT_SCHEMA = (None, NoneType, bytes, Multipart, AsyncIterator[bytes])


def members(kind: Any) -> Sequence[Any]:
    """Return a union's members, since msgspec does not describe several untagged structs; empty for raw bytes."""
    if kind in _WITHOUT_SCHEMA:
        return ()
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return typing.get_args(kind)
    return (kind,)
