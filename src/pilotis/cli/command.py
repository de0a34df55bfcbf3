"""The decorator that makes a function a command, and the options that every command takes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from pilotis import settings as settings_module
from pilotis.cli import output
from pilotis.settings import Settings

if TYPE_CHECKING:
    from pilotis.cli.session import Session

Result = TypeVar("Result")

_SHARED = [
    ("--data-dir", "DIR", "Directory of the embedded database, files and keys. Default: pilotis-data."),
    ("--database-url", "URL", "URL of a PostgreSQL (15 or newer) to use instead of the embedded one."),
    ("--config", "FILE", "TOML file with settings. Default: pilotis.toml, if it exists."),
]


class Place:
    """What a command works with: the settings, and the database that they name."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Run `work` against the database and return its result; see `session.run`."""
        from pilotis.cli import session

        return session.run(self.settings, work)


class Outcome(NamedTuple):
    """What a command prints: `fields` as JSON, or `text` and then sentences (`said`); and its exit status."""

    fields: Any
    text: Mapping[str, Any] | Sequence[str]
    status: int = 0
    said: Sequence[str] = ()


def command(
    group: click.Group | None = None, name: str | None = None, *, flags: Sequence[str] = (), none: str = ""
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command with the options of every command, in addition to those declared with click.

    A coroutine function runs against the database, and its first argument is the `Session`. That of another one, which
    asks for something first or needs no database, is a `Place`. The result is printed: a mapping as a record, a list as
    a table (`none` if it is empty), a string unchanged, an `Outcome` as its text; `--json` prints JSON instead. `flags`
    names declared options that are settings, which are not passed to the function.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        is_coroutine = inspect.iscoroutinefunction(function)

        @wraps(function)
        def invoke(
            data_dir: str | None, database_url: str | None, config: str | None, json: bool, **given: Any
        ) -> None:
            chosen = {flag: given.pop(flag) for flag in flags}
            settings = load(config, data_dir=data_dir, database_url=database_url, **chosen)
            place = Place(settings)
            result = place.run(lambda on: function(on, **given)) if is_coroutine else function(place, **given)
            status = _print(result, json, none)
            if status:
                raise click.exceptions.Exit(status)

        made = click.command(name or function.__name__.rstrip("_"))(invoke)
        made.params += [click.Option([option], metavar=metavar, help=help_) for option, metavar, help_ in _SHARED]
        made.params.append(click.Option(["--json"], is_flag=True, help="Print JSON."))
        if group:
            group.add_command(made)
        return made

    return decorate


def told(fields: Any, *sentences: str) -> Outcome:
    """Return an outcome that is printed as sentences, or as JSON with `fields`."""
    return Outcome(fields, sentences)


def app_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names the app a command is about."""
    return click.option("--app", type=click.UUID, metavar="ID", required=True, help="The app's id.")


def load(config: str | None, **flags: str | None) -> Settings:
    """Return the settings from flags, variables and the file; raises `SettingsError` with every problem.

    Values are strings: the settings validate all of them at once.
    """
    return settings_module.load(flags, os.environ, Path(config) if config else None)


def _print(result: Any, as_json: bool, none: str) -> int:
    """Print a command's result, and return its exit status."""
    if isinstance(result, Outcome):
        if as_json:
            output.json(result.fields)
        else:
            if isinstance(result.text, Mapping):
                output.record(result.text)
            else:
                output.lines(result.text)
            output.lines(result.said)
        return result.status
    if result is None:
        return 0
    if as_json:
        output.json(result)
    elif isinstance(result, Mapping):
        output.record(result)
    else:
        output.records(result, none)
    return 0
