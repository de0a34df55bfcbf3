"""Capabilities of a request: texts that whoever has a shared link sends, which rules compare with a column.

They stand for a right by themselves, so they never get into a log, a metric or a cache, and a function that acts for a
caller does not have the caller's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TypeAlias

from pilotis.kit.errors import BadRequestError

HEADER = b"x-capability"
NAME = re.compile(r"[a-z_]{1,32}")
SHORTEST = 16
_MAX = 4
_TEXT = re.compile(rf"[\x21-\x2b\x2d-\x7e]{{{SHORTEST},200}}")

Capabilities: TypeAlias = Mapping[str, tuple[str, ...]]
"""The texts of each name."""


class InvalidCapabilityError(BadRequestError):
    """400 `INVALID_CAPABILITY`: a capability is not a name, `=`, and a text of 16 to 200 visible ASCII characters."""

    code = "INVALID_CAPABILITY"
    message = (
        "A capability is name=text: a name of a-z and _, a text of 16 to 200 visible ASCII characters without a comma. "
        f"A request has at most {_MAX}, with commas between them."
    )


def parse(text: str) -> Capabilities:
    """Return the capabilities of a header or a parameter; one that is named twice has both texts.

    Raises `InvalidCapabilityError`.
    """
    found: dict[str, tuple[str, ...]] = {}
    parts = text.split(",")
    if len(parts) > _MAX:
        raise InvalidCapabilityError
    for part in parts:
        name, equals, value = part.strip(" ").partition("=")
        if not equals or NAME.fullmatch(name) is None or _TEXT.fullmatch(value) is None:
            raise InvalidCapabilityError
        found[name] = (*found.get(name, ()), value)
    return found


def digest(capabilities: Capabilities) -> str:
    """Return what tells equal capabilities from others, without what they are; empty for none."""
    if not capabilities:
        return ""
    text = ",".join(f"{name}={value}" for name in sorted(capabilities) for value in sorted(capabilities[name]))
    return hashlib.sha256(text.encode()).hexdigest()
