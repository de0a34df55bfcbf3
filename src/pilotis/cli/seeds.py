"""The first rows of a project: `seed/*.jsonl`, each for the table of its name, with the data of a row in each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pilotis.cli.project_part import AppOnServer
from pilotis.cli.project_tables import Tables
from pilotis.cli.remote import RejectedError
from pilotis.kit.definition_plan import in_order_of_dropping
from pilotis.serve.errors import CommandError

_ROWS = 500
"""How many rows a request has."""


def fill(remote: AppOnServer, folder: Path) -> Iterator[str]:
    """Create the rows in tables that are empty, those to which others refer first, and yield what was done.

    Raises `CommandError`, with file and line, for what is wrong in a file.
    """
    headers = {"X-App-Id": remote.app_id}
    for file in _in_order(remote, folder):
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


def _in_order(remote: AppOnServer, folder: Path) -> list[Path]:
    files = {file.stem: file for file in sorted((folder / "seed").glob("*.jsonl"))}
    server = Tables(remote, folder).server() if files else {}
    known = [title for title in files if title in server]
    return [files.pop(title) for title in reversed(in_order_of_dropping(known, server))] + list(files.values())


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
