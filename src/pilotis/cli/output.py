"""Printing records: as JSON, or as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def record(fields: Mapping[str, Any]) -> None:
    """Print one record, with a line for each field."""
    width = max(map(len, fields))
    for name, value in fields.items():
        click.echo(f"{name:{width}}  {_text(value)}")


def records(found: Sequence[Mapping[str, Any]], none: str) -> None:
    """Print records with the same fields as a table; `none` if there are no records."""
    if not found:
        click.echo(none)
        return
    rows = [list(found[0]), *([_text(value) for value in one.values()] for one in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def lines(texts: Iterable[str]) -> None:
    """Print lines of text."""
    for text in texts:
        click.echo(text)


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(part)}" for name, part in value.items()) or "-"
    return str(value)
