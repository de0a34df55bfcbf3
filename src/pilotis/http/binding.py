"""From a request to a handler's arguments: path, query string and body, each decoded once, errors naming the field."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoint
from pilotis.http.intake import Body
from pilotis.kit import ids, json
from pilotis.kit.errors import BadRequestError, InvalidIdError, UnsupportedMediaTypeError, ValidationError, invalid


async def arguments(endpoint: Endpoint, call: Call, values: tuple[str, ...]) -> list[Any]:
    """Return the handler's arguments after `call`; raises a 400, 413 or 415 error."""
    bound: list[Any] = [
        _path_value(name, kind, value) for (name, kind), value in zip(endpoint.parameters.items(), values, strict=True)
    ]
    if endpoint.query is not None:
        bound.append(query(endpoint.query, call.scope["query_string"]))
    if endpoint.body is not None:
        bound.append(await _body(endpoint, call))
    return bound


def _path_value(name: str, kind: type, value: str) -> UUID | str:
    if kind is str:
        return value
    if not ids.is_uuid(value):
        raise InvalidIdError(f"{name} in the path is not a UUID.")
    # A good deal quicker than `UUID(value)`.
    return msgspec.convert(value, UUID)


def query(type_: type, query_string: bytes) -> Any:
    """Return the query string as the struct; of a repeated name the last one counts, unknown names are passed over."""
    if not query_string:
        return type_()
    try:
        pairs = dict(parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict"))
        return _checked(msgspec.convert(pairs, type_, strict=False), pairs)
    except msgspec.ValidationError as error:
        raise json.field_error(error) from None
    except ValueError:
        raise BadRequestError("The query string is not valid: it must be percent-encoded UTF-8.") from None


def _checked(values: Any, pairs: dict[str, str]) -> Any:
    for name, text in pairs.items():
        value = getattr(values, name, None)
        if isinstance(value, str) and "\0" in value:
            raise invalid(name, f"{name}: the character U+0000 cannot be stored, and so is nowhere to be found.")
        # msgspec would take 1e9 for an integer here, though not in a body.
        if type(value) is int and not text.isdigit():
            raise invalid(name, f"{name}: a whole number in digits is expected.")
    return values


async def _body(endpoint: Endpoint, call: Call) -> Any:
    if endpoint.takes_stream:
        return Body(call)
    data = await call.body(endpoint.max_body)
    if not data and endpoint.body_optional:
        return None
    content_type = call.headers.get(b"content-type")
    if content_type is not None and content_type != b"application/json":
        _check_media_type(content_type)
    if endpoint.takes_raw_body:
        return data
    assert endpoint.decoder is not None
    value = json.decode(data, endpoint.decoder)
    if b"\\u0000" in data and json.has_nul(json.decode(data)):
        raise ValidationError("A text holds the character U+0000, which cannot be stored.")
    return value


def _check_media_type(content_type: bytes) -> None:
    essence = content_type.partition(b";")[0].strip().lower()
    if essence != b"application/json" and not essence.endswith(b"+json"):
        raise UnsupportedMediaTypeError
