"""The options that every command takes, and the settings they lead to.

Values come as text: the settings check them all at once, with those from variables and the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pilotis import settings as settings_module
from pilotis.settings import Settings

DataDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Directory of the embedded database, files and keys. Default: pilotis-data."),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A PostgreSQL (15 or newer) in place of the embedded one."),
]
Config = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="TOML file with settings. Default: pilotis.toml, if it is there."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load(config: str | None, **flags: str | None) -> Settings:
    """Return the settings from flags, variables and the file; raises `SettingsError` with every problem."""
    return settings_module.load(flags, os.environ, Path(config) if config else None)
