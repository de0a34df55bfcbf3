"""`pilotis key`: the public and secret keys of an app, and the server's master key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pilotis.cli.command import Outcome, Place, app_option, command

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.serve.rotation import Renewed, Rotated


@click.group()
def key() -> None:
    """Create, list and revoke the keys of an app."""


_SECRET = click.option(
    "--secret/--public", default=None, help="Secret or public keys. Default: public; for list: both."
)


@command(key)
@app_option()
@_SECRET
@click.option("--name", default="", help="The purpose of the key.")
@click.option(
    "--origin",
    metavar="ORIGIN",
    multiple=True,
    help="Origin that may use the public key, such as https://example.com; can be repeated.",
)
@click.option("--signs-members-in", is_flag=True, help="The secret key may sign in any member, for the app's server.")
def create(
    place: Place, app: UUID, secret: bool | None, name: str, origin: tuple[str, ...], signs_members_in: bool
) -> Outcome:
    """Create a key and print it. A secret key is shown only once."""
    origins = _checked_origins(list(origin))
    if secret and origins:
        raise click.BadParameter("only public keys have allowed origins", param_hint="--origin")
    if signs_members_in and not secret:
        raise click.BadParameter("only secret keys sign members in", param_hint="--signs-members-in")

    async def work(on: Session) -> dict[str, Any]:
        from pilotis.apps.types import NewPublicKey
        from pilotis.http.api.principals import OPERATOR

        if secret:
            made = await on.keyring.create_secret(app, OPERATOR, None, name, may_sign_in_members=signs_members_in)
            return {"key_id": made.key_id, "secret_key": made.key}
        shown = await on.keyring.create_public(app, OPERATOR, NewPublicKey(name, origins))
        return {"key_id": shown.key_id, "public_key": shown.key}

    made = place.run(work)
    said = ["Store the secret key safely: it is not shown again."] if secret else ["The public key works immediately."]
    return Outcome(made, made, said=said)


@command(key, none="The app has no keys.")
@app_option()
@_SECRET
async def list_(on: Session, app: UUID, secret: bool | None) -> list[dict[str, Any]]:
    """List the active keys and when they were last used. Only the first characters of a secret key are shown."""
    await on.apps.by_id(app)
    return [found._asdict() for found in await on.keyring.in_force(app, secret=secret)]


@command(key)
@click.argument("key_id", type=click.UUID, help="The key's id, as `key list` shows it.")
@app_option()
def revoke(place: Place, key_id: UUID, app: UUID) -> Outcome:
    """Revoke a key: it stops working immediately, on every node."""

    async def work(on: Session) -> str:
        from pilotis.apps.keyring import KeyNotFoundError
        from pilotis.http.api.principals import OPERATOR
        from pilotis.serve.errors import CommandError

        try:
            return await on.keyring.revoke(app, OPERATOR, key_id)
        except KeyNotFoundError:
            sentence = "The app has no active key with this id; `pilotis key list` shows its keys."
            raise CommandError(sentence) from None

    kind = place.run(work)
    return Outcome(
        {"key_id": key_id, "kind": kind}, [f"The {kind} key {key_id} is revoked: requests with it are answered 401."]
    )


@command(key, "rotate-master")
@click.option(
    "--forget-previous",
    is_flag=True,
    help="Forget the previous master key: tokens signed with it become invalid.",
)
def rotate_master(place: Place, forget_previous: bool) -> Outcome:
    """Replace the master key while servers run; the previous one stays valid until it is forgotten.

    An interrupted rotation continues when the command is run again.
    """
    from pilotis.serve import rotation
    from pilotis.server import encrypted_columns

    async def work(on: Session) -> Outcome:
        connection = await on.database.dedicated(name="key rotation", statement_seconds=0)
        try:
            if forget_previous:
                return _forgotten(await rotation.forget_previous(connection, on.settings, encrypted_columns()))
            return _rotated(await rotation.rotate(connection, on.settings, encrypted_columns()))
        finally:
            await connection.close()

    return place.run(work)


def _rotated(done: Rotated) -> Outcome:
    begun = "The interrupted rotation is finished" if done.resumed else "A new master key is in use"
    sentence = (
        f"{begun}; {_renewed(done.renewed)}. The previous key still verifies tokens: back up the new one, and when "
        "old tokens may expire, run this command with --forget-previous."
    )
    return Outcome({"resumed": done.resumed, **done.renewed._asdict()}, [sentence])


def _forgotten(done: Renewed) -> Outcome:
    sentence = f"The previous master key is forgotten; {_renewed(done)}."
    return Outcome(done._asdict(), [sentence])


def _renewed(done: Renewed) -> str:
    return f"{done.rewrapped} data keys were re-wrapped and {done.reencrypted} secrets re-encrypted"


def _checked_origins(origins: list[str]) -> list[str]:
    from pilotis.apps.origins import canonical_origins
    from pilotis.kit.errors import ValidationError

    try:
        return canonical_origins(origins, "--origin")
    except ValidationError as error:
        raise click.BadParameter(error.text, param_hint="--origin") from None
