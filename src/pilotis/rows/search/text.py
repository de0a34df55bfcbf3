"""What is searched for: words, phrases, exclusions. Pure: from a query's text to tsquery and back to its words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pilotis.kit.errors import invalid

MOST_TERMS = 32

# Scripts that set no spaces between words, and Hangul, whose compounds set none: as in pilotis.search_words.
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
    """Words that must stand next to one another, folded; the last one may go on where `prefix` is true."""

    words: tuple[str, ...]
    prefix: bool = False

    @property
    def text(self) -> str:
        """The words, with spaces between."""
        return " ".join(self.words)


Spelled = Callable[[Term], str]
"""What makes a tsquery of a term: as it is spelled, or as it may have been meant."""


class SearchText(NamedTuple):
    """What must be found, and what must not."""

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...]
    is_exact: bool = False
    """Whether some of it stands in quotes, which no word like it will do for."""


def folded(text: str) -> str:
    """Return text as it is compared: NFKC, without accents, in lower case; as `pilotis.folded` does in SQL."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", bare).lower()


def parse(query: str, longest: int) -> SearchText:
    """Read a query: words, "phrases", and either with `-` before it to exclude it.

    The last word also stands for all that begin with it. Raises a 400 error for a query without anything to find.
    """
    if len(query) > longest:
        raise invalid("query", f"query has at most {longest} characters.", "QUERY_TOO_LONG")
    found = [(match, _words(match["phrase"] or match["word"] or "")) for match in _TERM.finditer(query)]
    found = [(match, words) for match, words in found if words]
    if len(found) > MOST_TERMS:
        raise invalid("query", f"query has at most {MOST_TERMS} words and phrases.", "QUERY_TOO_LONG")
    terms = [Term(words) for match, words in found if not match["minus"]]
    if not terms:
        raise invalid("query", "query has no word to find.")
    if not found[-1][0]["minus"] and found[-1][0]["word"]:
        terms[-1] = terms[-1]._replace(prefix=True)
    excluded = tuple(Term(words) for match, words in found if match["minus"])
    is_exact = any(match["phrase"] is not None and not match["minus"] for match, _ in found)
    return SearchText(tuple(terms), excluded, is_exact)


def parse_words(query: str, longest: int) -> SearchText:
    """Read a query in which quotes and `-` mean nothing, such as the beginning of a value."""
    return parse(_SEPARATORS.sub(" ", query), longest)


def _words(text: str) -> tuple[str, ...]:
    parts = _SEPARATORS.split(folded(text))
    return tuple(part for part in parts if any(map(str.isalnum, part)))


def tsquery(term: Term) -> str:
    """Return a term as `to_tsquery` reads it.

    Pairs of neighbours stand for unspaced text, as in `pilotis.search_words`, which has each run's outer characters
    alone before and after them.
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
    """Return the tsquery of texts that hold every term."""
    return " & ".join(f"({spelled(term)})" for term in terms)


def any_of(terms: Sequence[Term], spelled: Spelled = tsquery) -> str:
    """Return the tsquery to rank by; a word that is found whole counts twice against one that only begins so."""
    parts = [spelled(term) for term in terms]
    parts += [tsquery(term._replace(prefix=False)) for term in terms if term.prefix]
    return " | ".join(f"({part})" for part in parts)
