"""Tables and their columns."""

from __future__ import annotations

from typing import ClassVar

from pilotis.data.tables.column_migrator import ColumnMigrator
from pilotis.data.tables.endpoints import SchemaEndpoints, TableEndpoints
from pilotis.data.tables.events import EVENT_TYPES
from pilotis.data.tables.service import Tables
from pilotis.data.tables.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, Copied


class TablesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Tables."""

    described = (TableEndpoints, SchemaEndpoints)
    archived: ClassVar[Archived] = {
        "tables": Copied(
            columns="table_id title access_level version next_column created_at updated_at rules rules_updated_at"
            " unique_keys next_key profile_key",
            where="t.dropped_at is null",
        ),
        "columns": Copied(
            columns="table_id number name type required default_value description encrypted references_table on_delete"
            " checks on_update normalize references_key references_column of_member",
            where="t.dropped_at is null and exists (select from pilotis.tables x where x.app_id = t.app_id"
            " and x.table_id = t.table_id and x.dropped_at is null)",
        ),
    }

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
