"""The feature of events: their fan-out and periodic tasks."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from pilotis.db.topics import Topic
from pilotis.events import store
from pilotis.events.fanout import FanOut, OutboxSource
from pilotis.events.tasks import Kept, periodic
from pilotis.feature import Feature
from pilotis.floor import Floor
from pilotis.kit.archiving import Archived, LeftOut
from pilotis.kit.metrics import CounterOf, Total


class EventsFeature(Feature, frozen=True, kw_only=True, eq=False):
    """The fan-out. The target kinds of other features are registered with it."""

    archived: ClassVar[Archived] = {
        "events": LeftOut("events are delivered by the server on which they happened"),
        "event_targets": LeftOut("what acts on events is switched on again at the copy"),
        "outboxes": LeftOut("events are delivered by the server on which they happened"),
    }

    fan_out: FanOut


def feature(floor: Floor) -> EventsFeature:
    """Return the feature."""
    control = floor.control
    fan_out = FanOut(
        floor.database, floor.events.catalogue, lambda app_id: control.publish_soon(Topic.EVENTS, str(app_id))
    )

    async def start() -> None:
        # Not before: a command that creates this feature dispatches nothing.
        floor.events.on_emitted(fan_out.schedule)
        control.subscribe(Topic.EVENTS, lambda app_id: fan_out.schedule(UUID(app_id), announced=True), lambda: None)
        await fan_out.start()

    return EventsFeature(
        name="events",
        sources=[OutboxSource(floor.database, fan_out)],
        periodic=periodic(
            floor.database,
            floor.events,
            Kept(floor.limits.event_days, floor.limits.event_log_bytes, floor.limits.event_log_total_bytes),
        ),
        start=start,
        close=fan_out.stop,
        fan_out=fan_out,
        metrics=[
            CounterOf(
                "pilotis_events",
                "Events dispatched, by type; those of apps' own types as own.",
                "type",
                lambda: fan_out.dispatched,
            )
        ],
        totals=[
            Total(
                "pilotis_events_waiting",
                "Events in the database to be dispatched",
                lambda: store.count_waiting(floor.database),
            )
        ],
    )
