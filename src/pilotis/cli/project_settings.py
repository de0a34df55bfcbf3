"""`.pilotis.toml`: what the commands know of a project. It is under version control, and contains no secret."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pilotis.serve.errors import CommandError

FILE_NAME = ".pilotis.toml"
_NAMES = {"url", "public_key", "storage", "directory", "types", "dev", "test"}


class ProjectSettings(NamedTuple):
    """The settings.

    `url`, `public_key`, `storage` and `directory`: where and from where `pilotis deploy` deploys the site. `types`: the
    file with the types of the tables, whose ending tells the language. `site`: the command of the site's own
    development server, `tests`: that of the tests.
    """

    url: str | None = None
    public_key: str | None = None
    storage: str | None = None
    directory: str | None = None
    types: str | None = None
    site: Sequence[str] = ()
    tests: Sequence[str] = ()


def read(folder: Path) -> ProjectSettings:
    """Return the settings of the project in a folder; raises `CommandError` for a file that is not valid."""
    file = folder / FILE_NAME
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return ProjectSettings()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} is not valid TOML: {error}") from None
    if "secret_key" in values:
        raise CommandError(f"{file} must not hold a secret key: set PILOTIS_SECRET_KEY instead.")
    if unknown := values.keys() - _NAMES:
        raise CommandError(f"{file}: {min(unknown)} is not one of {', '.join(sorted(_NAMES))}.")
    site, tests = (_command(file, name, values.pop(name, {})) for name in ("dev", "test"))
    return ProjectSettings(**{name: str(value) for name, value in values.items()}, site=site, tests=tests)


def _command(file: Path, name: str, section: Any) -> Sequence[str]:
    if section == {}:
        return ()
    if not isinstance(section, dict) or section.keys() != {"command"} or not isinstance(section["command"], str):
        raise CommandError(f"{file}: [{name}] has a command, such as `npm run {name}`.")
    try:
        return shlex.split(section["command"])
    except ValueError as error:
        raise CommandError(f"{file}: [{name}] command: {error}.") from None
