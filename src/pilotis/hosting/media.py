"""What a file's name determines: its type, compression and caching. Pure."""

from __future__ import annotations

import mimetypes
import re

IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATED = "public, max-age=0, must-revalidate"

# By extension, before `mimetypes`, whose tables differ between systems.
_TYPES = {
    "html": "text/html; charset=utf-8",
    "htm": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "cjs": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "xml": "application/xml",
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "wasm": "application/wasm",
    "pdf": "application/pdf",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mp3": "audio/mpeg",
    "csv": "text/csv; charset=utf-8",
}
_OTHER = "application/octet-stream"
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}( *; *[A-Za-z0-9_-]+=[A-Za-z0-9_.:-]+)*")
_COMPRESSIBLE = re.compile(
    r"text/|application/(json|javascript|xml|wasm|manifest\+json|[a-z.-]+\+(xml|json))|image/(svg\+xml|x-icon|bmp)"
    r"|font/(ttf|otf)"
)
# In the first folders, build tools put only files with a hash in their path; in the others mostly so.
_HASHED_FOLDERS = ("_next/static/", "_app/immutable/")
_ASSET_FOLDERS = ("assets/", "_astro/", "_nuxt/")
_FINGERPRINT = re.compile(r"[.-]([A-Za-z0-9_-]{8,})\.[A-Za-z0-9]{2,5}(\.map)?$")
_ASSET = re.compile(r"\.(?!html?$)[A-Za-z0-9]{1,8}$")
MIN_COMPRESSED = 1024
"""Files below this size, in bytes, are not compressed: they fit into one packet."""


def content_type(path: str) -> str:
    """Return the type of a file from its name."""
    extension = path.rpartition(".")[2].lower()
    return _TYPES.get(extension) or mimetypes.guess_type(path, strict=False)[0] or _OTHER


def is_content_type(text: str) -> bool:
    """Whether a text is a media type (RFC 9110, section 8.3.1) without quoted parameters."""
    return _TYPE.fullmatch(text) is not None


def is_compressible(type_: str, size: int) -> bool:
    """Whether a file of a type and size in bytes may become smaller by compression."""
    return size >= MIN_COMPRESSED and _COMPRESSIBLE.match(type_) is not None


def is_html(type_: str) -> bool:
    """Whether a type is that of a page into which metadata can be inserted."""
    return type_.partition(";")[0].strip().lower() == "text/html"


def is_fingerprinted(path: str) -> bool:
    """Whether a file's name changes with its content: it contains a hash, or is in the folder of a known build tool.

    A hash has 8 characters or more, letters and digits; in a folder for assets also mixed-case letters alone,
    as one in four hashes of 8 characters in base64url has no digit.
    """
    if path.endswith((".html", ".htm")):
        return False
    if path.startswith(_HASHED_FOLDERS):
        return True
    found = _FINGERPRINT.search(path)
    if found is None:
        return False
    has_letter = any(c.isalpha() for c in found[1])
    has_digit = any(c.isdigit() for c in found[1])
    is_mixed = not found[1].islower() and not found[1].isupper()
    return has_letter and (has_digit or (is_mixed and path.startswith(_ASSET_FOLDERS)))


def cache_control(path: str) -> str:
    """Return the `Cache-Control` of a file for which the site has no rule."""
    return IMMUTABLE if is_fingerprinted(path) else REVALIDATED


def looks_like_asset(path: str) -> bool:
    """Whether the last segment of a request's path has an extension other than that of a page."""
    return _ASSET.search(path.rpartition("/")[2]) is not None


def check_content_type(text: str) -> None:
    """Raise ValueError for a text that is no content type."""
    if not is_content_type(text):
        raise ValueError("the type of a file is no media type")
