"""What a picture is to be made into: the parameters of a link, in one canonical form. Pure, the standard library alone.

Both sides import this: the server, and the process that decodes the picture, which should start fast.
"""

from __future__ import annotations

import json
from typing import NamedTuple

LARGEST_SIDE = 4096
MOST_SOURCE_BYTES = 50_000_000
MOST_SOURCE_PIXELS = 50_000_000
MOST_RESULT_BYTES = 16_000_000

# How Pillow calls the one decoder that a type's files are given to, and the format that their variants keep.
SOURCES = {
    "image/jpeg": ("JPEG", "jpeg"),
    "image/png": ("PNG", "png"),
    "image/gif": ("GIF", "png"),
    "image/webp": ("WEBP", "webp"),
    "image/avif": ("AVIF", "avif"),
    "image/bmp": ("BMP", "png"),
}
# Qualities that look about alike; PNG loses nothing, and has none.
QUALITIES = {"jpeg": 80, "webp": 80, "avif": 60, "png": 0}


class Recipe(NamedTuple):
    """How to make a variant: `width` and `height` in pixels, or None; `fit` is `cover`, `contain` or `fill`."""

    decoder: str
    width: int | None
    height: int | None
    fit: str
    format: str
    quality: int

    @property
    def name(self) -> str:
        """A text that is equal for equal results of one source."""
        return f"{self.width or ''}x{self.height or ''} {self.fit} {self.format} {self.quality}"

    def to_json(self) -> str:
        """Return the recipe as JSON in ASCII."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return what `to_json` was given."""
        return cls(*json.loads(text))


def recipe(
    essence: str, width: int | None, height: int | None, fit: str | None, format_: str | None, quality: int | None
) -> Recipe | None:
    """Return the recipe for a file of a type, or None if the type is no picture's that can be decoded.

    What has no effect is left out, so that equal variants have one name: `fit` where one side is free, `quality` of
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
