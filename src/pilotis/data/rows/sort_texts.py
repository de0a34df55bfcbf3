"""Texts that compare, code unit by code unit, as rows are sorted: what keeps the order of a live list. Pure.

A client cannot compare rows as PostgreSQL does: numbers have more digits than its own, texts are compared by their
UTF-8 bytes, or without case, and dates by their moments. So a row comes with a `sort`: hexadecimal digits of each sort
value in an order-preserving form, and of the id. A value that has no exact form ends the text, so that one of two
texts is a prefix of the other where they do not tell which row is first.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotis.data.where.operands import Kind

MAX_SORT_LENGTH = 1024
_TEXT_BYTES = 256
_DIGITS = "0123456789abcdef"
_INVERTED = _DIGITS[::-1]
_FIRST_BIT = "89abcdef01234567"


def sort_text(keys: Sequence[tuple[str, str, Kind]], of_ids: str) -> str:
    """Return the expression for the text of a row that is sorted by expressions, `asc` or `desc`, nulls last.

    Rows that are equal in all of them are sorted by id in the direction `of_ids`. No key may be JSON.
    """
    text = _directed("replace(__id::text, '-', '')", of_ids)
    for sql, direction, kind in reversed(keys):
        digits, is_cut = _forms(sql, kind)
        shown = f"case when {sql} is null then '1' else '0' || {_directed(digits, direction)} end"
        rest = text if is_cut is None else f"case when {is_cut} then '' else {text} end"
        text = f"{shown} || {rest}"
    return f"left({text}, {MAX_SORT_LENGTH})"


def _directed(digits: str, direction: str) -> str:
    return digits if direction == "asc" else f"translate({digits}, '{_DIGITS}', '{_INVERTED}')"


def _forms(sql: str, kind: Kind) -> tuple[str, str | None]:
    """Return the digits of a value, and the condition that they do not have all of it."""
    match kind:
        case Kind.TEXT:
            # No text has a zero byte, which ends it.
            whole = f"convert_to({sql}, 'UTF8')"
            cut = f"octet_length({sql}) > {_TEXT_BYTES}"
            ended = f"case when {cut} then '' else '00' end"
            return f"(encode(substr({whole}, 1, {_TEXT_BYTES}), 'hex') || {ended})", cut
        case Kind.NUMERIC:
            # Numbers that no double is near to: the largest, and those next to zero.
            large, small = f"abs({sql}) > 1e307", f"{sql} <> 0 and abs({sql}) < 1e-300"
            double = f"encode(float8send(({sql})::float8), 'hex')"
            digits = f"""(case when {large} then case when {sql} < 0 then '000fffffffffffff' else 'fff0000000000000' end
                when {small} then '8000000000000000'
                when {sql} < 0 then translate({double}, '{_DIGITS}', '{_INVERTED}') else {_flipped(double)} end)"""
            return digits, f"(case when {large} or ({small}) then true else ({sql})::float8::numeric <> {sql} end)"
        case Kind.BIGINT:
            return _signed(sql), None
        case Kind.TIME:
            return _signed(f"(extract(epoch from {sql}) * 1000000)::bigint"), None
        case Kind.BOOLEAN:
            return f"(case when {sql} then '1' else '0' end)", None
        case _:
            return f"replace(({sql})::text, '-', '')", None


def _signed(sql: str) -> str:
    return _flipped(f"encode(int8send({sql}), 'hex')")


def _flipped(digits: str) -> str:
    """Return digits whose first bit is flipped, so that what is negative comes first."""
    return f"(translate(left({digits}, 1), '{_DIGITS}', '{_FIRST_BIT}') || substr({digits}, 2))"
