"""Search and autocompletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from asyncpg import Record

from pilotis.db.extensions import ExtensionMissingError, Extensions
from pilotis.http.principals import AppInfo, Principal, Role
from pilotis.kit.errors import invalid
from pilotis.rows import found
from pilotis.rows.fields import text_field
from pilotis.rows.operands import Arguments
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.search import text as texts
from pilotis.rows.search.compiler import Scope, Window, compile_alike, compile_search
from pilotis.rows.search.completion import MOST_READ, Completion
from pilotis.rows.search.highlights import Highlight, by_likeness, by_words
from pilotis.rows.search.types import AutocompleteRequest, SearchRequest, Suggestions
from pilotis.rows.search.typos import forgiving, forgiving_whole
from pilotis.rows.table import PreparedTable
from pilotis.rows.visibility import and_creator, visible_creator
from pilotis.tables.schema import ColumnType, TableSchema

_MOST_FIELDS = 50
_IN_A_MOMENT = 20_000
"""Characters that highlights are found in so quickly that a thread would take longer."""


class Search:
    """Finds rows by words, and values by their beginnings."""

    def __init__(self, tables: PreparedTables, extensions: Extensions) -> None:
        self._tables = tables
        self._extensions = extensions

    async def search(self, principal: Principal, request: SearchRequest) -> bytes:
        """Return the JSON of a page of rows, best first, with scores and highlights."""
        app = _app(principal)
        search = texts.parse(request.query, app.limits.search_query_length)

        async def run(table: PreparedTable) -> bytes:
            creator = visible_creator(principal, table.schema, Role.VIEWER)

            names = _names(table.schema, request.fields)

            async def fetch(compile_: Callable[[Scope], str]) -> list[Record]:
                scope = _scope(table, names, request, app, creator)
                return await table.fetch(compile_(scope), scope.arguments)

            records = await fetch(lambda scope: compile_search(scope, search))
            if records[0]["total_count"] or search.is_exact:
                return await _answer(table, names, records, by_words(search))
            records = await fetch(lambda scope: compile_search(scope, search, forgiving_whole))
            if not records[0]["total_count"] and (trigram := await self._trigram()):
                records = await fetch(lambda scope: compile_alike(scope, search, trigram))
            return await _answer(table, names, records, by_likeness(search))

        return await self._tables.use(app, request.table_id, run)

    async def autocomplete(self, principal: Principal, request: AutocompleteRequest) -> Suggestions:
        """Return distinct values: by their beginning, then by that of any word; if there are none, by likeness."""
        app = _app(principal)
        search = texts.parse_words(request.query, app.limits.search_query_length)
        limit = min(request.limit, app.limits.page_rows)

        async def run(table: PreparedTable) -> Suggestions:
            completer = _Completer(principal, table, request.field, limit)
            values = await completer.beginning(texts.folded(request.query.strip()))
            if len(values) < limit:
                values |= await completer.with_words(texts.all_of(search.terms))
            if not values:
                values = await completer.with_words(texts.all_of(search.terms, forgiving))
            if not values and (trigram := await self._trigram()):
                values = await completer.alike(" ".join(term.text for term in search.terms), trigram)
            return Suggestions(list(values.values())[:limit])

        return await self._tables.use(app, request.table_id, run)

    async def _trigram(self) -> str | None:
        """Return the schema of pg_trgm; without that extension, typing errors are not forgiven."""
        try:
            return await self._extensions.schema("pg_trgm")
        except ExtensionMissingError:
            return None


class _Completer:
    """Runs completions of one field; values come by key, in their order."""

    def __init__(self, principal: Principal, table: PreparedTable, field: str, limit: int) -> None:
        self._table = table
        self._field = field
        self._limit = limit
        self._creator = visible_creator(principal, table.schema, Role.VIEWER)

    async def beginning(self, prefix: str) -> dict[str, str]:
        rows = await self._run(lambda completion: completion.beginning(prefix, self._limit))
        if rows and len(rows) < self._limit and rows[0]["read"] >= MOST_READ:
            rows = await self._run(lambda completion: completion.beginning_one_by_one(prefix, self._limit))
        return _by_key(rows)

    async def with_words(self, query: str) -> dict[str, str]:
        # Those that begin with it are found again.
        return _by_key(await self._run(lambda completion: completion.with_words(query, 2 * self._limit)))

    async def alike(self, query: str, trigram: str) -> dict[str, str]:
        return _by_key(await self._run(lambda completion: completion.alike(query, self._limit, trigram)))

    async def _run(self, statement: Callable[[Completion], str]) -> list[Record]:
        arguments = Arguments()
        field = text_field(self._table.schema, self._field, arguments, "field")
        visible = f"{and_creator(self._creator, arguments)} and {self._table.schema.at_this_version}"
        sql = statement(Completion(self._table.schema, field, visible, arguments))
        return await self._table.fetch(sql, arguments)


def _by_key(rows: list[Record]) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows}


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _names(table: TableSchema, given: list[str] | None) -> list[str]:
    """Return the fields to search: those given, or every string column that can be read."""
    if given is None and table.is_free_form:
        raise invalid("fields", "This table takes any field: name those to search in fields.")
    names = list(dict.fromkeys(given or []))
    if given is None:
        names = [column.name for column in table.columns if column.type is ColumnType.STRING and not column.encrypted]
    if not names:
        raise invalid("fields", "There is no field to search: name at least one string column.")
    if len(names) > _MOST_FIELDS:
        raise invalid("fields", f"At most {_MOST_FIELDS} fields are searched at once; name the most important ones.")
    return names


def _scope(table: PreparedTable, names: list[str], request: SearchRequest, app: AppInfo, creator: str | None) -> Scope:
    arguments = Arguments()
    fields = {name: text_field(table.schema, name, arguments, "fields") for name in names}
    window = Window(min(request.limit, app.limits.page_rows), request.offset)
    return Scope(table, fields, and_creator(creator, arguments), window, arguments, app.limits.page_bytes)


async def _answer(table: PreparedTable, names: list[str], records: list[Record], highlight: Highlight) -> bytes:
    def beside(record: Record) -> dict[str, Any]:
        shown = zip(names, map(highlight, record["texts"]), strict=True)
        return {"score": record["score"], "highlights": {name: text for name, text in shown if text is not None}}

    if sum(len(text) for record in records for text in record["texts"] or () if text) < _IN_A_MOMENT:
        return found.answer(table, records, beside)
    # In a thread, for the sake of the requests that this process answers meanwhile.
    return await asyncio.to_thread(found.answer, table, records, beside)
