"""Geo search."""

from __future__ import annotations

from typing import Any

import msgspec
from asyncpg import Record

from pilotis.data.query import pages
from pilotis.data.query.geo.compiler import Scope, compile_geo
from pilotis.data.query.geo.types import GeoRequest
from pilotis.data.query.pages import window_of
from pilotis.data.rows import found
from pilotis.data.rows.paths import paths_of
from pilotis.data.rows.query import and_where, statements_of
from pilotis.data.rows.related import plan
from pilotis.data.rows.shared_queries import CompiledQuery
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rows.types import Query
from pilotis.data.rules.actions import Action
from pilotis.data.rules.visibility import creator_of_new_row
from pilotis.data.where.fields import json_field
from pilotis.data.where.operands import Arguments
from pilotis.data.where.shapes import count_points, shape_of
from pilotis.data.where.sphere import metres
from pilotis.db.extensions import Extensions
from pilotis.http.api.principals import Principal
from pilotis.kit.offload import offload

# A point costs about ten times as much as decoding a byte of JSON.
_BYTES_PER_POINT = 100


class Geo:
    """Finds rows by their location."""

    def __init__(self, tables: PreparedTables, extensions: Extensions) -> None:
        self._tables = tables
        self._extensions = extensions

    async def search(self, principal: Principal, request: GeoRequest) -> bytes:
        """Return the JSON of a page of rows, nearest first, with their distances."""
        app = principal.app
        assert app is not None
        limits = app.limits
        size = count_points(request.polygon) * _BYTES_PER_POINT
        shape = await offload(size, shape_of, request.near, request.within, request.polygon, limits.polygon_points)

        async def run(table: PreparedTable) -> bytes:
            visible = await table.visible(principal, Action.LIST)
            related = await plan(self._tables, principal, table, visible, request.expand, request.counts)
            paths = await paths_of(self._tables, principal, table, visible.table, request.where)
            table = table.seen_by(visible)
            own = creator_of_new_row(principal)
            arguments = Arguments(hash_=table.hash, creators=visible.shows_creator, own=own)
            field = json_field(table.schema, request.field, arguments, "field")
            cube = await self._extensions.schema("cube")
            and_visible, patterns = and_where(table.schema, request.where, visible, arguments, limits, paths=paths)
            where = {name: getattr(request, name) for name in ("near", "within", "polygon", "where")}
            window = window_of(table, request, limits, arguments, "geo", request.field, msgspec.to_builtins(where))
            row = "nearest" if window.order is None else "chosen"
            statements = statements_of(table, Query(fields=request.fields), visible, arguments, row)
            scope = Scope(table, field, cube, and_visible, window, arguments, limits.page_bytes, statements, visible)
            sql = compile_geo(scope, shape)
            compiled = CompiledQuery(sql, arguments.values, patterns, arguments.access)
            records = await pages.fetch(table, compiled, window)
            shown = await found.beside(table, related, records, limits)
            return await offload(found.size_of(records), found.answer, table, records, _distance, shown, window)

        table_id = await self._tables.id_of(app, request.table_id)
        return await self._tables.use(app, table_id, run)


def _distance(record: Record) -> dict[str, Any]:
    return {"distance": round(metres(record["chord"]), 3)}
