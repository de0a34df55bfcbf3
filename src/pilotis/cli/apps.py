"""`pilotis app`: creating, listing, exporting, importing, cloning and moving apps."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from msgspec import UNSET
from msgspec.structs import asdict

from pilotis.cli.command import Outcome, Place, command
from pilotis.cli.passphrases import passphrase_option, read_passphrase

if TYPE_CHECKING:
    from pilotis.archive.types import Imported
    from pilotis.cli.session import Session
    from pilotis.db.sharding import Node

_LONGEST_NAME = 100


@click.group()
def app() -> None:
    """Create, list, export, import, clone and move apps, and give them plans."""


@command(app)
@click.argument("name", help="Display name of the app.")
@click.option("--owner", metavar="EMAIL", help="Console user who owns it. Default: none.")
async def create(on: Session, name: str, owner: str | None) -> Outcome:
    """Create an app and print its id, public key and secret key. The secret key is shown only once."""
    require_name(name)

    owner_id = await on.users.id_of(owner) if owner is not None else None
    app = await on.apps.create(name, owner_id)
    made = {"app_id": app.app_id, "public_key": app.public_key, "secret_key": app.secret_key}
    return Outcome(made, made, said=["Store the secret key safely: it is not shown again."])


@command(app, none="There are no apps.")
async def list_(on: Session) -> list[dict[str, Any]]:
    """List the apps with their public keys."""
    return [listed._asdict() for listed in await on.apps.all()]


@command(app)
@click.argument("app_id", type=click.UUID, metavar="APP", help="The app's id.")
@click.option("--to", metavar="FILE", required=True, help="The new archive, such as shop.pilotis.")
@passphrase_option("It encrypts the key of secrets and encrypted columns.")
@click.option("--without-secrets", is_flag=True, help="Leave secrets and the values of encrypted columns out.")
def export(place: Place, app_id: UUID, to: str, passphrase_file: str | None, without_secrets: bool) -> Outcome:
    """Write an app with its members, rows and files to one file, which any server imports. Requests go on meanwhile."""
    from pilotis.archive.feature import ArchiveFeature
    from pilotis.archive.types import Exported
    from pilotis.http.api.principals import OPERATOR

    path = Path(to)
    if path.exists():
        raise click.BadParameter(f"{to} exists already", param_hint="--to")
    passphrase = read_passphrase(passphrase_file)

    async def work(on: Session) -> Exported:
        archives = on.features.get(ArchiveFeature).archives
        return await archives.export(app_id, path, OPERATOR, passphrase, with_secrets=not without_secrets)

    with _reported(path):
        made = place.run(work)
    text = f"{to}: {made.rows} rows of {made.tables} tables and {made.blobs} files, {made.bytes} bytes."
    return Outcome(asdict(made), [text, *_missing(made.missing_blobs)])


@command(app, name="import")
@click.argument("file", metavar="FILE", help="The archive.")
@click.option("--as", "name", metavar="NAME", help="Name of the new app. Default: that of the archive.")
@click.option("--owner", metavar="EMAIL", help="Console user who owns it. Default: none.")
@click.option("--same-id", is_flag=True, help="Keep the app's id, and the addresses of its files and sites.")
@passphrase_option("That with which the archive was written.")
@click.option("--without-secrets", is_flag=True, help="Import an archive without the passphrase for its secrets.")
def import_(
    place: Place,
    file: str,
    name: str | None,
    owner: str | None,
    same_id: bool,
    passphrase_file: str | None,
    without_secrets: bool,
) -> Outcome:
    """Make an app of an archive. What acts on its own, such as webhooks and schedules, is switched off in it."""
    from pilotis.archive.feature import ArchiveFeature
    from pilotis.archive.reader import Wanted
    from pilotis.http.api.principals import OPERATOR

    if name is not None:
        require_name(name)
    passphrase = read_passphrase(passphrase_file)

    async def work(on: Session) -> Imported:
        owner_id = await on.users.id_of(owner) if owner is not None else None
        wanted = Wanted(name, owner_id, OPERATOR, passphrase, same_id, not without_secrets)
        return await on.features.get(ArchiveFeature).archives.import_(Path(file), wanted)

    with _reported(Path(file)):
        return _imported(place.run(work))


@command(app)
@click.argument("app_id", type=click.UUID, metavar="APP", help="The app's id.")
@click.option("--as", "name", metavar="NAME", required=True, help="Name of the new app.")
@click.option("--owner", metavar="EMAIL", help="Console user who owns it. Default: none.")
def clone(place: Place, app_id: UUID, name: str, owner: str | None) -> Outcome:
    """Make a copy of an app beside it, with its members, rows and files."""
    from pilotis.archive.feature import ArchiveFeature
    from pilotis.http.api.principals import OPERATOR

    require_name(name)
    folder = Path(place.settings.data_dir)

    async def work(on: Session) -> Imported:
        owner_id = await on.users.id_of(owner) if owner is not None else None
        return await on.features.get(ArchiveFeature).archives.clone(app_id, name, owner_id, OPERATOR, folder)

    with _reported(folder):
        return _imported(place.run(work))


@command(app)
@click.argument("app_id", type=click.UUID, metavar="APP", help="The app's id.")
@click.option("--to", metavar="NODE", required=True, help="The node: its host, or host:port, as Citus knows it.")
@click.option("--block-writes", is_flag=True, help="Let writes to the app wait: for nodes without logical replication.")
async def move(on: Session, app_id: UUID, to: str, block_writes: bool) -> Outcome:
    """Move an app's tables to another node of Citus, while it is used."""
    from asyncpg import PostgresError

    from pilotis.db import sharding
    from pilotis.serve.errors import CommandError

    found = await on.apps.by_id(app_id)
    schema = f"app_{found.app_id.hex}"
    connection = await on.database.dedicated(name="app move", statement_seconds=0)
    try:
        node = _node(await sharding.nodes_for_schemas(connection), to)
        before = await sharding.move_schema(connection, schema, node, blocks_writes=block_writes)
    except PostgresError as error:
        raise CommandError(f"Citus does not move the app: {error}.") from error
    finally:
        await connection.close()
    fields = {"app_id": app_id, "node": str(node), "before": str(before) if before else None}
    text = f"The app was on {before or 'the coordinator'} and is on {node}."
    return Outcome(fields, [f"The app is on {node} already." if before == node else text])


@command(app, name="archive-schedule")
@click.argument("app_id", type=click.UUID, metavar="APP", help="The app's id.")
@click.option("--cron", metavar="TIMES", help="When: minute, hour, day, month, weekday, such as '30 2 * * *'.")
@click.option("--timezone", metavar="ZONE", help="Of which time zone, such as Europe/Vienna. Default: UTC.")
@click.option("--keep", type=click.IntRange(1, 1000), default=7, help="How many of them are kept. Default: 7.")
@passphrase_option("It encrypts the key of secrets and encrypted columns.")
@click.option("--without-secrets", is_flag=True, help="Leave secrets and the values of encrypted columns out.")
@click.option("--off", is_flag=True, help="Make no more; those that there are stay.")
async def archive_schedule(
    on: Session,
    app_id: UUID,
    cron: str | None,
    timezone: str | None,
    keep: int,
    passphrase_file: str | None,
    without_secrets: bool,
    off: bool,
) -> Outcome:
    """Have archives of an app made at set times, or say when they are. Owners download them in the console."""
    from pilotis.archive.feature import ArchiveFeature
    from pilotis.archive.types import NewArchiveSchedule
    from pilotis.http.api.principals import OPERATOR

    scheduled = on.features.get(ArchiveFeature).scheduled
    found = await on.apps.by_id(app_id)
    if off:
        await scheduled.delete(found, OPERATOR)
        return Outcome({"app_id": app_id, "cron": None}, ["No more archives of the app are made at set times."])
    if cron is not None:
        new = NewArchiveSchedule(
            cron=cron,
            timezone=timezone,
            keep=keep,
            passphrase=read_passphrase(passphrase_file) if passphrase_file else UNSET,
            with_secrets=not without_secrets,
        )
        made = await scheduled.put(found, OPERATOR, new)
    else:
        made = await scheduled.read(found)
    passphrase = " with a passphrase" if made.has_passphrase else "" if made.with_secrets else " without secrets"
    text = (
        f"Archives are made at {made.cron}, {made.timezone or 'UTC'},{passphrase} and the newest {made.keep} are kept;"
        f" the next one on {made.next_run_at}."
    )
    return Outcome({"app_id": app_id, **asdict(made)}, [text])


@command(app)
@click.argument("app_id", type=click.UUID, metavar="APP", help="The app's id.")
@click.argument("name", metavar="PLAN", help="The plan's name, or `none`.")
async def plan(on: Session, app_id: UUID, name: str) -> Outcome:
    """Give an app a plan, or none."""
    from pilotis.plans.feature import PlansFeature

    await on.features.get(PlansFeature).plans.assign(app_id, None if name == "none" else name)
    return Outcome({"app_id": app_id, "plan": name}, [f"The app has the plan {name}."])


def require_name(name: str) -> None:
    """Raise a usage error for a name that no app can have."""
    if not 1 <= len(name) <= _LONGEST_NAME or "\0" in name:
        raise click.BadParameter(f"a name has 1 to {_LONGEST_NAME} characters", param_hint="NAME")


def _node(nodes: Sequence[Node], named: str) -> Node:
    """Return the node that somebody names by its host, or by host and port."""
    from pilotis.serve.errors import CommandError

    if not nodes:
        raise CommandError(
            "The database has no Citus, and so no other node. `pilotis app export` moves an app as a file."
        )
    found = [node for node in nodes if named in {node.host, str(node)}]
    if len(found) != 1:
        listed = ", ".join(map(str, nodes))
        raise click.BadParameter(f"{named} is not one of the nodes {listed}", param_hint="--to")
    return found[0]


@contextmanager
def _reported(path: Path) -> Generator[None]:
    """Report what the file system refuses as a sentence."""
    from pilotis.serve.errors import CommandError

    try:
        yield
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}.") from error


def _imported(made: Imported) -> Outcome:
    text = {"app_id": made.app_id, "public_key": made.public_key, "secret_key": made.secret_key}
    said = [
        f"{made.rows} rows of {made.tables} tables and {made.blobs} files. Webhooks, triggers, workflows and social"
        " login are switched off; members sign in again.",
        "Store the secret key safely: it is not shown again.",
    ]
    return Outcome(asdict(made), text, said=[*said, *_missing(made.missing_blobs)])


def _missing(blobs: int) -> list[str]:
    return [f"The bytes of {blobs} files were deleted before they could be copied."] if blobs else []
