"""Domain events of apps."""

from __future__ import annotations

from typing import ClassVar

from pilotis.data.tables.feature import TablesFeature
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.integrations.deriving import Deriver
from pilotis.integrations.endpoints import EventTypeEndpoints
from pilotis.integrations.publishing import Publishing
from pilotis.integrations.service import EventTypes
from pilotis.integrations.streams import EventStreams
from pilotis.integrations.tasks import periodic
from pilotis.kit.archiving import Archived, Copied, LeftOut


class IntegrationsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """Integrations."""

    described = (EventTypeEndpoints,)
    archived: ClassVar[Archived] = {
        "event_types": Copied(
            columns="event_type type_id title description required_scope payload_schema example version deprecated"
            " source created_at updated_at"
        ),
        "published_events": LeftOut("events are delivered by the server on which they happened"),
    }

    types: EventTypes
    publishing: Publishing


def feature(floor: Floor, tables: TablesFeature) -> IntegrationsFeature:
    """Return the feature."""
    types = EventTypes(floor.database, floor.events, tables.tables)
    publishing = Publishing(floor.database, floor.events)
    return IntegrationsFeature(
        name="integrations",
        endpoints=[EventTypeEndpoints(types, publishing, EventStreams(floor.events))],
        targets=[Deriver(floor.events, floor.events.committed)],
        periodic=periodic(floor.database),
        types=types,
        publishing=publishing,
    )
