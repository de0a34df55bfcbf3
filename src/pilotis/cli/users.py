"""`pilotis user`: making console users."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotis.cli import options, output
from pilotis.cli.options import Config, DatabaseUrl, DataDir, Json

if TYPE_CHECKING:
    from uuid import UUID

    from pilotis.cli.session import Session
    from pilotis.db.pool import Database

command = typer.Typer(no_args_is_help=True, help="Make console users, the developers who own apps.")


@command.callback()
def user() -> None:
    """Make console users, the developers who own apps."""


@command.command()
def create(
    email: Annotated[str, typer.Argument(help="E-mail address to sign in with.")],
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
    ] = False,
    json: Json = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Make a console user. The first one owns every app that has no owner yet."""
    from pilotis.cli import session

    settings = options.load(config, data_dir=data_dir, database_url=database_url)
    _check_email(email)
    password = _password(password_stdin)

    async def work(on: Session) -> dict[str, Any]:
        user_id = await _create(on, email, password)
        return {"user_id": user_id, "email": email.strip().lower()}

    output.record(session.run(settings, work, may_create=True), json)


async def user_id_of(database: Database, email: str) -> UUID:
    """Return the id of a console user; raises `CommandError` if there is none."""
    from pilotis.serve.errors import CommandError

    user_id: UUID | None = await database.fetchval(
        "select user_id from pilotis.users where email = $1", email.strip().lower()
    )
    if user_id is None:
        raise CommandError(f"There is no console user {email}; `pilotis user create` makes one.")
    return user_id


def _check_email(email: str) -> None:
    import msgspec

    from pilotis.users.types import Email

    try:
        msgspec.convert(email, Email)
    except msgspec.ValidationError:
        raise typer.BadParameter(f"{email} is not an e-mail address", param_hint="EMAIL") from None


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask for the password", param_hint="--password-stdin")
    answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer


async def _create(on: Session, email: str, password: str) -> UUID:
    from pilotis.kit.crypto import MasterKeyring, MasterKeys
    from pilotis.kit.passwords import Passwords
    from pilotis.kit.signing import TokenSigner
    from pilotis.rates.service import RateLimits
    from pilotis.sessions.service import Sessions
    from pilotis.users.service import Users

    passwords = Passwords()
    # Nobody is signed in here, so no token is signed: any key will do, and the real one may be elsewhere.
    sessions = Sessions(on.database, TokenSigner(MasterKeyring(MasterKeys(secrets.token_bytes(32)))))
    users = Users(on.database, sessions, passwords, RateLimits(on.database, on.settings.limits), on.settings.limits)
    try:
        return await users.create(email, password)
    finally:
        passwords.close()
