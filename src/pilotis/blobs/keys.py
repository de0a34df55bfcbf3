"""The form of keys: valid in every object store and file system."""

from __future__ import annotations

import re

from pilotis.blobs.errors import InvalidKeyError

LONGEST_KEY = 512
_SEGMENT = r"[a-z0-9_-][a-z0-9._-]{0,199}"
_KEY = re.compile(rf"{_SEGMENT}(/{_SEGMENT})*")


def check_key(key: str) -> str:
    """Return the key; raises `InvalidKeyError`.

    Segments of 1 to 200 lower-case ASCII letters, digits, `-`, `_` and `.`, none starting with `.`, joined by `/`, at
    most 512 in all. Upper case is excluded because some file systems ignore case.
    """
    if len(key) > LONGEST_KEY or _KEY.fullmatch(key) is None:
        raise InvalidKeyError(f"{key[:80]!r} is not a valid key")
    return key


def check_prefix(prefix: str) -> str:
    """Return a folder without its trailing `/`, or `""`; raises `InvalidKeyError`."""
    return check_key(prefix.removesuffix("/")) if prefix else ""
