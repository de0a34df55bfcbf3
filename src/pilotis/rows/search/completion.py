"""Completions as SQL. Pure.

Values are told apart by their key: those that differ in case or accents only are one suggestion.
"""

from __future__ import annotations

from pilotis.rows.fields import Field
from pilotis.rows.indexes.uses import UseKind
from pilotis.rows.operands import Arguments
from pilotis.rows.search.expressions import key_of, trigrams_of, words_of
from pilotis.tables.schema import TableSchema

MOST_READ = 1000
"""Rows that one statement reads at most to find distinct values among them."""


class Completion:
    """The statements that complete values of one field; each yields `key` and `value`. `and_visible` is a condition."""

    def __init__(self, table: TableSchema, field: Field, and_visible: str, arguments: Arguments) -> None:
        self._table = table.physical
        self._field = field.sql
        self._use = field.use
        self._and_visible = and_visible
        self._arguments = arguments
        self._key = key_of(field.sql)

    def beginning(self, prefix: str, limit: int) -> str:
        """Select values that begin with a folded prefix, in their order, with `read`, how many rows were read."""
        self._arguments.notes.add(UseKind.COMPLETION, self._use)
        return f"""
            select key, min(value) as value, sum(count(*)) over () as read from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {self._in_range(prefix)}{self._and_visible} order by {self._key} limit {MOST_READ}
            ) first group by key order by key limit {self._arguments.bind(limit, "bigint")}
        """

    def beginning_one_by_one(self, prefix: str, limit: int) -> str:
        """Select as `beginning` does, with one look into the index for each value: for values that many rows have."""
        self._arguments.notes.add(UseKind.COMPLETION, self._use)
        condition = f"{self._in_range(prefix)}{self._and_visible}"
        return f"""
            with recursive walk as (
                (select {self._key} as key, {self._field} as value from {self._table}
                where {condition} order by {self._key} limit 1)
                union all
                select following.key, following.value from walk, lateral (
                    select {self._key} as key, {self._field} as value from {self._table}
                    where {self._key} > walk.key and {condition} order by {self._key} limit 1
                ) following
            ) select key, value from walk limit {self._arguments.bind(limit, "bigint")}
        """

    def with_words(self, query: str, limit: int) -> str:
        """Select values with words that a tsquery finds, short ones first."""
        self._arguments.notes.add(UseKind.TEXT, self._use)
        bound = f"to_tsquery('pg_catalog.simple', {self._arguments.bind(query, 'text')})"
        return f"""
            select key, min(value) as value from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {words_of(self._field)} @@ {bound}{self._and_visible} limit {MOST_READ}
            ) matched where key is not null
            group by key order by length(key), key limit {self._arguments.bind(limit, "bigint")}
        """

    def alike(self, query: str, limit: int, trigram: str) -> str:
        """Select values with words like the query's, the most alike first; `trigram` is the schema of pg_trgm."""
        self._arguments.notes.add(UseKind.TRIGRAM, self._use)
        sought = self._arguments.bind(query, "text")
        text = trigrams_of(self._field)
        return f"""
            select key, min(value) as value from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {text} operator({trigram}.%>) {sought}{self._and_visible} limit {MOST_READ}
            ) matched where key is not null
            group by key order by max({trigram}.word_similarity({sought}, value)) desc, length(key), key
            limit {self._arguments.bind(limit, "bigint")}
        """

    def _in_range(self, prefix: str) -> str:
        low = f"{self._key} >= {self._arguments.bind(prefix, 'text')}"
        end = following(prefix)
        return low if end is None else f"{low} and {self._key} < {self._arguments.bind(end, 'text')}"


def following(prefix: str) -> str | None:
    """Return the least text, by code points, that is greater than all that begin with the prefix, or None."""
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index]) + 1
        if point <= 0x10FFFF:
            # Surrogates are no characters.
            return prefix[:index] + chr(0xE000 if point == 0xD800 else point)
    return None
