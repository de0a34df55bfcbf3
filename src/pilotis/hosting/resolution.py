"""The path rules of a site, which map a request's path to a file or a redirect. Pure.

The order: 3xx rules of `_redirects`, files, 200 rules, preserved assets, then 404.html or index.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from pilotis.hosting import media
from pilotis.hosting.paths import SPECIAL_FILES, to_url
from pilotis.hosting.rules import NO_REDIRECTS, HeaderRule, Redirects, find_redirect, location

ROOT_PAGE = "index.html"
ERROR_PAGE = "404.html"


class PathRules(NamedTuple):
    """How a storage maps paths to files."""

    clean_urls: bool = True
    not_found_mode: Literal["auto", "spa", "404"] = "auto"


class Layout(NamedTuple):
    """The files of a release by path, and its rules."""

    files: Mapping[str, object]
    redirects: Redirects = NO_REDIRECTS
    headers: Sequence[HeaderRule] = ()
    has_error_page: bool = False


class Found(NamedTuple):
    """A file to send with a status: 200, or 404 for an error page."""

    path: str
    status: int = 200


class Moved(NamedTuple):
    """A redirect."""

    status: int
    location: bytes


class Missing(NamedTuple):
    """There is no file; an earlier release may have contained one."""

    path: str


Outcome = Found | Moved | Missing


def is_navigation(fetch_mode: bytes | None, accept: bytes | None, path: str) -> bool:
    """Whether a request is for a page, as opposed to a part of one.

    Browsers indicate it with `Sec-Fetch-Mode` (Fetch Metadata, W3C). Without it, a request that accepts HTML or
    anything is one, unless its last segment looks like an asset: crawlers for link previews send no `Accept`, or `*/*`.
    """
    if fetch_mode is not None:
        return fetch_mode == b"navigate"
    if media.looks_like_asset(path):
        return False
    return accept is None or b"text/html" in accept or b"*/*" in accept


def resolve(layout: Layout, rules: PathRules, path: str, query: bytes) -> Outcome:
    """Return the result for a path of `paths.request_path`, before any fallback to another page."""
    if rule := find_redirect(layout.redirects, path, rewrites=False):
        return Moved(rule.status, location(rule.target, query))
    if found := _file(layout.files, rules, path, query):
        return found
    if (rule := find_redirect(layout.redirects, path, rewrites=True)) and (
        found := _rewritten(layout.files, rules, rule.target)
    ):
        return found
    return Missing(path)


def fall_back(layout: Layout, rules: PathRules, path: str, *, is_page: Callable[[], bool]) -> Found | None:
    """Return the page to send if `resolve` found nothing and no earlier asset is preserved.

    `is_page` says whether the request is a navigation, or its path has its own metadata.
    """
    mode = rules.not_found_mode
    if mode == "auto":
        mode = "404" if layout.has_error_page else "spa"
    if mode == "spa" and ROOT_PAGE in layout.files and is_page():
        return Found(ROOT_PAGE)
    folder = path.lstrip("/").rpartition("/")[0]
    while True:
        candidate = f"{folder}/{ERROR_PAGE}" if folder else ERROR_PAGE
        if candidate in layout.files:
            return Found(candidate, 404)
        if not folder:
            return None
        folder = folder.rpartition("/")[0]


def _file(files: Mapping[str, object], rules: PathRules, path: str, query: bytes) -> Found | Moved | None:
    if "//" in path:
        # Repeated slashes must never reach a Location: `//x` there would name another host.
        return None
    name = path[1:]
    if name in SPECIAL_FILES:
        return None
    if not name or name.endswith("/"):
        return _folder(files, rules, name, query)
    if name in files:
        return (_clean(files, name, query) if rules.clean_urls else None) or Found(name)
    if rules.clean_urls and f"{name}.html" in files:
        return Found(f"{name}.html")
    if f"{name}/{ROOT_PAGE}" in files:
        return _moved(f"/{name}/", query)
    return None


def _folder(files: Mapping[str, object], rules: PathRules, name: str, query: bytes) -> Found | Moved | None:
    if f"{name}{ROOT_PAGE}" in files:
        return Found(f"{name}{ROOT_PAGE}")
    if rules.clean_urls and name and f"{name[:-1]}.html" in files:
        return _moved(f"/{name[:-1]}", query)
    return None


def _clean(files: Mapping[str, object], name: str, query: bytes) -> Moved | None:
    """Return the redirect from a page's file to its clean path, if that path leads back to the file."""
    if name == ROOT_PAGE or name.endswith(f"/{ROOT_PAGE}"):
        return _moved(f"/{name.removesuffix(ROOT_PAGE)}", query)
    if name.endswith(".html") and (bare := name.removesuffix(".html")):
        # `/x` would be the file x, and `/x/` the folder's own page.
        if bare in files or bare.endswith("/"):
            return None
        return _moved(f"/{bare}", query)
    return None


def _moved(path: str, query: bytes) -> Moved:
    target = to_url(path).encode()
    return Moved(308, target + (b"?" + query if query else b""))


def _rewritten(files: Mapping[str, object], rules: PathRules, target: str) -> Found | None:
    name = target.partition("?")[0].partition("#")[0].lstrip("/")
    if name in SPECIAL_FILES:
        return None
    folder = name if not name or name.endswith("/") else f"{name}/"
    for candidate in (name, f"{name}.html" if rules.clean_urls and name else name, f"{folder}{ROOT_PAGE}"):
        if candidate in files:
            return Found(candidate)
    return None
