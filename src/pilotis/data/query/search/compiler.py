"""Searches as SQL. Pure: converts fields and texts to a statement and its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pilotis.data.query.pages import Window, sorted_rows
from pilotis.data.query.search.text import SearchText, Spelled, Term, all_of, any_of, tsquery
from pilotis.data.rows import found
from pilotis.data.rows.query import statements_of
from pilotis.data.rows.table import PreparedTable
from pilotis.data.rows.types import Query
from pilotis.data.rules.visibility import Visibility
from pilotis.data.where.access_patterns import AccessKind
from pilotis.data.where.fields import Field
from pilotis.data.where.index_expressions import trigrams_of
from pilotis.data.where.operands import Arguments, common_count

MAX_RANKED = 1000
"""The number of matches that are ranked and paged: those of the latest rows. The total counts all matches."""
MAX_SCORED = 3000
"""The number of matches up to which each is scored when it is read, where the words of the rows are stored."""
READ_FOR_HIGHLIGHTS = 20_000
"""The characters of each field that are searched for highlights."""
_LEAST_READ, _MAX_READ = 500, 1_000_000

_WEIGHTS = "ABCD"
# What PostgreSQL's parser never divides.
_PLAIN = re.compile(r"[a-z]+|[0-9]+")


class Scope(NamedTuple):
    """What to search: text fields by name, most important first, and a condition on the rows.

    `visible` is what the caller sees.
    """

    table: PreparedTable
    fields: Mapping[str, Field]
    and_visible: str
    window: Window
    arguments: Arguments
    page_bytes: int
    visible: Visibility

    @property
    def characters_shown(self) -> int:
        """The characters of each field that are searched for highlights, which bounds the time for a page."""
        texts = max(1, self.window.limit * len(self.fields))
        return min(READ_FOR_HIGHLIGHTS, max(_LEAST_READ, _MAX_READ // texts))


def compile_search(scope: Scope, search: SearchText, spelled: Spelled = tsquery, *, few: bool = False) -> str:
    """Compile a search by words.

    The statement has the form of `found.page`, with `score` and `texts`, the beginnings of the fields. With `few` it
    reads at most `MAX_SCORED` + 1 matches, and is correct only if there are at most `MAX_SCORED`.
    """
    _record_access(scope, AccessKind.TEXT)
    vectors = _vectors(scope)
    # A subquery evaluates it once; a generic plan would evaluate it for each match.
    sought = f"(select {_query(any_of(search.terms, spelled), scope.arguments)})"
    # Prefers short texts: 1 divides by the logarithm of the length.
    score = f"ts_rank({_weighted(vectors)}, {sought}, 1)"
    return _compiled(scope, all_found(scope, search.terms, spelled), score, search, few=few)


def compile_similar(scope: Scope, search: SearchText, trigram: str) -> str:
    """Compile a search by trigrams, like `compile_search`: each word is similar to one in some field.

    `trigram` is the schema of pg_trgm.
    """
    _record_access(scope, AccessKind.TRIGRAM)
    fields = [trigrams_of(field.sql) for field in scope.fields.values()]
    conditions, scores = [], []
    for term in search.terms:
        word = scope.arguments.bind(term.text, "text")
        conditions.append("(" + " or ".join(f"{field} operator({trigram}.%>) {word}" for field in fields) + ")")
        likeness = ", ".join(f"{trigram}.word_similarity({word}, {field})" for field in fields)
        scores.append(f"coalesce(greatest({likeness}), 0)")
    return _compiled(scope, " and ".join(conditions), f"({' + '.join(scores)}) / {len(scores)}", search)


def _record_access(scope: Scope, kind: AccessKind) -> None:
    uses = [field.use for field in scope.fields.values()]
    # Any of the fields may match, so indexes on some of them do not help.
    if None not in uses:
        for use in uses:
            scope.arguments.access.add(kind, use)


def _vectors(scope: Scope) -> list[str]:
    return [field.words for field in scope.fields.values()]


def _weighted(vectors: Sequence[str]) -> str:
    """Return the first arguments of `ts_rank`: the first vector has the highest weight."""
    if len(vectors) == 1:
        # Words have weight D by default; another weight requires a copy of the vector.
        return f"'{{1, 1, 1, 1}}', {vectors[0]}"
    return " || ".join(
        f"setweight(coalesce({vector}, ''), '{_WEIGHTS[min(index, 3)]}')" for index, vector in enumerate(vectors)
    )


def _query(query: str, arguments: Arguments) -> str:
    return f"to_tsquery('pg_catalog.simple', {arguments.bind(query, 'text')})"


def all_found(scope: Scope, terms: Sequence[Term], spelled: Spelled) -> str:
    """Every term in some field; with one field, by a single index lookup."""
    fields, arguments = list(scope.fields.values()), scope.arguments
    literal = terms if spelled is tsquery else ()
    if len(fields) == 1:
        return _found(fields[0], _query(all_of(terms, spelled), arguments), literal, arguments)
    conditions = []
    for term in terms:
        query = _query(spelled(term), arguments)
        anywhere = " or ".join(_found(field, query, [term] if literal else (), arguments) for field in fields)
        conditions.append(f"({anywhere})")
    return " and ".join(conditions)


def _found(field: Field, query: str, literal: Sequence[Term], arguments: Arguments) -> str:
    """Return the condition that a field matches a query; `literal` are terms that it must contain as they are.

    Computing the words of a text takes a hundred times as long as looking for one of them, so where the words are not
    stored, only texts that contain every word have theirs computed. That is certain for ASCII alone; other texts are
    compared without accents, and in other forms.
    """
    found = f"{field.words} @@ {query}"
    words = [max(_PLAIN.findall(" ".join(term.words)), key=len, default="") for term in literal]
    if field.stored or not any(words):
        return found
    text = f'lower({field.sql} collate "C")'
    contained = " and ".join(f"strpos({text}, {arguments.bind(word, 'text')}) > 0" for word in words if word)
    return f"((octet_length({field.sql}) <> length({field.sql}) or {contained}) and {found})"


def _anywhere(vectors: Sequence[str], tsquery: str, arguments: Arguments) -> str:
    query = _query(tsquery, arguments)
    return "(" + " or ".join(f"{vector} @@ {query}" for vector in vectors) + ")"


def _compiled(scope: Scope, condition: str, score: str, search: SearchText, *, few: bool = False) -> str:
    table, arguments = scope.table, scope.arguments
    vectors = _vectors(scope)
    condition += "".join(f" and {_anywhere(vectors, tsquery(term), arguments)} is not true" for term in search.excluded)
    limit = offset = ""
    if scope.window.order is None:
        limit, offset = (common_count(count, arguments) for count in (scope.window.limit, scope.window.offset))
    characters = arguments.bind(scope.characters_shown, "integer")
    read = ", ".join(f"left({field.sql}, {characters})" for field in scope.fields.values())
    physical = table.schema.physical
    row = physical if scope.window.order is None else "chosen"
    whole = statements_of(table, Query(), scope.visible, arguments, row).row
    if scope.window.order is not None:
        found_by = f"true{scope.and_visible} and {condition}"
        chosen = sorted_rows(table, scope.window, found_by, scope.visible, arguments)
        selected = f"""
            select row_number() over (order by {chosen.place}) as place, {score} as score, {whole} as whole,
                array[{read}]::text[] as texts{chosen.columns}
            from {chosen.source} chosen
        """
        names = ("score", "texts", *(("id", "sorts") if chosen.columns else ()))
        total = table.statements.count(found_by)
        return found.page(total, selected, names, scope.page_bytes, chosen.still_there)
    # Within one statement, a row is found again by ctid, its place on disk, at almost no cost.
    # Internal names begin with __, so that they cannot clash with columns of the table.
    scored = f"{score} as __score, __id, ctid as __ctid"
    where = f"from {physical} where true{scope.and_visible} and {condition} and {table.schema.at_this_version}"
    if few:
        matched = f"select {scored} {where} limit {MAX_SCORED + 1}"
        # PostgreSQL evaluates the second subquery only if the first is false.
        oldest = f"(select __id from matched order by __id desc limit 1 offset {MAX_RANKED - 1})"
        all_ranked = f"(select count(*) from matched) <= {MAX_RANKED}"
        candidates = f"(select * from matched where {all_ranked} or __id >= {oldest})"
    else:
        latest = f"array(select __ctid from matched order by __id desc limit {MAX_RANKED})"
        candidates = f"(select {scored} from {physical} where ctid = any({latest}))"
        matched = f"select __id, ctid as __ctid {where}"
    best = f"select * from {candidates} scored order by __score desc, __id desc limit {limit} offset {offset}"
    rows = f"""
        select row_number() over (order by __score desc, best.__id desc) as place, __score as score, whole, texts
        from ({best}) best cross join lateral (
            select {whole} as whole, array[{read}]::text[] as texts from {physical} where ctid = __ctid
        ) shown
    """
    page = found.page("select count(*) from matched", rows, ("score", "texts"), scope.page_bytes)
    return f"with matched as materialized ({matched}) {page}"
