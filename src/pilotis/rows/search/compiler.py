"""Searches as SQL. Pure: fields and texts in, a statement and its arguments out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilotis.rows import found
from pilotis.rows.fields import Field
from pilotis.rows.indexes.uses import UseKind
from pilotis.rows.operands import Arguments
from pilotis.rows.search.expressions import trigrams_of, words_of
from pilotis.rows.search.text import SearchText, Spelled, Term, all_of, any_of, tsquery
from pilotis.rows.table import PreparedTable

MOST_RANKED = 1000
"""Matches that are ranked and can be paged through: the latest written ones. The total counts all."""
READ_FOR_HIGHLIGHTS = 20_000
"""Characters of each field that highlights are looked for in, at most."""
_LEAST_READ, _MOST_READ = 500, 1_000_000

_WEIGHTS = "ABCD"


class Window(NamedTuple):
    """Which of the rows found, best first."""

    limit: int
    offset: int


class Scope(NamedTuple):
    """Where to search: text fields by name, the most important first, and a condition on the rows."""

    table: PreparedTable
    fields: Mapping[str, Field]
    and_visible: str
    window: Window
    arguments: Arguments
    page_bytes: int

    @property
    def characters_shown(self) -> int:
        """How many characters of each field highlights are looked for in, so that all rows' take bounded time."""
        texts = max(1, self.window.limit * len(self.fields))
        return min(READ_FOR_HIGHLIGHTS, max(_LEAST_READ, _MOST_READ // texts))


def compile_search(scope: Scope, search: SearchText, spelled: Spelled = tsquery) -> str:
    """Compile a search by words.

    The statement is as `found.page` makes it, with `score` and `texts`, the beginnings of the fields.
    """
    _note(scope, UseKind.TEXT)
    vectors = _vectors(scope)
    weighted = " || ".join(
        f"setweight(coalesce({vector}, ''), '{_WEIGHTS[min(index, 3)]}')" for index, vector in enumerate(vectors)
    )
    # Short texts that are about little else come first: 1 divides by the length's logarithm.
    score = f"ts_rank({weighted}, {_query(any_of(search.terms, spelled), scope.arguments)}, 1)"
    return _compiled(scope, _all_found(vectors, search.terms, spelled, scope.arguments), score, search)


def compile_alike(scope: Scope, search: SearchText, trigram: str) -> str:
    """Compile a search by trigrams, as `compile_search` does: each word is like one in some field.

    `trigram` is the schema of pg_trgm.
    """
    _note(scope, UseKind.TRIGRAM)
    fields = [trigrams_of(field.sql) for field in scope.fields.values()]
    conditions, scores = [], []
    for term in search.terms:
        word = scope.arguments.bind(term.text, "text")
        conditions.append("(" + " or ".join(f"{field} operator({trigram}.%>) {word}" for field in fields) + ")")
        likeness = ", ".join(f"{trigram}.word_similarity({word}, {field})" for field in fields)
        scores.append(f"coalesce(greatest({likeness}), 0)")
    return _compiled(scope, " and ".join(conditions), f"({' + '.join(scores)}) / {len(scores)}", search)


def _note(scope: Scope, kind: UseKind) -> None:
    uses = [field.use for field in scope.fields.values()]
    # A row is found by any of the fields: indexes on some of them would not do.
    if None not in uses:
        for use in uses:
            scope.arguments.notes.add(kind, use)


def _vectors(scope: Scope) -> list[str]:
    return [words_of(field.sql) for field in scope.fields.values()]


def _query(query: str, arguments: Arguments) -> str:
    return f"to_tsquery('pg_catalog.simple', {arguments.bind(query, 'text')})"


def _all_found(vectors: Sequence[str], terms: Sequence[Term], spelled: Spelled, arguments: Arguments) -> str:
    """Every term in some field; where there is one field, by a single look into its index."""
    if len(vectors) == 1:
        return f"{vectors[0]} @@ {_query(all_of(terms, spelled), arguments)}"
    return " and ".join(_anywhere(vectors, spelled(term), arguments) for term in terms)


def _anywhere(vectors: Sequence[str], tsquery: str, arguments: Arguments) -> str:
    query = _query(tsquery, arguments)
    return "(" + " or ".join(f"{vector} @@ {query}" for vector in vectors) + ")"


def _compiled(scope: Scope, condition: str, score: str, search: SearchText) -> str:
    table, arguments = scope.table, scope.arguments
    vectors = _vectors(scope)
    condition += "".join(f" and {_anywhere(vectors, tsquery(term), arguments)} is not true" for term in search.excluded)
    limit = arguments.bind(scope.window.limit, "bigint")
    offset = arguments.bind(scope.window.offset, "bigint")
    characters = arguments.bind(scope.characters_shown, "integer")
    read = ", ".join(f"left({field.sql}, {characters})" for field in scope.fields.values())
    physical = table.schema.physical
    # By ctid, its place on disk, a row is found again within one statement at next to no cost.
    # Own names begin with __, or columns of the table could bear them too.
    ranked = f"""
        select row_number() over (order by __score desc, __id desc) as __place, __score, __id from (
            select {score} as __score, __id from {physical}
            where ctid = any(array(select ctid from matched order by ctid desc limit {MOST_RANKED}))
        ) scored order by __place limit {limit} offset {offset}
    """
    rows = f"""
        select __place as place, __score as score, {table.statements.row} as whole, array[{read}]::text[] as texts
        from ({ranked}) ranked join {physical} using (__id)
    """
    page = found.page("select count(*) from matched", rows, ("score", "texts"), scope.page_bytes)
    matched = (
        f"select ctid from {physical} where true{scope.and_visible} and {condition} and {table.schema.at_this_version}"
    )
    return f"with matched as materialized ({matched}) {page}"
