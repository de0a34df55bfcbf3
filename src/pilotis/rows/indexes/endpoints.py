"""The route that shows the indexes of a table."""

from __future__ import annotations

from uuid import UUID

from pilotis.http.call import Call
from pilotis.http.endpoint import Endpoints, get
from pilotis.http.principals import Access
from pilotis.rows.indexes.service import Indexes
from pilotis.rows.indexes.types import IndexList
from pilotis.tables.service import TableNotFoundError


class IndexEndpoints(Endpoints, tag="Indexes"):
    """Indexes. Nobody declares them: they follow from the queries that are made."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    @get("/v1/apps/:app_id/tables/:table_id/indexes", access=Access.APP_VIEWER, errors=[TableNotFoundError])
    async def of_table(self, call: Call, app_id: UUID, table_id: UUID) -> IndexList:
        """List the indexes that a table got by itself, with what asked for each.

        `noted` are slow queries that none was built for so far. Notes arrive within seconds.
        """
        return await self._indexes.of_table(call.app, table_id)
