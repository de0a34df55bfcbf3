"""Rows: reading and writing, one by one and in batches."""

from __future__ import annotations

from pilotis.data.indexes.feature import IndexesFeature
from pilotis.data.rows.batches import Batches
from pilotis.data.rows.endpoints import RowEndpoints
from pilotis.data.rows.events import EVENT_TYPES
from pilotis.data.rows.service import Rows
from pilotis.data.rows.statistics import TableStatistics
from pilotis.data.rows.table import PreparedTables
from pilotis.data.rows.tasks import periodic
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor


class RowsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Rows."""

    described = (RowEndpoints,)

    rows: Rows
    batches: Batches
    prepared_tables: PreparedTables
    statistics: TableStatistics


def feature(floor: Floor, tables: TablesFeature, indexes: IndexesFeature) -> RowsFeature:
    """Return the feature."""
    statistics = TableStatistics(floor.database)
    prepared = PreparedTables(
        floor.database, tables.tables, floor.encryption, indexes.uses, statistics, floor.events.committed
    )
    rows = Rows(prepared)
    return RowsFeature(
        name="rows",
        endpoints=[RowEndpoints(rows)],
        periodic=periodic(floor.database),
        event_types=EVENT_TYPES,
        close=statistics.stop,
        rows=rows,
        batches=Batches(floor.database, prepared, rows),
        prepared_tables=prepared,
        statistics=statistics,
    )
