"""The OpenAPI 3.1 document, made from the endpoint table."""

from __future__ import annotations

import http
import re
import types
import typing
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import msgspec

from pilotis.http.endpoint import Endpoint, NoAnswer
from pilotis.http.failures import ErrorBody
from pilotis.http.intake import BodyStalledError
from pilotis.http.principals import (
    Access,
    InvalidPublicKeyError,
    InvalidSecretKeyError,
    InvalidTokenError,
    OriginNotAllowedError,
    PublicKeyRequiredError,
    RoleRequiredError,
    SecretKeyRequiredError,
    TokenRequiredError,
)
from pilotis.kit.errors import (
    InvalidIdError,
    MalformedJsonError,
    NotFoundError,
    PayloadTooLargeError,
    PilotisError,
    RateLimitedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)

Json = dict[str, Any]

_PARAMETER = re.compile(r"[:*](\w+)")
_REFERENCE = "#/components/schemas/{name}"
_BYTES: Json = {}
_REQUEST_ID = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}

_SCHEMES: Json = {
    "PublicKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Public-Key",
        "description": "Names the app. Not a secret.",
    },
    "MemberToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Access token of an app member.",
    },
    "SecretKey": {"type": "http", "scheme": "bearer", "description": "Secret key `sk_…`, for servers only."},
    "ConsoleToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Access token of a console user.",
    },
    "RefreshToken": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "Refresh token."},
}


def document(endpoints: Sequence[Endpoint], *, base_url: str, version: str) -> Json:
    """Return the document as plain data; `base_url` is where clients reach the service."""
    schemas = _Schemas(endpoints)
    identifiers = _Identifiers()
    paths: Json = {}
    for endpoint in endpoints:
        operations = paths.setdefault(_PARAMETER.sub(r"{\1}", endpoint.path), {})
        operations[endpoint.method.lower()] = _operation(endpoint, schemas, identifiers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilotis",
            "version": version,
            "summary": "Application backend service",
            "description": "Members, tables and rows for any number of applications, over JSON.",
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": _SCHEMES,
            "headers": {
                "RequestId": {
                    "description": "The request's id, as it stands in the server's logs.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
        },
    }


def possible_errors(endpoint: Endpoint) -> list[type[PilotisError]]:
    """Return every error the route can answer with: what follows from its declaration, and its own."""
    found: list[type[PilotisError]] = []
    if UUID in endpoint.parameters.values():
        found.append(InvalidIdError)
    if endpoint.query is not None:
        found.append(ValidationError)
    if endpoint.takes_stream:
        found.append(BodyStalledError)
    elif endpoint.body is not None:
        found += [MalformedJsonError, ValidationError, PayloadTooLargeError, UnsupportedMediaTypeError]
    found += _ACCESS_ERRORS[endpoint.access]
    if endpoint.parameters:
        found.append(NotFoundError)
    if endpoint.access is not Access.OPEN or endpoint.body is not None:
        found += [RateLimitedError, UnavailableError]
    found += [*endpoint.errors, PilotisError]
    return list({(error.status, error.code): error for error in found}.values())


def _operation(endpoint: Endpoint, schemas: _Schemas, identifiers: _Identifiers) -> Json:
    operation: Json = {
        "operationId": identifiers.of(endpoint),
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "responses": {
            str(endpoint.status): _success(endpoint, schemas),
            **_failures(possible_errors(endpoint), schemas),
        },
        "security": _SECURITY[endpoint.access],
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if parameters := [*_path_parameters(endpoint), *_query_parameters(endpoint)]:
        operation["parameters"] = parameters
    if endpoint.takes_stream:
        operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": _BYTES}}}
    elif endpoint.body_shape is not None:
        content = {"application/json": {"schema": schemas.of(endpoint.body_shape)}}
        operation["requestBody"] = {"required": not endpoint.body_optional, "content": content}
    return operation


def _path_parameters(endpoint: Endpoint) -> Iterator[Json]:
    for name, kind in endpoint.parameters.items():
        schema = {"type": "string", "format": "uuid"} if kind is UUID else {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(endpoint: Endpoint) -> Iterator[Json]:
    if endpoint.query is None:
        return
    (shape,), _ = msgspec.json.schema_components([endpoint.query], ref_template="{name}")
    name = shape["$ref"]
    _, components = msgspec.json.schema_components([endpoint.query], ref_template=_REFERENCE)
    schema = components[name]
    for field, definition in schema["properties"].items():
        yield {
            "name": field,
            "in": "query",
            "required": field in schema["required"],
            "schema": definition,
            **({"description": definition["description"]} if "description" in definition else {}),
        }


def _success(endpoint: Endpoint, schemas: _Schemas) -> Json:
    response: Json = {"description": http.HTTPStatus(endpoint.status).phrase, "headers": _REQUEST_ID}
    if endpoint.returns is not NoAnswer:
        schema = _BYTES if endpoint.returns is bytes else schemas.of(endpoint.returns)
        response["content"] = {media_type: {"schema": schema} for media_type in endpoint.media_type.split(", ")}
    return response


def _failures(errors: Sequence[type[PilotisError]], schemas: _Schemas) -> Json:
    by_status: dict[int, list[type[PilotisError]]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    return {
        str(status): {
            "description": "\n".join(f"- `{error.code}`: {error.message}" for error in same),
            "headers": _REQUEST_ID,
            "content": {"application/json": {"schema": schemas.of(ErrorBody)}},
        }
        for status, same in sorted(by_status.items())
    }


class _Identifiers:
    """Gives each operation its own id: `rows_create`; a second route of one handler gets its method as well."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def of(self, endpoint: Endpoint) -> str:
        group, _, name = endpoint.operation_id.rpartition(".")
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", group.removesuffix("Endpoints")).lower()
        identifier = f"{snake}_{name}"
        if identifier in self._given:
            identifier = f"{identifier}_{endpoint.method.lower()}"
        self._given.add(identifier)
        return identifier


class _Schemas:
    """The JSON Schemas of every type the endpoints name."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        named = [shape for endpoint in endpoints for shape in (endpoint.body_shape, endpoint.returns)]
        wanted = [member for shape in [*named, ErrorBody] for member in _members(shape)]
        types_ = list(dict.fromkeys(wanted))
        schemas, self.components = msgspec.json.schema_components(types_, ref_template=_REFERENCE)
        self._by_type = dict(zip(types_, schemas, strict=True))

    def of(self, shape: Any) -> Json:
        """Return the schema of a type, mostly a reference to a component."""
        schemas = [self._by_type[member] for member in _members(shape)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _members(shape: Any) -> Sequence[Any]:
    """Return a union's members: msgspec does not describe one of several untagged structs."""
    if shape is None or shape is NoAnswer or shape is bytes or shape == AsyncIterator[bytes]:
        return ()
    if typing.get_origin(shape) in {typing.Union, types.UnionType}:
        return typing.get_args(shape)
    return (shape,)


_Errors = list[type[PilotisError]]
_KEY: _Errors = [PublicKeyRequiredError, InvalidPublicKeyError, OriginNotAllowedError]
_TOKEN: _Errors = [TokenRequiredError, InvalidTokenError]
_ROLE: _Errors = [*_TOKEN, RoleRequiredError, NotFoundError]

_ACCESS_ERRORS: dict[Access, _Errors] = {
    Access.OPEN: [],
    Access.PUBLIC_KEY: [*_KEY, InvalidTokenError, InvalidSecretKeyError, RoleRequiredError],
    Access.PUBLIC_KEY_AND_MEMBER: [*_KEY, *_TOKEN],
    Access.MEMBER: [*_TOKEN, InvalidPublicKeyError, OriginNotAllowedError],
    Access.SECRET_KEY: [*_KEY, SecretKeyRequiredError, InvalidSecretKeyError],
    Access.REFRESH_TOKEN: _TOKEN,
    Access.CONSOLE: _TOKEN,
    Access.APP_VIEWER: _ROLE,
    Access.APP_EDITOR: _ROLE,
    Access.APP_OWNER: _ROLE,
}

_SECURITY: dict[Access, list[Json]] = {
    Access.OPEN: [],
    Access.PUBLIC_KEY: [
        {"PublicKey": []},
        {"PublicKey": [], "MemberToken": []},
        {"PublicKey": [], "SecretKey": []},
        {"PublicKey": [], "ConsoleToken": []},
    ],
    Access.PUBLIC_KEY_AND_MEMBER: [{"PublicKey": [], "MemberToken": []}],
    Access.MEMBER: [{"MemberToken": []}],
    Access.SECRET_KEY: [{"PublicKey": [], "SecretKey": []}],
    Access.REFRESH_TOKEN: [{"RefreshToken": []}],
    Access.CONSOLE: [{"ConsoleToken": []}],
    Access.APP_VIEWER: [{"ConsoleToken": []}],
    Access.APP_EDITOR: [{"ConsoleToken": []}],
    Access.APP_OWNER: [{"ConsoleToken": []}],
}
