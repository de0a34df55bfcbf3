"""The commonest passwords, which are guessed first. Only what is left of their hashes is in the package. Pure.

`tools/common_passwords.py` writes the list.
"""

from __future__ import annotations

import functools
import hashlib
from importlib.resources import files

BYTES = 6


def is_common(password: str) -> bool:
    """Return whether a password is one of the commonest, whatever the case of its letters."""
    wanted = hashlib.sha256(password.lower().encode()).digest()[:BYTES]
    known = _known()
    low, high = 0, len(known) // BYTES
    while low < high:
        middle = (low + high) // 2
        if known[middle * BYTES : (middle + 1) * BYTES] < wanted:
            low = middle + 1
        else:
            high = middle
    return known[low * BYTES : (low + 1) * BYTES] == wanted


@functools.cache
def _known() -> bytes:
    return files("pilotis.kit").joinpath("common_passwords.bin").read_bytes()
