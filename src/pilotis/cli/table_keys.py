"""`pilotis table unique` and `pilotis table references`: the unique keys of tables, and what their columns refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told

if TYPE_CHECKING:
    from pilotis.cli.session import Session


@click.group()
def unique() -> None:
    """List, add and remove the unique keys of a table."""


@click.group()
def references() -> None:
    """List, set and remove what the columns of tables refer to."""


_TABLE = click.argument("table", metavar="TABLE", help="The id or the title of the table.")
_COLUMN = click.argument("column", metavar="COLUMN", help="The name of the column.")


@command(unique, none="The table has no unique keys.")
@_TABLE
@app_option()
async def list_(on: Session, table: str, app: UUID) -> list[dict[str, Any]]:
    """List the unique keys of a table, by its id or title."""
    import msgspec

    from pilotis.cli import relations

    found: list[dict[str, Any]] = msgspec.to_builtins(await relations.keys_of(on, app, table))
    return [
        {name: one[name] for name in ("name", "columns", "ignore_case", "nulls", "where")}
        | {"state": one.get("state", "ready")}
        for one in found
    ]


@command(unique)
@_TABLE
@click.argument("columns", metavar="COLUMN...", nargs=-1, required=True, help="The columns, or $creator.")
@app_option()
@click.option("--name", metavar="NAME", help="The key's name. Default: the columns, joined by _.")
@click.option("--ignore-case", is_flag=True, help="Texts that differ only in letter case are equal.")
@click.option(
    "--nulls-equal", is_flag=True, help="Rows that lack a value of the key are equal in it, not outside of it."
)
@click.option("--where", metavar="JSON", help='A condition on the rows that it covers, as {"state": "booked"}.')
def add(
    place: Place,
    table: str,
    columns: tuple[str, ...],
    app: UUID,
    name: str | None,
    ignore_case: bool,
    nulls_equal: bool,
    where: str | None,
) -> Outcome:
    """Add a unique key to a table, by its id or title. In a large table it is built in the background."""
    import msgspec

    from pilotis.cli import relations
    from pilotis.data.tables.types import NewUniqueKey

    given = {"columns": list(columns), "ignore_case": ignore_case, "nulls": "equal" if nulls_equal else "distinct"}
    if name is not None:
        given["name"] = name
    if where is not None:
        given["where"] = _object(where, "--where")
    try:
        new = msgspec.convert(given, NewUniqueKey)
    except msgspec.ValidationError as error:
        raise click.BadParameter(str(error), param_hint="COLUMN") from None
    made = place.run(lambda on: relations.add_key(on, app, table, new))
    is_building = made.state == "building"
    said = f"The key {made.name} is being built in the background." if is_building else f"The key {made.name} is made."
    return told(msgspec.to_builtins(made), said)


@command(unique)
@_TABLE
@click.argument("key", metavar="KEY", help="The name of the key.")
@app_option()
async def remove(on: Session, table: str, key: str, app: UUID) -> Outcome:
    """Remove a unique key from a table, by its id or title."""
    from pilotis.cli import relations

    await relations.remove_key(on, app, table, key)
    return told({"removed": key}, f"The key {key} is removed.")


@command(references, "list", none="No column refers to anything.")
@click.argument("table", metavar="[TABLE]", required=False, help="The id or title of a table. Default: all tables.")
@app_option()
async def list_references(on: Session, table: str | None, app: UUID) -> list[dict[str, Any]]:
    """List the columns that refer to rows or members."""
    from pilotis.cli import relations

    return [
        {
            "table": one.table,
            "column": one.column,
            "refers_to": relations.target(one.reference),
            "on_delete": one.reference.on_delete.value,
        }
        for one in await relations.references(on, app, table)
    ]


@command(references, "set")
@_TABLE
@_COLUMN
@app_option()
@click.option("--to", metavar="TABLE", help="The id or title of the table to whose rows it refers.")
@click.option("--key", metavar="NAME", help="With --to: a unique key of one column, in place of the rows' ids.")
@click.option("--members", is_flag=True, help="It refers to the app's members.")
@click.option(
    "--on-delete",
    type=click.Choice(["restrict", "set_null", "cascade", "keep"]),
    help="What a deletion there does. Default: restrict for rows, keep for members.",
)
def set_(
    place: Place,
    table: str,
    column: str,
    app: UUID,
    to: str | None,
    key: str | None,
    members: bool,
    on_delete: str | None,
) -> Outcome:
    """Let a column of a table refer to the rows of a table, or to members. All its values must be there."""
    from pilotis.cli import relations
    from pilotis.data.tables.schema import NewReference, OnDelete

    if (to is None) != members:
        raise click.BadParameter("give either --to or --members", param_hint="--to")
    wanted = NewReference(to, key, members or None, None if on_delete is None else OnDelete(on_delete))
    place.run(lambda on: relations.refer(on, app, table, column, wanted))
    said = "members" if members else str(to)
    return told({"table": table, "column": column, "refers_to": said}, f"{column} refers to {said}.")


@command(references, "remove")
@_TABLE
@_COLUMN
@app_option()
async def remove_reference(on: Session, table: str, column: str, app: UUID) -> Outcome:
    """Let a column of a table refer to nothing any more; its values stay."""
    from pilotis.cli import relations

    await relations.refer(on, app, table, column, None)
    return told({"table": table, "column": column}, f"{column} refers to nothing any more.")


def _object(text: str, hint: str) -> dict[str, Any]:
    from pilotis.kit import json
    from pilotis.kit.errors import PilotisError

    try:
        found = json.decode(text.encode())
    except PilotisError:
        found = None
    if not isinstance(found, dict):
        raise click.BadParameter("a JSON object", param_hint=hint)
    return found
