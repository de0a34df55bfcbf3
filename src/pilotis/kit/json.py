"""JSON input and output: UTF-8, exact numbers, bounded depth, and nothing that PostgreSQL rejects.

msgspec already rejects `NaN`, `Infinity`, lone surrogates, control characters and invalid UTF-8. Of duplicate keys the
last one applies. A body is parsed once, so the stored value is the validated one.
"""

from __future__ import annotations

import json as stdlib_json
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

import msgspec

from pilotis.kit.errors import (
    BadRequestError,
    Detail,
    MalformedJsonError,
    PayloadTooLargeError,
    PilotisError,
    ValidationError,
)
from pilotis.kit.expected import OutOfRange, expectation, fields_at, place_of

MAX_DEPTH = 64
_MAX_DIGITS = 1000
_SAFE_DIGITS = 300


class DuplicateKeyError(BadRequestError):
    """400 `DUPLICATE_KEY`: an object of the body contains a key twice, where that could be harmful."""

    code = "DUPLICATE_KEY"
    message = "An object contains a key twice."


class TooManyValuesError(PayloadTooLargeError):
    """413 `TOO_MANY_VALUES`: the body contains more values than its route accepts, whatever their size."""

    code = "TOO_MANY_VALUES"
    message = "The body contains too many values."


encoder = msgspec.json.Encoder(decimal_format="number")
encode = encoder.encode


def encode_each(values: Iterable[Any]) -> list[bytes]:
    """Return the JSON of each value, as `encode` does; for many it takes a third of the time."""
    # JSON without blanks has no line breaks, also within its texts.
    return encoder.encode_lines(values).splitlines()


def exact_number(text: str) -> Decimal:
    """Return a JSON number with a fraction or an exponent as it was written.

    Raises `ValueError` beyond the range of IEEE 754 doubles (RFC 8259, section 6, advises no more) or past 1000 digits.
    """
    if len(text) < _SAFE_DIGITS and "e" not in text and "E" not in text:
        # Neither too large nor too small for a double.
        return Decimal(text)
    try:
        number, double = Decimal(text), float(text)
    except InvalidOperation:  # an exponent of twenty digits
        raise ValueError("Number out of range") from None
    # PostgreSQL keeps the exponent of a zero as digits after the decimal point, of which it accepts some thousands.
    vanished = double == 0 and (number or abs(number.adjusted()) > _MAX_DIGITS)
    if len(text) > _MAX_DIGITS or math.isinf(double) or vanished:
        raise ValueError("Number out of range")
    return number


def decoder(type_: Any = Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of the type that keeps untyped numbers exact."""
    return msgspec.json.Decoder(type_, float_hook=exact_number)


_any = decoder()


def decode(data: bytes, with_: msgspec.json.Decoder[Any] = _any, max_depth: int = MAX_DEPTH) -> Any:
    """Decode a body; raises `MalformedJsonError`, or `ValidationError` with the invalid field."""
    try:
        value = with_.decode(data)
    except msgspec.ValidationError as error:
        raise field_error(error, with_.type, _leniently(data) if "[...]" in str(error) else None) from None
    except UnicodeDecodeError:
        raise MalformedJsonError("The body is not UTF-8.") from None
    except RecursionError:
        raise MalformedJsonError(f"The body is nested deeper than {max_depth} levels.") from None
    except msgspec.DecodeError as error:
        raise MalformedJsonError(_malformed(data, error)) from None
    check_depth(data, max_depth)
    return value


def object_of(data: bytes) -> dict[str, Any]:
    """Return the object of an answer that may be anything; an empty one unless it is JSON with an object."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _malformed(data: bytes, error: msgspec.DecodeError) -> str:
    if not data.strip():
        return "The body is empty; JSON is expected."
    reason = str(error).removeprefix("JSON is malformed: ")
    return f"The body is not valid JSON: {reason}."


def _leniently(data: bytes) -> Any:
    try:
        return msgspec.json.Decoder(Any, float_hook=_or_out_of_range).decode(data)
    except msgspec.DecodeError:
        # An integer of thousands of digits.
        return None


def _or_out_of_range(text: str) -> Decimal | OutOfRange:
    try:
        return exact_number(text)
    except ValueError:
        return OutOfRange()


def field_error(error: msgspec.ValidationError, type_: Any = None, value: Any = None) -> PilotisError:
    """Turn msgspec's message, ``Expected `int`, got `str` - at `$.limit` ``, into an error that names the field.

    With the `type_` that was decoded, the error says what is expected there. `value`, the decoded body, supplies the
    names of object members that msgspec omits from the path.
    """
    sentence, _, place = str(error).partition(" - at `$")
    path = place.rstrip("`")
    field = place_of(path, value)
    if sentence.startswith(("Object missing required field `", "Object contains unknown field `")):
        name = sentence.rsplit("`", 2)[1]
        field = f"{field}.{name}" if field else name
        code = "REQUIRED" if "missing" in sentence else "UNKNOWN_FIELD"
        if code == "REQUIRED":
            sentence = f"{name} is required"
        else:
            fields = fields_at(type_, path) if type_ is not None else None
            sentence = f"{name[:100]} is not a field here" + (f"; {fields}" if fields else "")
    else:
        code = "INVALID_VALUE"
        sentence = (expectation(type_, path, sentence) if type_ is not None else None) or sentence
    message = f"{sentence}." if code != "INVALID_VALUE" else f"{field or 'The body'}: {sentence}."
    return ValidationError(message, details=[Detail(field, code, message)])


def plain_numbers(data: bytes) -> bytes:
    """Return valid JSON with its numbers as PostgreSQL writes them: without exponents, and zero without a sign."""
    # Searching for these bytes takes a fraction of the time of a pattern, and most rows contain none of them.
    if b"-0" in data and _MINUS_ZERO.search(data):
        return _TEXT_OR_NUMBER.sub(_plain, data)
    if b"E" in data and _EXPONENT.search(data):
        return _TEXT_OR_NUMBER.sub(_plain, data)
    return data


def _plain(match: re.Match[bytes]) -> bytes:
    token = match[0]
    if token.startswith(b'"') or (b"E" not in token and not token.startswith(b"-0")):
        return token
    number = Decimal(token.decode())
    if number:
        return f"{number:f}".encode()
    return f"{number.copy_abs():f}".encode() if number.adjusted() < 0 else b"0"


# What msgspec's encoder writes: no blanks, a capital E.
_EXPONENT = re.compile(rb"\dE[+-]?\d")
# Dates are full of -0, so what stands before it is looked at last.
_MINUS_ZERO = re.compile(rb"-0(?<![^:,\[]-0)")
_TEXT_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.]*(?:E[+-]?\d+)?')


def check_depth(data: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Raise `MalformedJsonError` if valid JSON is nested deeper than `max_depth` levels."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return
    brackets = _structure(data, b"[]{}").translate(_SQUARE)
    for _ in range(max_depth):
        # Each substitution removes the innermost pairs, and so one level.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise MalformedJsonError(f"The body is nested deeper than {max_depth} levels.")


def check_values(data: bytes, max_values: int) -> None:
    """Raise `TooManyValuesError` for JSON with more values, before it is decoded.

    Each object and array counts as one, in addition to its values. The text need not be valid JSON.
    """
    # A value takes at least two bytes.
    if len(data) // 2 < max_values or _count_values(data) <= max_values:
        return
    if _count_values(_structure(data, b",[{")) > max_values:
        raise TooManyValuesError(f"The body contains too many values; at most {max_values} are accepted here.")


def _count_values(text: bytes) -> int:
    """Count values: one for the text itself, and one for each comma and opening bracket."""
    return 1 + sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _structure(data: bytes, marks: bytes) -> bytes:
    """Return the structural characters of JSON, which are those outside strings.

    Works in slices: one pass over millions of strings would block other threads for its whole duration.
    """
    others = bytes(byte for byte in range(256) if byte not in marks + b'"')
    outside = bytearray()
    in_string = False
    start = 0
    while start < len(data):
        end = start + _SLICE_BYTES
        if data[end - 1 : end] == b"\\":
            # A backslash stays in the same slice as the character after it.
            escapes = _BACKSLASHES.match(data, end)
            end = escapes.end() + 1 if escapes else end
        piece, start = data[start:end], end
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        piece = piece.translate(None, delete=others).replace(b'""', b"")
        if in_string:
            piece = b'"' + piece
        if b'"' in piece:
            in_string = piece.count(b'"') % 2 == 1
            piece = _STRING.sub(b"", piece)
        outside += piece
    return bytes(outside)


_SQUARE = bytes.maketrans(b"{}", b"[]")
_STRING = re.compile(rb'"[^"]*(?:"|\Z)')
_BACKSLASHES = re.compile(rb"\\*")
_SLICE_BYTES = 64 * 1024


def check_unique_keys(data: bytes) -> None:
    """Raise `DuplicateKeyError`, with the path of the key, if an object of valid JSON contains a key twice."""
    try:
        _parse(data, _reject_duplicates)
    except _DuplicateFoundError:
        field = _duplicate_path(_parse(data, _Members), "")
        assert field is not None
        message = f"{field} is given twice."
        raise DuplicateKeyError(message, details=[Detail(field, "DUPLICATE_KEY", message)]) from None


class _DuplicateFoundError(Exception):
    pass


class _Members(list[tuple[str, Any]]):
    """An object's members in order, duplicate keys included."""


def _reject_duplicates(members: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise _DuplicateFoundError


def _parse(data: bytes, hook: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    # Numbers stay text: their values are not needed, and Python's integers take at most 4300 digits.
    decoder = stdlib_json.JSONDecoder(object_pairs_hook=hook, parse_int=str, parse_float=str)
    if len(data) > _SLICE_BYTES:
        # The scanner in C would block other threads for its whole duration.
        decoder.scan_once = py_make_scanner(decoder)  # type: ignore[attr-defined]
    return decoder.decode(data.decode())


def _duplicate_path(value: Any, path: str) -> str | None:
    """Return the path of the first duplicate key, such as `operations[3].data.name`."""
    if isinstance(value, _Members):
        seen: set[str] = set()
        for name, item in value:
            place = f"{path}.{name}" if path else name
            if name in seen:
                return place
            seen.add(name)
            if found := _duplicate_path(item, place):
                return found
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if found := _duplicate_path(item, f"{path}[{index}]"):
                return found
    return None


def has_nul(value: Any) -> bool:
    """Return whether a decoded value contains U+0000, which PostgreSQL cannot store in text or jsonb."""
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
