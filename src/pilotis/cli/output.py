"""Printing records: as JSON, or as aligned text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from asyncpg import Record


def record(fields: Mapping[str, Any], as_json: bool) -> None:
    """Print one record: an object, or a line for each field."""
    if as_json:
        _json(fields)
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        typer.echo(f"{name:{width}}  {_text(value)}")


def records(found: Sequence[Mapping[str, Any]], as_json: bool, none: str) -> None:
    """Print records of the same fields: an array, or a table; `none` is said in place of an empty table."""
    if as_json:
        _json(found)
    elif not found:
        typer.echo(none)
    else:
        lines = [list(found[0]), *([_text(value) for value in one.values()] for one in found)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _json(value: Any) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def row(found: Record) -> dict[str, Any]:
    """Return a database row with its times as RFC 3339 text."""
    from pilotis.kit.clock import rfc3339

    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in found.items()}
