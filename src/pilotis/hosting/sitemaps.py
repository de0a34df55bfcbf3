"""robots.txt and sitemap.xml for a site without its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple

from pilotis.hosting.paths import page_key, to_url
from pilotis.hosting.resolution import ERROR_PAGE

MAX_URLS = 50_000
"""Maximum number of URLs that sitemaps.org allows in one file."""
PREVIEW_ROBOTS = b"User-agent: *\nDisallow: /\n"


class SitemapPage(NamedTuple):
    """The sitemap entry from the metadata of a page; `changed` is a date as in RFC 3339."""

    changed: str
    is_included: bool | None = None
    priority: float | None = None
    is_noindex: bool = False


def robots(origin: str) -> bytes:
    """Return the robots.txt of production."""
    return f"User-agent: *\nAllow: /\n\nSitemap: {origin}/sitemap.xml\n".encode()


def page_urls(paths: Iterable[str], *, clean_urls: bool) -> list[str]:
    """Return the paths of a release's HTML files, except error pages."""
    found = []
    for path in paths:
        name = path.rpartition("/")[2]
        if not name.endswith(".html") or name == ERROR_PAGE:
            continue
        if name == "index.html":
            found.append(f"/{path.removesuffix('index.html')}")
        else:
            found.append(f"/{path.removesuffix('.html') if clean_urls else path}")
    return sorted(found)


def sitemap(
    origin: str, paths: Iterable[str], metas: Mapping[str, SitemapPage], deployed: str, *, clean_urls: bool
) -> bytes:
    """Return the sitemap (sitemaps.org, 0.9) of HTML files and of pages that have metadata."""
    urls = {page_key(path, clean_urls=clean_urls): path for path in page_urls(paths, clean_urls=clean_urls)}
    for key, meta in metas.items():
        if meta.is_included is False or (meta.is_noindex and not meta.is_included):
            urls.pop(key, None)
        else:
            urls.setdefault(key, key)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">']
    for key in sorted(urls)[:MAX_URLS]:
        known = metas.get(key)
        parts = f"<loc>{escape(origin + to_url(urls[key]))}</loc>"
        parts += f"<lastmod>{max(known.changed, deployed) if known else deployed}</lastmod>"
        if known and known.priority is not None:
            parts += f"<priority>{known.priority:.1f}</priority>"
        lines.append(f"<url>{parts}</url>")
    return "\n".join([*lines, "</urlset>\n"]).encode()
