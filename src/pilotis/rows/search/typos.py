"""Words as they may have been meant. Pure.

Trigrams find longer words with an error or two, but swapped letters, the most common error of all, leave too few in
common. So every word one edit away is sought as well; an index on words finds hundreds of them in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from pilotis.rows.search.text import UNSPACED_CHARACTER, Term, tsquery

_SHORTEST, _LONGEST = 4, 20
_MOST_WORDS = 6
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψως")


def edits(word: str) -> frozenset[str]:
    """Return a word and those that one edit makes of it: a letter swapped with the next, left out, put in or replaced.

    Too short a word, an unspaced script, or one whose letters are not known here, yields the word alone.
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


def forgiving(term: Term) -> str:
    """Return the tsquery of a term with each of its first words as it may have been meant."""
    last = len(term.words) - 1
    parts = [_forgiving(word, term.prefix and index == last) for index, word in enumerate(term.words[:_MOST_WORDS])]
    return " <-> ".join(parts)


def forgiving_whole(term: Term) -> str:
    """Return what `forgiving` does, for the whole of the last word: its beginning and an error would fit too much."""
    return forgiving(term._replace(prefix=False))


def _forgiving(word: str, prefix: bool) -> str:
    return "(" + " | ".join(tsquery(Term((edit,), prefix)) for edit in sorted(edits(word))) + ")"
