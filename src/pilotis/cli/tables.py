"""`pilotis table`: rows from files into tables, and back."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from pilotis.cli import options, output
from pilotis.cli.options import Config, DatabaseUrl, DataDir, Json

if TYPE_CHECKING:
    from pilotis.cli.transfers import Target
    from pilotis.transfer.formats import Format
    from pilotis.transfer.types import ImportResult

command = typer.Typer(no_args_is_help=True, help="Import files into tables, and export tables.")

App = Annotated[UUID, typer.Option("--app", metavar="ID", help="The app's id.")]
FormatName = Annotated[
    str | None, typer.Option("--format", metavar="csv|jsonl", help="The format. Default: by the file's name.")
]
OwnFields = Annotated[
    bool,
    typer.Option("--own-fields", help="With __id, __creator, __created_at, __updated_at. Import heeds __creator."),
]


@command.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; - is standard input.")],
    app: App,
    table: Annotated[str | None, typer.Option(metavar="ID|TITLE", help="The table, which is there.")] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TITLE", help="The table's title; it is made where there is none.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="JSON", help="Schema of a table that is made. Default: guessed.")
    ] = None,
    access_level: Annotated[
        str, typer.Option(metavar="Creator|AppMember|Public", help="Access level of a table that is made.")
    ] = "Creator",
    format_: FormatName = None,
    delimiter: Annotated[str, typer.Option(metavar="CHARACTER", help="What is between the fields of CSV.")] = ",",
    own_fields: OwnFields = False,
    rejected: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where lines that make no row go. Default: FILE.rejected.jsonl.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Import a file once more that was imported whole.")] = False,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Import CSV or JSON lines into a table. Interrupted, the same command goes on where it was.

    A line that makes no row is written to a file beside it with its number and the reason, and does not stop the
    others; then the status is 1.
    """
    from pilotis.cli import session, transfers

    if (table is None) == (title is None):
        raise typer.BadParameter("give either --table or --title", param_hint="--table")
    if file != "-" and not Path(file).is_file():
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    target = _target(table, title, schema, access_level)
    given = transfers.Import(
        file, rejected or _beside(file), _format(format_, file), _delimiter(delimiter), own_fields, again
    )
    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    result = session.run(settings, lambda on: transfers.import_(on, app, target, given))
    _tell(result, given.rejected, json)


@command.command()
def export(
    app: App,
    table: Annotated[str, typer.Option(metavar="ID|TITLE", help="The table.")],
    format_: FormatName = None,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file; - is standard output.")] = "-",
    own_fields: OwnFields = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Export a table's rows as they are at one moment. Encrypted columns are written in plain."""
    from pilotis.cli import session, transfers
    from pilotis.transfer.types import ExportOptions

    chosen = ExportOptions(format=_format(format_, out), own_fields=own_fields)
    settings = options.load(config, data_dir=data_dir, database_url=database_url)

    async def work(on: session.Session) -> None:
        async with aclosing(transfers.export(on, app, table, chosen)) as chunks:
            if out == "-":
                async for chunk in chunks:
                    sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            else:
                await transfers.save(chunks, Path(out))

    session.run(settings, work)


def _target(table: str | None, title: str | None, schema: str | None, access_level: str) -> Target:
    from pilotis.cli.transfers import Target
    from pilotis.kit import json
    from pilotis.kit.errors import PilotisError
    from pilotis.tables.schema import AccessLevel

    try:
        columns = json.decode(schema.encode()) if schema is not None else None
    except PilotisError:
        columns = ...
    if columns is not None and not isinstance(columns, dict):
        raise typer.BadParameter("a schema is a JSON object of names and types", param_hint="--schema")
    if columns is not None and title is None:
        raise typer.BadParameter("a schema is for a table that is made, with --title", param_hint="--schema")
    if access_level not in list(AccessLevel):
        raise typer.BadParameter(f"one of {', '.join(AccessLevel)}", param_hint="--access-level")
    return Target(table or title or "", title is not None, columns, AccessLevel(access_level))


def _format(name: str | None, file: str) -> Format:
    from pilotis.transfer.formats import Format

    by_name = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    found = name or by_name.get(Path(file).suffix.lower(), "jsonl" if file == "-" else None)
    if found not in list(Format):
        raise typer.BadParameter(f"{found or file}: one of {', '.join(Format)}", param_hint="--format")
    return Format(found)


def _delimiter(text: str) -> str:
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise typer.BadParameter("one character, or tab", param_hint="--delimiter")
    return delimiter


def _beside(file: str) -> str:
    return "stdin.rejected.jsonl" if file == "-" else f"{file}.rejected.jsonl"


def _tell(result: ImportResult, rejected: str, as_json: bool) -> None:
    fields: dict[str, Any] = {"table_id": result.table_id, "created": result.created, "rejected": result.rejected}
    if result.resumed_at_line is not None:
        fields["resumed_after_line"] = result.resumed_at_line
    output.record(fields, as_json)
    if result.was_finished:
        typer.echo("This file was imported into this table before; --again imports it once more.", err=True)
    if result.rejected:
        typer.echo(f"pilotis: {result.rejected} records were rejected; see {rejected}.", err=True)
        raise typer.Exit(1)
