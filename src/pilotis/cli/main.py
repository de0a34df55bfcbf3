"""The command itself: its subcommands by name, its global options, and how it prints errors."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import click

from pilotis import __version__

# The module of `pilotis.cli` that defines each command, or group of commands, under its own name.
COMMANDS = {
    "serve": "server",
    "init": "server",
    "migrate": "server",
    "doctor": "server",
    "openapi": "server",
    "app": "apps",
    "key": "keys",
    "table": "tables",
    "views": "views",
    "storage": "storage",
    "user": "users",
    "jobs": "jobs",
    "deploy": "sites",
    "deployments": "sites",
    "promote": "sites",
    "rollback": "sites",
    "functions": "functions",
    "workflows": "workflows",
    "login": "login",
    "logout": "login",
    "oauth": "oauth",
    "backup": "backup",
    "postgres": "postgres",
    "webhook": "webhooks",
    "event-type": "events",
    "event": "events",
    "mail": "mail",
    "members": "members",
    "types": "types",
    "branch": "branches",
    "plan": "plans",
    "usage": "plans",
    "pull": "project",
    "diff": "project",
    "push": "project",
    "new": "new",
    "dev": "dev",
    "test": "project_tests",
}

_COLLECT_AFTER = 50_000


class _Lazy(click.Group):
    """Imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            found: click.Command = getattr(
                import_module(f"pilotis.cli.{COMMANDS[cmd_name]}"), cmd_name.replace("-", "_")
            )
            return found
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="pilotis %(version)s", help="Print the version.")
def command() -> None:
    """Run an application backend: members, tables of JSON rows, search and files over HTTP, for any number of apps.

    Settings come from flags, then PILOTIS_* variables, then a TOML file.
    """


@command.command()
def version() -> None:
    """Print the version."""
    click.echo(f"pilotis {__version__}")


def main() -> None:
    """Run the command line and exit: 0 success, 1 failure, 2 invalid usage or settings."""
    # Hundreds of modules are imported, which leave hardly any garbage.
    gc.set_threshold(_COLLECT_AFTER)
    try:
        command(prog_name="pilotis")
    except Exception as error:
        _explain(error)
        raise


def _explain(error: Exception) -> None:
    """Print an error's sentences for the person who typed the command, and exit."""
    from pilotis.db.embedded import EmbeddedPostgresError
    from pilotis.db.migrations import MigrationError
    from pilotis.kit.errors import PilotisError
    from pilotis.serve.errors import CommandError
    from pilotis.settings import SettingsError

    if isinstance(error, SettingsError):
        _end(error.problems, 2)
    if isinstance(error, CommandError):
        _end([str(error)], error.exit_status)
    if isinstance(error, EmbeddedPostgresError | MigrationError | PilotisError):
        _end([str(error)], 1)


def _end(sentences: list[str], status: int) -> None:
    for sentence in sentences:
        print(f"pilotis: {sentence}", file=sys.stderr)  # noqa: T201 - the command's own errors
    sys.exit(status)
