"""Geo search."""

from __future__ import annotations

from typing import Any

from asyncpg import Record

from pilotis.data.query.geo.compiler import Scope, compile_geo
from pilotis.data.query.geo.shapes import count_points, shape_of
from pilotis.data.query.geo.sphere import metres
from pilotis.data.query.geo.types import GeoRequest
from pilotis.data.rows import found
from pilotis.data.rows.table import PreparedTable, PreparedTables
from pilotis.data.rules.actions import Action
from pilotis.data.where.fields import json_field
from pilotis.data.where.operands import Arguments
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
        shape = await offload(size, shape_of, request, limits.polygon_points)

        async def run(table: PreparedTable) -> bytes:
            arguments = Arguments()
            visible = await table.visible(principal, Action.LIST)
            table = table.seen_by(visible)
            field = json_field(table.schema, request.field, arguments, "field")
            cube = await self._extensions.schema("cube")
            and_visible = visible.and_condition(arguments, many=True)
            limit = limits.page_size(request.limit)
            page_bytes, creators = limits.page_bytes, visible.shows_creator
            scope = Scope(table, field, cube, and_visible, limit, request.offset, arguments, page_bytes, creators)
            records = await table.fetch(compile_geo(scope, shape), arguments)
            return await offload(found.size_of(records), found.answer, table, records, _distance)

        return await self._tables.use(app, request.table_id, run)


def _distance(record: Record) -> dict[str, Any]:
    return {"distance": round(metres(record["chord"]), 3)}
