"""The first rows of a project: `seed/*.jsonl`, each for the table of its name, with the data of a row in each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pilotis.cli.project_part import AppOnServer
from pilotis.cli.remote import RejectedError
from pilotis.serve.errors import CommandError

_ROWS = 500
"""How many rows a request has."""


def fill(remote: AppOnServer, folder: Path) -> Iterator[str]:
    """Create the rows in tables that are empty, in the order of the files' names, and yield what was done.

    Raises `CommandError`, with file and line, for what is wrong in a file.
    """
    headers = {"X-App-Id": remote.app_id}
    for file in sorted((folder / "seed").glob("*.jsonl")):
        path = f"/v1/public/tables/{quote(file.stem)}/data"
        try:
            if remote.ask("GET", f"{path}?limit=1", **headers)["total_count"]:
                continue
        except RejectedError as error:
            raise CommandError(f"{file}: {error}") from None
        rows = list(_rows(file))
        for at in range(0, len(rows), _ROWS):
            part = rows[at : at + _ROWS]
            try:
                made = remote.ask("POST", f"{path}/bulk", {"data": [data for _, data in part]}, **headers)
            except RejectedError as error:
                raise CommandError(f"{file}: {error}") from None
            if failed := made.get("failed"):
                line = part[failed[0]["index"]][0]
                raise CommandError(f"{file}:{line}: {failed[0]['code']}: {failed[0]['message']}")
        yield f"Filled {file.stem} with {len(rows)} rows."


def _rows(file: Path) -> Iterator[tuple[int, Any]]:
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise CommandError(f"{file}:{number}: not valid JSON: {error}.") from None
