"""`pilotis storage`: file storages, and the consistency of database and object store."""

from __future__ import annotations

import json as json_module
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command, told

if TYPE_CHECKING:
    from pilotis.blobs.mover import Mover
    from pilotis.blobs.protocol import BlobStore
    from pilotis.cli.session import Session
    from pilotis.files.storages import Storages
    from pilotis.settings import Settings

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LISTED = 20
_SECONDS_BETWEEN_REPORTS = 10


@click.group()
def storage() -> None:
    """Create and list file storages; check the object store."""


@command(storage)
@click.argument("name", help="The name of the storage.")
@app_option()
@click.option(
    "--access", default="Public", help="Who may upload, delete and read: Public, AppMember, Creator or Secret."
)
async def create(on: Session, name: str, app: UUID, access: str) -> Outcome:
    """Create a file storage and print its id."""
    made = await _create(on, app, name, access)
    return Outcome(
        made, made, said=[f"Clients ask for uploads at /v1/public/storages/files/{made['id']}/presigned-url."]
    )


@command(storage, none="The app has no file storages.")
@app_option()
async def list_(on: Session, app: UUID) -> list[dict[str, Any]]:
    """List an app's file storages with their number of files and bytes."""
    await on.apps.by_id(app)
    return [
        {
            "id": one.id,
            "name": one.name,
            "files": one.file_count,
            "bytes": one.used_bytes,
            "quota": one.quota_bytes,
            "upload": one.upload_access.value,
            "delete": one.delete_access.value,
            "read": one.read_access.value,
        }
        for one in await _storages(on).all(app)
    ]


@storage.group()
def rules() -> None:
    """Show and set the rules of a file storage."""


@command(rules)
@click.argument("storage", metavar="STORAGE", help="The id or the name of the storage.")
@app_option()
def show(place: Place, storage: str, app: UUID) -> Outcome:
    """Show the rules of a storage as `set` reads them; null where its access settings decide."""
    import msgspec

    from pilotis.cli import rules

    found = msgspec.to_builtins(place.run(lambda on: rules.read_of_storage(on, _storages(on), app, storage)).rules)
    return Outcome({"rules": found}, json_module.dumps(found, indent=2, ensure_ascii=False).splitlines())


@command(rules, "set")
@click.argument("storage", metavar="STORAGE", help="The id or the name of the storage.")
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(path_type=Path),
    help="The document of rules, in YAML or JSON.",
)
@app_option()
@click.option("--none", is_flag=True, help="Remove the rules: the access settings decide again.")
def set_(place: Place, storage: str, file: Path | None, app: UUID, none: bool) -> Outcome:
    """Set the rules of a storage to those in a file of YAML or JSON."""
    from pilotis.cli import definitions, rules

    if (file is None) != none:
        raise click.BadParameter("give either a file or --none", param_hint="FILE")
    given = definitions.read(file) if file else None
    saved = place.run(lambda on: rules.save_of_storage(on, _storages(on), app, storage, given))
    warnings = [f"{one.place}: {one.message}" for one in saved.warnings]
    said = "The rules are set." if given else "The rules are removed: the access settings decide."
    return told({"storage": storage, "warnings": warnings}, said, *warnings)


@command(storage)
@click.option("--before", metavar="AGE", default="24h", help="Ignore bytes that are younger: 30m, 24h, 7d.")
@click.option("--apply", is_flag=True, help="Delete bytes that no file refers to.")
async def reconcile(on: Session, before: str, apply: bool) -> Outcome:
    """Compare the database and the object store in both directions. Changes nothing without --apply.

    Exits with 1 if the bytes of listed files are missing; their entries are never changed.
    """
    from pilotis.files.cleaning import Cleaning

    age = _age(before)
    blobs = _store(on.settings)
    try:
        found = (await Cleaning(on.database, blobs).reconcile(age, apply=apply))._asdict()
    finally:
        await blobs.close()
    return Outcome(found, _summary(found), int(bool(found["missing"])), _advice(found, before, apply=apply))


@command(storage)
@click.option("--to", metavar="URL", help="Where to: a directory, s3://… By default blob_store, from the previous one.")
def move(place: Place, to: str | None) -> Outcome:
    """Copy the bytes of all files to another object store while the server runs.

    From the setting previous_blob_store to blob_store; with --to from blob_store to a store that servers will use
    later. Bytes that are there already are not copied again. Deletes nothing. Exits with 1 if something is left.
    """

    async def work(on: Session) -> dict[str, Any]:
        return await _move(on, to)

    moved = place.run(work)
    in_advance = to is not None and to not in {place.settings.blob_store, place.settings.previous_blob_store}
    return Outcome(moved, moved, int(bool(moved["wrong"] or moved["unfinished"])), _next_steps(moved, in_advance))


@command(storage)
@click.option(
    "--origin",
    metavar="ORIGIN",
    default="https://example.com",
    help="Origin of pages that upload directly to the object store.",
)
def check(place: Place, origin: str) -> Outcome:
    """Test the object store: credentials, bucket, clock, CORS and lifecycle rules, free space. Needs no database."""
    import asyncio

    async def work() -> tuple[list[str], list[str]]:
        blobs = _store(place.settings)
        try:
            problems = await blobs.check(origin)
            return problems, [] if problems else await blobs.hints()
        finally:
            await blobs.close()

    problems, hints = asyncio.run(work())
    found = {"problems": problems, "hints": hints}
    return Outcome(found, problems or ["The object store works."], int(bool(problems)), hints)


def _storages(on: Session) -> Storages:
    from pilotis.data.rules.feature import RulesFeature
    from pilotis.files.storages import Storages

    return Storages(on.database, on.features.get(RulesFeature).file_rules)


async def _create(on: Session, app_id: UUID, name: str, access: str) -> dict[str, Any]:
    import msgspec

    from pilotis.files.types import NewStorage
    from pilotis.http.api.principals import OPERATOR
    from pilotis.kit.json import field_error
    from pilotis.serve.errors import CommandError

    given = {"name": name, "upload_access": access, "delete_access": access, "read_access": access}
    try:
        new = msgspec.convert(given, NewStorage)
    except msgspec.ValidationError as error:
        # One option says all three.
        raise CommandError(field_error(error, NewStorage).text.replace("upload_access:", "--access:")) from None
    made = await _storages(on).create(await on.apps.by_id(app_id), OPERATOR, new)
    return {"id": made.id, "name": made.name}


async def _move(on: Session, to: str | None) -> dict[str, Any]:
    import asyncio

    from pilotis.blobs.check import cause
    from pilotis.blobs.errors import BlobStoreUnavailableError
    from pilotis.blobs.mover import Mover
    from pilotis.files.cleaning import Cleaning
    from pilotis.files.uploads.store import digests
    from pilotis.kit.errors import StorageFullError
    from pilotis.serve.errors import CommandError

    source, target = _ends(on.settings, to)
    mover = Mover(source, target, lambda keys: digests(on.database, keys))
    reporting = asyncio.create_task(_report(mover))
    try:
        await mover.run()
        unfinished = await Cleaning(on.database, source).unfinished()
    except (BlobStoreUnavailableError, StorageFullError) as error:
        raise CommandError(
            f"{error.text} {mover.copied} blobs were copied. Run the command again to continue. "
            f"The store says: {cause(error)}"
        ) from error
    finally:
        reporting.cancel()
        await source.close()
        await target.close()
    return {
        "copied": mover.copied,
        "copied_bytes": mover.copied_bytes,
        "already_there": mover.already_there,
        "wrong": mover.wrong,
        "unfinished": len(unfinished),
    }


async def _report(mover: Mover) -> None:
    import asyncio

    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_REPORTS)
        click.echo(f"{mover.copied} blobs copied, {mover.copied_bytes >> 20} MiB", err=True)


def _ends(settings: Settings, to: str | None) -> tuple[BlobStore, BlobStore]:
    """Return the stores from which and to which to copy."""
    from pilotis.serve.errors import CommandError

    current, previous = settings.blob_store, settings.previous_blob_store
    if to is None or to == current:
        if previous is None:
            raise CommandError(
                "Set previous_blob_store to the store from which to copy, or name the one to which to copy with --to."
            )
        return _store_at(settings, previous), _store_at(settings, current)
    return _store_at(settings, current), _store_at(settings, to)


def _next_steps(moved: dict[str, Any], in_advance: bool) -> list[str]:
    said = []
    if moved["wrong"]:
        said.append("The bytes of some blobs are not those that the database knows: they were not copied.")
    if in_advance:
        said.append(
            "Servers still write to blob_store. To go on, give every server the new store as previous_blob_store, then "
            "exchange the two settings, and run pilotis storage move."
        )
    elif moved["unfinished"]:
        said.append("Unfinished uploads or deployments are still in the previous store: run this again in a while.")
    elif not moved["wrong"]:
        said.append("Everything is in the new store: remove previous_blob_store from the settings of every server.")
    return said


def _store_at(settings: Settings, url: str | None) -> BlobStore:
    from pilotis.blobs.errors import InvalidStoreUrlError
    from pilotis.floor import open_blobs_at
    from pilotis.serve.errors import CommandError

    try:
        return open_blobs_at(settings, url)
    except InvalidStoreUrlError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"The directory {url} cannot be used: {error.strerror}.") from None


def _store(settings: Settings) -> BlobStore:
    from pilotis.blobs.errors import InvalidStoreUrlError
    from pilotis.floor import open_blobs
    from pilotis.serve.errors import CommandError

    try:
        return open_blobs(settings)
    except InvalidStoreUrlError as error:
        raise CommandError(str(error)) from None


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise click.BadParameter("a number and s, m, h or d is expected, such as 24h", param_hint="--before")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _advice(found: dict[str, Any], before: str, *, apply: bool) -> list[str]:
    """Return what the numbers mean, and what to do."""
    said = []
    if (found["orphans"] or found["unfinished_uploads"]) and not apply:
        said.append(
            f"To delete the bytes that no file refers to, run: pilotis storage reconcile --before {before} --apply"
        )
    if found["missing"]:
        said.append(
            "The bytes of some files are missing. If blob_store was changed, set previous_blob_store to the place "
            "before and run pilotis storage move; otherwise restore them from a backup of the object store."
        )
    return said or ["The database and the object store agree."]


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers, and the first keys of each kind."""
    return {
        "orphans": len(found["orphans"]),
        "orphan_bytes": found["orphan_bytes"],
        "deleted": found["deleted"],
        "missing": len(found["missing"]),
        "unfinished_uploads": found["unfinished_uploads"],
        **{f"{kind}_keys": found[kind][:_LISTED] for kind in ("orphans", "missing") if found[kind]},
    }
