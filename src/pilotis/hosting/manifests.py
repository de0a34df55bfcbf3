"""Manifests: paths with the hash, size and type of each file, and the changes between two of them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilotis.hosting import media
from pilotis.hosting.errors import InvalidSitePathError, NoFilesError, UnknownPathError
from pilotis.hosting.paths import check_file_path
from pilotis.hosting.types import Changes, FileEntry, ManifestFile, Upsert
from pilotis.kit.errors import Detail, invalid

Files = Mapping[str, FileEntry]


class Delta(NamedTuple):
    """The changes from one manifest to the next; no path is in both lists."""

    upserts: dict[str, FileEntry]
    deletes: frozenset[str]


def manifest_hash(files: Files) -> bytes:
    """Return the SHA-256 of a manifest, independent of its order."""
    digest = hashlib.sha256()
    for path in sorted(files):
        entry = files[path]
        digest.update(b"%b\0%b\0%b\n" % (path.encode(), entry.sha256, entry.content_type.encode()))
    return digest.digest()


def changes(base: Files, files: Files) -> Changes:
    """Return how many files differ."""
    changed = sum(1 for path, entry in files.items() if path in base and base[path][::2] != entry[::2])
    added = sum(1 for path in files if path not in base)
    return Changes(added, changed, len(base) + added - len(files))


def new_bytes(base: Files, files: Files) -> int:
    """Return how many bytes the contents have that the base does not, each counted once."""
    known = {entry.sha256 for entry in base.values()}
    return sum({entry.sha256: entry.size for entry in files.values() if entry.sha256 not in known}.values())


def delta_of(upserts: Sequence[Upsert], deletes: Sequence[str]) -> Delta:
    """Return the changes that a request describes; each of its upserts has a hash and a size.

    Raises `InvalidSitePathError` for an invalid path, or one that is named twice.
    """
    entries: dict[str, FileEntry] = {}
    for at, upsert in enumerate(upserts):
        path = _path(upsert.path, f"upserts[{at}].path")
        if path in entries:
            raise _twice(path)
        if upsert.hash is None or upsert.size is None:
            raise invalid(f"upserts[{at}].hash", f"{path} has neither hash and size nor a part with its bytes.")
        type_ = media.content_type(path) if upsert.content_type is None else upsert.content_type
        if not media.is_content_type(type_):
            raise invalid(f"upserts[{at}].content_type", f"{type_} is not a media type such as text/html.")
        entries[path] = FileEntry(bytes.fromhex(upsert.hash), upsert.size, type_)
    removed: set[str] = set()
    for at, text in enumerate(deletes):
        path = _path(text, f"deletes[{at}]")
        if path in entries or path in removed:
            raise _twice(path)
        removed.add(path)
    return Delta(entries, frozenset(removed))


def applied(base: Files, delta: Delta) -> dict[str, FileEntry]:
    """Return a base with the changes applied; raises `UnknownPathError`, `NoFilesError`."""
    if unknown := delta.deletes - base.keys():
        path = min(unknown)
        raise UnknownPathError(f"{path} does not exist in the base deployment, so it cannot be deleted.")
    files = {path: entry for path, entry in base.items() if path not in delta.deletes} | delta.upserts
    if not files:
        raise NoFilesError
    folders = {folder for path in files for folder in _folders(path)}
    if both := folders & files.keys():
        path = min(both)
        raise InvalidSitePathError(f"{path} is a file and a folder.", details=[_detail(path, "a file and a folder")])
    return files


def listed(files: Files) -> list[ManifestFile]:
    """Return a manifest in the form of the API."""
    return [
        ManifestFile(path=path, hash=entry.sha256.hex(), size=entry.size, content_type=entry.content_type)
        for path, entry in sorted(files.items())
    ]


def _folders(path: str) -> list[str]:
    return [path[:at] for at, c in enumerate(path) if c == "/"]


def _path(text: str, field: str) -> str:
    try:
        return check_file_path(text)
    except ValueError as error:
        raise InvalidSitePathError(f"{field}: {error}", details=[Detail(field, "INVALID_PATH", str(error))]) from None


def _twice(path: str) -> InvalidSitePathError:
    return InvalidSitePathError(f"{path} is named twice.", details=[_detail(path, "named twice")])


def _detail(path: str, what: str) -> Detail:
    return Detail(path, "INVALID_PATH", f"{path} is {what}.")
