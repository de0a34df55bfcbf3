"""Media types: which a storage accepts, which a browser may display, and the headers of files. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from pilotis.http.replies import reply
from pilotis.kit.errors import invalid

_WORD = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_QUOTED = r'"[\x20\x21\x23-\x5b\x5d-\x7e]*"'
_TYPE = re.compile(rf"{_WORD}/{_WORD}([ ]*;[ ]*{_WORD}=({_WORD}|{_QUOTED}))*")
_PATTERN = re.compile(rf"{_WORD}/({_WORD}|\*)")
_LONGEST = 255

# Types that a browser displays without executing anything in them. SVG and PDF can contain scripts; the sandbox of the
# Content-Security-Policy disables those of SVG, and PDF viewers isolate theirs.
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

_DATA = frozenset(
    {
        "application/gzip",
        "application/json",
        "application/octet-stream",
        "application/pdf",
        "application/x-7z-compressed",
        "application/x-tar",
        "application/zip",
        "text/csv",
        "text/plain",
    }
)


def checked_type(text: str) -> str:
    """Validate a media type (RFC 9110, section 8.3.1) and return it unchanged; raises a `ValidationError`."""
    if len(text) > _LONGEST or _TYPE.fullmatch(text) is None:
        raise invalid("mime_type", "mime_type: a media type such as image/png is expected.")
    return text


def checked_patterns(patterns: Sequence[str]) -> list[str]:
    """Return types and patterns such as `image/*` in lower case, without duplicates; raises a `ValidationError`."""
    if any(_PATTERN.fullmatch(pattern) is None for pattern in patterns):
        raise invalid("allowed_mime_types", "allowed_mime_types: types such as image/png or image/* are expected.")
    return list(dict.fromkeys(pattern.lower() for pattern in patterns))


def essence(mime_type: str) -> str:
    """Return the type without its parameters, in lower case."""
    return mime_type.partition(";")[0].strip().lower()


def patterns_of(mime_type: str) -> list[str]:
    """Return the patterns that allow a type: for `image/png` the type itself and `image/*`."""
    plain = essence(mime_type)
    return [plain, f"{plain.partition('/')[0]}/*"]


def is_allowed(mime_type: str, patterns: Sequence[str]) -> bool:
    """Return whether the patterns allow a type; an empty list allows any."""
    return not patterns or not set(patterns).isdisjoint(patterns_of(mime_type))


def runs_nothing(mime_type: str) -> bool:
    """Whether no browser runs anything in a file of the type, however it is embedded and whoever serves it.

    SVG, HTML, XML and scripts need the sandbox with which this server sends them, and so does what nobody knows.
    """
    kind = essence(mime_type)
    if kind.endswith("xml"):
        return False
    return kind.partition("/")[0] in {"image", "audio", "video", "font"} or kind in _DATA


@functools.lru_cache(maxsize=4096)
def disposition(mime_type: str, name: str) -> str:
    """Return the `Content-Disposition` of a file (RFC 6266), ASCII only.

    A type with parameters is never displayed: browsers interpret them differently.
    """
    return reply.disposition("inline" if mime_type.lower() in _INLINE else "attachment", name)
