"""`pilotis storage`: file storages, and whether database and object store agree."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from pilotis.cli import options, output
from pilotis.cli.options import Config, DatabaseUrl, DataDir, Json

if TYPE_CHECKING:
    from pilotis.blobs.protocol import BlobStore
    from pilotis.cli.session import Session
    from pilotis.settings import Settings

command = typer.Typer(no_args_is_help=True, help="Make and list file storages; check the object store.")

App = Annotated[UUID, typer.Option("--app", metavar="ID", help="The app's id.")]
_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LISTED = 20


@command.command()
def create(
    name: Annotated[str, typer.Argument(help="What the storage is called.")],
    app: App,
    access: Annotated[
        str, typer.Option(help="Who may upload, delete and read: Public, AppMember, Creator or Secret.")
    ] = "Public",
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Make a file storage and print its id."""
    from pilotis.cli import session

    async def work(on: Session) -> dict[str, Any]:
        return await _create(on, app, name, access)

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.record(session.run(settings, work), json)


@command.command("list")
def list_(
    app: App,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """List an app's file storages with their files and bytes."""
    from pilotis.cli import session

    async def work(on: Session) -> list[dict[str, Any]]:
        from pilotis.files.storages import Storages

        await on.apps.by_id(app)
        listed = await Storages(on.database).all(app)
        return [
            {
                "storage_id": one.id,
                "name": one.name,
                "files": one.file_count,
                "bytes": one.used_bytes,
                "quota": one.quota_bytes,
                "upload": one.upload_access.value,
                "delete": one.delete_access.value,
                "read": one.read_access.value,
            }
            for one in listed.storages
        ]

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.records(session.run(settings, work), json, "The app has no file storage.")


@command.command()
def reconcile(
    before: Annotated[str, typer.Option(metavar="AGE", help="Leave out what is younger: 30m, 24h, 7d.")] = "24h",
    apply: Annotated[bool, typer.Option("--apply", help="Delete bytes that nothing refers to.")] = False,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Compare database and object store both ways. Changes nothing without --apply.

    Exits with 1 if bytes of listed files are missing; those are never touched.
    """
    from pilotis.cli import session

    age = _age(before)
    settings = options.load(config, data_dir=data_dir, database_url=database_url)

    async def work(on: Session) -> dict[str, Any]:
        from pilotis.files.cleaning import Cleaning

        blobs = _store(settings)
        try:
            found = await Cleaning(on.database, blobs).reconcile(age, apply=apply)
        finally:
            await blobs.close()
        return found._asdict()

    found = session.run(settings, work)
    output.record(found if json else _summary(found), json)
    if found["missing"]:
        raise typer.Exit(1)


@command.command()
def check(
    origin: Annotated[
        str, typer.Option(metavar="ORIGIN", help="Origin of pages that upload directly to the object store.")
    ] = "https://example.com",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Try the object store out: credentials, bucket, clock, cross-origin rules, free space. Needs no database."""
    import asyncio

    async def work() -> list[str]:
        blobs = _store(settings)
        try:
            return await blobs.check(origin)
        finally:
            await blobs.close()

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    problems = asyncio.run(work())
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    typer.echo("The object store works.")


async def _create(on: Session, app_id: UUID, name: str, access: str) -> dict[str, Any]:
    import msgspec

    from pilotis.files.storages import Storages
    from pilotis.files.types import NewStorage
    from pilotis.http.principals import OPERATOR
    from pilotis.serve.errors import CommandError

    given = {"name": name, "upload_access": access, "delete_access": access, "read_access": access}
    try:
        new = msgspec.convert(given, NewStorage)
    except msgspec.ValidationError as error:
        raise CommandError(f"{error}.") from None
    made = await Storages(on.database).create(await on.apps.by_id(app_id), OPERATOR, new)
    return {"storage_id": made.id, "name": made.name}


def _store(settings: Settings) -> BlobStore:
    from pilotis.blobs.errors import InvalidStoreUrlError
    from pilotis.serve.errors import CommandError
    from pilotis.server import blob_store

    try:
        return blob_store(settings)
    except InvalidStoreUrlError as error:
        raise CommandError(str(error)) from None


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise typer.BadParameter("a number and s, m, h or d is expected, such as 24h", param_hint="--before")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers, and the first keys of each kind."""
    return {
        "orphans": len(found["orphans"]),
        "orphan_bytes": found["orphan_bytes"],
        "deleted": found["deleted"],
        "missing": len(found["missing"]),
        **{f"{kind}_keys": found[kind][:_LISTED] for kind in ("orphans", "missing") if found[kind]},
    }
