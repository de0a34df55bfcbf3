"""Views."""

from __future__ import annotations

from typing import ClassVar

from pilotis.data.query.feature import QueryFeature
from pilotis.data.rows.feature import RowsFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.data.views.calls import ViewCalls
from pilotis.data.views.endpoints import ViewEndpoints
from pilotis.data.views.service import Views
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied


class ViewsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Views."""

    described = (ViewEndpoints,)
    archived: ClassVar[Archived] = {
        "views": Copied(
            columns="view_id name table_id table_ids pipeline params read_rule run_as cache_seconds description version"
            " created_at updated_at"
        ),
    }

    views: Views
    calls: ViewCalls


def feature(floor: Floor, tables: TablesFeature, rows: RowsFeature, query: QueryFeature) -> ViewsFeature:
    """Return the feature."""
    views = Views(floor.database, tables.tables, rows.prepared_tables)
    calls = ViewCalls(floor.database, tables.tables, query.aggregation)
    return ViewsFeature(name="views", endpoints=[ViewEndpoints(views, calls)], views=views, calls=calls)
