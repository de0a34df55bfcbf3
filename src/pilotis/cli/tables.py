"""`pilotis table`: imports rows from files into tables and exports them, and shows and sets what tables declare.

That is their rules, and in `table_keys` their unique keys and references.
"""

from __future__ import annotations

import json as json_module
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told
from pilotis.cli.table_keys import references, unique

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.cli.transfers import Target
    from pilotis.data.transfer.formats import Format
    from pilotis.data.transfer.types import ImportResult


@click.group()
def table() -> None:
    """Import files into tables, export tables, and set their rules, unique keys and references."""


table.add_command(unique)
table.add_command(references)


@table.group()
def rules() -> None:
    """Show, set and test the rules of a table."""


_FORMAT = click.option("--format", "format_", metavar="csv|jsonl", help="The format. Default: by the file name.")
_OWN_FIELDS = click.option(
    "--own-fields", is_flag=True, help="With __id, __creator, __created_at, __updated_at. Import applies __creator."
)


@command(table)
@click.argument("file", metavar="FILE", help="The file; - is standard input.")
@app_option()
@click.option("--table", metavar="ID|TITLE", help="The id of an existing table.")
@click.option("--title", metavar="TITLE", help="The table's title; the table is created if it does not exist.")
@click.option("--schema", metavar="JSON", help="Schema of a new table. Default: guessed from the data.")
@click.option(
    "--access-level",
    metavar="Creator|AppMember|Public",
    default="Creator",
    help="Access level of a new table.",
)
@_FORMAT
@click.option("--delimiter", metavar="CHARACTER", default=",", help="The delimiter of CSV.")
@_OWN_FIELDS
@click.option("--rejected", metavar="FILE", help="File for rejected lines. Default: FILE.rejected.jsonl.")
@click.option("--again", is_flag=True, help="Import a file again that was already imported completely.")
@click.option("--key", metavar="NAME", help="A unique key of the table: rows that have its values are changed.")
@click.option(
    "--mode",
    type=click.Choice(["merge", "replace", "ignore"]),
    default="merge",
    help="With --key: change the given fields of a row that is there, all fields, or nothing.",
)
def import_(
    place: Place,
    file: str,
    app: UUID,
    table: str | None,
    title: str | None,
    schema: str | None,
    access_level: str,
    format_: str | None,
    delimiter: str,
    own_fields: bool,
    rejected: str | None,
    again: bool,
    key: str | None,
    mode: str,
) -> Outcome:
    """Import CSV or JSON lines into a table. After an interruption, the same command resumes.

    An invalid line is written to a file beside it with its number and the reason, and does not stop the others; the
    exit status is then 1.
    """
    from pilotis.cli import transfers
    from pilotis.data.rows.types import UpsertMode

    if (table is None) == (title is None):
        raise click.BadParameter("give either --table or --title", param_hint="--table")
    if file != "-" and not Path(file).is_file():
        raise click.BadParameter(f"there is no file {file}", param_hint="FILE")
    target = _target(table, title, schema, access_level)
    given = transfers.Import(
        file,
        rejected or _beside(file),
        _format(format_, file),
        _delimiter(delimiter),
        own_fields,
        again,
        key,
        UpsertMode(mode),
    )
    return _outcome(place.run(lambda on: transfers.import_(on, app, target, given)), given.rejected)


@command(table)
@app_option()
@click.option("--table", metavar="ID|TITLE", required=True, help="The table.")
@_FORMAT
@click.option("--output", "-o", "out", metavar="FILE", default="-", help="The file; - is standard output.")
@_OWN_FIELDS
@click.option(
    "--neutralise-formulas", is_flag=True, help="Put ' before CSV texts that a spreadsheet would evaluate as a formula."
)
async def export(
    on: Session,
    app: UUID,
    table: str,
    format_: str | None,
    out: str,
    own_fields: bool,
    neutralise_formulas: bool,
) -> None:
    """Export a consistent snapshot of a table's rows. Encrypted columns are written in plain text."""
    from pilotis.cli import transfers
    from pilotis.data.transfer.types import ExportOptions

    chosen = ExportOptions(format=_format(format_, out), own_fields=own_fields, neutralise_formulas=neutralise_formulas)

    async with aclosing(transfers.export(on, app, table, chosen)) as chunks:
        if out == "-":
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        else:
            await transfers.save(chunks, Path(out))


@command(rules)
@click.argument("table", metavar="TABLE", help="The id or the title of the table.")
@app_option()
def show(place: Place, table: str, app: UUID) -> Outcome:
    """Show the rules of a table, by its id or title, as `set` reads them; null where its access level decides."""
    import msgspec

    from pilotis.cli import rules

    found = msgspec.to_builtins(place.run(lambda on: rules.read(on, app, table)).rules)
    return Outcome({"rules": found}, json_module.dumps(found, indent=2, ensure_ascii=False).splitlines())


@command(rules, "set")
@click.argument("table", metavar="TABLE", help="The id or the title of the table.")
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path),
    help="The document of rules, in YAML or JSON.",
)
@app_option()
@click.option("--none", is_flag=True, help="Remove the rules: the access level decides again.")
def set_(place: Place, table: str, file: Path | None, app: UUID, none: bool) -> Outcome:
    """Set the rules of a table, by its id or title, to those in a file of YAML or JSON."""
    from pilotis.cli import definitions, rules

    if (file is None) != none:
        raise click.BadParameter("give either a file or --none", param_hint="FILE")
    given = definitions.read(file) if file else None
    saved = place.run(lambda on: rules.save(on, app, table, given))
    warnings = [f"{one.place}: {one.message}" for one in saved.warnings]
    said = "The rules are set." if given else "The rules are removed: the access level decides."
    return told({"table": table, "warnings": warnings}, said, *warnings)


@command(rules)
@click.argument("table", metavar="TABLE", help="The id or the title of the table.")
@click.argument("file", type=click.Path(path_type=Path), help="The tests, in YAML or JSON.")
@app_option()
def test(place: Place, table: str, file: Path, app: UUID) -> Outcome:
    """Run a file of tests against the rules of a table; nothing is changed. Exits with 1 if one fails."""
    import msgspec

    from pilotis.cli import definitions, rules

    given = definitions.read(file)
    tried = place.run(lambda on: rules.run(on, app, table, given))
    failed = sum(not one.passed for one in tried)
    fields = [{"name": one.case.name, "passed": one.passed, "result": msgspec.to_builtins(one.result)} for one in tried]
    said = f"{len(tried)} tests, {failed} failed."
    return Outcome({"tests": fields, "failed": failed}, [one.said for one in tried], int(failed > 0), [said])


def _target(table: str | None, title: str | None, schema: str | None, access_level: str) -> Target:
    from pilotis.cli.transfers import Target
    from pilotis.data.tables.schema import AccessLevel
    from pilotis.kit import json
    from pilotis.kit.errors import PilotisError

    try:
        columns = json.decode(schema.encode()) if schema is not None else None
    except PilotisError:
        columns = ...
    if columns is not None and not isinstance(columns, dict):
        raise click.BadParameter("a schema is a JSON object of names and types", param_hint="--schema")
    if columns is not None and title is None:
        raise click.BadParameter("a schema is for a table that is made, with --title", param_hint="--schema")
    if access_level not in list(AccessLevel):
        raise click.BadParameter(f"one of {', '.join(AccessLevel)}", param_hint="--access-level")
    return Target(table or title or "", title is not None, columns, AccessLevel(access_level))


def _format(name: str | None, file: str) -> Format:
    from pilotis.data.transfer.formats import Format

    by_name = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    found = name or by_name.get(Path(file).suffix.lower(), "jsonl" if file == "-" else None)
    if found not in list(Format):
        raise click.BadParameter(f"{found or file}: one of {', '.join(Format)}", param_hint="--format")
    return Format(found)


def _delimiter(text: str) -> str:
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise click.BadParameter("one character, or tab", param_hint="--delimiter")
    return delimiter


def _beside(file: str) -> str:
    return "stdin.rejected.jsonl" if file == "-" else f"{file}.rejected.jsonl"


def _outcome(result: ImportResult, rejected: str) -> Outcome:
    fields: dict[str, Any] = {"table_id": result.table_id, "created": result.created, "rejected": result.rejected}
    if result.updated:
        fields["updated"] = result.updated
    if result.ignored:
        fields["ignored"] = result.ignored
    if result.resumed_at_line is not None:
        fields["resumed_after_line"] = result.resumed_at_line
    if result.was_finished:
        click.echo("This file was already imported into this table; --again imports it again.", err=True)
    if result.rejected:
        click.echo(f"pilotis: {result.rejected} records were rejected; see {rejected}.", err=True)
    changed = f", and {result.updated} changed" if result.updated else ""
    said = [] if result.was_finished else [f"{result.created} rows are imported into the table{changed}."]
    return Outcome(fields, fields, int(bool(result.rejected)), said)
