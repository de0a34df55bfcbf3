"""JSON in and out: UTF-8, exact numbers, bounded depth, nothing a database could choke on.

msgspec already refuses `NaN`, `Infinity`, lone surrogates, control characters and bytes that are no UTF-8. Of two
equal keys the last one counts, and what is stored is what was checked: a body is parsed once.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from pilotis.kit.errors import Detail, MalformedJsonError, PilotisError, ValidationError

MAX_DEPTH = 64
_MOST_DIGITS = 1000

encoder = msgspec.json.Encoder(decimal_format="number")
encode = encoder.encode


def exact_number(text: str) -> Decimal:
    """Return a JSON number with a fraction or an exponent as it was written.

    Raises `ValueError` beyond what IEEE 754 doubles span (RFC 8259, section 6, advises no more) or past 1000 digits.
    """
    try:
        number, double = Decimal(text), float(text)
    except InvalidOperation:  # an exponent of twenty digits
        raise ValueError("Number out of range") from None
    # PostgreSQL keeps the exponent of a zero as digits after the point, of which it takes some thousands.
    vanished = double == 0 and (number or abs(number.adjusted()) > _MOST_DIGITS)
    if len(text) > _MOST_DIGITS or math.isinf(double) or vanished:
        raise ValueError("Number out of range")
    return number


def decoder(type_: Any = Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type that keeps untyped numbers exact."""
    return msgspec.json.Decoder(type_, float_hook=exact_number)


_any = decoder()


def decode(data: bytes, with_: msgspec.json.Decoder[Any] = _any) -> Any:
    """Decode a body; raises `MalformedJsonError` or `ValidationError` with the field named."""
    try:
        value = with_.decode(data)
    except msgspec.ValidationError as error:
        raise field_error(error) from None
    except UnicodeDecodeError:
        raise MalformedJsonError("The body is not UTF-8.") from None
    except RecursionError:
        raise MalformedJsonError(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except msgspec.DecodeError as error:
        raise MalformedJsonError(_malformed(data, error)) from None
    check_depth(data)
    return value


def _malformed(data: bytes, error: msgspec.DecodeError) -> str:
    if not data.strip():
        return "The body is empty; JSON is expected."
    reason = str(error).removeprefix("JSON is malformed: ")
    return f"The body is not valid JSON: {reason}."


def field_error(error: msgspec.ValidationError) -> PilotisError:
    """Turn msgspec's sentence, ``Expected `int`, got `str` - at `$.limit` ``, into an error that names the field."""
    sentence, _, place = str(error).partition(" - at `$")
    field = place.rstrip("`").lstrip(".")
    if sentence.startswith(("Object missing required field `", "Object contains unknown field `")):
        name = sentence.rsplit("`", 2)[1]
        field = f"{field}.{name}" if field else name
        code = "REQUIRED" if "missing" in sentence else "UNKNOWN_FIELD"
        sentence = f"{name} is required" if code == "REQUIRED" else f"{name} is not a field here"
    else:
        code = "INVALID_VALUE"
    message = f"{sentence}." if not field or code != "INVALID_VALUE" else f"{field}: {sentence}."
    return ValidationError(message, details=[Detail(field, code, message)])


def check_depth(data: bytes) -> None:
    """Raise `MalformedJsonError` if valid JSON is nested deeper than 64 levels."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    brackets = _brackets(data)
    for _ in range(MAX_DEPTH):
        # Takes the innermost pairs out, and so one level.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise MalformedJsonError(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _brackets(data: bytes) -> bytes:
    """Return the brackets of valid JSON that are outside strings, curly ones made square."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = data.translate(_SQUARE, delete=_OTHERS).replace(b'""', b"")
    if b'"' not in brackets:
        return brackets
    # A string has brackets in it. Every second piece between quotes is a string's inside.
    return b"".join(data.split(b'"')[::2]).translate(_SQUARE, delete=_OTHERS)


_SQUARE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b'[]{}"')


def has_nul(value: Any) -> bool:
    """Tell whether a decoded value holds U+0000, which PostgreSQL can store in neither text nor jsonb."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return False
