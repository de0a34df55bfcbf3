"""The route that lists a table's indexes."""

from __future__ import annotations

from uuid import UUID

from pilotis.data.indexes.service import Indexes
from pilotis.data.indexes.types import IndexList
from pilotis.data.tables.service import TableNotFoundError
from pilotis.http.api.endpoint import Endpoints, get
from pilotis.http.api.principals import Access
from pilotis.http.api.request import Call
from pilotis.http.api.schemas import Whole


class IndexEndpoints(Endpoints, tag="Indexes"):
    """Indexes. Users do not declare them: Pilotis derives them from the queries that it runs."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes

    @get("/v1/apps/:app_id/tables/:table_id/indexes", access=Access.APP_VIEWER, errors=[TableNotFoundError])
    async def of_table(self, call: Call, app_id: UUID, table_id: UUID, query: Whole) -> IndexList:
        """List a table's automatic indexes and the queries that each serves.

        `noted` lists slow queries without an index so far. They are recorded within seconds.
        """
        return await self._indexes.of_table(call.app, table_id)
