"""Dropped tables and columns, until they are permanently deleted."""

from __future__ import annotations

from pilotis.data.tables.feature import TablesFeature
from pilotis.data.trash.endpoints import TrashEndpoints
from pilotis.data.trash.service import TrashService
from pilotis.data.trash.tasks import periodic
from pilotis.feature import Feature
from pilotis.floor import Floor


class TrashFeature(Feature, frozen=True, kw_only=True, eq=False):
    """The trash."""

    described = (TrashEndpoints,)

    trash: TrashService


def feature(floor: Floor, tables: TablesFeature) -> TrashFeature:
    """Return the feature."""
    trash = TrashService(floor.database, tables.tables, floor.limits)
    return TrashFeature(
        name="trash", endpoints=[TrashEndpoints(trash)], periodic=periodic(floor.database, trash), trash=trash
    )
