"""`pilotis key`: the public and secret keys of an app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from pilotis.cli import options, output
from pilotis.cli.options import Config, DatabaseUrl, DataDir, Json

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.serve.rotation import Rotated

command = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of an app.")

App = Annotated[UUID, typer.Option("--app", metavar="ID", help="The app's id.")]
Secret = Annotated[
    bool | None, typer.Option("--secret/--public", help="Secret keys, or public ones. Default: public; list: both.")
]

_LIST = """
    select 'public' as kind, key_id, name, key as prefix, allowed_origins, created_at, last_used_at
    from pilotis.public_keys where app_id = $1 and revoked_at is null and $2 is not true
    union all
    select 'secret', key_id, name, prefix, null, created_at, last_used_at
    from pilotis.secret_keys where app_id = $1 and revoked_at is null and $2 is not false
    order by kind, key_id
"""
_REVOKE = """
    with public as (
        update pilotis.public_keys set revoked_at = now()
        where app_id = $1 and key_id = $2 and revoked_at is null returning 'public' as kind
    ), secret as (
        update pilotis.secret_keys set revoked_at = now()
        where app_id = $1 and key_id = $2 and revoked_at is null returning 'secret' as kind
    )
    select kind from public union all select kind from secret
"""


@command.command()
def create(
    app: App,
    secret: Secret = None,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Origin that may use a public key, such as https://example.com; repeat it."
        ),
    ] = None,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Make a key and print it. A secret key is shown this once."""
    from pilotis.cli import session

    origins = _checked_origins(origin or [])
    if secret and origins:
        raise typer.BadParameter("only public keys have allowed origins", param_hint="--origin")

    async def work(on: Session) -> dict[str, Any]:
        return await _create(on, app, bool(secret), name, origins)

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.record(session.run(settings, work), json)


@command.command("list")
def list_(
    app: App,
    secret: Secret = None,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """List the keys in force, with when they were last used. Of a secret key the first characters are known."""
    from pilotis.cli import session

    async def work(on: Session) -> list[dict[str, Any]]:
        await on.apps.by_id(app)
        return [output.row(one) for one in await on.database.fetch(_LIST, app, secret)]

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    output.records(session.run(settings, work), json, "The app has no such key.")


@command.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The key's id, as `key list` shows it.")],
    app: App,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Revoke a key: it stops working at once, on every node."""
    from pilotis.cli import session

    async def work(on: Session) -> str:
        return await _revoke(on, app, key_id)

    kind = session.run(options.load(config, data_dir=data_dir, database_url=database_url), work)
    typer.echo(f"The {kind} key is revoked.")


@command.command("rotate-master")
def rotate_master(
    forget_previous: Annotated[
        bool,
        typer.Option(
            "--forget-previous", help="End the previous master key: tokens it signed are refused from then on."
        ),
    ] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Take a new master key into use, beside running servers; the previous one stays good until it is forgotten.

    An interrupted rotation goes on where it was.
    """
    from pilotis.cli import session
    from pilotis.serve import rotation

    settings = options.load(config, data_dir=data_dir, database_url=database_url)

    async def work(on: Session) -> str:
        connection = await on.database.open_connection(statement_seconds=0)
        try:
            if forget_previous:
                return _forgotten(await rotation.forget_previous(connection, settings))
            return _rotated(await rotation.rotate(connection, settings))
        finally:
            await connection.close()

    typer.echo(session.run(settings, work))


def _rotated(done: Rotated) -> str:
    begun = "The rotation that was begun is finished" if done.resumed else "A new master key is in use"
    return (
        f"{begun}; {done.rewrapped} data keys were wrapped anew. The previous key still verifies tokens: back the new "
        "one up, and once old tokens may end, run this with --forget-previous."
    )


def _forgotten(rewrapped: int) -> str:
    return f"The previous master key is forgotten; {rewrapped} data keys were wrapped anew."


async def _create(on: Session, app_id: UUID, secret: bool, name: str, origins: list[str]) -> dict[str, Any]:
    from pilotis.kit.ids import uuid7

    await on.apps.by_id(app_id)
    key_id = uuid7()
    kind = "secret" if secret else "public"
    async with on.database.transaction() as connection:
        if secret:
            key = await on.apps.create_secret_key(connection, app_id, None, name, key_id)
        else:
            key = await on.apps.create_public_key(connection, app_id, name, origins, key_id)
    return {"key_id": key_id, f"{kind}_key": key}


async def _revoke(on: Session, app_id: UUID, key_id: UUID) -> str:
    from pilotis.audit.service import record
    from pilotis.http.principals import OPERATOR
    from pilotis.serve.errors import CommandError

    async with on.database.transaction() as connection:
        kind: str | None = await connection.fetchval(_REVOKE, app_id, key_id)
        if kind is None:
            raise CommandError("The app has no such key in force; `pilotis key list` shows those it has.")
        await record(connection, app_id, OPERATOR, f"{kind}_key.revoke", key_id)
        await on.apps.announce(connection, app_id)
    return kind


def _checked_origins(origins: list[str]) -> list[str]:
    from pilotis.apps.origins import canonical_origins
    from pilotis.kit.errors import ValidationError

    try:
        return canonical_origins(origins, "--origin")
    except ValidationError as error:
        raise typer.BadParameter(error.text, param_hint="--origin") from None
