"""Page metadata in the head of an HTML page: its position, the tags that it replaces, and its encoding. Pure.

Anyone with the public key can set values, so each is escaped for its position: in an attribute or a title as HTML text,
in JSON-LD as JSON without `<`, `>` and `&`. No value is ever markup.
"""

from __future__ import annotations

import codecs
import html
import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urljoin

from pilotis.hosting.types import PageMeta

MAX_HEAD = 256 * 1024
"""Bytes of a page in which its head is searched for."""


class Cut(NamedTuple):
    """A tag of the page, from `start` to `end` in bytes, that metadata with the key replaces."""

    start: int
    end: int
    key: str


class HeadSlots(NamedTuple):
    """Where metadata is inserted, in bytes, and the tags that it may replace, in order."""

    insert: int
    cuts: Sequence[Cut]


def find_slots(page: bytes) -> HeadSlots:
    """Return the slots of a page. Without a head, metadata goes after the doctype, or at the start."""
    # latin-1 has one character per byte, so offsets in the text are those in the bytes.
    parser = _HeadParser(page[:MAX_HEAD].decode("latin-1"))
    first = len(codecs.BOM_UTF8) if page.startswith(codecs.BOM_UTF8) else 0
    return HeadSlots(max(first, parser.insert), parser.cuts)


def with_meta(page: bytes, slots: HeadSlots, meta: PageMeta, *, origin: str, path: str) -> bytes:
    """Return the page with metadata in its head, replacing its own tags for the same properties.

    `origin` is the production address of the site, `path` that of the page in its URL form.
    """
    tags = _tags(meta, origin, path)
    replaced = {key for key, _ in tags}
    parts, at = [], 0
    # ASCII has the same meaning in every encoding that a page may have.
    inserted = "".join(text for _, text in tags).encode("ascii", "xmlcharrefreplace")
    pieces = [(cut.start, cut.end, b"") for cut in slots.cuts if cut.key in replaced]
    pieces.append((slots.insert, slots.insert, inserted))
    for start, end, text in sorted(pieces, key=lambda piece: (piece[0], piece[1])):
        if start < at:
            # Inside a tag that was already cut.
            if text:
                parts.append(text)
            continue
        parts += [page[at:start], text]
        at = end
    return b"".join([*parts, page[at:]])


def _tags(meta: PageMeta, origin: str, path: str) -> list[tuple[str, str]]:
    """Return the tags of metadata, each with the key of what it replaces."""
    own_url = f"{origin}{path}"
    canonical = _absolute(meta.canonical_url, origin)
    image = _absolute(meta.image, origin)
    card = meta.twitter_card or ("summary_large_image" if image else "summary")
    tags: list[tuple[str, str]] = []
    if meta.title:
        tags.append(("title", f"<title>{_escape(meta.title)}</title>"))
    for name, value in (
        ("description", meta.description),
        ("keywords", meta.keywords),
        ("robots", meta.robots),
    ):
        tags += _named("name", name, value)
    if canonical:
        tags.append(("canonical", f'<link rel="canonical" href="{_escape(canonical)}">'))
    for name, value in (
        ("og:title", meta.title),
        ("og:description", meta.description),
        ("og:image", image),
        ("og:type", meta.og_type or "website"),
        ("og:url", canonical or own_url),
        ("og:site_name", meta.site_name),
        ("og:locale", meta.locale),
    ):
        tags += _named("property", name, value)
    for name, value in (
        ("twitter:card", card),
        ("twitter:title", meta.title),
        ("twitter:description", meta.description),
        ("twitter:image", image),
    ):
        tags += _named("name", name, value)
    if meta.json_ld is not None:
        tags.append(("json-ld", f'<script type="application/ld+json">{_script_json(meta.json_ld)}</script>'))
    return tags


def _named(attribute: str, name: str, value: str | None) -> list[tuple[str, str]]:
    return [(name, f'<meta {attribute}="{name}" content="{_escape(value)}">')] if value else []


def _escape(text: str) -> str:
    return html.escape(text, quote=True)


def _script_json(value: object) -> str:
    """Return JSON that cannot end a script or begin a comment (HTML standard, 4.12.1.3)."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _absolute(url: str | None, origin: str) -> str | None:
    return urljoin(f"{origin}/", url) if url else None


_KEYS = re.compile(r"description|keywords|robots|og:(?:title|description|image|type|url|site_name|locale)|twitter:\w+")


class _HeadParser(HTMLParser):
    """Reads a page to the end of its head."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.insert = 0
        self.cuts: list[Cut] = []
        self._text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._title: int | None = None
        self._ended = False
        for piece in _pieces(text):
            self.feed(piece)
            if self._ended:
                break

    def handle_decl(self, decl: str) -> None:
        if decl.lower().startswith("doctype") and not self.insert:
            self.insert = self._text.find(">", self._position()) + 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._ended:
            return
        start = self._position()
        end = start + len(self.get_starttag_text() or "")
        given = {name: value or "" for name, value in attrs}
        if tag in {"html", "head"}:
            self.insert = end
        elif tag == "body":
            self._ended = True
        elif tag == "title":
            self._title = start
        elif tag == "meta":
            self._meta(given, start, end)
        elif tag == "link" and "canonical" in given.get("rel", "").lower().split():
            self.cuts.append(Cut(start, end, "canonical"))

    def handle_endtag(self, tag: str) -> None:
        if self._ended:
            return
        if tag == "title" and self._title is not None:
            self.cuts.append(Cut(self._title, self._text.find(">", self._position()) + 1, "title"))
            self._title = None
        elif tag == "head":
            self._ended = True

    def _meta(self, given: dict[str, str], start: int, end: int) -> None:
        # Metadata comes after the encoding, which must be in the first 1024 bytes (HTML standard, 4.2.5.4).
        if "charset" in given or given.get("http-equiv", "").lower() == "content-type":
            self.insert = end
        key = (given.get("property") or given.get("name") or "").strip().lower()
        if _KEYS.fullmatch(key):
            self.cuts.append(Cut(start, end, key))

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _pieces(text: str) -> Sequence[str]:
    """Return the text in pieces of 4096 characters, so that little is parsed beyond the head."""
    return [text[at : at + 4096] for at in range(0, len(text), 4096)]
