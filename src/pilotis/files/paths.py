"""The rules for names and paths, and links to them. Pure.

A path is names joined by `/`, without one at either end. It identifies a row, never a file on disk; the rules keep it
readable, unambiguous and valid on every system that saves it.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import quote
from uuid import UUID

from pilotis.files.errors import InvalidPathError

NAME_BYTES = 255
PATH_BYTES = 1024
DEPTH = 32

# Controls, surrogates, line and paragraph separators.
_FORBIDDEN_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
# Change the direction of the text, so that a name ending in exe can be displayed as if it ended in png.
_DIRECTION_CHANGES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def checked_name(text: str) -> str:
    """Return the name in NFC (Unicode Standard Annex 15); raises `InvalidPathError`."""
    name = unicodedata.normalize("NFC", text)
    if not name or name in {".", ".."}:
        raise InvalidPathError("A name is empty, or is . or ..")
    if "/" in name or "\\" in name:
        raise InvalidPathError("A name must not contain / or a backslash.")
    if "\ufffd" in name:
        # Decoders' replacement character would make different invalid names equal.
        raise InvalidPathError("A name must be UTF-8.")
    if any(unicodedata.category(c) in _FORBIDDEN_CATEGORIES or c in _DIRECTION_CHANGES for c in name):
        raise InvalidPathError("A name must not contain control characters.")
    if len(name.encode()) > NAME_BYTES:
        raise InvalidPathError(f"A name has at most {NAME_BYTES} bytes of UTF-8.")
    return name


def checked_path(text: str) -> str:
    """Return the path with its names in NFC; raises `InvalidPathError`."""
    if len(text) > PATH_BYTES:
        raise InvalidPathError(f"A path has at most {PATH_BYTES} bytes of UTF-8.")
    names = [checked_name(part) for part in text.split("/")]
    path = "/".join(names)
    if len(names) > DEPTH:
        raise InvalidPathError(f"A path has at most {DEPTH} names.")
    if len(path.encode()) > PATH_BYTES:
        raise InvalidPathError(f"A path has at most {PATH_BYTES} bytes of UTF-8.")
    return path


def name_of(path: str) -> str:
    """Return the last name of a path."""
    return path.rpartition("/")[2]


def folders_of(path: str) -> list[str]:
    """Return the paths of a path's parent folders, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def file_link(storage_id: UUID, file_id: UUID, name: str) -> str:
    """Return the path of the link to a file by id."""
    return f"/files/{storage_id}/{file_id}/{quote(name, safe='')}"


def fixed_link(storage_id: UUID, path: str) -> str:
    """Return the path of the link to a file by path."""
    return f"/files/{storage_id}/p/{quote(path)}"
