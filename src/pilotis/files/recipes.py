"""Recipes of variants: the parameters of a link in canonical form. Pure, with the standard library only.

The server and the process that decodes the image import this module; the process should start fast.
"""

from __future__ import annotations

import json
from typing import NamedTuple

LARGEST_SIDE = 4096
MAX_SOURCE_BYTES = 50_000_000
MAX_SOURCE_PIXELS = 50_000_000
MAX_RESULT_BYTES = 16_000_000

# Pillow's name of the only decoder for a type, and the default format of its variants.
SOURCES = {
    "image/jpeg": ("JPEG", "jpeg"),
    "image/png": ("PNG", "png"),
    "image/gif": ("GIF", "png"),
    "image/webp": ("WEBP", "webp"),
    "image/avif": ("AVIF", "avif"),
    "image/bmp": ("BMP", "png"),
}
# Qualities that look similar; PNG is lossless and has none.
QUALITIES = {"jpeg": 80, "webp": 80, "avif": 60, "png": 0}


class Recipe(NamedTuple):
    """How to create a variant: `width` and `height` in pixels, or None; `fit` is `cover`, `contain` or `fill`."""

    decoder: str
    width: int | None
    height: int | None
    fit: str
    format: str
    quality: int

    @property
    def name(self) -> str:
        """A text that is equal for recipes with the same result."""
        return f"{self.width or ''}x{self.height or ''} {self.fit} {self.format} {self.quality}"

    def to_json(self) -> str:
        """Return the recipe as JSON in ASCII."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe that `to_json` encoded."""
        return cls(*json.loads(text))


def recipe(
    essence: str, width: int | None, height: int | None, fit: str | None, format_: str | None, quality: int | None
) -> Recipe | None:
    """Return the recipe for a file of a type, or None if the type cannot be decoded.

    Parameters without effect are dropped, so that equal variants have one name: `fit` if a side is free, `quality` for
    PNG.
    """
    if essence not in SOURCES:
        return None
    decoder, kept = SOURCES[essence]
    written = format_ or kept
    return Recipe(
        decoder,
        width,
        height,
        (fit or "cover") if width and height else "contain",
        written,
        QUALITIES[written] and (quality or QUALITIES[written]),
    )
