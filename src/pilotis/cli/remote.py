"""What commands say to a running server over HTTP: requests, with a secret key of the app or as a console user."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from pilotis.apps.keys import SECRET_PREFIX, app_of
from pilotis.serve.errors import CommandError

DEFAULT_URL = "http://127.0.0.1:8090"
_ATTEMPTS = 4
_SECONDS = 120
_BUSY = {408, 429, 500, 502, 503, 504}


class RejectedError(CommandError):
    """The server rejected a request; `status` is that of its answer, `code` and `details` are its error's."""

    def __init__(self, status: int, code: str | None, message: str, details: list[Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, details or []


class Remote:
    """A part of the API on a server: everything below one URL, with the same headers."""

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        self._base = base
        self._headers = headers

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send JSON and return the JSON of the answer; raises `CommandError`, or `RejectedError` of that kind."""
        headers = {**self._headers, "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        return json.loads(send(method, self._base + path, headers, data))

    def events(self, path: str, last: str | None = None) -> Iterator[tuple[str, str | None, Any]]:
        """Yield a stream's events, each with its type, its id and its data, until `end`.

        Connects again after an interruption, so that none is missed; raises the errors of `ask`.
        """
        failures = 0
        while True:
            headers = {**self._headers, **({} if last is None else {"Last-Event-ID": last})}
            request = urllib.request.Request(self._base + path, headers=headers)  # noqa: S310 - as `send` checks
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                    for kind, event_id, data in _events(answer):
                        failures, last = 0, event_id or last
                        yield kind, event_id, json.loads(data)
                        if kind == "end":
                            return
            except urllib.error.HTTPError as error:
                if error.code not in _BUSY or failures == _ATTEMPTS:
                    raise _rejected(error.code, error.read().decode("utf-8", "replace")) from None
            except (OSError, HTTPException) as error:
                if failures == _ATTEMPTS:
                    raise CommandError(f"{self._base} cannot be reached: {error}") from None
            failures += 1
            time.sleep(failures)


def on_app(
    connect: Callable[[str, str], Remote], *, app_of_credential: Callable[[], str] | None = None
) -> Callable[[Callable[..., Iterator[tuple[str, Any]]]], Callable[..., Any]]:
    """Return a decorator that adds the options that identify an app to a command, which receives a `Remote`.

    `connect` returns it for the server's address and the path of the app; `app_of_credential` returns the app's id
    where the option is not given. The command yields what is printed: a text, and the fields that `--json` prints
    instead, one JSON value a line.
    """
    # click 8.5 takes a default of None for a value that was given, even of a required option.
    app: dict[str, Any] = {"required": True, "help": "The app's id."}
    if app_of_credential is not None:
        app = {"default": app_of_credential, "help": "The app's id; the default is that of the secret key."}

    def decorate(function: Callable[..., Iterator[tuple[str, Any]]]) -> Callable[..., Any]:
        @click.option("--app", "app_id", envvar="PILOTIS_APP", metavar="ID", **app)
        @click.option("--url", envvar="PILOTIS_URL", default=DEFAULT_URL, help="The server's address.")
        @json_option
        @wraps(function)
        def invoke(app_id: str, url: str, as_json: bool, **given: Any) -> None:
            remote = connect(url.rstrip("/"), f"/v1/apps/{quote(app_id, safe='')}")
            for text, fields in function(remote, **given):
                if as_json or text:
                    click.echo(json.dumps(fields, ensure_ascii=False) if as_json else text)

        return invoke

    return decorate


def by_secret_key(url: str, path: str) -> Remote:
    """Connect to an app with its secret key."""
    return Remote(url + path, {"Authorization": f"Bearer {secret_key()}"})


def app_of_secret_key() -> str:
    """Return the id of the app that the secret key names."""
    app_id = app_of(secret_key(), SECRET_PREFIX)
    if app_id is None:
        raise click.UsageError("The secret key is incomplete, or is none.")
    return str(app_id)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def json_data(data: str) -> Any:
    """Return the value of an option `--data`: JSON, or @FILE; raises `CommandError`."""
    try:
        text = Path(data[1:]).read_text("utf-8") if data.startswith("@") else data
        return json.loads(text)
    except OSError as error:
        raise CommandError(f"{data[1:]} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CommandError(f"--data is not JSON: {error}") from None


@cache
def secret_key() -> str:
    """Return the app's secret key, from PILOTIS_SECRET_KEY or typed in at a terminal."""
    if key := os.environ.get("PILOTIS_SECRET_KEY"):
        return key
    if not sys.stdin.isatty():
        raise click.UsageError("Set PILOTIS_SECRET_KEY to a secret key of the app.")
    typed: str = click.prompt("Secret key", hide_input=True, err=True)
    return typed


def send(method: str, url: str, headers: Mapping[str, str], data: bytes | Path | None) -> bytes:
    """Send bytes or a file, retrying while the server is briefly busy or unreachable, and return the answer's body.

    Raises `RejectedError` for an error of the server, `CommandError` where it cannot be reached.
    """
    if not url.startswith(("http://", "https://")):
        raise CommandError(f"{url} is not an http or https URL.")
    if isinstance(data, Path):
        headers = {**headers, "Content-Length": str(data.stat().st_size)}
    for attempt in range(_ATTEMPTS):
        try:
            with contextlib.ExitStack() as opened:
                body: Any = opened.enter_context(data.open("rb")) if isinstance(data, Path) else data
                request = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310 - checked above
                answer = opened.enter_context(urllib.request.urlopen(request, timeout=_SECONDS))  # noqa: S310
                received: bytes = answer.read()
                return received
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            if error.code not in _BUSY or attempt == _ATTEMPTS - 1:
                raise _rejected(error.code, text) from None
        except (OSError, TimeoutError) as error:
            if attempt == _ATTEMPTS - 1:
                raise CommandError(f"{url.partition('?')[0]} cannot be reached: {error}") from None
        time.sleep(2**attempt / 2)
    raise AssertionError


def _rejected(status: int, text: str) -> RejectedError:
    try:
        body = json.loads(text)
        return RejectedError(status, body["code"], f"{body['code']}: {body['message']}", body.get("details"))
    except (ValueError, KeyError, TypeError):
        return RejectedError(status, None, f"The server answered {status}.")


def _events(answer: HTTPResponse) -> Iterator[tuple[str, str | None, bytes]]:
    """Yield the server-sent events of an answer (HTML standard, section 9.2.6), as far as it goes."""
    kind, event_id, data = "message", None, list[bytes]()
    for line in answer:
        name, _, value = line.rstrip(b"\n").partition(b": ")
        match name:
            case b"event":
                kind = value.decode()
            case b"id":
                event_id = value.decode()
            case b"data":
                data.append(value)
            case b"" if not value and data:
                yield kind, event_id, b"\n".join(data)
                kind, event_id, data = "message", None, []
