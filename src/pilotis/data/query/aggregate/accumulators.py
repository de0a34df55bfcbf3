"""Accumulators of `$group`, as SQL aggregates over a column with each document's operand. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotis.data.query.aggregate import values
from pilotis.data.query.aggregate.values import NUMBERS, Value
from pilotis.data.where.operands import Kind


def _number(sql: str) -> Value:
    return Value(sql, Kind.NUMERIC, computed=True)


def _sum(value: Value, _order: str) -> Value:
    operand = value.sql if value.kind in NUMBERS else values.as_number(value)
    return _number(f"coalesce(sum({operand}), 0)::numeric")


def _avg(value: Value, _order: str) -> Value:
    operand = value.sql if value.kind in NUMBERS else values.as_number(value)
    return _number(f"avg({operand})")


def _extreme(function: str, boolean: str, direction: int) -> Callable[[Value, str], Value]:
    def compile_(value: Value, _order: str) -> Value:
        if value.kind is Kind.JSON:
            keys = ", ".join(key.split(" nulls")[0] for key in values.order_keys(value, direction))
            json = values.as_json(value)
            sql = f"(array_agg({json} order by {keys}) filter (where {json} is not null and {json} <> 'null'))[1]"
            return Value(sql, Kind.JSON, computed=True)
        if value.kind is Kind.BOOLEAN:
            return Value(f"{boolean}({value.sql})", Kind.BOOLEAN, computed=True)
        if value.kind is Kind.UUID:
            return Value(f"{function}({value.sql}::text)::uuid", Kind.UUID, computed=True)
        return Value(f"{function}({value.sql})", value.kind, computed=True)

    return compile_


def _positioned(direction: str) -> Callable[[Value, str], Value]:
    def compile_(value: Value, order: str) -> Value:
        json = f"coalesce({values.as_json(value)}, 'null')"
        turned = order if direction == "first" else _reversed(order)
        return Value(f"(array_agg({json}{turned}))[1]", Kind.JSON, computed=True)

    return compile_


def _push(value: Value, order: str) -> Value:
    json = values.collected(value)
    return Value(
        f"coalesce(jsonb_agg({json}{order}) filter (where {json} is not null), '[]')", Kind.JSON, computed=True
    )


def _add_to_set(value: Value, _order: str) -> Value:
    json = values.collected(value)
    return Value(
        f"coalesce(jsonb_agg(distinct {json}) filter (where {json} is not null), '[]')", Kind.JSON, computed=True
    )


def _reversed(order: str) -> str:
    swaps = {
        " asc nulls first": " desc nulls last",
        " desc nulls last": " asc nulls first",
        " asc": " desc",
        " desc": " asc",
    }
    if not order:
        return order
    keys = order.removeprefix(" order by ").split(", ")
    return " order by " + ", ".join(
        key.removesuffix(suffix) + swaps[suffix]
        for key in keys
        for suffix in [next(suffix for suffix in swaps if key.endswith(suffix))]
    )


ACCUMULATORS: dict[str, Callable[[Value, str], Value]] = {
    "$sum": _sum,
    "$avg": _avg,
    "$min": _extreme("min", "bool_and", 1),
    "$max": _extreme("max", "bool_or", -1),
    "$first": _positioned("first"),
    "$last": _positioned("last"),
    "$push": _push,
    "$addToSet": _add_to_set,
}


def ordering(order: Sequence[tuple[str, str]]) -> str:
    """Return the ORDER BY of an ordered aggregate, with a leading space; empty without an order."""
    return " order by " + ", ".join(f"{column} {direction}" for column, direction in order) if order else ""
