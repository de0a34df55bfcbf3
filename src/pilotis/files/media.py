"""Media types: which a storage takes, which a browser may show, and what is told to it about a file. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from urllib.parse import quote

from pilotis.kit.errors import invalid

_WORD = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_QUOTED = r'"[\x20\x21\x23-\x5b\x5d-\x7e]*"'
_TYPE = re.compile(rf"{_WORD}/{_WORD}([ ]*;[ ]*{_WORD}=({_WORD}|{_QUOTED}))*")
_PATTERN = re.compile(rf"{_WORD}/({_WORD}|\*)")
_LONGEST = 255

# Types that a browser shows without running anything in them. SVG and PDF can hold scripts; the sandbox of the
# Content-Security-Policy keeps those of SVG from running, and PDF viewers keep theirs to themselves.
_INLINE = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/x-icon",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "audio/aac",
        "audio/flac",
        "audio/mp4",
        "audio/mpeg",
        "audio/ogg",
        "audio/wav",
        "audio/webm",
        "video/mp4",
        "video/mpeg",
        "video/ogg",
        "video/quicktime",
        "video/webm",
        "application/pdf",
    }
)


def checked_type(text: str) -> str:
    """Return a media type (RFC 9110, section 8.3.1) as it was given; raises a `ValidationError`."""
    if len(text) > _LONGEST or _TYPE.fullmatch(text) is None:
        raise invalid("mime_type", "mime_type: a media type such as image/png is expected.")
    return text


def checked_patterns(patterns: Sequence[str]) -> list[str]:
    """Return types and patterns such as `image/*` in lower case, each once; raises a `ValidationError`."""
    if any(_PATTERN.fullmatch(pattern) is None for pattern in patterns):
        raise invalid("allowed_mime_types", "allowed_mime_types: types such as image/png or image/* are expected.")
    return list(dict.fromkeys(pattern.lower() for pattern in patterns))


def essence(mime_type: str) -> str:
    """Return the type without its parameters, in lower case."""
    return mime_type.partition(";")[0].strip().lower()


def patterns_of(mime_type: str) -> list[str]:
    """Return the patterns that allow a type: the type itself and `image/*` of `image/png`."""
    plain = essence(mime_type)
    return [plain, f"{plain.partition('/')[0]}/*"]


def is_allowed(mime_type: str, patterns: Sequence[str]) -> bool:
    """Tell whether a type is one of the patterns; no patterns allow any type."""
    return not patterns or not set(patterns).isdisjoint(patterns_of(mime_type))


@functools.lru_cache(maxsize=4096)
def disposition(mime_type: str, name: str) -> str:
    """Return the `Content-Disposition` of a file (RFC 6266), ASCII alone.

    A type with parameters is never shown: browsers differ in what they make of them.
    """
    kind = "inline" if mime_type.lower() in _INLINE else "attachment"
    plain = re.sub(r"[^\x20-\x7e]|[\"\\%]", "_", name)
    encoded = f"; filename*=UTF-8''{quote(name, safe='')}" if plain != name else ""
    return f'{kind}; filename="{plain}"{encoded}'
