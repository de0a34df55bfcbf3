"""`pilotis backup`: backups of a server with the embedded database, and restoring one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click
from msgspec.structs import asdict

from pilotis.cli.command import Outcome, command
from pilotis.cli.command import Place as Command
from pilotis.kit.priority import process_gives_way

if TYPE_CHECKING:
    from pilotis.backup.place import Place
    from pilotis.backup.restore import Wanted
    from pilotis.cli.session import Session

Result = TypeVar("Result")
_LONGEST_NAME = 80
_NICE = 19


@click.group()
def backup() -> None:
    """Back the whole server up, and restore it to a moment. `pilotis app export` saves one app."""


@command(backup)
@click.option("--full", is_flag=True, help="Copy everything, not what changed since the newest backup.")
def create(place: Command, full: bool) -> Outcome:
    """Make a backup, while requests go on. A killed run leaves nothing that the next one does not remove."""
    # Before anything is imported: that alone takes half a second of a processor.
    process_gives_way(_NICE)
    from pilotis.backup import base, keys
    from pilotis.backup.place import require_own_database
    from pilotis.backup.prune import prune
    from pilotis.serve import database

    require_own_database(place.settings)

    async def work(at: Place, arguments: dict[str, Any]) -> Outcome:
        made, why_full = await base.create(at, arguments, full=full)
        incomplete = (await prune(at)).incomplete
        based = f" It has what changed since {made.based_on}." if made.based_on else ""
        said = [
            f"Backup {made.backup_id}, {made.kind}: {made.bytes} bytes and {made.files} files.{based} It is unproven"
            " until `pilotis backup rehearse` has restored it."
        ]
        if why_full:
            said.append(f"It is a full one. {why_full}")
        said += incomplete
        if at.key_is_new:
            said.append(
                f"The backup key is in {keys.path_of(at.settings)}. Copy it, and the master key, to a place of their"
                " own: neither is in a backup, and without them nobody can read one."
            )
        return Outcome({**asdict(made), "kind": made.kind, "why_full": why_full}, said)

    _require_store(place)
    with database.for_command(place.settings) as source:
        return _run(place, lambda at: work(at, source.connect_arguments), may_create=True)


@command(backup, none="There are no backups.")
def list_(place: Command) -> list[dict[str, Any]]:
    """List the backups, from the store alone."""
    from pilotis.backup import gaps
    from pilotis.backup.status import listed

    async def work(at: Place) -> list[dict[str, Any]]:
        return listed(await at.catalogue.all(), await gaps.all_gaps(at.store, at.key))

    return _run(place, work)


@command(backup)
@click.argument("backup_id", required=False, metavar="[ID]", help="The backup. Default: the newest.")
def verify(place: Command, backup_id: str | None) -> Outcome:
    """Read a backup, by default the newest, with its log and a sample of its files to the end."""
    from pilotis.backup import catalogue, proof

    async def work(at: Place) -> Outcome:
        hidden = catalogue.hidden(at.data_dir, await at.catalogue.all())
        known = await at.catalogue.find(backup_id)
        done = await proof.verify(at, known)
        said = done.error or f"Backup {known.backup.backup_id} is whole; it is {done.state}."
        return Outcome(
            {"backup_id": known.backup.backup_id, **asdict(done), "state": done.state, "warning": hidden},
            [said, *([hidden] if hidden else [])],
            int(done.error is not None or hidden is not None),
        )

    return _run(place, work)


@command(backup)
@click.argument("backup_id", required=False, metavar="[ID]", help="The backup. Default: the newest.")
def rehearse(place: Command, backup_id: str | None) -> Outcome:
    """Restore a backup, by default the newest, beside the server, start it, and remove it again."""
    from pilotis.backup import proof

    async def work(at: Place) -> Outcome:
        known = await at.catalogue.find(backup_id)
        done = await proof.rehearse(at, known)
        said = done.error or f"Backup {known.backup.backup_id} was restored in {done.seconds} s, with {done.rows} rows."
        fields = {"backup_id": known.backup.backup_id, **asdict(done), "state": done.state}
        return Outcome(fields, [said], int(done.error is not None))

    return _run(place, work)


@command(backup)
def prune(place: Command) -> Outcome:
    """Delete what is not needed to restore to any moment of the last `keep_days`. Each new backup does so too."""
    from pilotis.backup.prune import prune as work

    done = _run(place, work)
    text = f"Deleted {len(done.backup_ids)} backups, {done.segments} segments of the log and {done.files} files."
    return Outcome(done._asdict(), [text, *done.incomplete], int(bool(done.incomplete)))


@command(backup)
def status(place: Command) -> Outcome:
    """Print to which moments the server can be restored, and what is wrong. Exits with 1 on a problem."""
    from pilotis.backup.place import require_own_database
    from pilotis.backup.status import status as work

    require_own_database(place.settings)
    found = _run(place, work)
    newest = found.known[-1] if found.known else None
    lines = ["Neither the master key nor the backup key is in a backup: keep both elsewhere."]
    if newest:
        lines += [
            f"{len(found.known)} backups, the newest from {newest.backup.ended_at}, {newest.proof.state}.",
            f"Rows until {found.rows_until or newest.backup.ended_at} ({found.last_wal} of the log), files until"
            f" {found.files_until or newest.backup.ended_at}. For the store wait {found.waiting.log.files} files of the"
            f" log and {found.waiting.copies.waiting} files of apps.",
        ]
    lines += found.gap_sentences()
    said = [str(one.report) for one in (*found.problems, *found.warnings)]
    return Outcome(found.fields(), [*lines, *said], int(bool(found.problems)))


@command(backup)
@click.option("--to", metavar="DIR", help="The new data directory; it must not exist or be empty.")
@click.option("--app", "app_id", type=click.UUID, metavar="APP", help="Restore one app, beside what the server has.")
@click.option("--as", "name", metavar="NAME", help="Name of that app. Default: what it was called, with a note.")
@click.option("--owner", metavar="EMAIL", help="Console user who owns it. Default: none.")
@click.option("--at", metavar="TIME", help="The moment, such as 2026-05-04T14:03:00Z. Default: the last one.")
@click.option("--backup", "backup_id", metavar="ID", help="The backup to begin with. Default: the last one before.")
@click.option("--master-key-file", metavar="FILE", help="The master key of the server. Default: PILOTIS_MASTER_KEY.")
@click.option("--keep-sessions", is_flag=True, help="Leave everybody signed in; only without --at.")
def restore(
    place: Command,
    to: str | None,
    app_id: UUID | None,
    name: str | None,
    owner: str | None,
    at: str | None,
    backup_id: str | None,
    master_key_file: str | None,
    keep_sessions: bool,
) -> Outcome:
    """Restore the server into a new directory, or one app of it into this server, as it was at a moment.

    A restored server is quiet until `pilotis backup accept`: nothing goes out. A restored app has an id and keys of its
    own; the present one stays as it is.
    """
    from pilotis.backup import restore as restoring
    from pilotis.kit.clock import parse_rfc3339

    if at is not None and parse_rfc3339(at) is None:
        raise click.BadParameter("a time such as 2026-05-04T14:03:00Z is expected", param_hint="--at")
    if keep_sessions and at is not None:
        raise click.BadParameter("it would revive what was ended since; leave --at out", param_hint="--keep-sessions")
    if (to is None) == (app_id is None):
        raise click.UsageError("Give --to for the whole server, or --app for one app of it.")
    if app_id is not None:
        key = _master_key(place, master_key_file) if master_key_file else None
        return _restore_app(place, app_id, name, owner, restoring.Wanted(Path(), at, backup_id, key))
    if name is not None or owner is not None:
        raise click.UsageError("--as and --owner belong to --app.")
    assert to is not None
    wanted = restoring.Wanted(Path(to), at, backup_id, _master_key(place, master_key_file), keep_sessions)
    done = _run(place, lambda at_: restoring.restore(at_, wanted))
    said = [f"{to} has {done.apps} apps with {done.rows} rows and {done.files} files, up to {done.last_commit}."]
    said += done.sentences()
    if wanted.master_key is None:
        said.append(f"Put the server's master key in place as {to}/master.key.")
    said.append(f"Start it with --data-dir {to}, look at it, and let it work with `pilotis backup accept`.")
    return Outcome(done.fields(), said, int(bool(done.missing_files or done.gap)))


def _restore_app(place: Command, app_id: UUID, name: str | None, owner: str | None, wanted: Wanted) -> Outcome:
    from pilotis.archive.feature import ArchiveFeature
    from pilotis.archive.reader import Wanted as WantedApp
    from pilotis.archive.types import Imported
    from pilotis.backup import one_app
    from pilotis.backup.place import opened, require_own_database
    from pilotis.cli.apps import require_name
    from pilotis.http.api.principals import OPERATOR
    from pilotis.kit.scratch import scratch

    require_own_database(place.settings)
    if name is not None:
        require_name(name)
    passphrase = secrets.token_urlsafe()

    async def work(on: Session, at: Place, folder: Path) -> tuple[one_app.Extracted, Imported]:
        owner_id = await on.users.id_of(owner) if owner is not None else None
        archive = folder / "app.pilotis"
        found = await one_app.extract(at, wanted._replace(directory=folder / "restored"), app_id, archive, passphrase)
        called = name or f"{found.name[:_LONGEST_NAME]} (restored)"
        app = WantedApp(called, owner_id, OPERATOR, passphrase)
        return found, await on.features.get(ArchiveFeature).archives.import_(archive, app)

    async def both(on: Session) -> tuple[one_app.Extracted, Imported]:
        async with opened(place.settings) as at, scratch(at.data_dir) as folder:
            return await work(on, at, folder)

    found, made = place.run(both)
    said = [
        f"{made.name} has {made.rows} rows of {made.tables} tables and {made.blobs} files, up to"
        f" {found.restored.last_commit}. What acts on its own is switched off; members sign in again.",
        "Store the secret key safely: it is not shown again.",
    ]
    said += found.restored.sentences()
    of_restored = {name: found.restored.fields()[name] for name in ("backup_id", "last_commit", "missing")}
    fields = {**asdict(made), **of_restored}
    text = {"app_id": made.app_id, "public_key": made.public_key, "secret_key": made.secret_key}
    return Outcome(fields, text, int(bool(made.missing_blobs or found.restored.gap)), said)


@command(backup)
def accept(place: Command) -> Outcome:
    """Let a restored server do its work from its next start on: schedules, mails, webhooks, jobs."""
    from pilotis.serve.quiet import accept as work

    was_quiet = work(place.settings)
    if not was_quiet:
        return Outcome({"accepted": False}, ["The server is not a restored one."])
    beside = "If the server that was backed up still runs, give this one a backup store of its own first."
    return Outcome({"accepted": True}, ["The server works from its next start on.", beside])


def _require_store(place: Command) -> None:
    from pilotis.backup.errors import BackupRefusedError
    from pilotis.backup.place import NO_STORE

    if place.settings.backup.store is None:
        raise BackupRefusedError(NO_STORE)


def _run(place: Command, work: Callable[[Place], Awaitable[Result]], *, may_create: bool = False) -> Result:
    from pilotis.backup.place import opened

    async def run() -> Result:
        async with opened(place.settings, may_create=may_create) as at:
            return await work(at)

    return asyncio.run(run())


def _master_key(place: Command, file: str | None) -> bytes | None:
    from pilotis.security import master_key

    if file is None:
        return master_key.parse(place.settings.master_key) if place.settings.master_key is not None else None
    try:
        text = Path(file).read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise click.BadParameter(f"{file} cannot be read", param_hint="--master-key-file") from None
    return master_key.parse(text, file)
