"""The formats of errors: JSON for programs, the format that OAuth requires, or a page for people.

The style belongs to a path prefix, so it also applies to unknown paths below it. A class of endpoints declares it:
`class Consent(Endpoints, tag="OAuth", error_styles={"/oauth": "page", "/oauth/token": "oauth"})`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

ErrorStyle: TypeAlias = Literal["api", "oauth", "page", "site"]
"""`page` belongs to nobody, `site` to this server: it leads to the console and the documentation."""


class ErrorStyles:
    """The styles of all prefixes; the longest matching prefix applies, and `api` if none matches."""

    def __init__(self, declared: Iterable[Mapping[str, ErrorStyle]]) -> None:
        styles: dict[str, ErrorStyle] = {}
        for mapping in declared:
            for prefix, style in mapping.items():
                if styles.setdefault(prefix, style) != style:
                    raise ValueError(f"{prefix} has two error styles.")
        self._styles = sorted(styles.items(), key=lambda item: len(item[0]), reverse=True)

    def of(self, path: str) -> ErrorStyle:
        """Return the style of a path's errors; `/oauth` is a prefix of `/oauth/token`, not of `/oauth2`."""
        for prefix, style in self._styles:
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return style
        return "api"
