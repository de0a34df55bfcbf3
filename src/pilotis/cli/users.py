"""`pilotis user`: creates and deactivates console users, and resets forgotten passwords."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pilotis.cli.command import Outcome, Place, command, told
from pilotis.serve.data_directory import running_url

if TYPE_CHECKING:
    from pilotis.cli.session import Session
    from pilotis.settings import Settings


@click.group()
def user() -> None:
    """Create, help and deactivate console users, the developers who own apps."""


_EMAIL = click.argument("email", help="The console user's e-mail address.")


@command(user)
@click.argument("email", help="E-mail address to sign in with.")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
def create(place: Place, email: str, password_stdin: bool) -> Outcome:
    """Create a console user. The first one becomes the owner of every app without an owner."""
    _check_email(email)
    password = _password(password_stdin)

    async def work(on: Session) -> dict[str, Any]:
        return {"user_id": await on.users.create(email, password), "email": email.strip().lower()}

    made = place.run(work)
    return Outcome(made, made, said=[f"{made['email']} can sign in to the console, at /console of the server."])


@command(user, flags=("base_url",))
@_EMAIL
@click.option("--base-url", metavar="TEXT", help="URL of the server in the link, such as https://api.example.com.")
def reset(place: Place, email: str) -> Outcome:
    """Print a link with which a console user can set a new password, once and within an hour.

    A later link replaces it. Give it to the user in person: anyone who opens it becomes that user.
    """

    async def work(on: Session) -> dict[str, Any]:
        made = await on.users.new_reset_token(email)
        return {"link": f"{_address(on.settings)}/setup/reset#{made.token}", "expires_at": made.expires_at}

    made = place.run(work)
    said = [f"Give the link to {email.strip().lower()} in person: it works once, until then."]
    if place.settings.base_url is None and running_url(Path(place.settings.data_dir)) is None:
        said.append("If the server has another address, name it by --base-url.")
    return Outcome(made, made, said=said)


@command(user, "reset-factors")
@_EMAIL
async def reset_factors(on: Session, email: str) -> Outcome:
    """Remove the second factors of a console user that has lost them. The password alone is enough then."""
    from pilotis.user_accounts.feature import UserAccountsFeature

    return told(
        {"user_id": await on.features.get(UserAccountsFeature).factors.reset(email), "email": email},
        f"{email} signs in with the password alone.",
    )


@command(user)
@_EMAIL
def deactivate(place: Place, email: str) -> Outcome:
    """Deactivate a console user: its tokens and secret keys become invalid.

    The last active owner of an app cannot be deactivated.
    """
    done = _set_active(place, email, is_active=False)
    return told(
        done,
        f"{done['email']} is deactivated: it cannot sign in, and its tokens and secret keys are invalid.",
        f"To undo this, run: pilotis user activate {done['email']}",
    )


@command(user)
@_EMAIL
def activate(place: Place, email: str) -> Outcome:
    """Reactivate a deactivated console user."""
    done = _set_active(place, email, is_active=True)
    return told(done, f"{done['email']} is active, and can sign in.")


@command(user, "allow-apps")
@_EMAIL
async def allow_apps(on: Session, email: str) -> Outcome:
    """Let a console user create apps who was invited only to look at some."""
    return told({"user_id": await on.users.allow_apps(email), "email": email}, f"{email} may create apps.")


def _set_active(place: Place, email: str, *, is_active: bool) -> dict[str, Any]:
    async def work(on: Session) -> dict[str, Any]:
        from pilotis.users.activation import Activation

        changed = await Activation(on.database).change_by_email(email, is_active=is_active)
        return {"user_id": changed.user_id, "email": changed.email, "is_active": changed.is_active}

    return place.run(work)


def _address(settings: Settings) -> str:
    """Return the URL of the server: what the settings say, else that of the server that runs, else what they imply."""
    if settings.base_url is None and (url := running_url(Path(settings.data_dir))):
        return url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - not listened on
    return settings.base_url or f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _check_email(email: str) -> None:
    import msgspec

    from pilotis.users.types import Email

    try:
        msgspec.convert(email, Email)
    except msgspec.ValidationError:
        raise click.BadParameter(f"{email} is not an e-mail address", param_hint="EMAIL") from None


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise click.BadParameter("there is no terminal to read the password from", param_hint="--password-stdin")
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer
