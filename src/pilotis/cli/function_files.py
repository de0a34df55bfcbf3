"""The directory of a function: its settings in `function.toml`, and the files that are deployed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pilotis.serve.errors import CommandError

FILE_NAME = "function.toml"
_SKIPPED = {FILE_NAME, "node_modules", "__pycache__"}
_ONLY_LOCAL = (".d.ts", ".pyi", ".test.ts", ".test.js")
"""Endings of files for the editor and for tests, which are not deployed."""


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the settings in a directory's `function.toml`: name, runtime and what else a function has.

    Raises `CommandError` if there are none, or one is missing.
    """
    try:
        settings = tomllib.loads((directory / FILE_NAME).read_text("utf-8"))
    except FileNotFoundError:
        raise CommandError(f"{directory} has no {FILE_NAME}; `pilotis functions init` makes a directory.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{directory / FILE_NAME}: not valid TOML: {error}.") from None
    if missing := {"name", "runtime"} - settings.keys():
        raise CommandError(f"{directory / FILE_NAME}: {', '.join(sorted(missing))} must be set.")
    return settings


def read_files(directory: Path) -> dict[str, str]:
    """Return the texts that are deployed, by path; raises `CommandError` for other files, and if there are none."""
    files = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        skipped = any(part in _SKIPPED or part.startswith(".") for part in relative.parts)
        is_local = path.name.endswith(_ONLY_LOCAL) or (path.suffix == ".py" and path.name.startswith("test_"))
        if path.is_file() and not skipped and not is_local:
            try:
                files[relative.as_posix()] = path.read_text("utf-8")
            except UnicodeDecodeError:
                raise CommandError(f"{path} is not UTF-8 text.") from None
    if not files:
        raise CommandError(f"{directory} has no files to deploy.")
    return files
