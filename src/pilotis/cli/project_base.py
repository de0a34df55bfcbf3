"""What a project's files and an app were at the last pull or push, in `.pilotis/base.json`: tells who has changed what.

It belongs to one copy of the project, and is not under version control.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = ".pilotis"
Definitions = dict[str, dict[str, Any]]
"""Canonical definitions by title or name."""


def read(folder: Path, app_id: str) -> dict[str, Definitions]:
    """Return the definitions by kind, such as `tables`; none of them, if they are of another app."""
    try:
        stored = json.loads((folder / FOLDER / "base.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    # That of another app says nothing about this one.
    return {kind: found for kind, found in stored.items() if kind != "app"} if stored.get("app") == app_id else {}


def keep(folder: Path, app_id: str, kinds: Mapping[str, Definitions]) -> None:
    """Store the definitions by kind; other kinds stay as they were."""
    stored = {**read(folder, app_id), **kinds}
    place = private_folder(folder)
    (place / "base.json").write_text(json.dumps({"app": app_id, **stored}, ensure_ascii=False), "utf-8")


def update(folder: Path, app_id: str, kind: str, changed: Definitions) -> None:
    """Store some definitions of a kind; the others stay as they were."""
    keep(folder, app_id, {kind: {**read(folder, app_id).get(kind, {}), **changed}})


def private_folder(folder: Path) -> Path:
    """Return the folder of a project that is not shared; creates it, so that version control leaves it out."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    (place / ".gitignore").write_text("*\n", "utf-8")
    return place
