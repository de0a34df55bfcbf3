"""The backup key: a file with 64 hexadecimal digits and mode 0600, which the first backup creates."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pilotis.backup.encryption import KEY_BYTES, BackupKey
from pilotis.backup.errors import BackupRefusedError
from pilotis.kit.disk import sync_directory, sync_file
from pilotis.settings import Settings

FILE_NAME = "backup.key"


def path_of(settings: Settings) -> Path:
    """Return the file of the key."""
    return Path(settings.backup.key_file) if settings.backup.key_file else Path(settings.data_dir) / FILE_NAME


def load(settings: Settings) -> BackupKey:
    """Return the key; raises `BackupRefusedError` if there is none, or it cannot be used."""
    if settings.backup.key is not None:
        return _parsed(settings.backup.key, "the setting backup.key")
    path = path_of(settings)
    try:
        if path.stat().st_mode & 0o077:
            raise BackupRefusedError(f"{path} must be readable by its owner only; run chmod 600 on it.")
        return _parsed(path.read_text("ascii", errors="replace"), str(path))
    except FileNotFoundError:
        raise BackupRefusedError(
            f"There is no backup key in {path}. Put the one there with which the backups were made; for the first"
            " backup, `pilotis backup create` makes one."
        ) from None
    except OSError as error:
        raise BackupRefusedError(f"The backup key {path} cannot be read: {error.strerror}.") from error


def load_or_create(settings: Settings) -> tuple[BackupKey, bool]:
    """Return the key, and whether it is a new one."""
    path = path_of(settings)
    if settings.backup.key is not None or path.exists():
        return load(settings), False
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_bytes(KEY_BYTES).hex() + "\n")
            file.flush()
            sync_file(file.fileno())
        os.link(new, path)
        sync_directory(path.parent)
    except FileExistsError:
        return load(settings), False
    except OSError as error:
        raise BackupRefusedError(f"The backup key {path} cannot be written: {error.strerror}.") from error
    finally:
        new.unlink(missing_ok=True)
    return load(settings), True


def _parsed(text: str, place: str) -> BackupKey:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BackupRefusedError(f"{place}: a backup key has {2 * KEY_BYTES} hexadecimal digits.")
    return BackupKey(key)
