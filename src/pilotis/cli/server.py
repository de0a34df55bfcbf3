"""`serve`, `init`, `migrate`, `doctor`, `openapi`: the commands that concern the server as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, command

if TYPE_CHECKING:
    from pilotis.cli.findings import Finding
    from pilotis.settings import Settings


def _no_snapshot() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option("--no-snapshot", is_flag=True, help="Do not copy the embedded database before it is migrated.")


@command(flags=("host", "port", "workers", "base_url", "https_names", "https_email"))
@click.option("--host", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1.")
@click.option("--port", metavar="PORT", help="Port; 0 selects a free one. Default: 8090.")
@click.option("--workers", metavar="N", help="Worker processes. Default: 1.")
@click.option("--base-url", metavar="URL", help="URL at which clients reach this server.")
@click.option("--https", "https_names", metavar="NAME", help="Answer by HTTPS under this name (or several: NAME,NAME).")
@click.option("--https-email", metavar="ADDRESS", help="Address that the certificate authority may write to.")
@_no_snapshot()
def serve(place: Place, no_snapshot: bool) -> None:
    """Serve until Ctrl-C. The first start creates a database and a first app, and prints how to use it."""
    from pilotis.serve import start

    start.run(place.settings, snapshot=not no_snapshot)


@command()
def init(place: Place) -> Outcome:
    """Create the database and its schema without serving. Only `init` and `serve` ever create a database."""
    return _migrations(migrate_to_current(place.settings, may_create=True))


@command()
@click.option("--contract", is_flag=True, help="Also take away what no process uses any more; else a node does so.")
@_no_snapshot()
def migrate(place: Place, contract: bool, no_snapshot: bool) -> Outcome:
    """Migrate an existing database to this version. `serve` does this too."""
    return _migrations(
        migrate_to_current(place.settings, may_create=False, contract=contract, snapshot=not no_snapshot)
    )


def _migrations(applied: list[str]) -> Outcome:
    return Outcome({"applied": applied}, [*(f"Applied {name}." for name in applied), "The database is up to date."])


def migrate_to_current(
    settings: Settings, *, may_create: bool, contract: bool = False, snapshot: bool = True
) -> list[str]:
    """Bring a database to the schema of this version, and return the names of the migrations that it lacked.

    With `contract` also those that wait for the last process of an older version, with `snapshot` after copying an
    embedded database. Raises `CommandError` for a database that has not been set up, unless that may be done.
    """
    import asyncio

    from pilotis.cli.session import NOT_SET_UP
    from pilotis.db import migrations
    from pilotis.jobs.node import expire_nodes
    from pilotis.serve import database, installation
    from pilotis.serve import snapshot as snapshots
    from pilotis.serve.errors import CommandError

    def say(sentence: str) -> None:
        click.echo(sentence, err=True)

    async def apply() -> list[str]:
        connection = await installation.connect(source.connect_arguments)
        try:
            missing = await migrations.pending(connection)
            is_new = len(missing) == len(migrations.all_migrations())
            if is_new and not may_create:
                raise CommandError(NOT_SET_UP)
            due = [*missing, *(await migrations.contracts(connection) if contract else ())]
            copied = None
            if due and snapshot and not is_new:
                copied = await snapshots.take(settings, source.connect_arguments, due)
            if copied:
                say(copied)
            seconds = settings.migration_wait_seconds
            applied = await migrations.migrate(connection, wait_seconds=seconds, waits=say)
            if contract:
                if source.lock is not None:
                    await expire_nodes(connection)
                applied += await migrations.contract(connection, wait_seconds=seconds, waits=say)
            if copied:
                snapshots.forget_older(settings, due)
            return applied
        finally:
            await connection.close()

    with database.for_command(settings, may_create=may_create) as source:
        return asyncio.run(apply())


@command()
@click.option("--app", type=click.UUID, metavar="ID", help="Also list what this app's public key alone can do.")
@click.option("--url", metavar="URL", help="Also ask the server at this address, to check the proxy in front of it.")
@click.option(
    "--watch",
    type=click.FloatRange(1, 86_400),
    metavar="SECONDS",
    help="Check again and again, and print what changes.",
)
def doctor(place: Place, app: UUID | None, url: str | None, watch: float | None) -> Outcome:
    """Check the server, its database, disk, backups, nodes and keys. Exits with 1 on a problem.

    Each finding has a name, a level (ok, warning, problem), a sentence, and what mends it.
    """
    from pilotis.cli import doctor as checks
    from pilotis.cli.findings import Level

    def examine() -> list[Finding]:
        found = checks.examine(place.settings, app)
        return found + checks.examine_url(place.settings, url.rstrip("/")) if url is not None else found

    findings = examine()
    if watch is not None:
        _watch(findings, examine, watch)
    return Outcome(
        [finding.fields for finding in findings],
        [finding.text for finding in findings],
        int(any(finding.level is Level.PROBLEM for finding in findings)),
    )


def _watch(findings: list[Finding], examine: Callable[[], list[Finding]], seconds: float) -> NoReturn:
    """Print the warnings and problems, and from then on each that comes or goes, until the command is ended."""
    import time

    import msgspec

    from pilotis.kit.clock import now, rfc3339

    is_json = click.get_current_context().params["json"]

    before: set[Finding] = set()
    while True:
        current = {finding for finding in findings if finding.fix}
        for change, changed in (("found", current - before), ("mended", before - current)):
            for finding in sorted(changed, key=lambda one: one.text):
                line = {"time": rfc3339(now()), "change": change, **finding.fields}
                text = f"{line['time']}  {change:6}  {finding.text}"
                click.echo(msgspec.json.encode(line).decode() if is_json else text)
        sys.stdout.flush()
        before = current
        time.sleep(seconds)
        findings = examine()


@command()
def openapi(place: Place) -> None:
    """Print the OpenAPI 3.1 document. Needs neither a running server nor a database."""
    import msgspec

    from pilotis import __version__
    from pilotis.http.api.openapi import document
    from pilotis.http.reference.endpoints import SiteEndpoints
    from pilotis.server import endpoint_table

    settings = place.settings
    base_url = settings.base_url or f"http://{settings.host}:{settings.port}"
    described = [endpoint for endpoint in endpoint_table() if endpoint.tag != SiteEndpoints.tag]
    printed = msgspec.json.encode(document(described, base_url=base_url, version=__version__))
    click.echo(msgspec.json.format(printed, indent=2))
