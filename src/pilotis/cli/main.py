"""The command itself: what is global to it, and how its errors are told."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pilotis import __version__
from pilotis.cli import apps, keys, server, storage, tables, users
from pilotis.serve.errors import CommandError
from pilotis.settings import SettingsError

command = typer.Typer(
    name="pilotis",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
command.add_typer(apps.command, name="app")
command.add_typer(keys.command, name="key")
command.add_typer(tables.command, name="table")
command.add_typer(storage.command, name="storage")
command.add_typer(users.command, name="user")
server.register(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@command.callback()
def pilotis(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run an application backend: members, tables, files, hosting, functions and more, for any number of apps.

    Settings come from flags, then PILOTIS_* variables, then a TOML file.
    """


@command.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"pilotis {__version__}")


def main() -> None:
    """Run the command line and exit: 0 done, 1 could not be done, 2 typed or set wrongly."""
    try:
        command()
    except SettingsError as error:
        _end(error.problems, 2)
    except CommandError as error:
        _end([str(error)], 1)
    except Exception as error:
        if not _is_told(error):
            raise
        _end([str(error)], 1)


def _is_told(error: Exception) -> bool:
    """Tell whether the error's own sentence is for the person who typed the command."""
    from pilotis.db.embedded import EmbeddedPostgresError
    from pilotis.db.migrations import MigrationError
    from pilotis.kit.errors import PilotisError

    return isinstance(error, EmbeddedPostgresError | MigrationError | PilotisError)


def _end(sentences: list[str], status: int) -> None:
    for sentence in sentences:
        print(f"pilotis: {sentence}", file=sys.stderr)  # noqa: T201 - the command's own errors
    sys.exit(status)
