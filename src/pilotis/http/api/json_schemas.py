"""JSON Schemas of the API's types, in the form that client generators expect.

msgspec describes the types. This module normalises what msgspec leaves open: component names, the formats of times and
ids, and objects with arbitrary keys. Where a type is wider than what the service accepts, such as a condition in a
plain dict, `described_by` replaces its schema with a hand-written one.
"""

from __future__ import annotations

import inspect
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
_TIME = re.compile(r"(_at|_until|^(create|update)_time)$")
_ID = re.compile(r"(^|_)id$")
# Names that look like ids, but whose values are not always UUIDs: a guest's id begins with `guest_`.
_NOT_IDS = {"actor_id", "login_id", "member_id"}


def reference(name: str) -> Json:
    """Return a schema that points to the component `name`."""
    return {"$ref": REFERENCE.format(name=name)}


def described_by(name: str, components: Mapping[str, Json]) -> msgspec.Meta:
    """Return an annotation that describes the value by the hand-written component `name` of `components`."""
    return msgspec.Meta(extra_json_schema={**reference(name), _WRITTEN: dict(components)})


JsonObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
"""An object with arbitrary keys, already encoded."""

FilePart = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "string", "format": "binary"})]
"""The bytes of a file in a form, for structs that describe forms."""


class Schemas:
    """The schemas of a set of types. `components` contains all that are referred to, by name."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        self.components: dict[str, Json] = {}
        wanted = list(dict.fromkeys(member for kind in kinds for member in members(kind)))
        schemas, components = msgspec.json.schema_components(wanted, ref_template=REFERENCE)
        names = {name: component_name(name, components) for name in components}
        for name, schema in components.items():
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
        self.components |= schema.get(_WRITTEN, {})
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return reference(names.get(name, name))
        settled = {
            key: {name: self._settled(part, names, name) for name, part in value.items()}
            if key == "properties"
            else self._settled(value, names, field)
            for key, value in schema.items()
            if key not in {"title", _WRITTEN} and (key, value) not in [("default", None), ("required", [])]
        }
        return _with_defaults_of(settled, field)


def _with_defaults_of(schema: Json, field: str) -> Json:
    if isinstance(schema.get("description"), str):
        schema = {**schema, "description": inspect.cleandoc(schema["description"])}
    if "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
        return {"type": "string", **schema}
    kind = schema.get("type")
    if kind == "object" and "properties" not in schema:
        return {"additionalProperties": True, **schema}
    if kind == "object":
        return schema if schema["properties"] else {"additionalProperties": False, **schema}
    if kind == "string" and not {"format", "enum", "pattern"} & schema.keys():
        if _TIME.search(field):
            return {**schema, "format": "date-time"}
        if _ID.search(field) and field not in _NOT_IDS:
            return {**schema, "format": "uuid"}
    return schema


def _without_null(schema: Json) -> Json:
    """Return the schema of a value in a query string, where null does not exist."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    return {**{k: v for k, v in schema.items() if k != "anyOf"}, **options[0]} if len(options) == 1 else schema


def component_name(name: str, others: Iterable[str] = ()) -> str:
    """Return a readable name: `AppPage` for msgspec's `ItemPage_App_`."""
    generic = re.fullmatch(r"Item(Page|List)_(\w+)_", name)
    if generic:
        return generic[2] + generic[1]
    plain = name.removesuffix("Body")
    return name if plain in others else plain


_WITHOUT_SCHEMA = (None, NoneType, bytes, Multipart, AsyncIterator[bytes])


def members(kind: Any) -> Sequence[Any]:
    """Return a union's members, since msgspec does not describe several untagged structs; empty for raw bytes."""
    if kind in _WITHOUT_SCHEMA:
        return ()
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return typing.get_args(kind)
    return (kind,)
