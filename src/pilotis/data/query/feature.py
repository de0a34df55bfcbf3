"""Aggregation, search and geo queries, and transactions of several operations."""

from __future__ import annotations

from pilotis.data.query.aggregate.service import Aggregation
from pilotis.data.query.endpoints import AdvancedEndpoints
from pilotis.data.query.geo.service import Geo
from pilotis.data.query.search.service import Search
from pilotis.data.rows.feature import RowsFeature
from pilotis.feature import Feature
from pilotis.floor import Floor


class QueryFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Advanced queries."""

    described = (AdvancedEndpoints,)

    aggregation: Aggregation
    search: Search
    geo: Geo


def feature(floor: Floor, rows: RowsFeature) -> QueryFeature:
    """Return the feature."""
    aggregation = Aggregation(rows.prepared_tables)
    search = Search(rows.prepared_tables, floor.extensions)
    geo = Geo(rows.prepared_tables, floor.extensions)
    return QueryFeature(
        name="query",
        endpoints=[AdvancedEndpoints(aggregation, search, geo, rows.batches)],
        aggregation=aggregation,
        search=search,
        geo=geo,
    )
