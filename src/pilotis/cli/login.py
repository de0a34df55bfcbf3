"""`pilotis login` and `logout`: a console user's session with a server, for commands that no key is sufficient for.

The tokens are stored in `pilotis/credentials.json` below XDG_CONFIG_HOME or `~/.config`, which only its owner can read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pilotis.cli.remote import DEFAULT_URL, RejectedError, Remote, json_option, send
from pilotis.serve.errors import CommandError

_url = click.option("--url", envvar="PILOTIS_URL", default=DEFAULT_URL, help="The server's address.")


class SignedIn(Remote):
    """A part of the API on a server, as a console user. A token that has expired is renewed."""

    def __init__(self, url: str, path: str) -> None:
        super().__init__(url + path, {})
        self._url = url
        with _credentials() as stored:
            self._sign(_session(stored, url))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """See `Remote.ask`."""
        try:
            return super().ask(method, path, body, **headers)
        except RejectedError as error:
            self._renew(error)
        return super().ask(method, path, body, **headers)

    def events(self, path: str, last: str | None = None) -> Iterator[tuple[str, str | None, Any]]:
        """See `Remote.events`."""
        while True:
            try:
                for event in super().events(path, last):
                    last = event[1] or last
                    yield event
            except RejectedError as error:
                self._renew(error)
            else:
                return

    def _sign(self, session: dict[str, str]) -> None:
        self._headers = {"Authorization": f"Bearer {session['access_token']}"}

    def _renew(self, rejected: RejectedError) -> None:
        """Renew the token; raises `rejected` if that was not the reason."""
        if rejected.status != 401:
            raise rejected
        # The lock keeps two commands from using one refresh token, which would end the session.
        with _credentials() as stored:
            session = _session(stored, self._url)
            if f"Bearer {session['access_token']}" == self._headers["Authorization"]:
                headers = {"Authorization": f"Bearer {session['refresh_token']}"}
                try:
                    pair = json.loads(send("POST", f"{self._url}/v1/auth/re-issue", headers, b""))
                except RejectedError:
                    raise CommandError(f"The session has ended; run `pilotis login --url {self._url}`.") from None
                session |= {name: pair[name] for name in ("access_token", "refresh_token")}
            self._sign(session)


def sign_in(base: str, email: str, password: str) -> None:
    """Sign in to the server at an address, and store the session; raises `CommandError`."""
    user = Remote(base, {}).ask("POST", "/v1/auth/signin", {"email": email, "password": password})
    with _credentials() as stored:
        stored[base] = {name: user[name] for name in ("email", "access_token", "refresh_token")}


@click.command()
@click.option("--email", required=True, help="The console user's e-mail address.")
@_url
@json_option
def login(email: str, url: str, as_json: bool) -> None:
    """Sign in to a server as a console user; the password is asked for, or read from the standard input."""
    base = url.rstrip("/")
    password = (
        click.prompt("Password", hide_input=True, err=True)
        if sys.stdin.isatty()
        else sys.stdin.read().removesuffix("\n")
    )
    sign_in(base, email, password)
    click.echo(json.dumps({"url": base, "email": email}) if as_json else f"Signed in to {base} as {email}.")


@click.command()
@_url
@json_option
def logout(url: str, as_json: bool) -> None:
    """End the session with a server."""
    base = url.rstrip("/")
    with _credentials() as stored:
        session = stored.pop(base, None)
    if session is None:
        raise CommandError(f"Not signed in to {base}.")
    with contextlib.suppress(RejectedError):
        send("POST", f"{base}/v1/auth/logout", {"Authorization": f"Bearer {session['refresh_token']}"}, b"")
    click.echo(json.dumps({"url": base}) if as_json else f"Signed out of {base}.")


def _session(stored: dict[str, Any], url: str) -> dict[str, str]:
    session: dict[str, str] | None = stored.get(url)
    if session is None:
        raise CommandError(f"Not signed in to {url}; run `pilotis login --url {url}`.")
    return session


@contextlib.contextmanager
def _credentials() -> Iterator[dict[str, Any]]:
    """Yield the sessions by server, no other command having them, and store what has changed."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pilotis"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "credentials.json"
    with (folder / "credentials.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            before = file.read_text("utf-8")
            stored = json.loads(before)
        except FileNotFoundError:
            before, stored = "", {}
        except ValueError:
            raise CommandError(f"{file} is not valid JSON; delete it and sign in again.") from None
        yield stored
        after = json.dumps(stored, indent=2)
        if after != before:
            # Created with mode 0600; readers see the old file or the new one.
            number, name = tempfile.mkstemp(dir=folder)
            with os.fdopen(number, "w", encoding="utf-8") as written:
                written.write(after)
            Path(name).replace(file)
