"""`pilotis app`: creating and listing apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pilotis.cli.command import Outcome, Place, command

if TYPE_CHECKING:
    from pilotis.cli.session import Session

_LONGEST_NAME = 100


@click.group()
def app() -> None:
    """Create and list apps."""


@command(app)
@click.argument("name", help="Display name of the app.")
@click.option("--owner", metavar="EMAIL", help="Console user who owns it. Default: none.")
def create(place: Place, name: str, owner: str | None) -> Outcome:
    """Create an app and print its id, public key and secret key. The secret key is shown only once."""
    if not 1 <= len(name) <= _LONGEST_NAME or "\0" in name:
        raise click.BadParameter(f"a name has 1 to {_LONGEST_NAME} characters", param_hint="NAME")

    async def work(on: Session) -> dict[str, Any]:
        owner_id = await on.users.id_of(owner) if owner is not None else None
        app = await on.apps.create(name, owner_id)
        return {"app_id": app.app_id, "public_key": app.public_key, "secret_key": app.secret_key}

    made = place.run(work)
    return Outcome(made, made, said=["Store the secret key safely: it is not shown again."])


@command(app, none="There are no apps.")
def list_(place: Place) -> list[dict[str, Any]]:
    """List the apps with their public keys."""

    async def work(on: Session) -> list[dict[str, Any]]:
        return [listed._asdict() for listed in await on.apps.all()]

    return place.run(work)
