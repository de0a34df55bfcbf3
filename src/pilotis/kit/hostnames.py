"""Host names."""

from __future__ import annotations

import re

_HOSTNAME = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def hostname_of(text: str) -> str:
    """Return a domain in its canonical form: lower case, ASCII (RFC 5891), without a trailing dot.

    Raises `ValueError` with a sentence.
    """
    name = text.strip().lower().removesuffix(".")
    try:
        name = name.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("This is not a host name.") from None
    if not _HOSTNAME.fullmatch(name):
        raise ValueError("This is not a host name with at least two labels.")
    return name
