"""Where a search's words stand in a text, as HTML that is safe to show. Pure.

A highlight is the text around the first match, escaped, with each match inside `<mark>…</mark>`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from pilotis.rows.search.text import UNSPACED_CHARACTER, SearchText, Term, folded
from pilotis.rows.search.typos import edits

SHOWN = 240
"""Characters of a longer text that a highlight shows."""
_BEFORE = 60
_ALIKE = 0.4
_WORD = re.compile(r"[^\W_]+")

Span = tuple[int, int]
Highlight = Callable[[str | None], str | None]
"""From a text to its highlight, or None where nothing in it matches."""


def by_words(search: SearchText) -> Highlight:
    """Return what highlights a search's terms."""
    # The longest first, so that it wins over one it begins with.
    terms = sorted(search.terms, key=lambda term: len(term.text), reverse=True)
    words = re.compile("|".join(f"(?:{_pattern(term)})" for term in terms))
    return lambda text: _highlight(text, lambda plain: [match.span() for match in words.finditer(plain)])


def by_likeness(search: SearchText) -> Highlight:
    """Return what highlights the words that are like a search's."""
    words = [word for term in search.terms for word in term.words]
    meant = frozenset[str]().union(*map(edits, words))
    sought = [trigrams(word) for word in words]

    def find(plain: str) -> list[Span]:
        found = _WORD.finditer(plain)
        return [match.span() for match in found if match[0] in meant or _is_alike(trigrams(match[0]), sought)]

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
    """Return a word's trigrams as pg_trgm has them: with two blanks before it and one behind."""
    padded = f"  {word} "
    return frozenset(padded[index : index + 3] for index in range(len(padded) - 2))


def _is_alike(word: frozenset[str], sought: Sequence[frozenset[str]]) -> bool:
    return any(len(word & other) >= _ALIKE * len(other) for other in sought)


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Return the folded text and, for each of its characters, the place of the one it comes from."""
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
    pieces = _marked(text, [span for span in spans if span[0] >= start and span[1] <= end], start, end)
    return ("…" if start else "") + "".join(pieces) + ("…" if end < len(text) else "")


def _window(text: str, first: int) -> Span:
    if len(text) <= SHOWN:
        return 0, len(text)
    start = max(0, min(first - _BEFORE, len(text) - SHOWN))
    if start:
        # From the beginning of a word, where there is one before the match.
        blank = text.find(" ", start, first)
        start = blank + 1 if blank >= 0 else start
    return start, min(len(text), start + SHOWN)


def _marked(text: str, spans: Iterable[Span], start: int, end: int) -> Iterator[str]:
    done = start
    for first, last in spans:
        yield html.escape(text[done:first])
        yield f"<mark>{html.escape(text[first:last])}</mark>"
        done = last
    yield html.escape(text[done:end])
