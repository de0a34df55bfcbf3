"""Unique keys."""

from __future__ import annotations

from pilotis.data.keys.builder import KeyBuilder
from pilotis.data.keys.endpoints import UniqueKeyEndpoints
from pilotis.data.keys.service import UniqueKeys
from pilotis.data.keys.tasks import periodic
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor


class KeysFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Unique keys."""

    described = (UniqueKeyEndpoints,)

    keys: UniqueKeys
    builder: KeyBuilder


def feature(floor: Floor, tables: TablesFeature) -> KeysFeature:
    """Return the feature."""
    keys = UniqueKeys(floor.database, tables.tables, floor.jobs)
    builder = KeyBuilder(tables.tables)
    return KeysFeature(
        name="unique keys",
        endpoints=[UniqueKeyEndpoints(keys)],
        periodic=periodic(floor.database, builder, floor.room.has_room),
        keys=keys,
        builder=builder,
    )
