"""`serve`, `migrate`, `doctor`, `openapi`: the commands about the server as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from pilotis.cli import options
from pilotis.cli.options import Config, DatabaseUrl, DataDir

if TYPE_CHECKING:
    from pilotis.settings import Settings


def register(command: typer.Typer) -> None:
    """Add the commands."""
    for function in (serve, migrate, doctor, openapi):
        command.command()(function)


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[str | None, typer.Option(metavar="PORT", help="Port; 0 takes a free one. Default: 8090.")] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    workers: Annotated[
        str | None, typer.Option(metavar="N", help="Processes that answer requests. Default: 1.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Address under which clients reach this server.")
    ] = None,
    config: Config = None,
) -> None:
    """Serve until Ctrl-C. The first start makes a first app and prints how to use it."""
    from pilotis.serve import start

    start.run(
        options.load(
            config,
            host=host,
            port=port,
            data_dir=data_dir,
            database_url=database_url,
            workers=workers,
            base_url=base_url,
        )
    )


def migrate(data_dir: DataDir = None, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Bring the database to this version, making it where there is none. `serve` does so too."""
    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    applied = _migrate(settings)
    for name in applied:
        typer.echo(f"applied {name}")
    typer.echo("The database is up to date.")


def _migrate(settings: Settings) -> list[str]:
    import asyncio

    from pilotis.db import migrations
    from pilotis.serve import database, installation

    async def apply() -> list[str]:
        connection = await installation.connect(source.connect_arguments)
        try:
            return await migrations.migrate(connection)
        finally:
            await connection.close()

    with database.for_command(settings, may_create=True) as source:
        return asyncio.run(apply())


def doctor(
    app: Annotated[
        UUID | None, typer.Option(metavar="ID", help="List what this app's public key alone can do as well.")
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Check the database, its extensions, the data directory, the clock and the master key."""
    from pilotis.cli import doctor as checks

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    findings = checks.examine(settings, app)
    for finding in findings:
        typer.echo(f"{finding.level.value:7}  {finding.sentence}")
    if any(finding.level is checks.Level.PROBLEM for finding in findings):
        raise typer.Exit(1)


def openapi(data_dir: DataDir = None, database_url: DatabaseUrl = None, config: Config = None) -> None:
    """Print the OpenAPI 3.1 document of the service. Needs no running server and no database."""
    import msgspec

    from pilotis import __version__
    from pilotis.http.openapi import document
    from pilotis.http.site.endpoints import SiteEndpoints
    from pilotis.server import endpoint_table

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    base_url = settings.base_url or f"http://{settings.host}:{settings.port}"
    described = [endpoint for endpoint in endpoint_table(settings) if endpoint.tag != SiteEndpoints.tag]
    printed = msgspec.json.encode(document(described, base_url=base_url, version=__version__))
    typer.echo(msgspec.json.format(printed, indent=2))
