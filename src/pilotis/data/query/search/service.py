"""Search and autocompletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from asyncpg import Record

from pilotis.data.query import pages
from pilotis.data.query.pages import Window, window_of
from pilotis.data.query.search import text as texts
from pilotis.data.query.search.compiler import MAX_RANKED, MAX_SCORED, Scope, compile_search, compile_similar
from pilotis.data.query.search.completion import MAX_READ, Completion
from pilotis.data.query.search.highlights import Highlight, by_similarity, by_words
from pilotis.data.query.search.text import Spelled
from pilotis.data.query.search.types import AutocompleteRequest, AutocompleteResult, SearchRequest
from pilotis.data.query.search.typos import with_typos, with_typos_whole
from pilotis.data.rows import found
from pilotis.data.rows.paths import Paths, paths_of
from pilotis.data.rows.query import and_where
from pilotis.data.rows.related import plan
from pilotis.data.rows.running import fetch_compiled, or_start_over
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import Visibility, creator_of_new_row
from pilotis.data.tables.schema import ColumnType, TableSchema
from pilotis.data.where.fields import Field, text_field
from pilotis.data.where.operands import Arguments
from pilotis.db.extensions import ExtensionMissingError, Extensions
from pilotis.http.api.direct import Prepared
from pilotis.http.api.principals import AppInfo, Principal
from pilotis.kit.errors import invalid
from pilotis.kit.ids import is_uuid, known_uuid
from pilotis.kit.offload import in_thread, offload
from pilotis.limits import Limits

_MAX_FIELDS = 50
_IN_A_MOMENT = 20_000
"""The number of characters below which highlighting is faster than starting a thread."""


class Search:
    """Finds rows by words, and values by prefix."""

    def __init__(self, tables: PreparedTables, extensions: Extensions) -> None:
        self._tables = tables
        self._extensions = extensions

    async def search(self, principal: Principal, request: SearchRequest) -> bytes:
        """Return the JSON of a page of rows, best first, with scores and highlights."""
        app = _app(principal)
        search = texts.parse(request.query, app.limits.search_query_length)

        async def run(table: PreparedTable) -> bytes:
            visible = await table.visible(principal, Action.LIST)
            related = await plan(self._tables, principal, table, visible, request.expand, request.counts)
            paths = await paths_of(self._tables, principal, table, visible.table, request.where)
            table = table.seen_by(visible)
            names = _names(table.schema, request.fields)
            own = creator_of_new_row(principal)
            if not search.terms:
                scope, _ = _scope(table, names, request, app, visible, own, paths)
                return _nothing_found(scope.window)
            window = Window(0, 0)

            async def fetch(compile_: Callable[[Scope], str]) -> list[Record]:
                nonlocal window
                scope, patterns = _scope(table, names, request, app, visible, own, paths)
                sql, arguments, window = compile_(scope), scope.arguments, scope.window
                compiled = CompiledQuery(sql, arguments.values, patterns, arguments.access)
                return await pages.fetch(table, compiled, window)

            async def fetch_words(spelled: Spelled) -> list[Record]:
                # Most searches have few matches; these are scored as they are read.
                few = request.order_by is None and all(
                    field.stored for field in _fields(table, names, Arguments()).values()
                )
                records = await fetch(lambda scope: compile_search(scope, search, spelled, few=few))
                if few and records[0]["total_count"] > MAX_SCORED:
                    records = await fetch(lambda scope: compile_search(scope, search, spelled))
                return records

            records = await fetch_words(texts.tsquery)
            if records[0]["total_count"] or search.is_exact:
                shown = await found.beside(table, related, records, app.limits)
                return await _answer(table, names, records, by_words(search), shown, window)
            records = await fetch_words(with_typos_whole)
            if not records[0]["total_count"] and (trigram := await self._trigram()):
                records = await fetch(lambda scope: compile_similar(scope, search, trigram))
            shown = await found.beside(table, related, records, app.limits)
            return await _answer(table, names, records, by_similarity(search), shown, window)

        table_id = await self._tables.id_of(app, request.table_id)
        return await self._tables.use(app, table_id, run)

    def begin_search(self, principal: Principal, request: SearchRequest) -> Prepared | None:
        """Prepare what `search` does, for a known table, named by its id, all of whose rows the caller may read."""
        name = request.table_id
        table = self._tables.known(_app(principal), known_uuid(name)) if is_uuid(name) else None
        if table is None or not table.is_asked_directly(principal, leads_on=bool(request.expand or request.counts)):
            return None
        return lambda: asyncio.ensure_future(self.search(principal, request)), or_start_over

    async def autocomplete(self, principal: Principal, request: AutocompleteRequest) -> AutocompleteResult:
        """Return distinct values: by prefix, then by prefix of any word; if there are none, by similarity."""
        app = _app(principal)
        search = texts.parse_words(request.query, app.limits.search_query_length)

        async def run(table: PreparedTable) -> AutocompleteResult:
            visible = await table.visible(principal, Action.LIST)
            paths = await paths_of(self._tables, principal, table, visible.table, request.where)
            table = table.seen_by(visible)
            completer = _Completer(visible, table, request, app.limits, creator_of_new_row(principal), paths)
            if not search.terms:
                completer.check()
                return AutocompleteResult([])
            values = await completer.with_prefix(texts.folded(request.query.strip()))
            if len(values) < completer.limit:
                values |= await completer.with_words(texts.all_of(search.terms))
            if not values:
                values = await completer.with_words(texts.all_of(search.terms, with_typos))
            if not values and (trigram := await self._trigram()):
                values = await completer.similar(" ".join(term.text for term in search.terms), trigram)
            return AutocompleteResult(list(values.values())[: completer.limit])

        table_id = await self._tables.id_of(app, request.table_id)
        return await self._tables.use(app, table_id, run)

    async def _trigram(self) -> str | None:
        """Return the schema of pg_trgm; without the extension, searches do not tolerate typing errors."""
        try:
            return await self._extensions.schema("pg_trgm")
        except ExtensionMissingError:
            return None


class _Completer:
    """Runs completions of one field; values are returned by key, in order."""

    def __init__(
        self,
        visible: Visibility,
        table: PreparedTable,
        request: AutocompleteRequest,
        limits: Limits,
        own: str | None,
        paths: Paths | None,
    ) -> None:
        self._paths = paths
        self._table = table
        self._request = request
        self.limit = limits.page_size(request.limit)
        self._limits = limits
        self._visible = visible
        self._own = own

    def check(self) -> None:
        """Raise the error for a field or a condition that is not valid."""
        self._scope()

    async def with_prefix(self, prefix: str) -> dict[str, str]:
        rows = await self._run(lambda completion: completion.with_prefix(prefix, self.limit))
        if rows and len(rows) < self.limit and rows[0]["read"] >= MAX_READ:
            rows = await self._run(lambda completion: completion.with_prefix_by_key(prefix, self.limit))
        return _by_key(rows)

    async def with_words(self, query: str) -> dict[str, str]:
        # Values that begin with it are found again.
        return _by_key(await self._run(lambda completion: completion.with_words(query, 2 * self.limit)))

    async def similar(self, query: str, trigram: str) -> dict[str, str]:
        return _by_key(await self._run(lambda completion: completion.similar(query, self.limit, trigram)))

    async def _run(self, statement: Callable[[Completion], str]) -> list[Record]:
        completion, arguments, patterns = self._scope()
        compiled = CompiledQuery(statement(completion), arguments.values, patterns, arguments.access)
        return await fetch_compiled(self._table, compiled)

    def _scope(self) -> tuple[Completion, Arguments, list[str]]:
        schema, visible = self._table.schema, self._visible
        arguments = Arguments(hash_=self._table.hash, creators=visible.shows_creator, own=self._own)
        field = text_field(schema, self._request.field, arguments, "field")
        and_visible, patterns = and_where(
            schema, self._request.where, visible, arguments, self._limits, paths=self._paths
        )
        return Completion(schema, field, f"{and_visible} and {schema.at_this_version}", arguments), arguments, patterns


def _by_key(rows: list[Record]) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows}


def _app(principal: Principal) -> AppInfo:
    assert principal.app is not None
    return principal.app


def _names(table: TableSchema, given: list[str] | None) -> list[str]:
    """Return the fields to search: the given ones, or every readable string column."""
    if given is None and table.is_free_form:
        raise invalid("fields", "This table takes any field: name those to search in fields.")
    names = list(dict.fromkeys(given or []))
    if given is None:
        names = [column.name for column in table.columns if column.type is ColumnType.STRING and not column.encrypted]
    if not names:
        raise invalid("fields", "There is no field to search: name at least one string column.")
    if len(names) > _MAX_FIELDS:
        raise invalid("fields", f"At most {_MAX_FIELDS} fields are searched at once; name the most important ones.")
    return names


def _fields(table: PreparedTable, names: list[str], arguments: Arguments) -> dict[str, Field]:
    return {name: text_field(table.schema, name, arguments, "fields") for name in names}


def _scope(
    table: PreparedTable,
    names: list[str],
    request: SearchRequest,
    app: AppInfo,
    visible: Visibility,
    own: str | None,
    paths: Paths | None,
) -> tuple[Scope, list[str]]:
    """Return what to search, and the patterns in the request's condition."""
    arguments = Arguments(hash_=table.hash, creators=visible.shows_creator, own=own)
    fields = _fields(table, names, arguments)
    bound = "search", request.query, names, request.where or {}
    window = window_of(table, request, app.limits, arguments, *bound)
    and_visible, patterns = and_where(table.schema, request.where, visible, arguments, app.limits, paths=paths)
    return Scope(table, fields, and_visible, window, arguments, app.limits.page_bytes, visible), patterns


def _nothing_found(window: Window) -> bytes:
    following = b"" if window.bound_to is None else b',"next_cursor":null'
    return b'{"data":[],"total_count":%b%b}' % (b"0" if window.counts else b"null", following)


async def _answer(
    table: PreparedTable,
    names: list[str],
    records: list[Record],
    highlight: Highlight,
    related: Mapping[str, Mapping[str, Any]],
    window: Window,
) -> bytes:
    last_place = MAX_RANKED if window.order is None else None

    def beside(record: Record) -> dict[str, Any]:
        shown = zip(names, map(highlight, record["texts"]), strict=True)
        return {"score": record["score"], "highlights": {name: text for name, text in shown if text is not None}}

    if sum(len(text) for record in records for text in record["texts"] or () if text) < _IN_A_MOMENT:
        return await offload(found.size_of(records), found.answer, table, records, beside, related, window, last_place)
    return await in_thread(found.answer, table, records, beside, related, window, last_place)
