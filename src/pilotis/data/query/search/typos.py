"""Tolerance of typing errors. Pure.

Trigrams find longer words with one or two errors, but swapped letters, the most common error, leave too few in common.
So every word at edit distance one is searched as well; an index on words finds hundreds of them in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilotis.data.query.search.text import UNSPACED_CHARACTER, Term, tsquery

_SHORTEST, _LONGEST = 4, 20
_MAX_WORDS = 6
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψως")


def edits(word: str) -> frozenset[str]:
    """Return a word and all words one edit away: a letter transposed, deleted, inserted or replaced.

    For a short word, an unspaced script or an unknown alphabet, it returns the word alone.
    """
    alphabet = next((letters for letters in _ALPHABETS if set(word) & set(letters)), "")
    if not _SHORTEST <= len(word) <= _LONGEST or not alphabet or UNSPACED_CHARACTER.search(word):
        return frozenset({word})
    return frozenset({word, *_edits(word, alphabet)})


def _edits(word: str, alphabet: str) -> Iterator[str]:
    for index in range(len(word) + 1):
        before, after = word[:index], word[index:]
        yield from (before + letter + after for letter in alphabet)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in alphabet)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def with_typos(term: Term) -> str:
    """Return the tsquery of a term with variants for each word but the last."""
    last = len(term.words) - 1
    parts = [_with_typos(word, term.prefix and index == last) for index, word in enumerate(term.words[:_MAX_WORDS])]
    return " <-> ".join(parts)


def with_typos_whole(term: Term) -> str:
    """Return like `with_typos`, with the last word as a whole word: a prefix with an error would match too much."""
    return with_typos(term._replace(prefix=False))


def _with_typos(word: str, prefix: bool) -> str:
    return "(" + " | ".join(tsquery(Term((edit,), prefix)) for edit in sorted(edits(word))) + ")"
