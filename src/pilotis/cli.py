"""What a person types: the command `pilotis`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from pilotis import settings as settings_module

command = typer.Typer(no_args_is_help=True, add_completion=False)


@command.callback()
def pilotis() -> None:
    """Run an application backend: members, tables, files, hosting, functions and more, for any number of apps."""


@command.command()
def serve(
    host: Annotated[str | None, typer.Option()] = None,
    port: Annotated[int | None, typer.Option()] = None,
    data_dir: Annotated[str | None, typer.Option()] = None,
    database_url: Annotated[str | None, typer.Option()] = None,
) -> None:
    """Serve until a signal ends it."""
    from pilotis import serve as serve_module

    flags = {"host": host, "port": port, "data_dir": data_dir, "database_url": database_url}
    serve_module.run(settings_module.load(flags, os.environ))


def main() -> None:
    """Run the command line."""
    command()
