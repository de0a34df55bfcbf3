"""The master key: from the settings, or a file of mode 0600 in the data directory; never in the database."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pilotis.kit.crypto import MASTER_KEY_BYTES
from pilotis.settings import Settings, SettingsError

FILE_NAME = "master.key"


def load(settings: Settings) -> bytes:
    """Return the 32 bytes, making the file on first use; raises `SettingsError` where it is unusable."""
    if settings.master_key is not None:
        return _parsed(settings.master_key, "master_key")
    path = Path(settings.data_dir) / FILE_NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise SettingsError([f"{path} must be readable by its owner only: chmod 600 it."]) from None
        return _parsed(path.read_text("ascii", errors="replace"), str(path))
    with os.fdopen(descriptor, "w") as file:
        key = secrets.token_bytes(MASTER_KEY_BYTES)
        file.write(key.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return key


def _parsed(text: str, place: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise SettingsError([f"{place}: the master key must be {2 * MASTER_KEY_BYTES} hexadecimal digits."])
    return key
