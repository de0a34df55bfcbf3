"""`pilotis app`: making and listing apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotis.cli import options, output
from pilotis.cli.options import Config, DatabaseUrl, DataDir, Json

if TYPE_CHECKING:
    from pilotis.cli.session import Session

command = typer.Typer(no_args_is_help=True, help="Make and list apps.")
_LONGEST_NAME = 100


@command.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the app, for people.")],
    owner: Annotated[
        str | None, typer.Option(metavar="EMAIL", help="Console user who is to own it. Default: nobody.")
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Make an app and print its id, public key and secret key. The secret key is shown this once."""
    from pilotis.cli import session

    if not 1 <= len(name) <= _LONGEST_NAME or "\0" in name:
        raise typer.BadParameter(f"a name has 1 to {_LONGEST_NAME} characters", param_hint="NAME")

    async def work(on: Session) -> dict[str, Any]:
        from pilotis.cli.users import user_id_of

        owner_id = await user_id_of(on.database, owner) if owner is not None else None
        app = await on.apps.create(name, owner_id)
        return {"app_id": app.app_id, "public_key": app.public_key, "secret_key": app.secret_key}

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.record(session.run(settings, work, may_create=owner is None), json)


@command.command("list")
def list_(
    json: Json = False, data_dir: DataDir = None, database_url: DatabaseUrl = None, config: Config = None
) -> None:
    """List the apps with their public keys."""
    from pilotis.cli import session

    async def work(on: Session) -> list[dict[str, Any]]:
        found = await on.database.fetch(
            """
            select a.app_id, a.name, a.created_at, a.deleted_at, array(
                select k.key from pilotis.public_keys k
                where k.app_id = a.app_id and k.revoked_at is null order by k.key_id
            ) as public_keys
            from pilotis.apps a order by a.app_id
            """
        )
        return [output.row(one) for one in found]

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.records(session.run(settings, work), json, "There is no app.")
