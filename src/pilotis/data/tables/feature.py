"""Tables and their columns."""

from __future__ import annotations

from pilotis.data.tables.column_migrator import ColumnMigrator
from pilotis.data.tables.endpoints import SchemaEndpoints, TableEndpoints
from pilotis.data.tables.events import EVENT_TYPES
from pilotis.data.tables.service import Tables
from pilotis.data.tables.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor


class TablesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Tables."""

    described = (TableEndpoints, SchemaEndpoints)

    tables: Tables
    migrator: ColumnMigrator


def feature(floor: Floor) -> TablesFeature:
    """Return the feature."""
    tables = Tables(floor.database, floor.control, floor.encryption, floor.events, floor.jobs)
    migrator = ColumnMigrator(tables, floor.encryption)
    return TablesFeature(
        name="tables",
        endpoints=[TableEndpoints(tables), SchemaEndpoints(tables)],
        periodic=periodic(floor.database, tables, migrator, floor.room.has_room),
        event_types=EVENT_TYPES,
        names=dict.fromkeys(["/v1/public/tables/:table_id", "/v1/apps/:app_id/tables/:table_id"], tables.id_of),
        tables=tables,
        migrator=migrator,
        drain=migrator.stop,
    )
