"""Search by place."""

from __future__ import annotations

from typing import Any

from asyncpg import Record

from pilotis.db.extensions import Extensions
from pilotis.http.principals import Principal, Role
from pilotis.rows import found
from pilotis.rows.fields import json_field
from pilotis.rows.geo.compiler import Scope, compile_geo
from pilotis.rows.geo.shapes import shape_of
from pilotis.rows.geo.sphere import metres
from pilotis.rows.geo.types import GeoRequest
from pilotis.rows.operands import Arguments
from pilotis.rows.prepared import PreparedTables
from pilotis.rows.table import PreparedTable
from pilotis.rows.visibility import and_creator, visible_creator


class Geo:
    """Finds rows by where their points are."""

    def __init__(self, tables: PreparedTables, extensions: Extensions) -> None:
        self._tables = tables
        self._extensions = extensions

    async def search(self, principal: Principal, request: GeoRequest) -> bytes:
        """Return the JSON of a page of rows, the nearest first, with their distances."""
        app = principal.app
        assert app is not None
        limits = app.limits
        shape = shape_of(request, limits.polygon_points)

        async def run(table: PreparedTable) -> bytes:
            arguments = Arguments()
            creator = visible_creator(principal, table.schema, Role.VIEWER)
            field = json_field(table.schema, request.field, arguments, "field")
            cube = await self._extensions.schema("cube")
            visible = and_creator(creator, arguments)
            limit = min(request.limit, limits.page_rows)
            scope = Scope(table, field, cube, visible, limit, request.offset, arguments, limits.page_bytes)
            records = await table.fetch(compile_geo(scope, shape), arguments)
            return found.answer(table, records, _distance)

        return await self._tables.use(app, request.table_id, run)


def _distance(record: Record) -> dict[str, Any]:
    return {"distance": round(metres(record["chord"]), 3)}
