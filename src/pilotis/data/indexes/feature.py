"""Automatic indexes, derived from how rows are queried."""

from __future__ import annotations

from typing import ClassVar

from pilotis.data.indexes.endpoints import IndexEndpoints
from pilotis.data.indexes.recorder import AccessRecorder
from pilotis.data.indexes.service import Indexes
from pilotis.data.indexes.tasks import periodic
from pilotis.data.rules.feature import RulesFeature
from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut


class IndexesFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Indexes."""

    described = (IndexEndpoints,)
    archived: ClassVar[Archived] = {
        "indexes": LeftOut("indexes are built as they are used"),
        "index_uses": LeftOut("indexes are built as they are used"),
    }

    indexes: Indexes
    uses: AccessRecorder


def feature(floor: Floor, tables: TablesFeature, rules: RulesFeature) -> IndexesFeature:
    """Return the feature."""
    indexes = Indexes(floor.database, tables.tables, floor.extensions, floor.limits)
    uses = AccessRecorder(floor.database, floor.jobs)
    rules.rules.saved.append(uses.expect)
    rules.rules.lacking = indexes.lacking

    async def start() -> None:
        uses.start()

    return IndexesFeature(
        name="indexes",
        endpoints=[IndexEndpoints(indexes)],
        periodic=periodic(floor.database, indexes, floor.room.has_room),
        start=start,
        close=uses.stop,
        indexes=indexes,
        uses=uses,
    )
