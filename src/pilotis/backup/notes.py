"""What a server notes in its data directory about its backups, so that it is known while the store is away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from pilotis.kit.disk import sync_directory, sync_file

Noted = TypeVar("Noted", bound=msgspec.Struct)


def write(path: Path, note: msgspec.Struct) -> None:
    """Write a note durably: after a power cut it is there as a whole, or as it was before."""
    new = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(note))
        file.flush()
        sync_file(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def read(path: Path, kind: type[Noted]) -> Noted | None:
    """Return a note; None if there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
