"""Binding: from a request to a handler's arguments. Path, query string and body are each decoded once."""

from __future__ import annotations

import functools
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from pilotis.http.api.bodies import MAX_FORM_BYTES, BodyKind, ParsedBody, decode_form
from pilotis.http.api.cookies import cookie_value
from pilotis.http.api.endpoint import Endpoint
from pilotis.http.api.multipart import Multipart
from pilotis.http.api.request import Call
from pilotis.http.api.stream_body import Body
from pilotis.kit import ids, json
from pilotis.kit.errors import (
    BadRequestError,
    Detail,
    InvalidIdError,
    UnsupportedMediaTypeError,
    ValidationError,
    invalid,
)
from pilotis.kit.offload import offload
from pilotis.limits import Limits

_JSON = (BodyKind.JSON, BodyKind.JSON_TEXT)


async def arguments(endpoint: Endpoint, call: Call, values: tuple[str, ...]) -> list[Any]:
    """Return the handler's arguments after `call`; raises a 400, 413 or 415 error, which names the field."""
    bound: list[Any] = [
        _path_value(name, kind, value) for (name, kind), value in zip(endpoint.parameters.items(), values, strict=True)
    ]
    if endpoint.query is not None:
        bound.append(query(endpoint.query, call.scope["query_string"]))
    if endpoint.body is not None:
        bound.append(await _body(endpoint, call))
    if endpoint.cookies:
        header, secure = call.headers.get(b"cookie"), call.server.secure
        bound += [cookie_value(header, cookie, secure=secure) for cookie in endpoint.cookies]
    return bound


# Where those who know the title or name of a thing find its id.
_LISTED = {
    "table_id": " No table has this title; titles are listed with their ids by GET /v1/public/tables.",
    "storage_id": " Names are listed with their ids by GET /v1/apps/:app_id/storages/files and …/storages/webs.",
    "function_id": " Names are listed with their ids by GET /v1/apps/:app_id/functions.",
    "workflow_id": " Names are listed with their ids by GET /v1/apps/:app_id/workflows.",
    "webhook_id": " Names are listed with their ids by GET /v1/apps/:app_id/webhooks.",
}


def _path_value(name: str, kind: type, value: str) -> UUID | str:
    if kind is str:
        return value
    if not ids.is_uuid(value):
        listed = _LISTED.get(name, "")
        raise InvalidIdError(f"{name} in the path is not a UUID.{listed}")
    # Much faster than `UUID(value)`.
    return msgspec.convert(value, UUID)


def query(type_: type, query_string: bytes) -> Any:
    """Return the query string as the struct; of duplicate names the last counts.

    Unknown names are errors, which add the struct's `unknown_advice`, unless the struct allows them: a list without the
    filter that the caller meant would look like its result.
    """
    try:
        if not query_string:
            return msgspec.convert({}, type_)
        pairs = _pairs(query_string.decode("ascii"))
        known = _closed_parameters(type_)
        if known is not None and not pairs.keys() <= known:
            raise _unknown_parameter(type_, next(name for name in pairs if name not in known), known)
        return _checked(msgspec.convert(pairs, type_, strict=False), pairs)
    except msgspec.ValidationError as error:
        raise json.field_error(error, type_) from None
    except ValueError:
        raise BadRequestError("The query string is invalid: it must be percent-encoded UTF-8.") from None


@functools.cache
def no_query(type_: type) -> Any:
    """Return the struct of an empty query string, the same each time: for those who only read it."""
    return query(type_, b"")


@functools.cache
def _closed_parameters(type_: Any) -> frozenset[str] | None:
    """Return the names that a query string may have; None if it may have others, which are ignored."""
    closed = type_.__struct_config__.forbid_unknown_fields
    return frozenset(field.encode_name for field in msgspec.structs.fields(type_)) if closed else None


def _unknown_parameter(type_: type, name: str, known: frozenset[str]) -> ValidationError:
    name = name[:100]
    takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
    advice = getattr(type_, "unknown_advice", "")
    message = f"{name} is not a parameter of this address; {takes}.{' ' if advice else ''}{advice}"
    return ValidationError(message, details=[Detail(name, "UNKNOWN_PARAMETER", message)])


def _pairs(text: str) -> dict[str, str]:
    if "%" in text or "+" in text:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    # Most query strings have nothing to decode; this takes a fifth of the time of `parse_qsl`.
    return {name: value for name, _, value in (part.partition("=") for part in text.split("&") if part)}


def _checked(values: Any, pairs: dict[str, str]) -> Any:
    for name, text in pairs.items():
        value = getattr(values, name, None)
        if isinstance(value, str) and "\0" in value:
            raise invalid(name, f"{name}: the character U+0000 cannot be stored, so nothing can match it.")
        # msgspec would accept the text "null" as null here, and 1e9 as an integer, unlike in a body.
        if value is None and hasattr(values, name):
            raise invalid(name, f"{name}: null is not allowed here; omit the parameter.")
        if type(value) is int and not text.isdigit():
            raise invalid(name, f"{name}: an integer in digits is expected.")
    return values


async def _body(endpoint: Endpoint, call: Call) -> Any:
    if endpoint.body_kind not in _JSON:
        return await _other_body(endpoint, call)
    limits = call.limits
    data = await call.body(limits.body_bytes if endpoint.rows else limits.query_bytes)
    if not data and endpoint.body_optional:
        return None
    content_type = call.headers.get(b"content-type")
    if content_type is not None and content_type != b"application/json":
        _check_media_type(content_type)
    if endpoint.body_kind is BodyKind.JSON_TEXT:
        return data
    return await offload(len(data), decoded, endpoint, data, limits)


async def _other_body(endpoint: Endpoint, call: Call) -> Any:
    kind = endpoint.body_kind
    if kind is BodyKind.STREAM:
        return Body(call)
    if kind is BodyKind.PARSED:
        parsed: type[ParsedBody] = endpoint.body  # type: ignore[assignment]
        return await parsed.read(call)
    content_type = call.headers.get(b"content-type", b"")
    if kind is BodyKind.MULTIPART:
        return Multipart(Body(call), content_type)
    if kind is BodyKind.RAW:
        return await call.body(call.limits.body_bytes if endpoint.rows else call.limits.query_bytes)
    data = await call.body(MAX_FORM_BYTES)
    if not data and endpoint.body_optional:
        return None
    if content_type.partition(b";")[0].strip().lower() != BodyKind.FORM.value.encode():
        raise UnsupportedMediaTypeError("Send the body as application/x-www-form-urlencoded.")
    assert endpoint.body is not None
    return decode_form(data, endpoint.body)


def decoded(endpoint: Endpoint, data: bytes, limits: Limits) -> Any:
    """Return a JSON body as the endpoint's type; raises a 400 or 413 error, which names the field."""
    json.check_values(data, limits.body_values if endpoint.rows else limits.query_values)
    value = json.decode(data, endpoint.decoder, limits.json_depth)
    if endpoint.unique_keys:
        json.check_unique_keys(data)
    stored = not getattr(endpoint.body, "allows_nul", False)
    if stored and b"\\u0000" in data and json.has_nul(json.decode(data)):
        raise ValidationError("A text contains the character U+0000, which cannot be stored.")
    return value


def _check_media_type(content_type: bytes) -> None:
    essence = content_type.partition(b";")[0].strip().lower()
    if essence != b"application/json" and not essence.endswith(b"+json"):
        raise UnsupportedMediaTypeError
