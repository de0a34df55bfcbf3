"""The master key: from the settings, or a file of mode 0600 in the data directory; never in the database."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pilotis.kit.crypto import MASTER_KEY_BYTES
from pilotis.kit.disk import sync_directory
from pilotis.settings import Settings, SettingsError

FILE_NAME = "master.key"


def load(settings: Settings) -> bytes:
    """Return the 32 bytes, making the file on first use; raises `SettingsError` where it is unusable."""
    return existing(settings) or _make(_path(settings)) or load(settings)


def existing(settings: Settings) -> bytes | None:
    """Return the 32 bytes, or None where there is no key yet; raises `SettingsError` where it is unusable."""
    if settings.master_key is not None:
        return _parsed(settings.master_key, "master_key")
    path = _path(settings)
    try:
        if path.stat().st_mode & 0o077:
            raise SettingsError([f"{path} must be readable by its owner only: chmod 600 it."])
        return _parsed(path.read_text("ascii", errors="replace"), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}."]) from error


def place(settings: Settings) -> str:
    """Return where the key is looked for, for messages."""
    return "the setting master_key" if settings.master_key is not None else str(_path(settings))


def _path(settings: Settings) -> Path:
    return Path(settings.data_dir) / FILE_NAME


def _make(path: Path) -> bytes | None:
    """Make the file, whole or not at all; None if another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(MASTER_KEY_BYTES)
    new = path.with_name(f"{FILE_NAME}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(new, path)
        sync_directory(path.parent)
    except FileExistsError:
        return None
    finally:
        new.unlink(missing_ok=True)
    return key


def _parsed(text: str, place: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise SettingsError([f"{place}: the master key must be {2 * MASTER_KEY_BYTES} hexadecimal digits."])
    return key
