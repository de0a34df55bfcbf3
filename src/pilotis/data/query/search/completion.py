"""Completions as SQL. Pure.

Values are compared by key: those that differ only in case or accents are one suggestion.
"""

from __future__ import annotations

from pilotis.data.tables.schema import TableSchema
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.fields import Field
from pilotis.data.where.index_expressions import key_of, trigrams_of
from pilotis.data.where.operands import Arguments

MAX_READ = 1000
"""The rows that one statement reads at most to find distinct values."""


class Completion:
    """The statements that complete values of one field; each yields `key` and `value`. `and_visible` is a condition."""

    def __init__(self, table: TableSchema, field: Field, and_visible: str, arguments: Arguments) -> None:
        self._table = table.physical
        self._field = field.sql
        self._words = field.words
        self._use = field.use
        self._and_visible = and_visible
        self._arguments = arguments
        self._key = key_of(field.sql)

    def with_prefix(self, prefix: str, limit: int) -> str:
        """Select values that begin with a folded prefix, in order, and `read`, the number of rows read."""
        self._arguments.access.add(AccessKind.COMPLETION, self._use)
        return f"""
            select key, min(value) as value, sum(count(*)) over () as read from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {self._in_range(prefix)}{self._and_visible} order by {self._key} limit {MAX_READ}
            ) first group by key order by key limit {self._arguments.bind(limit, "bigint")}
        """

    def with_prefix_by_key(self, prefix: str, limit: int) -> str:
        """Select like `with_prefix`, with one index lookup per value: for values that many rows share."""
        self._arguments.access.add(AccessKind.COMPLETION, self._use)
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
        """Select values that match a tsquery, shortest first."""
        self._arguments.access.add(AccessKind.TEXT, self._use)
        bound = f"to_tsquery('pg_catalog.simple', {self._arguments.bind(query, 'text')})"
        return f"""
            select key, min(value) as value from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {self._words} @@ {bound}{self._and_visible} limit {MAX_READ}
            ) matched where key is not null
            group by key order by length(key), key limit {self._arguments.bind(limit, "bigint")}
        """

    def similar(self, query: str, limit: int, trigram: str) -> str:
        """Select values with words similar to the query's, most similar first; `trigram` is the schema of pg_trgm."""
        self._arguments.access.add(AccessKind.TRIGRAM, self._use)
        sought = self._arguments.bind(query, "text")
        text = trigrams_of(self._field)
        return f"""
            select key, min(value) as value from (
                select {self._key} as key, {self._field} as value from {self._table}
                where {text} operator({trigram}.%>) {sought}{self._and_visible} limit {MAX_READ}
            ) matched where key is not null
            group by key order by max({trigram}.word_similarity({sought}, value)) desc, length(key), key
            limit {self._arguments.bind(limit, "bigint")}
        """

    def _in_range(self, prefix: str) -> str:
        low = f"{self._key} >= {self._arguments.bind(prefix, 'text')}"
        end = following(prefix)
        return low if end is None else f"{low} and {self._key} < {self._arguments.bind(end, 'text')}"


def following(prefix: str) -> str | None:
    """Return the least text, by code points, that is greater than all texts with the prefix, or None."""
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index]) + 1
        if point <= 0x10FFFF:
            # Surrogates are not characters.
            return prefix[:index] + chr(0xE000 if point == 0xD800 else point)
    return None
