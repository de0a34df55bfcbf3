"""The master key: from the settings, or a file with mode 0600 in the data directory; never in the database.

During a rotation there is also a previous key, in the settings or in a second file. The files change in an
order that leaves both keys readable after a crash at any moment: the old key is first copied, then replaced.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import structlog

from pilotis.kit.crypto import MASTER_KEY_BYTES, MasterKeyring, MasterKeys
from pilotis.kit.disk import sync_directory, sync_file
from pilotis.settings import Settings, SettingsError

FILE_NAME = "master.key"
PREVIOUS_FILE_NAME = "master.key.previous"
_log = structlog.get_logger("pilotis.master_key")


def keyring(settings: Settings) -> MasterKeyring:
    """Return the current keys, creating the file on first use. Keys in files can be reloaded without a restart."""
    load(settings)
    keys = existing_keys(settings)
    assert keys is not None
    return MasterKeyring(keys, lambda: _look(settings))


def existing_keys(settings: Settings) -> MasterKeys | None:
    """Return the master key with the previous one, or None if there is no master key yet."""
    current = existing(settings)
    if current is None:
        return None
    previous: bytes | None
    if settings.previous_master_key is not None:
        previous = _parsed(settings.previous_master_key, "previous_master_key")
    else:
        previous = _read(_path(settings, PREVIOUS_FILE_NAME)) if settings.master_key is None else None
    return MasterKeys(current, None if previous == current else previous)


def replace_file(settings: Settings, keys: MasterKeys) -> MasterKeys:
    """Write a new key to the file, and the old one, `keys.current`, to the second file."""
    new = MasterKeys(secrets.token_bytes(MASTER_KEY_BYTES), keys.current)
    _write(_path(settings, PREVIOUS_FILE_NAME), keys.current)
    _write(_path(settings), new.current)
    return new


def forget_previous_file(settings: Settings) -> None:
    """Delete the second file if it exists."""
    path = _path(settings, PREVIOUS_FILE_NAME)
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def _look(settings: Settings) -> MasterKeys | None:
    try:
        return existing_keys(settings)
    except SettingsError as error:
        _log.warning("master key unreadable", problems=error.problems)
        return None


def load(settings: Settings) -> bytes:
    """Return the 32 bytes, creating the file on first use; raises `SettingsError` if it is unusable."""
    return existing(settings) or _make(_path(settings)) or load(settings)


def existing(settings: Settings) -> bytes | None:
    """Return the 32 bytes, or None if there is no key yet; raises `SettingsError` if it is unusable."""
    if settings.master_key is not None:
        return _parsed(settings.master_key, "master_key")
    return _read(_path(settings))


def _read(path: Path) -> bytes | None:
    try:
        if path.stat().st_mode & 0o077:
            raise SettingsError([f"{path} must be readable by its owner only; run chmod 600 on it."])
        return _parsed(path.read_text("ascii", errors="replace"), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}."]) from error


def place(settings: Settings) -> str:
    """Return where the key comes from, for messages."""
    return "the setting master_key" if settings.master_key is not None else str(_path(settings))


def _path(settings: Settings, name: str = FILE_NAME) -> Path:
    return Path(settings.data_dir) / name


def _write(path: Path, key: bytes) -> None:
    """Replace the file atomically."""
    new = _new_file(path, key)
    new.replace(path)
    sync_directory(path.parent)


def _new_file(path: Path, key: bytes) -> Path:
    """Write the key to a file beside `path`, and return that file."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(key.hex() + "\n")
        file.flush()
        sync_file(file.fileno())
    return new


def _make(path: Path) -> bytes | None:
    """Create the file atomically; None if another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(MASTER_KEY_BYTES)
    new = _new_file(path, key)
    try:
        os.link(new, path)
        sync_directory(path.parent)
    except FileExistsError:
        return None
    finally:
        new.unlink(missing_ok=True)
    return key


def parse(text: str, place: str = "master_key") -> bytes:
    """Return the 32 bytes of a key as it is written; raises `SettingsError` with its place."""
    return _parsed(text, place)


def _parsed(text: str, place: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != MASTER_KEY_BYTES:
        raise SettingsError([f"{place}: the master key must be {2 * MASTER_KEY_BYTES} hexadecimal digits."])
    return key
