"""Views."""

from __future__ import annotations

from pilotis.data.query.feature import QueryFeature
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.views.calls import ViewCalls
from pilotis.data.views.endpoints import ViewEndpoints
from pilotis.data.views.service import Views
from pilotis.feature import Feature
from pilotis.floor import Floor


class ViewsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Views."""

    described = (ViewEndpoints,)

    views: Views
    calls: ViewCalls


def feature(floor: Floor, tables: TablesFeature, rows: RowsFeature, query: QueryFeature) -> ViewsFeature:
    """Return the feature."""
    views = Views(floor.database, tables.tables, rows.prepared_tables)
    calls = ViewCalls(floor.database, tables.tables, query.aggregation)
    return ViewsFeature(name="views", endpoints=[ViewEndpoints(views, calls)], views=views, calls=calls)
