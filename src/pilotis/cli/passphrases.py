"""Passphrases of commands: from a file or standard input, never an argument, which every process can see."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_LEAST, _MOST = 8, 1024


def passphrase_option(use: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names the file of a passphrase."""
    help_ = f"File with a passphrase of {_LEAST} or more characters in its first line; - is standard input. {use}"
    return click.option("--passphrase-file", metavar="FILE", help=help_)


def read_passphrase(name: str | None) -> str | None:
    """Return the passphrase in a file, None if there is no file; raises `click.BadParameter`."""
    if name is None:
        return None
    try:
        text = sys.stdin.readline() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise click.BadParameter(f"{name} cannot be read", param_hint="--passphrase-file") from None
    passphrase = text.partition("\n")[0].rstrip("\r")
    if not _LEAST <= len(passphrase) <= _MOST:
        raise click.BadParameter(f"a passphrase has {_LEAST} to {_MOST} characters", param_hint="--passphrase-file")
    return passphrase
