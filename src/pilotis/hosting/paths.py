"""Paths of manifest files, of requests, and of pages' metadata. Pure."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

MAX_PATH_BYTES = 1024
MAX_SEGMENT_BYTES = 255
MAX_PAGE_PATH = 2048

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_SLASHES = re.compile(r"/{2,}")
_JUNK_NAMES = {".DS_Store", "Thumbs.db", "desktop.ini"}
_JUNK_FOLDERS = {"__MACOSX", ".git", ".svn", ".hg"}
# RFC 3986, section 3.3: the characters that a path may contain unencoded.
_SAFE = "/-._~!$&'()*+,;=:@"

HEADERS_FILE = "_headers"
REDIRECTS_FILE = "_redirects"
SPECIAL_FILES = frozenset({HEADERS_FILE, REDIRECTS_FILE})
"""Files in the root that control how the others are served, and are not served themselves."""


def check_file_path(text: str) -> str:
    """Return a file's path in its stored form: relative, `/` between segments, NFC.

    Raises `ValueError` with a sentence about the problem.
    """
    path = unicodedata.normalize("NFC", text)
    if not path or path.endswith("/"):
        raise ValueError("The path does not name a file.")
    if _CONTROL.search(path):
        raise ValueError("The path contains a control character.")
    if "\\" in path:
        raise ValueError("The path contains a backslash; segments are joined by /.")
    if path.startswith("/") or _DRIVE.match(path):
        raise ValueError("The path is absolute.")
    segments = path.split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise ValueError("The path has an empty segment, or one of dots.")
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError:
        raise ValueError("The path is not Unicode text.") from None
    if sum(sizes) + len(sizes) - 1 > MAX_PATH_BYTES or max(sizes) > MAX_SEGMENT_BYTES:
        raise ValueError(f"The path is longer than {MAX_PATH_BYTES} bytes, or a segment than {MAX_SEGMENT_BYTES}.")
    return path


def is_junk(path: str) -> bool:
    """Whether a file is one that operating systems and version control leave behind."""
    segments = path.split("/")
    return segments[-1] in _JUNK_NAMES or not _JUNK_FOLDERS.isdisjoint(segments[:-1])


def is_hidden(path: str) -> bool:
    """Whether a segment begins with a dot, other than `.well-known` (RFC 8615) at the root."""
    return any(
        segment.startswith(".") and not (at == 0 and segment == ".well-known")
        for at, segment in enumerate(path.split("/"))
    )


def request_path(raw: bytes) -> str | None:
    """Return the path of a request, percent-decoded once and in NFC, beginning with `/`.

    None for an invalid one: not UTF-8, with a control character, a backslash, an encoded `/`, or a segment of dots (RFC
    3986, section 5.2.4, leaves none of those after a client has resolved the reference).
    """
    if not raw.startswith(b"/") or b"%2f" in raw.lower():
        return None
    try:
        path = unicodedata.normalize("NFC", unquote_to_bytes(raw).decode() if b"%" in raw else raw.decode())
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(path) or "\\" in path or any(segment in {".", ".."} for segment in path.split("/")):
        return None
    return path


def to_url(path: str) -> str:
    """Return a path percent-encoded, as in a URL or a `Location`."""
    return quote(path, safe=_SAFE)


def page_path(text: str, *, clean_urls: bool) -> str:
    """Return the path under which a page's metadata is stored and looked up.

    It begins with `/`, has no query and fragment, is percent-decoded and in NFC, with repeated slashes merged; a
    trailing slash and `index.html` are removed, and with `clean_urls` also `.html`. Raises `ValueError`.
    """
    bare = text.partition("#")[0].partition("?")[0]
    path = request_path(b"/" + bare.encode(errors="surrogatepass").lstrip(b"/"))
    if path is None:
        raise ValueError("The path is not valid percent-encoded UTF-8, or has segments of dots.")
    return page_key(path, clean_urls=clean_urls)


def page_key(path: str, *, clean_urls: bool) -> str:
    """Return the key of a page's metadata for a path of `request_path`; raises `ValueError` past its length."""
    path = _SLASHES.sub("/", path)
    if path.endswith("/index.html"):
        path = path.removesuffix("index.html")
    elif clean_urls and path.endswith(".html"):
        path = path.removesuffix(".html")
        path = path.removesuffix("index") if path.endswith("/index") else path
    path = path.rstrip("/") or "/"
    if len(path) > MAX_PAGE_PATH:
        raise ValueError(f"The path is longer than {MAX_PAGE_PATH} characters.")
    return path
