"""The languages in which mails are written, and which of them a request asks for. Pure."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "ko", "ja", "zh", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = ("en", "ko", "ja", "zh", "de", "fr", "es")

_RANGE = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]*)?\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?\s*", re.ASCII)
_MAX_RANGES = 20


def preferred(accepted: str | None) -> Language | None:
    """Return the language that an `Accept-Language` header (RFC 9110, section 12.5.4) asks for most."""
    ranked: list[tuple[float, Language]] = []
    for part in (accepted or "").split(",")[:_MAX_RANGES]:
        found = _RANGE.fullmatch(part)
        language = next((one for one in LANGUAGES if found and one == found[1].lower()), None)
        if found and language:
            ranked.append((float(found[2] or 1), language))
    best = max(ranked, key=lambda one: one[0], default=None)
    return best[1] if best and best[0] > 0 else None
