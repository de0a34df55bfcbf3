"""Search queries: words, phrases, exclusions. Pure: parses a query and renders it as tsquery."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pilotis.kit.errors import invalid

MAX_TERMS = 32

# Scripts without spaces between words, and Hangul, whose compounds have none: as in pilotis.search_words.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"
)
_TERM = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_SEPARATORS = re.compile(r"[\x00-/:-@\[-`{-\x7f\s]+")
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
_RUNS = re.compile(f"([{UNSPACED}]+)")
_ACCENTS = re.compile("[\u0300-\u036f]+")


class Term(NamedTuple):
    """Folded words that must be adjacent; with `prefix` the last one may be the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(self.words)


Spelled = Callable[[Term], str]
"""Renders a term as tsquery: as spelled, or with variants for typing errors."""


class SearchText(NamedTuple):
    """The terms that must occur, and those that must not."""

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...]
    is_exact: bool = False
    """Whether a part is in quotes, which excludes similar words."""


def folded(text: str) -> str:
    """Return text as it is compared: NFKC, without accents, in lower case; like `pilotis.folded` in SQL."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", bare).lower()


def parse(query: str, longest: int) -> SearchText:
    """Read a query: words, "phrases", and either with `-` before it to exclude it.

    The last word also matches words that begin with it. `terms` is empty if there is no word to find. Raises a 400
    error for a query that is too long.
    """
    if len(query) > longest:
        raise invalid("query", f"query has at most {longest} characters.", "QUERY_TOO_LONG")
    found = [(match, _words(match["phrase"] or match["word"] or "")) for match in _TERM.finditer(query)]
    found = [(match, words) for match, words in found if words]
    if len(found) > MAX_TERMS:
        raise invalid("query", f"query has at most {MAX_TERMS} words and phrases.", "QUERY_TOO_LONG")
    terms = [Term(words) for match, words in found if not match["minus"]]
    if terms and not found[-1][0]["minus"] and found[-1][0]["word"]:
        terms[-1] = terms[-1]._replace(prefix=True)
    excluded = tuple(Term(words) for match, words in found if match["minus"])
    is_exact = any(match["phrase"] is not None and not match["minus"] for match, _ in found)
    return SearchText(tuple(terms), excluded, is_exact)


def parse_words(query: str, longest: int) -> SearchText:
    """Parse a query in which quotes and `-` have no meaning, such as the beginning of a value."""
    return parse(_SEPARATORS.sub(" ", query), longest)


def _words(text: str) -> tuple[str, ...]:
    parts = _SEPARATORS.split(folded(text))
    return tuple(part for part in parts if any(map(str.isalnum, part)))


def tsquery(term: Term) -> str:
    """Return a term in the syntax of `to_tsquery`.

    Unspaced text is rendered as pairs of adjacent characters, as in `pilotis.search_words`, which adds each run's outer
    characters on their own.
    """
    runs = [run for word in term.words for run in _RUNS.split(word) if run]
    lexemes = [lexeme for index, run in enumerate(runs) for lexeme in _lexemes(run, index > 0, index < len(runs) - 1)]
    if term.prefix and not _RUNS.match(runs[-1]):
        lexemes[-1] += ":*"
    return " <-> ".join(lexemes)


def _lexemes(run: str, follows: bool, goes_on: bool) -> Iterator[str]:
    if not _RUNS.match(run):
        yield f"'{run}'"
        return
    if len(run) == 1 and not follows and not goes_on:
        yield f"'{run}':*"
        return
    if follows:
        yield f"'{run[0]}'"
    yield from (f"'{run[index : index + 2]}'" for index in range(len(run) - 1))
    if goes_on:
        yield f"'{run[-1]}'"


def all_of(terms: Sequence[Term], spelled: Spelled = tsquery) -> str:
    """Return the tsquery for texts that contain every term."""
    return " & ".join(f"({spelled(term)})" for term in terms)


def any_of(terms: Sequence[Term], spelled: Spelled = tsquery) -> str:
    """Return the tsquery for ranking; a whole word counts twice as much as a prefix."""
    parts = [spelled(term) for term in terms]
    parts += [tsquery(term._replace(prefix=False)) for term in terms if term.prefix]
    return " | ".join(f"({part})" for part in parts)
