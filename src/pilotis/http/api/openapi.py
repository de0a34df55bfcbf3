"""The OpenAPI 3.1 document, made from the endpoint table."""

from __future__ import annotations

import http
import re
from collections.abc import Iterator, Sequence
from types import NoneType
from uuid import UUID

from pilotis.http.api.bodies import BodyKind, MalformedFormError
from pilotis.http.api.capabilities import InvalidCapabilityError
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.idempotency import (
    IdempotencyKeyInUseError,
    IdempotencyKeyReusedError,
    InvalidIdempotencyKeyError,
)
from pilotis.http.api.json_schemas import Json, Schemas, members, place_enumerations, reference
from pilotis.http.api.multipart import MalformedMultipartError, Multipart
from pilotis.http.api.principals import (
    Access,
    Credential,
    DpopRefusedError,
    InvalidPublicKeyError,
    InvalidSecretKeyError,
    InvalidTokenError,
    OriginNotAllowedError,
    PublicKeyRequiredError,
    RoleRequiredError,
    SecretKeyRequiredError,
    TokenRequiredError,
)
from pilotis.http.api.request import BodyStalledError
from pilotis.http.replies.errors import ErrorBody
from pilotis.kit.errors import (
    InvalidIdError,
    MalformedJsonError,
    NotFoundError,
    OutcomeUnknownError,
    PayloadTooLargeError,
    PilotisError,
    RateLimitedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from pilotis.kit.json import DuplicateKeyError, TooManyValuesError

_PARAMETER = re.compile(r"[:*](\w+)")
_BYTES: Json = {"type": "string", "format": "binary"}
_REQUEST_ID = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}

_SCHEMES: Json = {
    "PublicKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Public-Key",
        "description": "Names the app. Not a secret.",
    },
    "AppId": {
        "type": "apiKey",
        "in": "header",
        "name": "X-App-Id",
        "description": "Names the app for a console token that is sent without the public key.",
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
    "OAuthToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Access token of an OAuth client; it names the app.",
    },
}


def document(endpoints: Sequence[Endpoint], *, base_url: str, version: str) -> Json:
    """Return the document as plain data; `base_url` is where clients reach the service."""
    answers = [*(endpoint.returns for endpoint in endpoints), ErrorBody]
    schemas = Schemas([endpoint.body_schema for endpoint in endpoints], answers)
    paths: Json = {}
    for endpoint in endpoints:
        operations = paths.setdefault(_PARAMETER.sub(r"{\1}", endpoint.path), {})
        operation = operations[endpoint.method.lower()] = _operation(endpoint, schemas)
        if endpoint.head:
            operations["head"] = _head(endpoint, operation)
    components = schemas.components | {"ErrorCode": _error_codes(endpoints)}
    whole: Json = {
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
            "schemas": dict(sorted(components.items())),
            "securitySchemes": _SCHEMES,
            "headers": {
                "RequestId": {
                    "description": "The request's id, as in the server's logs.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
        },
    }
    return place_enumerations(whole)


def possible_errors(endpoint: Endpoint) -> list[type[PilotisError]]:
    """Return every error the route can answer with: those that follow from its declaration, and its own."""
    found: list[type[PilotisError]] = []
    if UUID in endpoint.parameters.values():
        found.append(InvalidIdError)
    if endpoint.query is not None:
        found.append(ValidationError)
    if endpoint.body_kind is not None:
        found += _BODY_ERRORS[endpoint.body_kind]
        found += [DuplicateKeyError] if endpoint.unique_keys else []
    if endpoint.origins is not None:
        found.append(OriginNotAllowedError)
    found += _access_errors(endpoint.access)
    if endpoint.parameters:
        found.append(NotFoundError)
    if endpoint.access.any_of or endpoint.body is not None:
        found += [RateLimitedError, UnavailableError, OutcomeUnknownError]
    if endpoint.takes_idempotency_key and endpoint.access.any_of:
        found += [InvalidIdempotencyKeyError, IdempotencyKeyInUseError, IdempotencyKeyReusedError]
    found += [*endpoint.errors, PilotisError]
    return list({(error.status, error.code): error for error in found}.values())


def _operation(endpoint: Endpoint, schemas: Schemas) -> Json:
    operation: Json = {
        "operationId": operation_id(endpoint),
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "responses": {
            **{
                str(status): _success(endpoint, status, schemas)
                for status in (endpoint.status, *endpoint.other_statuses)
            },
            **_failures(possible_errors(endpoint)),
        },
        "security": _security(endpoint.access),
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if parameters := list(_parameters(endpoint, schemas)):
        operation["parameters"] = parameters
    if endpoint.body_kind is not None:
        content = _request_content(endpoint, schemas)
        # openapi-python-client 0.29 always makes a body of several content types optional, but imports what that needs
        # only where the document says so.
        operation["requestBody"] = {"required": not endpoint.body_optional and len(content) == 1, "content": content}
    return operation


def _request_content(endpoint: Endpoint, schemas: Schemas) -> Json:
    if endpoint.body_kind in {BodyKind.STREAM, BodyKind.RAW, BodyKind.PARSED}:
        parts = members(endpoint.body_schema)
        if not parts:
            return {endpoint.body_media_type: {"schema": _BYTES}}
        types = endpoint.body_media_type.split(", ")
        return {kind: {"schema": schemas.of(part)} for kind, part in zip(types, parts, strict=True)}
    if endpoint.body_kind is BodyKind.MULTIPART:
        schema = schemas.of(endpoint.body_schema) if endpoint.body_schema is not Multipart else {"type": "object"}
        return {"multipart/form-data": {"schema": schema}}
    kind = "application/x-www-form-urlencoded" if endpoint.body_kind is BodyKind.FORM else "application/json"
    return {kind: {"schema": schemas.of(endpoint.body_schema)}}


def _head(endpoint: Endpoint, get: Json) -> Json:
    """Return the operation of a HEAD request: the GET request's, without bodies (RFC 9110, section 9.3.2)."""
    responses = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in get["responses"].items()
    }
    return {**get, "operationId": f"{get['operationId']}Head", "summary": endpoint.head, "responses": responses}


def operation_id(endpoint: Endpoint) -> str:
    """Return the operation's id, such as `createRow`, from its example."""
    if endpoint.example is not None:
        return endpoint.example.operation
    group, _, name = endpoint.operation_id.rpartition(".")
    return f"{group.removesuffix('Endpoints')}_{name}_{endpoint.method.lower()}"


def _parameters(endpoint: Endpoint, schemas: Schemas) -> Iterator[Json]:
    for name, kind in endpoint.parameters.items():
        schema = {"type": "string", "format": "uuid"} if kind is UUID else {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for name, schema, required in schemas.parameters(endpoint.query) if endpoint.query else ():
        yield {
            "name": name,
            "in": "query",
            "required": required,
            "schema": schema,
            **({"description": schema["description"]} if "description" in schema else {}),
        }
    for name, description in endpoint.request_headers.items():
        schema = {"type": "string"}
        yield {"name": name, "in": "header", "required": False, "schema": schema, "description": description}
    if endpoint.takes_idempotency_key:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            "description": "A new text for each new request: the same request sent again with it is answered the same.",
        }
    if endpoint.access.takes(Credential.PUBLIC_KEY) and (endpoint.access.scope or "").startswith(("rows:", "files:")):
        yield {
            "name": "X-Capability",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": "The texts of shared links, such as `share=…`, for rules that ask for them.",
        }


def _success(endpoint: Endpoint, status: int, schemas: Schemas) -> Json:
    own = {
        name: {"description": description, "schema": {"type": "string"}}
        for name, description in endpoint.response_headers.items()
    }
    response: Json = {"description": http.HTTPStatus(status).phrase, "headers": {**_REQUEST_ID, **own}}
    if endpoint.returns is not NoneType:
        for media_type in endpoint.media_type.split(", "):
            schema = schemas.of(endpoint.returns) if endpoint.returns is not bytes else _bytes_of(media_type)
            response.setdefault("content", {})[media_type] = {"schema": schema}
    return response


def _bytes_of(media_type: str) -> Json:
    return {"type": "string"} if media_type.startswith("text/") else _BYTES


def _failures(errors: Sequence[type[PilotisError]]) -> Json:
    by_status: dict[int, list[type[PilotisError]]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    return {
        str(status): {
            "description": "\n".join(f"- `{error.code}`: {error.message}" for error in same),
            "headers": _REQUEST_ID,
            "content": {"application/json": {"schema": reference("Error")}},
        }
        for status, same in sorted(by_status.items())
    }


def _error_codes(endpoints: Sequence[Endpoint]) -> Json:
    """Return the schema of the error codes of all routes."""
    codes = {error.code for endpoint in endpoints for error in possible_errors(endpoint)}
    return {"description": "The kind of error, for programs.", "type": "string", "enum": sorted(codes)}


_Errors = list[type[PilotisError]]
_WHOLE: _Errors = [BodyStalledError, PayloadTooLargeError]
_JSON: _Errors = [*_WHOLE, MalformedJsonError, ValidationError, TooManyValuesError, UnsupportedMediaTypeError]
_BODY_ERRORS: dict[BodyKind, _Errors] = {
    BodyKind.JSON: _JSON,
    BodyKind.JSON_TEXT: _JSON,
    BodyKind.FORM: [*_WHOLE, MalformedFormError, ValidationError, UnsupportedMediaTypeError],
    BodyKind.MULTIPART: [BodyStalledError, MalformedMultipartError, UnsupportedMediaTypeError],
    BodyKind.RAW: _WHOLE,
    BodyKind.STREAM: [BodyStalledError],
    BodyKind.PARSED: [BodyStalledError],
}
_KEY: _Errors = [PublicKeyRequiredError, InvalidPublicKeyError, OriginNotAllowedError]
_TOKEN: _Errors = [TokenRequiredError, InvalidTokenError]
_ROLE: _Errors = [*_TOKEN, RoleRequiredError, NotFoundError]

_SCHEME_OF = {
    Credential.PUBLIC_KEY: "PublicKey",
    Credential.MEMBER: "MemberToken",
    Credential.SECRET_KEY: "SecretKey",
    Credential.CONSOLE: "ConsoleToken",
    Credential.REFRESH: "RefreshToken",
    Credential.OAUTH_TOKEN: "OAuthToken",
}


def _access_errors(access: Access) -> _Errors:
    """Return the errors with which a call's credentials can be rejected."""
    if not access.any_of:
        return []
    if access.takes(Credential.PUBLIC_KEY):
        bound = [DpopRefusedError] if access.takes(Credential.OAUTH_TOKEN) else []
        return [*_KEY, InvalidTokenError, InvalidSecretKeyError, RoleRequiredError, InvalidCapabilityError, *bound]
    if access.is_console:
        keys = [InvalidSecretKeyError] if access.takes(Credential.SECRET_KEY) else []
        return [*(_TOKEN if access.role is None else _ROLE), *keys]
    if access.takes(Credential.MEMBER):
        return [*_TOKEN, InvalidPublicKeyError, OriginNotAllowedError]
    if Credential.SECRET_KEY in access.usual:
        return [*_KEY, SecretKeyRequiredError, InvalidSecretKeyError]
    return [*(_KEY if access.needs_public_key else []), *_TOKEN]


def _security(access: Access) -> list[Json]:
    """Return the alternative sets of credentials that a client may send."""
    sets = [found for found in access.any_of if found <= _SCHEME_OF.keys()]
    if access.takes(Credential.MEMBER):
        sets = [frozenset({Credential.MEMBER})]
    requirements: list[Json] = [{_SCHEME_OF[one]: [] for one in Credential if one in found} for found in sets]
    # A console token alone must name the app that the route is about.
    named = access.takes(Credential.PUBLIC_KEY)
    return [{**one, "AppId": []} if named and one == {"ConsoleToken": []} else one for one in requirements]
