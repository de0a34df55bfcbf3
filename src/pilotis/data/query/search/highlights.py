"""Highlights of a search's words in a text, as HTML that is safe to show. Pure.

A highlight is the text around the first match, escaped, with each match inside `<mark>…</mark>`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence

from pilotis.data.query.search.text import UNSPACED_CHARACTER, SearchText, Term, folded
from pilotis.data.query.search.typos import edits

SHOWN = 240
"""The characters of a long text that a highlight shows."""
_BEFORE = 60
_ALIKE = 0.4
_WORD = re.compile(r"[^\W_]+")
_SPECIAL = re.compile("[&<>\"']")

Span = tuple[int, int]
Highlight = Callable[[str | None], str | None]
"""Returns the highlight of a text, or None if nothing in it matches."""


def by_words(search: SearchText) -> Highlight:
    """Return a highlighter for a search's terms."""
    # Longest first, so that it wins over its own prefixes.
    terms = sorted(search.terms, key=lambda term: len(term.text), reverse=True)
    words = re.compile("|".join(f"(?:{_pattern(term)})" for term in terms))
    return lambda text: _highlight(text, lambda plain: [match.span() for match in words.finditer(plain)])


def by_similarity(search: SearchText) -> Highlight:
    """Return a highlighter for words similar to a search's."""
    words = [word for term in search.terms for word in term.words]
    meant = frozenset[str]().union(*map(edits, words))
    sought = [trigrams(word) for word in words]

    def find(plain: str) -> list[Span]:
        found = _WORD.finditer(plain)
        return [match.span() for match in found if match[0] in meant or _is_similar(trigrams(match[0]), sought)]

    return lambda text: _highlight(text, find)


def _pattern(term: Term) -> str:
    before = "" if UNSPACED_CHARACTER.match(term.words[0]) else r"(?<![^\W_])"
    after = "" if term.prefix or UNSPACED_CHARACTER.match(term.words[-1][-1]) else r"(?![^\W_])"
    return before + r"[\W_]+".join(map(re.escape, term.words)) + after


def _highlight(text: str | None, find: Callable[[str], list[Span]]) -> str | None:
    if not text:
        return None
    text = unicodedata.normalize("NFC", text)
    plain, origins = _folded(text)
    return _shown(text, [_original(span, origins) for span in find(plain)])


def trigrams(word: str) -> frozenset[str]:
    """Return a word's trigrams as pg_trgm computes them: with two spaces before it and one after."""
    padded = f"  {word} "
    return frozenset(padded[index : index + 3] for index in range(len(padded) - 2))


def _is_similar(word: frozenset[str], sought: Sequence[frozenset[str]]) -> bool:
    return any(len(word & other) >= _ALIKE * len(other) for other in sought)


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Return the folded text and, for each of its characters, the position of the original character."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts = [folded(character) for character in text]
    return "".join(parts), [index for index, part in enumerate(parts) for _ in part]


def _original(span: Span, origins: Sequence[int]) -> Span:
    return origins[span[0]], origins[span[1] - 1] + 1


def _shown(text: str, spans: Sequence[Span]) -> str | None:
    if not spans:
        return None
    start, end = _window(text, spans[0][0])
    # Most texts have nothing to escape, and html.escape scans each five times.
    escaped = html.escape if _SPECIAL.search(text, start, end) else str
    pieces, done = ["…" if start else ""], start
    for first, last in spans:
        if first >= start and last <= end:
            pieces += (escaped(text[done:first]), "<mark>", escaped(text[first:last]), "</mark>")
            done = last
    pieces += (escaped(text[done:end]), "…" if end < len(text) else "")
    return "".join(pieces)


def _window(text: str, first: int) -> Span:
    if len(text) <= SHOWN:
        return 0, len(text)
    start = max(0, min(first - _BEFORE, len(text) - SHOWN))
    if start:
        # Starts at the beginning of a word, if there is one before the match.
        blank = text.find(" ", start, first)
        start = blank + 1 if blank >= 0 else start
    return start, min(len(text), start + SHOWN)
