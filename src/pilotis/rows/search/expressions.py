"""The expressions that text indexes are on. A search has them word for word, or its index would not serve it.

`text` is the `sql` of what `pilotis.rows.fields.text_field` returns, each time.
"""

from __future__ import annotations


def words_of(text: str) -> str:
    """Return the tsvector of a text; its index is `using gin (<this>)`."""
    return f"pilotis.search_words({text})"


def key_of(text: str) -> str:
    """Return what values are completed by; its index is a B-tree, `(<this>)`."""
    return f'(pilotis.suggestion_key({text}) collate "C")'


def trigrams_of(text: str) -> str:
    """Return what typing errors and parts of a text are found by.

    Its index is `using gin (<this> <schema of pg_trgm>.gin_trgm_ops)`. Under the collation "C" a pattern's
    classes and (?i) would know ASCII only.
    """
    return f'({text} collate "default")'
