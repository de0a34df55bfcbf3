"""The bodies that routes accept, declared by the type of the handler's parameter `body`.

| Type | Content type | Handler receives |
|---|---|---|
| `Json[T]`, or `T` alone | JSON | the struct `T` |
| `bytes` | JSON | the text, for a service that decodes it itself |
| `Form[T]` | `application/x-www-form-urlencoded`, at most 64 KiB | the struct `T` |
| `Multipart` | `multipart/form-data` | the parts, one after another, as they arrive |
| `Raw` | any | the bytes, up to the route's limit |
| `Body` | any | the chunks as they arrive, of any length |
| a subclass of `ParsedBody` | what the class reads | an instance of the class |

`| None` after any of the first three makes the body optional.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import AsyncIterator
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import parse_qsl

import msgspec

from pilotis.http.api.incoming import Incoming
from pilotis.http.api.multipart import Multipart
from pilotis.kit import json
from pilotis.kit.errors import BadRequestError, ValidationError, invalid

T = TypeVar("T")

MAX_FORM_BYTES = 64 * 1024
_MAX_FORM_FIELDS = 1000


class BodyKind(enum.Enum):
    """How a body is read; the value is its content type, empty if any is accepted."""

    JSON = "application/json"
    JSON_TEXT = "application/json "
    FORM = "application/x-www-form-urlencoded"
    MULTIPART = "multipart/form-data"
    RAW = ""
    STREAM = " "
    PARSED = "  "


Json = Annotated[T, BodyKind.JSON]
"""A body of JSON, decoded as `T`."""
Form = Annotated[T, BodyKind.FORM]
"""The fields of a form, decoded as `T`; a duplicate field is rejected."""
Raw = Annotated[bytes, BodyKind.RAW]
"""A complete body of any content type."""


class ParsedBody(msgspec.Struct, kw_only=True):
    """Base of a body in several content types, which the feature's own class reads.

    Unlike a stream, it is read before the handler runs, so that a route which creates something can compare a repeated
    request with the first one.
    """

    @classmethod
    async def read(cls, request: Incoming) -> Self:
        """Return the body of a request; raises a 400, 413 or 415 error."""
        raise NotImplementedError


class MalformedFormError(BadRequestError):
    """400 `MALFORMED_FORM`: the body is not an `application/x-www-form-urlencoded` form in UTF-8."""

    code = "MALFORMED_FORM"
    message = "The body is not a valid form: it must be percent-encoded UTF-8, as name=value pairs joined by &."


class DeclaredBody(typing.NamedTuple):
    """The declaration of the body in a handler's signature: how it is read, its type, and whether it is optional."""

    kind: BodyKind
    type: Any
    optional: bool


def declared_body(hint: Any) -> DeclaredBody | None:
    """Return what the type of a handler's parameter `body` declares; None if it has no such parameter."""
    if hint is None:
        return None
    optional = False
    if type(None) in typing.get_args(hint):
        hint = next(argument for argument in typing.get_args(hint) if argument is not type(None))
        optional = True
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, BodyKind):
            return DeclaredBody(note, typing.get_args(hint)[0], optional)
    if isinstance(hint, type) and issubclass(hint, ParsedBody):
        return DeclaredBody(BodyKind.PARSED, hint, optional)
    if hint is Multipart:
        return DeclaredBody(BodyKind.MULTIPART, hint, optional)
    if hint == AsyncIterator[bytes] or (isinstance(hint, type) and issubclass(hint, AsyncIterator)):
        return DeclaredBody(BodyKind.STREAM, hint, optional)
    return DeclaredBody(BodyKind.JSON_TEXT if hint is bytes else BodyKind.JSON, hint, optional)


def decode_form(data: bytes, type_: type[T]) -> T:
    """Return a form's fields as the struct; unknown names are ignored.

    Follows the URL standard, section 5.1, except that invalid UTF-8 and a duplicate field (RFC 6749, section 3.1) are
    errors: programs disagree on which of two values applies.
    """
    try:
        pairs = parse_qsl(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS
        )
    except ValueError:
        raise MalformedFormError from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(twice, f"{twice}: the field comes more than once.")
    if any("\0" in text for pair in pairs for text in pair):
        raise ValidationError("A field contains the character U+0000, which cannot be stored.")
    try:
        return msgspec.convert(fields, type_, strict=False)
    except msgspec.ValidationError as error:
        raise json.field_error(error, type_) from None
